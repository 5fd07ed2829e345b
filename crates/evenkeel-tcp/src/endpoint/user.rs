//! The user's calls (RFC 9293, 3.10.1 to 3.10.6).

use std::sync::Arc;

use super::super::connection::{Config, Connection, Error, StreamOption, Unavailable};
use super::super::counters::Counter;
use super::super::fast_open::{FastOpenOffer, FastOpenServer};
use super::super::listener::{Listener, ListenerConfig};
use super::super::state::State;
use super::super::table::{Id, Refused};
use super::super::tuple::FourTuple;
use super::config::Opening;
use super::ephemeral::Free;
use super::error::{InUse, NotConnected, OpenError};
use super::event::{EndpointEvent, Readiness};
use super::listeners::ListenAt;
use super::state::{Endpoint, Entry, Holder};
use crate::time::Instant;

impl<R: Copy> Endpoint<R> {
    /// Listens, and says where: if the port is zero, one is chosen. Window and options are those of
    /// connections, whatever `config` says of them; `fast_open` takes data in SYNs.
    ///
    /// # Errors
    /// Somebody listens there, or at all ports that may be chosen from.
    pub fn listen(
        &mut self,
        at: ListenAt,
        config: &ListenerConfig,
        fast_open: Option<FastOpenServer>,
    ) -> Result<ListenAt, InUse> {
        let options = Arc::clone(&self.config.connection);
        self.listen_with(at, config, options, fast_open)
    }

    /// The same, for connections that shall have options of their own, as what is accepted inherits those of
    /// the socket that listens.
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
        let options = self.bounded(&options);
        let at = if at.port == 0 { self.free_listener_port(at.address).ok_or(InUse)? } else { at };
        if self.listeners.contains(&at) {
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
        let mut listener = Listener::new(config, self.secret, self.numbers);
        let own = || (config.fast_open > 0).then(|| FastOpenServer::new(self.secret, config.fast_open));
        if let Some(server) = fast_open.or_else(own) {
            listener.enable_fast_open(server);
        }
        self.listeners.insert(at, listener, options);
        Ok(at)
    }

    /// Listens no more. What waited to be accepted is reset.
    pub fn unlisten(&mut self, at: &ListenAt) {
        let Some(mut listener) = self.listeners.remove(at) else { return };
        while let Some(id) = listener.accept() {
            let _ = self.abort(id);
        }
    }

    /// The connection that has waited longest to be accepted.
    pub fn accept(&mut self, at: &ListenAt) -> Option<Id> {
        loop {
            let listener = self.listeners.get_mut(at)?;
            let id = listener.accept()?;
            let waits = |entry: &&mut Entry<R>| entry.holder == Holder::Listener;
            let Some(entry) = self.connections.get_mut(id).filter(waits) else {
                // The peer has reset it meanwhile.
                listener.on_withdrawn_accepted();
                continue;
            };
            entry.holder = Holder::User;
            entry.notified = Readiness::default();
            self.touch(id);
            return Some(id);
        }
    }

    /// Opens a connection. `mss` is that of [`Opening`]. If the local port is zero, one is chosen
    /// ([`Endpoint::tuple`] says which).
    ///
    /// Where an earlier connection is in TIME-WAIT, timestamps may let it make way: see
    /// [`TimeWait::may_open`](crate::TimeWait::may_open).
    ///
    /// # Errors
    /// Nothing was opened.
    pub fn connect(&mut self, tuple: FourTuple, mss: u16, now: Instant) -> Result<Id, OpenError> {
        self.connect_as(tuple, &Opening::new(mss), now).map(|(id, _)| id)
    }

    /// The same as `opening` says; says also how much of its data was taken, the rest is to be written. What
    /// is set on a connection before its SYN has left is in the SYN, too.
    ///
    /// # Errors
    /// Nothing was opened.
    pub fn connect_as(
        &mut self,
        tuple: FourTuple,
        opening: &Opening<'_>,
        now: Instant,
    ) -> Result<(Id, usize), OpenError> {
        let fast_open = opening.data.and_then(|_| self.fast_open_offer(&tuple, now));
        let id = self.open_actively(tuple, opening, fast_open, now)?;
        let taken = opening.data.and_then(|data| self.write(id, data).ok());
        Ok((id, taken.unwrap_or_default()))
    }

    fn open_actively(
        &mut self,
        tuple: FourTuple,
        opening: &Opening<'_>,
        fast_open: Option<FastOpenOffer>,
        now: Instant,
    ) -> Result<Id, OpenError> {
        let options = self.bounded(opening.options.unwrap_or(&self.config.connection));
        let Free { tuple, hash, waiting } = self.free_tuple(tuple, &options, opening.port_fits, now)?;
        let iss = self.numbers.next(&tuple, now, waiting.map(|(_, previous)| previous));
        let open = self.open(&tuple, opening.mss, iss);
        let cookie = fast_open.map(|offer| offer.cookie);
        let mut connection = Connection::connect(&options, &open, cookie, now);
        if let Some(offer) = fast_open {
            connection.limit_early_data(offer.mss);
        }
        self.recall_rate(&mut connection, &tuple, now);
        let entry = Entry::new(connection, Holder::User);
        let id = self.connections.insert_hashed(hash, tuple, entry).map_err(|refused| match refused {
            Refused::Full => OpenError::Full,
            Refused::Taken(_) => OpenError::InUse,
        })?;
        if let Some((old, _)) = waiting {
            self.time_wait.recycle(old, &mut self.counters);
        }
        self.counters.count(Counter::ActiveOpens);
        self.touch(id);
        Ok(id)
    }

    /// As [`Connection::write`].
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write(&mut self, id: Id, data: &[u8]) -> Result<usize, Unavailable> {
        self.write_with(id, data.len(), |connection| connection.write(data))
    }

    /// As [`Connection::read`].
    ///
    /// # Errors
    /// Nothing was given.
    pub fn read(&mut self, id: Id, to: &mut [u8], now: Instant) -> Result<usize, Unavailable> {
        let Some(entry) = self.entry(id) else { return Err(Unavailable::Closed) };
        let read = entry.connection.read(to, now);
        self.touch_moved(id);
        read
    }

    /// As [`Connection::write_more`].
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write_more(&mut self, id: Id, data: &[u8]) -> Result<usize, Unavailable> {
        self.write_with(id, data.len(), |connection| connection.write_more(data))
    }

    /// As [`Connection::peek`].
    ///
    /// # Errors
    /// Nothing was given.
    pub fn peek(&self, id: Id, to: &mut [u8]) -> Result<usize, Unavailable> {
        self.connection(id).map_or(Err(Unavailable::Closed), |connection| connection.peek(to))
    }

    /// As [`Connection::take_error`].
    pub fn take_error(&mut self, id: Id) -> Option<Error> {
        self.call(id, Connection::take_error)?
    }

    /// As [`Connection::shutdown`].
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn shutdown(&mut self, id: Id) -> Result<(), NotConnected> {
        self.change(id, Connection::shutdown)
    }

    /// As [`Connection::shutdown_read`].
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn shutdown_read(&mut self, id: Id) -> Result<(), NotConnected> {
        self.change(id, Connection::shutdown_read)
    }

    /// As [`Connection::set`], within what [`Endpoint::limit_receive_buffers`] allows.
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn set(&mut self, id: Id, option: StreamOption, now: Instant) -> Result<(), NotConnected> {
        let most = self.receive_buffer_most;
        let option = match option {
            StreamOption::ReceiveBuffer(bytes) => StreamOption::ReceiveBuffer(bytes.min(most)),
            _ => option,
        };
        self.change(id, |connection| connection.set(option, now))
    }

    fn change(&mut self, id: Id, change: impl FnOnce(&mut Connection)) -> Result<(), NotConnected> {
        let there = |entry: &&mut Entry<R>| entry.connection.state() != State::Closed;
        let entry = self.entry(id).filter(there).ok_or(NotConnected)?;
        change(&mut entry.connection);
        self.touch(id);
        Ok(())
    }

    /// How routers are to treat what the connection sends from now on: the Differentiated Services codepoint,
    /// of which six bits count (RFC 9293, 3.9.1.9, MUST-48; RFC 2474). At first 0, the default. Not what
    /// TIME-WAIT or a listener answers.
    ///
    /// # Errors
    /// The connection is over, or there is none.
    pub fn set_dscp(&mut self, id: Id, dscp: u8) -> Result<(), NotConnected> {
        let there = |entry: &&mut Entry<R>| entry.connection.state() != State::Closed;
        self.connections.get_mut(id).filter(there).ok_or(NotConnected)?.dscp = dscp & 0x3f;
        Ok(())
    }

    /// As [`Connection::close`]. The name means nothing any more.
    pub fn close(&mut self, id: Id, now: Instant) {
        self.release(id);
        self.call(id, |connection| connection.close(now));
    }

    /// As [`Connection::abort`]. The name means nothing any more.
    ///
    /// # Errors
    /// There was nothing to give up: the connection was over, or there was none.
    pub fn abort(&mut self, id: Id) -> Result<(), NotConnected> {
        self.release(id);
        let result = self.change(id, Connection::abort);
        if result.is_err() {
            self.touch(id);
        }
        result
    }

    /// What to tell the user next.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        loop {
            let event = self.events.pop_front()?;
            let EndpointEvent::Connection(id, _) = event else { return Some(event) };
            let Some(entry) = self.connections.get_mut(id) else { continue };
            entry.in_events = false;
            if entry.holder == Holder::User {
                return Some(EndpointEvent::Connection(id, entry.notified));
            }
        }
    }

    /// What a connection is ready for now. One that is gone is over.
    #[must_use]
    #[inline]
    pub fn readiness(&self, id: Id) -> Readiness {
        let over = Readiness { readable: true, ended: true, over: true, ..Readiness::default() };
        self.connections.get(id).map_or(over, |entry| Readiness::of(&entry.connection))
    }

    fn release(&mut self, id: Id) {
        if let Some(entry) = self.connections.get_mut(id) {
            entry.holder = Holder::Nobody;
        }
    }

    fn write_with(
        &mut self,
        id: Id,
        len: usize,
        write: impl FnOnce(&mut Connection) -> Result<usize, Unavailable>,
    ) -> Result<usize, Unavailable> {
        let Some(entry) = self.connections.get_mut(id) else { return Err(Unavailable::Closed) };
        entry.connection.set_allowance(self.memory.allowance());
        entry.connection.borrow_to_send(self.memory.spares(), len, id);
        let written = write(&mut entry.connection);
        self.touch_moved(id);
        written
    }

    fn call<T>(&mut self, id: Id, call: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let result = call(&mut self.entry(id)?.connection);
        self.touch(id);
        Some(result)
    }
}
