//! The user's calls (RFC 9293, 3.10.1 to 3.10.6).

use alloc::sync::Arc;
use core::num::NonZeroU8;

use super::super::connection::{Config, Connection, Error, StreamOption, Unavailable};
use super::super::counters::Counter;
use super::super::fast_open::{FastOpenOffer, FastOpenServer};
use super::super::listener::{Listener, ListenerConfig};
use super::super::table::{Id, Refused};
use super::super::tuple::FourTuple;
use super::config::Opening;
use super::entry::{Entry, Holder};
use super::ephemeral::Free;
use super::error::{InUse, NotConnected, OpenError};
use super::event::Readiness;
use super::interface::Endpoint;
use super::listeners::ListenAt;
use super::state::EndpointState;
use crate::time::Instant;

impl<R: Copy> Endpoint<R> {
    /// Adds a listener, and returns where it listens: if the port is zero, one is chosen. Window and
    /// options are those of connections, whatever `config` says of them; `fast_open` accepts data in SYNs.
    ///
    /// ```
    /// use evenkeel_tcp::endpoint::ListenAt;
    /// use evenkeel_tcp::{Endpoint, EndpointConfig, ListenerConfig, Secret};
    ///
    /// let mut tcp: Endpoint = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    /// let config = ListenerConfig { backlog: 1_024, syn_queue: 8_192, ..ListenerConfig::default() };
    /// let at = tcp.listen(ListenAt::any(80), &config, None)?;
    /// assert!(tcp.listen(at, &config, None).is_err(), "another listener is there");
    ///
    /// // The endpoint chooses the port.
    /// let chosen = tcp.listen(ListenAt::any(0), &config, None)?;
    /// assert!(tcp.config().ports.contains(&chosen.port));
    /// # Ok::<(), evenkeel_tcp::endpoint::InUse>(())
    /// ```
    ///
    /// # Errors
    /// Another listener is there, or at all ports to choose from. A listener at all addresses is in the way
    /// of one at a single address, and the other way round.
    pub fn listen(
        &mut self,
        at: ListenAt,
        config: &ListenerConfig,
        fast_open: Option<FastOpenServer>,
    ) -> Result<ListenAt, InUse> {
        let options = Arc::clone(&self.state.config.connection);
        self.listen_with(at, config, options, fast_open)
    }

    /// Adds a listener as [`Endpoint::listen`] does. Its connections have the settings `options`, as an
    /// accepted connection inherits those of the listening socket.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use evenkeel_tcp::connection::Keepalive;
    /// use evenkeel_tcp::endpoint::ListenAt;
    /// use evenkeel_tcp::{Config, Endpoint, EndpointConfig, ListenerConfig, Secret};
    ///
    /// let mut tcp: Endpoint = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    /// let keepalive = Some(Keepalive::default());
    /// let options = Arc::new(Config { keepalive, receive_buffer_max: 1 << 20, ..Config::default() });
    /// tcp.listen_with(ListenAt::any(80), &ListenerConfig::default(), options, None)?;
    /// # Ok::<(), evenkeel_tcp::endpoint::InUse>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::listen`].
    pub fn listen_with(
        &mut self,
        at: ListenAt,
        config: &ListenerConfig,
        options: Arc<Config>,
        fast_open: Option<FastOpenServer>,
    ) -> Result<ListenAt, InUse> {
        let options = self.state.bounded(&options);
        let at =
            if at.port == 0 { self.state.places().free_listener_port(at.address).ok_or(InUse)? } else { at };
        if self.state.listeners.conflicts(&at) {
            return Err(InUse);
        }
        let offered = ListenerConfig::of(&options);
        let config = ListenerConfig {
            mss_max: offered.mss_max,
            window: offered.window,
            window_scale: offered.window_scale,
            sack_permitted: offered.sack_permitted,
            timestamps: offered.timestamps,
            ..*config
        };
        let mut listener = Listener::new(config, self.state.secret, self.state.numbers);
        self.state.records.iter().for_each(|record| listener.follow(&record));
        let own = || (config.fast_open > 0).then(|| FastOpenServer::new(self.state.secret, config.fast_open));
        if let Some(server) = fast_open.or_else(own) {
            listener.enable_fast_open(server);
        }
        self.state.listeners.insert(at, listener, options);
        Ok(at)
    }

    /// Sets the TTL or hop limit of a listener's segments, and of those of connections that it opens from now
    /// on. Returns whether there is a listener.
    pub fn set_listener_hop_limit(&mut self, at: &ListenAt, limit: NonZeroU8) -> bool {
        let options = self.state.listeners.options_at(at);
        options.map(|options| Arc::make_mut(options).hop_limit = Some(limit)).is_some()
    }

    /// Removes a listener. Connections that wait to be accepted are reset.
    pub fn unlisten(&mut self, at: &ListenAt) {
        let Some(mut listener) = self.state.listeners.remove(at) else { return };
        while let Some(id) = listener.accept() {
            let _ = self.abort(id);
        }
    }

    /// Accepts the connection that has waited longest, and returns it.
    pub fn accept(&mut self, at: &ListenAt) -> Option<Id> {
        loop {
            let listener = self.state.listeners.get_mut(at)?;
            let id = listener.accept()?;
            let waits = |entry: &&mut Entry<R>| entry.holder == Holder::Listener;
            let Some(entry) = self.state.connections.get_mut(id).filter(waits) else {
                // The peer has reset the connection meanwhile.
                listener.on_withdrawn_accepted();
                continue;
            };
            entry.holder = Holder::User;
            entry.notified = Readiness::default();
            self.state.touch(id);
            return Some(id);
        }
    }

    /// Opens a connection actively. `mss` is that of [`Opening`]. If the local port is zero, one is chosen
    /// ([`Endpoint::tuple`] returns it).
    ///
    /// If an earlier connection between these ends is in TIME-WAIT, timestamps may allow a new one in its
    /// place: see [`TimeWait::may_open`](crate::TimeWait::may_open).
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// use evenkeel_tcp::time::{Duration, Instant};
    /// use evenkeel_tcp::{Endpoint, EndpointConfig, FourTuple, Secret, Segment};
    ///
    /// let mut tcp = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    /// let (here, there) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    /// let now = Instant::ZERO;
    /// let id = tcp.connect(FourTuple::new((here, 0), (there, 80)), 1_460, now)?;
    /// assert_ne!(tcp.tuple(id).expect("it is open").local.port, 0);
    ///
    /// let mut buffer = [0; 60];
    /// let sent = tcp.poll_transmit(now, &(), &mut buffer).expect("a SYN");
    /// let syn = Segment::parse(&buffer[..sent.len], here, there, sent.ecn)?;
    /// assert!(syn.header.flags.opens());
    ///
    /// // Without an answer the SYN leaves again after a second.
    /// let deadline = tcp.next_deadline().expect("the retransmission timer runs");
    /// assert_eq!(deadline, now + Duration::from_secs(1));
    /// tcp.advance(deadline);
    /// assert!(tcp.poll_transmit(deadline, &(), &mut buffer).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing was opened.
    pub fn connect(&mut self, tuple: FourTuple, mss: u16, now: Instant) -> Result<Id, OpenError> {
        self.connect_as(tuple, &Opening::new(mss), now).map(|(id, _)| id)
    }

    /// Opens a connection as [`Endpoint::connect`] does, with the parameters `opening`. Returns the
    /// connection and the number of bytes of its data that were taken; the caller writes the rest. Options
    /// that are set on a connection before its SYN has left are in the SYN.
    ///
    /// # Errors
    /// Nothing was opened.
    pub fn connect_as(
        &mut self,
        tuple: FourTuple,
        opening: &Opening<'_>,
        now: Instant,
    ) -> Result<(Id, usize), OpenError> {
        let EndpointState { destinations, config, .. } = &mut self.state;
        let fast_open = opening.data.and_then(|_| destinations.fast_open_offer(config, &tuple, now));
        let id = self.open_actively(tuple, opening, fast_open, now)?;
        let taken = opening.data.and_then(|data| self.write(id, data).ok());
        Ok((id, taken.unwrap_or_default()))
    }

    /// Opens a connection with first data. Returns the connection and the number of bytes of `data` that
    /// were taken; the caller writes the rest.
    ///
    /// Once the server has given us a cookie, as much of the data as fits leaves with the SYN, and saves a
    /// round trip. The server may then see it twice, so it must be something that does no harm if done
    /// twice (RFC 7413, 6.1). The first SYN to a server only requests a cookie, and the data follow the
    /// handshake; so they do where a SYN with a cookie was lost not long ago. Otherwise this is like
    /// [`Endpoint::connect`].
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// use evenkeel_tcp::time::Instant;
    /// use evenkeel_tcp::{Cookie, Endpoint, EndpointConfig, FourTuple, Secret, Segment};
    ///
    /// let mut tcp = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    /// let (here, there) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    /// let tuple = FourTuple::new((here, 0), (there, 80));
    /// let (_, taken) = tcp.connect_with(tuple, 1_460, b"GET / HTTP/1.0\r\n\r\n", Instant::ZERO)?;
    /// assert_eq!(taken, 18);
    ///
    /// // The first SYN to a server requests a cookie, and has no data yet.
    /// let mut buffer = [0; 1_520];
    /// let sent = tcp.poll_transmit(Instant::ZERO, &(), &mut buffer).expect("a SYN");
    /// let syn = Segment::parse(&buffer[..sent.len], here, there, sent.ecn)?;
    /// assert_eq!((syn.header.options.fast_open, syn.payload_len()), (Some(Cookie::REQUEST), 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing was opened.
    pub fn connect_with(
        &mut self,
        tuple: FourTuple,
        mss: u16,
        data: &[u8],
        now: Instant,
    ) -> Result<(Id, usize), OpenError> {
        self.connect_as(tuple, &Opening { data: Some(data), ..Opening::new(mss) }, now)
    }

    fn open_actively(
        &mut self,
        tuple: FourTuple,
        opening: &Opening<'_>,
        fast_open: Option<FastOpenOffer>,
        now: Instant,
    ) -> Result<Id, OpenError> {
        let options = self.state.bounded(opening.options.unwrap_or(&self.state.config.connection));
        let Free { tuple, hash, waiting } =
            self.state.places().free_tuple(tuple, &options, opening.port_fits, now)?;
        let iss = self.state.numbers.next(&tuple, now, waiting.map(|(_, previous)| previous));
        let open = self.state.open(&tuple, opening.mss, iss);
        let cookie = fast_open.map(|offer| offer.cookie);
        let mut connection = Connection::connect(&options, &open, cookie, now);
        if let Some(offer) = fast_open {
            connection.limit_early_data(offer.mss);
        }
        self.state.destinations.recall_rate(&mut connection, &tuple, now);
        let entry = Entry::new(connection, Holder::User);
        let id =
            self.state.connections.insert_hashed(hash, tuple, entry).map_err(|refused| match refused {
                Refused::Full => OpenError::Full,
                Refused::Taken(_) => OpenError::InUse,
            })?;
        if let Some((old, _)) = waiting {
            self.state.time_wait.recycle(old, &mut self.state.counters);
        }
        self.state.counters.count(Counter::ActiveOpens);
        self.state.touch(id);
        Ok(id)
    }

    /// Writes to a connection as [`Connection::write`] does.
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write(&mut self, id: Id, data: &[u8]) -> Result<usize, Unavailable> {
        self.write_with(id, data.len(), |connection| connection.write(data))
    }

    /// Reads from a connection as [`Connection::read`] does.
    ///
    /// # Errors
    /// Nothing was given.
    pub fn read(&mut self, id: Id, to: &mut [u8], now: Instant) -> Result<usize, Unavailable> {
        let Some(entry) = self.state.entry(id) else { return Err(Unavailable::Closed) };
        let read = entry.connection.read(to, now);
        self.state.touch_moved(id);
        read
    }

    /// Writes to a connection as [`Connection::write_more`] does.
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write_more(&mut self, id: Id, data: &[u8]) -> Result<usize, Unavailable> {
        self.write_with(id, data.len(), |connection| connection.write_more(data))
    }

    /// Peeks at the data of a connection as [`Connection::peek`] does.
    ///
    /// # Errors
    /// Nothing was given.
    pub fn peek(&self, id: Id, to: &mut [u8]) -> Result<usize, Unavailable> {
        self.connection(id).map_or(Err(Unavailable::Closed), |connection| connection.peek(to))
    }

    /// Takes the error of a connection as [`Connection::take_error`] does.
    pub fn take_error(&mut self, id: Id) -> Option<Error> {
        self.state.call(id, Connection::take_error)?
    }

    /// Closes the sending direction of a connection as [`Connection::shutdown`] does.
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn shutdown(&mut self, id: Id) -> Result<(), NotConnected> {
        self.change(id, Connection::shutdown)
    }

    /// Closes the receiving direction of a connection as [`Connection::shutdown_read`] does.
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn shutdown_read(&mut self, id: Id) -> Result<(), NotConnected> {
        self.change(id, Connection::shutdown_read)
    }

    /// Sets an option of a connection as [`Connection::set`] does, within the limit of
    /// [`Endpoint::limit_receive_buffers`].
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// use evenkeel_tcp::connection::StreamOption;
    /// use evenkeel_tcp::time::{Duration, Instant};
    /// use evenkeel_tcp::{Endpoint, EndpointConfig, FourTuple, Secret};
    ///
    /// let mut tcp: Endpoint = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    /// let (here, there) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    /// let id = tcp.connect(FourTuple::new((here, 0), (there, 80)), 1_460, Instant::ZERO)?;
    /// tcp.set(id, StreamOption::Nagle(false), Instant::ZERO)?;
    /// tcp.set(id, StreamOption::UserTimeout(Duration::from_secs(30)), Instant::ZERO)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn set(&mut self, id: Id, option: StreamOption, now: Instant) -> Result<(), NotConnected> {
        let most = self.state.receive_buffer_most;
        let option = match option {
            StreamOption::ReceiveBuffer(bytes) => StreamOption::ReceiveBuffer(bytes.min(most)),
            _ => option,
        };
        self.change(id, |connection| connection.set(option, now))
    }

    fn change(&mut self, id: Id, change: impl FnOnce(&mut Connection)) -> Result<(), NotConnected> {
        let entry = self.state.entry(id).filter(|entry| entry.is_open()).ok_or(NotConnected)?;
        change(&mut entry.connection);
        self.state.touch(id);
        Ok(())
    }

    /// Sets the Differentiated Services codepoint of the segments that a connection sends, of which six
    /// bits count (RFC 9293, 3.9.1.9, MUST-48; RFC 2474). It is 0 at first. Answers of TIME-WAIT and of
    /// listeners do not have it.
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn set_dscp(&mut self, id: Id, dscp: u8) -> Result<(), NotConnected> {
        let entry = self.state.connections.get_mut(id).filter(|entry| entry.is_open());
        entry.ok_or(NotConnected)?.dscp = dscp & 0x3f;
        Ok(())
    }

    /// Closes a connection as [`Connection::close`] does. The user may not use `id` any more.
    pub fn close(&mut self, id: Id, now: Instant) {
        self.release(id);
        self.state.call(id, |connection| connection.close(now));
    }

    /// Aborts a connection as [`Connection::abort`] does. The user may not use `id` any more.
    ///
    /// # Errors
    /// There was nothing to abort: the connection was over, or there was none.
    pub fn abort(&mut self, id: Id) -> Result<(), NotConnected> {
        self.release(id);
        let result = self.change(id, Connection::abort);
        if result.is_err() {
            self.state.touch(id);
        }
        result
    }

    fn release(&mut self, id: Id) {
        if let Some(entry) = self.state.connections.get_mut(id) {
            entry.holder = Holder::Nobody;
        }
    }

    fn write_with(
        &mut self,
        id: Id,
        len: usize,
        write: impl FnOnce(&mut Connection) -> Result<usize, Unavailable>,
    ) -> Result<usize, Unavailable> {
        let Some(entry) = self.state.connections.get_mut(id) else { return Err(Unavailable::Closed) };
        entry.connection.set_allowance(self.state.memory.allowance());
        entry.connection.borrow_to_send(self.state.memory.spares(), len, id);
        let written = write(&mut entry.connection);
        self.state.touch_moved(id);
        written
    }
}
