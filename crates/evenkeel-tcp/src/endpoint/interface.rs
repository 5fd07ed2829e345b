//! An endpoint as its caller sees it: packets and time in; segments, deadlines and events out. `user.rs` has
//! the calls of its user.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::num::{NonZeroU8, NonZeroU16};

use super::super::connection::{Connection, Info};
use super::super::cookie::CookieOffer;
use super::super::counters::{Counter, Counters};
use super::super::drop::Fate;
use super::super::known::KnownEnds;
use super::super::listener::Listener;
use super::super::secret::Secret;
use super::super::segment::Flags;
use super::super::seq::SeqNumber;
use super::super::table::Id;
use super::super::tuple::{AddrPort, FourTuple};
use super::config::EndpointConfig;
use super::egress::{EgressSet, RouteHandle, Routes};
use super::entry::Holder;
use super::event::{EndpointEvent, Readiness};
use super::input::{Input, Packet};
use super::listeners::ListenAt;
use super::output::{Output, Transmit};
use super::report::ListenerInfo;
use super::state::EndpointState;
use crate::time::Instant;

/// The TCP of a host, sans-IO.
///
/// The caller gives it packets ([`Endpoint::input`]), the user's calls and passing time
/// ([`Endpoint::advance`]). After each of these the caller takes segments to send
/// ([`Endpoint::poll_transmit`]) and events for the user ([`Endpoint::poll_event`]), each until there is
/// none, then asks for the next deadline ([`Endpoint::next_deadline`]). Time never goes back.
///
/// `R` is the user's type of a route ([`Routes::Route`]). Each connection keeps its own.
///
/// A server that echoes all data, without the packets' way to the network:
///
/// ```
/// use evenkeel_tcp::endpoint::{EndpointEvent, ListenAt, Packet};
/// use evenkeel_tcp::time::Instant;
/// use evenkeel_tcp::{Endpoint, EndpointConfig, ListenerConfig, Secret};
///
/// /// Does everything that is due at `now`. Returns the time to come back if no packet arrives before.
/// fn serve(
///     tcp: &mut Endpoint,
///     received: &[(Packet, Vec<u8>)],
///     mut send: impl FnMut(&[u8]),
///     now: Instant,
/// ) -> Option<Instant> {
///     tcp.advance(now);
///     for (packet, segment) in received {
///         tcp.input(segment, packet, now);
///     }
///     let mut buffer = [0; 2_048];
///     while let Some(event) = tcp.poll_event() {
///         match event {
///             EndpointEvent::Acceptable(at) => while tcp.accept(&at).is_some() {},
///             EndpointEvent::Connection(id, _) => {
///                 // Reads no more than can be written.
///                 while let Ok(len @ 1..) = tcp.peek(id, &mut buffer) {
///                     let Ok(written) = tcp.write(id, &buffer[..len]) else { break };
///                     let _ = tcp.read(id, &mut buffer[..written], now);
///                 }
///                 if tcp.readiness(id).ended {
///                     tcp.close(id, now);
///                 }
///             }
///         }
///     }
///     while let Some(sent) = tcp.poll_transmit(now, &(), &mut buffer) {
///         send(&buffer[..sent.len]);
///     }
///     tcp.next_deadline()
/// }
///
/// let mut tcp = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
/// tcp.listen(ListenAt::any(7), &ListenerConfig::default(), None)?;
/// assert_eq!(serve(&mut tcp, &[], |_| {}, Instant::ZERO), None);
/// # Ok::<(), evenkeel_tcp::endpoint::InUse>(())
/// ```
pub struct Endpoint<R = ()> {
    pub(super) state: EndpointState<R>,
}

/// The owner of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// A connection.
    Connection(Id),
    /// A connection in TIME-WAIT.
    TimeWait,
    /// No connection, but perhaps a listener.
    None,
}

impl<R: Copy> Endpoint<R> {
    /// Creates an endpoint without connections. Sequence numbers, timestamps and hashes come from
    /// `secret`, which must stay secret.
    #[must_use]
    pub fn new(config: EndpointConfig, secret: Secret) -> Self {
        Self { state: EndpointState::new(config, secret) }
    }

    /// Returns the settings in effect.
    #[must_use]
    pub const fn config(&self) -> &EndpointConfig {
        &self.state.config
    }

    /// Returns the counters of all connections and listeners since the endpoint was created.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.state.counters
    }

    /// Returns the number of connections, without half-open ones and those that [wait](Self::waiting). A
    /// connection that is over counts until its user closes it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.connections.len()
    }

    /// Returns whether [`len`](Self::len) is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.connections.is_empty()
    }

    /// Returns the number of connections in TIME-WAIT.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.time_wait.len()
    }

    /// Returns the connection `id`; `None` if it is gone.
    #[must_use]
    pub fn connection(&self, id: Id) -> Option<&Connection> {
        self.state.connections.get(id).map(|entry| &entry.connection)
    }

    /// Returns the addresses and ports of a connection.
    #[must_use]
    pub fn tuple(&self, id: Id) -> Option<&FourTuple> {
        self.state.connections.tuple(id)
    }

    /// Returns the owner of a segment between these two ends, for early demultiplexing. `opens` says that
    /// it opens a connection (SYN without ACK). Such a segment belongs to no connection in TIME-WAIT,
    /// because it may open another (RFC 6191).
    #[must_use]
    pub fn whose(&self, tuple: &FourTuple, opens: bool) -> Match {
        let hash = self.state.connections.hash(tuple);
        match self.state.connections.find_hashed(hash, tuple) {
            Some(id) => Match::Connection(id),
            None if !opens && self.state.time_wait.find_hashed(hash, tuple).is_some() => Match::TimeWait,
            None => Match::None,
        }
    }

    /// Returns the connection between these two ends.
    #[must_use]
    pub fn find(&self, tuple: &FourTuple) -> Option<Id> {
        self.state.connections.find(tuple)
    }

    /// Leaves segments of no connection to other hosts with the same addresses, from now on or no longer:
    /// they have [`Fate::Stray`], and no reset answers them. Segments that open connections for a listener
    /// are not among them.
    pub const fn leave_strays(&mut self, leaves_strays: bool) {
        self.state.leaves_strays = leaves_strays;
    }

    /// Returns whether segments of no connection are left to other hosts.
    #[must_use]
    pub const fn leaves_strays(&self) -> bool {
        self.state.leaves_strays
    }

    /// Makes `record` follow between which ends there are connections, also half-open ones and those in
    /// TIME-WAIT, as long as somebody else has the record, too.
    pub fn record_ends(&mut self, record: &Arc<dyn KnownEnds>) {
        let state = &mut self.state;
        if state.records.follow(record) {
            state.connections.follow(record);
            state.time_wait.follow(record);
            state.listeners.iter_mut().for_each(|listener| listener.follow(record));
        }
    }

    /// Returns whether there is a connection, which may be half-open, between these two ends.
    #[must_use]
    pub fn has(&self, tuple: &FourTuple) -> bool {
        let listener = || self.state.listeners.get(&self.listener_for(&tuple.local)?);
        self.state.connections.find(tuple).is_some() || listener().is_some_and(|it| it.has(tuple))
    }

    /// Makes [`Endpoint::poll_ended`] report connections that are over from now on.
    pub fn report_ends(&mut self) {
        self.state.ended.get_or_insert_default();
    }

    /// Limits the receive buffers of new connections to `most_bytes`, whatever their options are; options
    /// set later are limited, too.
    pub fn limit_receive_buffers(&mut self, most_bytes: usize) {
        self.state.receive_buffer_most = self.state.receive_buffer_most.min(most_bytes);
        self.state.config.connection = self.state.bounded(&self.state.config.connection);
    }

    /// Returns a connection to which no segment belongs any more: it is over, or in TIME-WAIT. Each is
    /// reported once, if [`Endpoint::report_ends`] was called.
    pub fn poll_ended(&mut self) -> Option<(Id, FourTuple)> {
        self.state.ended.as_mut()?.pop_front()
    }

    /// Returns whether a connection waits to be accepted.
    #[must_use]
    pub fn is_acceptable(&self, at: &ListenAt) -> bool {
        self.state.listeners.get(at).is_some_and(|listener| listener.accept_queue_len() > 0)
    }

    /// Returns whether the listener's accept queue has room. If not, the caller should give it no more
    /// SYNs (Druschel and Banga, OSDI 1996, 3.4).
    #[must_use]
    pub fn accepts(&self, at: &ListenAt) -> bool {
        self.state.listeners.get(at).is_some_and(Listener::accepts)
    }

    /// Returns the TTL or hop limit of a listener's segments; `None` for that of the host, or if there is no
    /// listener.
    #[must_use]
    pub fn listener_hop_limit(&self, at: &ListenAt) -> Option<NonZeroU8> {
        self.state.listeners.find(at).and_then(|id| self.state.listeners.hop_limit(id))
    }

    /// Returns the parameters with which a device may answer SYNs by cookies in place of a listener. `None`
    /// if the listener uses no cookies, or there is none. `hop_limit` is that of the host.
    #[must_use]
    pub fn cookie_offer(&self, at: &ListenAt, hop_limit: u8) -> Option<CookieOffer> {
        let hop_limit = self.listener_hop_limit(at).map_or(hop_limit, NonZeroU8::get);
        self.state.listeners.get(at)?.cookie_offer(hop_limit)
    }

    /// Records that a device has sent `cookies` SYN cookies in place of a listener, the last one at `now` or
    /// before. Until the last one has expired, ACKs may bring them back.
    pub fn expect_cookies(&mut self, at: &ListenAt, cookies: u64, now: Instant) {
        if let Some(listener) = self.state.listeners.get_mut(at) {
            listener.expect_cookies(cookies, now, &mut self.state.counters);
        }
    }

    /// Returns whether segments for a listener that belong to no connection, and bring no good cookie, get no
    /// answer until `then`, because cookies are expected.
    #[must_use]
    pub fn refuses_acks_until(&self, at: &ListenAt, then: Instant) -> bool {
        let expects = |listener: &Listener| listener.expects_cookies_until(then);
        !self.state.leaves_strays && self.state.listeners.get(at).is_some_and(expects)
    }

    /// Returns the listener for a local address and port: that of the address, or of all addresses.
    pub fn listener_for(&self, local: &AddrPort) -> Option<ListenAt> {
        self.state.listeners.at_endpoint(local).map(|(at, _)| at)
    }

    /// Returns the bytes of memory that the buffers of all connections own.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.state.memory.taken()
    }

    /// Returns every connection with its report, in no particular order, without those that only
    /// [wait](Self::waiting). This goes through all of them.
    pub fn connections(&self) -> impl Iterator<Item = (Id, &FourTuple, Info)> {
        self.state.connections.iter().map(|(id, tuple, entry)| (id, tuple, entry.connection.info()))
    }

    /// Returns every listener with the state of its queues, in the order of [`ListenAt`].
    pub fn listeners(&self) -> impl Iterator<Item = ListenerInfo> {
        self.state.listeners.iter().map(|(at, listener)| ListenerInfo::of(*at, listener))
    }
}

/// Packets and ICMP errors.
impl<R: Copy> Endpoint<R> {
    /// Processes a packet with `bytes`, from the TCP header on. Returns their fate.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// use evenkeel_tcp::endpoint::Packet;
    /// use evenkeel_tcp::time::Instant;
    /// use evenkeel_tcp::{Ecn, Endpoint, EndpointConfig, Fate, Flags, Header, Secret, Segment, TcpDrop};
    ///
    /// let mut tcp = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    /// let (peer, host) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    ///
    /// // A SYN to a port without a listener.
    /// let header = Header { source: 40_000, destination: 80, flags: Flags::SYN, ..Header::default() };
    /// let mut bytes = [0; 60];
    /// let len = Segment::bare(header).emit(&mut bytes, peer, host).expect("room for a header");
    /// let packet =
    ///     Packet { source: peer.into(), destination: host.into(), ecn: Ecn::NotCapable, mss: 1_460 };
    /// let fate = tcp.input(&bytes[..len], &packet, Instant::ZERO);
    /// assert_eq!(fate, Fate::Dropped(TcpDrop::NoSocket));
    ///
    /// // The answer is a reset.
    /// let sent = tcp.poll_transmit(Instant::ZERO, &(), &mut bytes).expect("an answer");
    /// let reset = Segment::parse(&bytes[..sent.len], host, peer, sent.ecn)?;
    /// assert!(reset.header.flags.contains(Flags::RST));
    /// # Ok::<(), evenkeel_tcp::Malformed>(())
    /// ```
    pub fn input(&mut self, bytes: &[u8], packet: &Packet, now: Instant) -> Fate {
        self.input_expected(None, bytes, packet, now)
    }

    /// Processes a packet as [`Endpoint::input`] does. `expected` is the connection that the caller
    /// predicts for the segment; a right prediction saves the lookup in the table.
    pub fn input_expected(
        &mut self,
        expected: Option<Id>,
        bytes: &[u8],
        packet: &Packet,
        now: Instant,
    ) -> Fate {
        Input::new(&mut self.state, now).process(expected, bytes, packet)
    }

    /// Processes a large segment as [`Endpoint::input_expected`] does: it was several segments on the wire,
    /// of `size` bytes of payload each (the last of less), or is to be cut into them by a device that it will
    /// not pass. Its checksum is not verified: the caller knows that the data is right.
    ///
    /// One acknowledgment answers the whole, as other implementations do that receive so.
    pub fn input_large(
        &mut self,
        expected: Option<Id>,
        bytes: &[u8],
        size: NonZeroU16,
        packet: &Packet,
        now: Instant,
    ) -> Fate {
        Input::new(&mut self.state, now).process_large(expected, bytes, size, packet)
    }

    /// Returns whether a segment that belongs to no connection or listener would have no effect, not even
    /// an answer. If so, it is counted, and the caller need not give it to [`Endpoint::input`]. Its
    /// checksum is not verified.
    pub fn drops_unanswered(&mut self, from: &IpAddr, flags: Flags, now: Instant) -> bool {
        self.state.answers.drops(from, flags, &mut self.state.counters, now)
    }

    /// Processes "packet too big" or "fragmentation needed": the segment that began at `seq` does not fit
    /// the path, and one with `mss` bytes after the 20 of its header would (the MTU, less the IP header,
    /// less 20). See [`Connection::on_packet_too_big`](crate::Connection::on_packet_too_big).
    ///
    /// Half-open connections and those in TIME-WAIT have nothing under way that could be too big. Returns
    /// whether the error counted.
    pub fn packet_too_big(&mut self, tuple: &FourTuple, seq: SeqNumber, mss: u16, now: Instant) -> bool {
        let id = self.state.connections.find(tuple);
        let entry = id.and_then(|id| self.state.connections.get_mut(id));
        let counts = entry.is_some_and(|entry| entry.connection.on_packet_too_big(seq, mss, now));
        match id.filter(|_| counts) {
            Some(id) => self.state.touch(id),
            None => self.count_stray_icmp(),
        }
        counts
    }

    /// Processes "destination unreachable", or the like, in answer to the segment that began at `seq`.
    ///
    /// `hard` says that retries are useless: protocol or port unreachable, or administratively prohibited
    /// (RFC 1122, 4.2.3.9; RFC 5461, 2). A hard error ends a connection that is being opened. Any other
    /// error is only recorded: it is the reason if the connection is given up (RFC 5461, 4.1).
    pub fn unreachable(&mut self, tuple: &FourTuple, seq: SeqNumber, hard: bool) {
        if let Some(id) = self.state.connections.find(tuple) {
            let entry = self.state.connections.get_mut(id);
            if entry.is_some_and(|entry| entry.connection.on_unreachable(seq, hard)) {
                return self.state.touch(id);
            }
        } else if self.opening_unreachable(tuple, seq, hard) {
            return;
        }
        self.count_stray_icmp();
    }

    /// Passes an ICMP error about a half-open connection to its listener. Returns whether the error counted.
    fn opening_unreachable(&mut self, tuple: &FourTuple, seq: SeqNumber, hard: bool) -> bool {
        let at = self.listener_for(&tuple.local);
        let listener = at.and_then(|at| self.state.listeners.get_mut(&at));
        let counters = &mut self.state.counters;
        listener.is_some_and(|listener| listener.handle_unreachable(tuple, seq, hard, counters))
    }

    /// Records that the segment that began at `seq` did not leave: its next hop answers neither ARP nor
    /// neighbour discovery. This ends a connection that is being opened, as in Linux (EHOSTUNREACH). An
    /// established one goes on, and fails for that reason if it fails (RFC 1122, 4.2.3.9: a soft error).
    ///
    /// The host finds this out itself, without a message from the network, so it cannot be forged.
    pub fn next_hop_silent(&mut self, tuple: &FourTuple, seq: SeqNumber) {
        let Some(id) = self.state.connections.find(tuple) else { return };
        let entry = self.state.connections.get_mut(id);
        if entry.is_some_and(|entry| entry.connection.on_next_hop_silent(seq)) {
            self.state.touch(id);
        }
    }

    /// Counts an ICMP error that quotes no segment under way.
    fn count_stray_icmp(&mut self) {
        self.state.counters.count(Counter::OutOfWindowIcmps);
    }
}

/// Segments to send.
impl<R: Copy> Endpoint<R> {
    /// Writes the next segment to send to the beginning of `to`, checksum included, and counts it as sent.
    ///
    /// `to` must have room for a header of 60 bytes and for as much payload as a segment of any connection
    /// has; a segment that does not fit is lost, as in a network. `routes` looks up the segment's route:
    /// `&()` if there is only one.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        routes: &impl Routes<Route = R>,
        to: &mut [u8],
    ) -> Option<Transmit<R>> {
        Output::new(&mut self.state, false, now).poll(routes, to)
    }

    /// Writes the next segment to send as [`Endpoint::poll_transmit`] does, or several full ones of a
    /// connection as one large segment if its interface [cuts](Routes::cuts) such: then [`Transmit::cut`] has
    /// the size of each. A large segment is at most as long as `to`.
    pub fn poll_transmit_large(
        &mut self,
        now: Instant,
        routes: &impl Routes<Route = R>,
        to: &mut [u8],
    ) -> Option<Transmit<R>> {
        Output::new(&mut self.state, true, now).poll(routes, to)
    }

    /// Returns whether [`Endpoint::poll_transmit`] would have something to do if the interfaces in `full`
    /// were full. It may still find that there is no segment to send.
    #[must_use]
    pub fn may_transmit(&self, full: EgressSet, routes: &impl Routes<Route = R>) -> bool {
        !self.state.answers.is_empty() || self.state.send_queue.may_go_on(full, routes.generation())
    }

    /// Sets which interfaces are full: connections that leave through them wait until they are not. At
    /// first none is full. Segments of no connection do not wait, because their interface is not known.
    pub const fn set_full(&mut self, full: EgressSet) {
        self.state.send_queue.set_full(full);
    }

    /// Sets the route of a connection, the result of a lookup under `generation` of [`Routes`], so that
    /// its first segment needs no lookup.
    pub fn set_route(&mut self, id: Id, route: R, generation: u32) {
        if let Some(entry) = self.state.connections.get_mut(id) {
            entry.route = RouteHandle::new(route, generation);
        }
    }

    /// Returns the route of a connection's segments, after a lookup if need be.
    pub fn route(&mut self, id: Id, routes: &impl Routes<Route = R>) -> Option<R> {
        let (tuple, entry) = self.state.connections.entry_mut(id)?;
        Some(entry.route.validate(tuple, routes))
    }
}

/// Deadlines and events.
impl<R: Copy> Endpoint<R> {
    /// Returns the time at which [`Endpoint::advance`] is to be called, if nothing else happens before.
    /// Any call may change it.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let all = [
            self.state.deadlines.next(),
            self.state.time_wait.next_deadline(),
            self.state.listeners.next_deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Returns the time at which pacing releases the next segment of those that wait for it: a part of
    /// [`next_deadline`](Self::next_deadline), for callers that can meet it more exactly. Other deadlines
    /// may be late by the time that it takes to wake a thread.
    pub fn next_paced(&mut self) -> Option<Instant> {
        self.state.deadlines.next_paced()
    }

    /// Returns the time of [`next_paced`](Self::next_paced), or an earlier one, as
    /// [`not_before`](Self::not_before) does.
    #[must_use]
    pub fn paced_not_before(&self) -> Option<Instant> {
        self.state.deadlines.paced_not_before()
    }

    /// Returns the time of [`next_deadline`](Self::next_deadline), or an earlier one, for callers that are
    /// busy until then anyway and will ask again. This takes next to no work, whereas the exact time has
    /// postponed timers sorted anew.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        let all = [
            self.state.deadlines.not_before(),
            self.state.time_wait.next_deadline(),
            self.state.listeners.not_before(),
        ];
        all.into_iter().flatten().min()
    }

    /// Processes all deadlines that have passed at `now`.
    pub fn advance(&mut self, now: Instant) {
        self.state.advance(now);
    }

    /// Returns the next event of which the user is to be notified.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        loop {
            let event = self.state.events.pop_front()?;
            let EndpointEvent::Connection(id, _) = event else { return Some(event) };
            let Some(entry) = self.state.connections.get_mut(id) else { continue };
            entry.is_pending = false;
            if entry.holder == Holder::User {
                return Some(EndpointEvent::Connection(id, entry.notified));
            }
        }
    }

    /// Returns the operations for which a connection is ready now. A connection that is gone counts as
    /// over.
    #[must_use]
    #[inline]
    pub fn readiness(&self, id: Id) -> Readiness {
        let over = Readiness { readable: true, ended: true, over: true, ..Readiness::default() };
        self.state.connections.get(id).map_or(over, |entry| Readiness::of(&entry.connection))
    }
}

impl<R> fmt::Debug for Endpoint<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.state.connections.len())
            .field("time_wait", &self.state.time_wait.len())
            .field("listeners", &self.state.listeners.iter().collect::<Vec<_>>())
            .field("counters", &self.state.counters)
            .finish_non_exhaustive()
    }
}
