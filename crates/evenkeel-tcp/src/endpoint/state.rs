//! The state of an endpoint.

use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;

use super::super::connection::{Config, Connection, Open};
use super::super::counters::{Counter, Counters};
use super::super::fast_open::FastOpenCache;
use super::super::isn::InitialSequence;
use super::super::listener::Listener;
use super::super::rate_cache::RateCache;
use super::super::reply_limit::ReplyLimit;
use super::super::secret::Secret;
use super::super::segment::Header;
use super::super::seq::SeqNumber;
use super::super::state::State;
use super::super::table::{Id, Table};
use super::super::time_wait::TimeWait;
use super::super::tuple::FourTuple;
use super::config::EndpointConfig;
use super::egress::{EgressSet, RouteHandle};
use super::event::{EndpointEvent, Readiness};
use super::listeners::{ListenAt, ListenerId, Listeners};
use super::memory::Memory;
use super::ports::Ports;
use super::tx_blocked::TxBlocked;
use crate::wire::{IpAddress, IpEndpoint};
use evenkeel_timers::Wheel;

/// The largest number of answers that wait to be sent on behalf of no connection. Further segments are not
/// answered: the senders of so many can wait.
pub(super) const ANSWERS_MAX: usize = 1_024;

/// The label of the [`ReplyLimit`] of resets, among others with the same secret.
const RESETS: u64 = 1;

/// The TCP of a host, sans-IO.
///
/// The caller gives it packets ([`Endpoint::input`]), the user's calls and passing time
/// ([`Endpoint::advance`]). After each of these the caller takes segments to send
/// ([`Endpoint::poll_transmit`]) and events for the user ([`Endpoint::poll_event`]), each until there is
/// none, then asks for the next deadline ([`Endpoint::next_deadline`]). Time never goes back.
///
/// `R` is the user's type of a route ([`Routes::Route`](super::Routes::Route)). Each connection keeps its
/// own.
pub struct Endpoint<R = ()> {
    pub(super) config: EndpointConfig,
    pub(super) secret: Secret,
    pub(super) numbers: InitialSequence,
    pub(super) connections: Table<Entry<R>>,
    /// All deadlines of connections but those of pacing, by place in `connections`.
    pub(super) wheel: Wheel,
    /// The times at which pacing releases the next segments, by place in `connections`. They are to be met
    /// exactly.
    pub(super) paced: Wheel,
    pub(super) time_wait: TimeWait,
    pub(super) listeners: Listeners,
    /// Connections that may have something to send, each once, without those in `tx_blocked`.
    pub(super) to_send: VecDeque<Id>,
    pub(super) tx_blocked: TxBlocked,
    /// The interfaces that are full now.
    pub(super) full: EgressSet,
    pub(super) answers: VecDeque<Answer>,
    /// The rate limit of resets among the answers.
    pub(super) resets: ReplyLimit,
    /// The events of which the user is to be notified; each connection is in it once.
    pub(super) events: VecDeque<EndpointEvent>,
    pub(super) fast_open: Option<FastOpenCache>,
    /// The rates of earlier connections; created when there is something to remember.
    pub(super) rates: Option<RateCache>,
    pub(super) memory: Memory,
    /// The upper limit in bytes of each connection's receive buffer.
    pub(super) receive_buffer_most: usize,
    /// Connections with data out of order, in the order in which that began; each once.
    pub(super) holes: VecDeque<Id>,
    pub(super) ports: Ports,
    /// Connections that are over, for [`Endpoint::poll_ended`]; `None` unless the user asked for them.
    pub(super) ended: Option<VecDeque<(Id, FourTuple)>>,
    pub(super) counters: Counters,
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

/// An answer on behalf of a listener, of TIME-WAIT, or of no connection.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) tuple: FourTuple,
    pub(super) header: Header,
    /// Whether the answer was sent before.
    pub(super) again: bool,
}

#[derive(Debug)]
pub(super) struct Entry<R> {
    pub(super) connection: Connection,
    pub(super) holder: Holder,
    /// The route that the connection's segments take.
    pub(super) route: RouteHandle<R>,
    /// Whether the connection is in `to_send` or in `tx_blocked`.
    pub(super) queued: bool,
    /// Whether the connection is in `events`.
    pub(super) in_events: bool,
    /// The readiness of which the user was last notified, as far as it still holds.
    pub(super) notified: Readiness,
    /// The bytes of memory that are accounted to the connection: fewer than there are sequence numbers.
    pub(super) held: u32,
    /// Whether the connection is in `holes`.
    pub(super) has_holes: bool,
    /// Whether the connection is counted in [`Counter::CurrEstab`].
    pub(super) established: bool,
    /// The Differentiated Services codepoint of the segments that it sends.
    pub(super) dscp: u8,
    /// The listener that made the connection; `None` if we opened it.
    pub(super) from: Option<ListenerId>,
    /// Whether its listener is to be notified when the handshake is over (RFC 7413, 5.1).
    pub(super) early: bool,
}

/// The holder of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The listener: the connection waits to be accepted.
    Listener,
    User,
    /// No holder: the user has closed the connection, or it ended before it was accepted.
    Nobody,
}

impl<R: Copy> Entry<R> {
    /// Returns the entry of a new connection, of which the user has not been notified.
    pub(super) fn new(connection: Connection, holder: Holder) -> Self {
        Self {
            connection,
            holder,
            route: RouteHandle::NONE,
            queued: false,
            in_events: false,
            notified: Readiness::default(),
            held: 0,
            has_holes: false,
            established: false,
            dscp: 0,
            from: None,
            early: false,
        }
    }
}

impl<R: Copy> Endpoint<R> {
    /// Creates an endpoint without connections. Sequence numbers, timestamps and hashes come from
    /// `secret`, which must stay secret.
    #[must_use]
    pub fn new(config: EndpointConfig, secret: Secret) -> Self {
        let numbers = InitialSequence::new(secret);
        Self {
            secret,
            numbers,
            connections: Table::new(secret, config.connections),
            wheel: Wheel::new(),
            paced: Wheel::new(),
            time_wait: TimeWait::new(config.time_wait, secret, numbers),
            listeners: Listeners::default(),
            to_send: VecDeque::new(),
            tx_blocked: TxBlocked::default(),
            full: EgressSet::NONE,
            answers: VecDeque::new(),
            resets: ReplyLimit::new(secret, RESETS, config.resets_per_s, config.reset_burst),
            events: VecDeque::new(),
            fast_open: None,
            rates: None,
            memory: Memory::new(config.buffers),
            receive_buffer_most: usize::MAX,
            holes: VecDeque::new(),
            ports: Ports::default(),
            ended: None,
            counters: Counters::new(),
            config,
        }
    }

    /// Returns the settings in effect.
    #[must_use]
    pub const fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Returns the counters of all connections and listeners since the endpoint was created.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of connections, without half-open ones and those that [wait](Self::waiting). A
    /// connection that is over counts until its user closes it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns whether [`len`](Self::len) is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the number of connections in TIME-WAIT.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.time_wait.len()
    }

    /// Returns the connection `id`; `None` if it is gone.
    #[must_use]
    pub fn connection(&self, id: Id) -> Option<&Connection> {
        self.connections.get(id).map(|entry| &entry.connection)
    }

    /// Returns the addresses and ports of a connection.
    #[must_use]
    pub fn tuple(&self, id: Id) -> Option<&FourTuple> {
        self.connections.tuple(id)
    }

    /// Returns the owner of a segment between these two ends, for early demultiplexing. `opens` says that
    /// it opens a connection (SYN without ACK). Such a segment belongs to no connection in TIME-WAIT,
    /// because it may open another (RFC 6191).
    #[must_use]
    pub fn whose(&self, tuple: &FourTuple, opens: bool) -> Match {
        let hash = self.connections.hash(tuple);
        match self.connections.find_hashed(hash, tuple) {
            Some(id) => Match::Connection(id),
            None if !opens && self.time_wait.find_hashed(hash, tuple).is_some() => Match::TimeWait,
            None => Match::None,
        }
    }

    /// Returns the connection between these two ends.
    #[must_use]
    pub fn find(&self, tuple: &FourTuple) -> Option<Id> {
        self.connections.find(tuple)
    }

    /// Makes [`Endpoint::poll_ended`] report connections that are over from now on.
    pub fn report_ends(&mut self) {
        self.ended.get_or_insert_default();
    }

    /// Limits the receive buffers of new connections to `most_bytes`, whatever their options are; options
    /// set later are limited, too.
    pub fn limit_receive_buffers(&mut self, most_bytes: usize) {
        self.receive_buffer_most = self.receive_buffer_most.min(most_bytes);
        self.config.connection = self.bounded(&self.config.connection);
    }

    /// Returns `options` with the limit on receive buffers applied.
    pub(super) fn bounded(&self, options: &Arc<Config>) -> Arc<Config> {
        let most = self.receive_buffer_most;
        let mut options = Arc::clone(options);
        if options.receive_buffer_max.max(options.receive_buffer_initial) > most {
            let limited = Arc::make_mut(&mut options);
            limited.receive_buffer_max = limited.receive_buffer_max.min(most);
            limited.receive_buffer_initial = limited.receive_buffer_initial.min(most);
        }
        options
    }

    /// Returns a connection to which no segment belongs any more: it is over, or in TIME-WAIT. Each is
    /// reported once, if [`Endpoint::report_ends`] was called.
    pub fn poll_ended(&mut self) -> Option<(Id, FourTuple)> {
        self.ended.as_mut()?.pop_front()
    }

    /// Returns whether a connection waits to be accepted.
    #[must_use]
    pub fn is_acceptable(&self, at: &ListenAt) -> bool {
        self.listeners.get(at).is_some_and(|listener| listener.accept_queue_len() > 0)
    }

    /// Returns whether the listener's accept queue has room. If not, the caller should give it no more
    /// SYNs (Druschel and Banga, OSDI 1996, 3.4).
    #[must_use]
    pub fn accepts(&self, at: &ListenAt) -> bool {
        self.listeners.get(at).is_some_and(Listener::accepts)
    }

    /// Returns the listener for a local address and port: that of the address, else that of all addresses.
    pub fn listener_for(&self, local: &IpEndpoint) -> Option<ListenAt> {
        self.listening(local).map(|(at, _)| at)
    }

    pub(super) fn listening(&self, local: &IpEndpoint) -> Option<(ListenAt, ListenerId)> {
        let at = |address| ListenAt { address, port: local.port };
        [at(Some(local.addr)), at(None)].into_iter().find_map(|at| Some((at, self.listeners.find(&at)?)))
    }

    pub(super) fn open(&self, tuple: &FourTuple, mss: u16, iss: SeqNumber) -> Open {
        Open {
            local_port: tuple.local.port,
            remote_port: tuple.remote.port,
            ipv6: matches!(tuple.remote.addr, IpAddress::Ipv6(_)),
            mss,
            iss,
            // The offset is that of answers by listeners and TIME-WAIT in place of the connection.
            timestamp_offset: self.numbers.timestamp_offset(tuple),
        }
    }

    /// Updates all records of a connection after something has happened to it. Queues it to send, and
    /// notifies the user if it is ready for more than before.
    pub(super) fn touch(&mut self, id: Id) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        if !core::mem::replace(&mut entry.queued, true) {
            self.to_send.push_back(id);
        }
        self.counters.count_all(entry.connection.take_tally());
        entry.account(id, &mut self.memory, &mut self.counters);
        if entry.connection.has_holes() && !core::mem::replace(&mut entry.has_holes, true) {
            self.holes.push_back(id);
        }
        let state = entry.connection.state();
        let established = matches!(state, State::Established | State::CloseWait);
        match (core::mem::replace(&mut entry.established, established), established) {
            (false, true) => self.counters.count(Counter::CurrEstab),
            (true, false) => self.counters.lower(Counter::CurrEstab),
            _ => {}
        }
        let ready = Readiness::of(&entry.connection);
        let news = ready.has_more_than(entry.notified);
        entry.notified = ready;
        if news && entry.holder == Holder::User && !core::mem::replace(&mut entry.in_events, true) {
            self.events.push_back(EndpointEvent::Connection(id, ready));
        }
        if !self.holes.is_empty() {
            self.mind_holes();
        }
        if state == State::Closed {
            self.unhash(id);
        }
    }

    /// Updates the records of a connection after the user has only read or written. It does less than
    /// [`Endpoint::touch`]: there is less to read, or less room to write, of which the user need not be
    /// notified, and the state is unchanged. But if there was no room before, there may be some now.
    pub(super) fn touch_moved(&mut self, id: Id) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        if !entry.notified.writable {
            return self.touch(id);
        }
        if entry.connection.may_transmit() && !core::mem::replace(&mut entry.queued, true) {
            self.to_send.push_back(id);
        }
        entry.account(id, &mut self.memory, &mut self.counters);
        entry.notified.readable = entry.notified.readable && entry.connection.is_readable();
        entry.notified.writable = entry.connection.is_writable();
        if !self.holes.is_empty() {
            self.mind_holes();
        }
    }

    /// Removes a connection that is over from the lookup by addresses and ports. Later segments between
    /// its ends belong to TIME-WAIT, to a listener or to no one (RFC 9293, 3.10.7.1): a program that keeps
    /// a dead connection open must not keep its peer from a new one (3.5.1). Its `id` stays valid for
    /// reads and queries.
    pub(super) fn unhash(&mut self, id: Id) {
        if !self.connections.unhash(id) {
            return;
        }
        self.ports.gone += 1;
        if self.connections.get(id).is_some_and(|entry| entry.connection.measures()) {
            self.remember_rate(id);
        }
        if let (Some(ended), Some(&tuple)) = (&mut self.ended, self.connections.tuple(id)) {
            ended.push_back((id, tuple));
        }
        if let Some(entry) = self.connections.get_mut(id)
            && entry.holder == Holder::Listener
        {
            entry.holder = Holder::Nobody;
            let from = entry.from;
            self.withdraw(from);
        }
    }
}

impl<R> fmt::Debug for Endpoint<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.connections.len())
            .field("time_wait", &self.time_wait.len())
            .field("listeners", &self.listeners.iter().collect::<Vec<_>>())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
