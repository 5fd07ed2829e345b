//! What an endpoint owns.

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

/// Answers that wait to be sent on behalf of no connection. What comes in excess is not answered: whoever
/// sends that much can wait.
pub(super) const ANSWERS_MAX: usize = 1_024;

/// The [`ReplyLimit`] of resets, among others with the same secret.
const RESETS: u64 = 1;

/// TCP of a host, sans-IO.
///
/// Give it packets ([`Endpoint::input`]), the user's calls and passing time ([`Endpoint::advance`]); after
/// each of these take what there is to send ([`Endpoint::poll_transmit`]) and to tell
/// ([`Endpoint::poll_event`]), each until it gives nothing, then ask for the next deadline
/// ([`Endpoint::next_deadline`]). Time never goes back.
///
/// `R` is what its user knows of a route ([`Routes::Route`](super::Routes::Route)). Each connection keeps
/// that of its own.
pub struct Endpoint<R = ()> {
    pub(super) config: EndpointConfig,
    pub(super) secret: Secret,
    pub(super) numbers: InitialSequence,
    pub(super) connections: Table<Entry<R>>,
    /// By place in `connections`: all that passes with time but pacing.
    pub(super) wheel: Wheel,
    /// The same: when the next segment may leave of those that pace. That wants to be exact.
    pub(super) paced: Wheel,
    pub(super) time_wait: TimeWait,
    pub(super) listeners: Listeners,
    /// Connections that may have something to send, each once; but those in `tx_blocked`.
    pub(super) to_send: VecDeque<Id>,
    pub(super) tx_blocked: TxBlocked,
    /// Interfaces that have no room now.
    pub(super) full: EgressSet,
    pub(super) answers: VecDeque<Answer>,
    /// How many of them may be resets.
    pub(super) resets: ReplyLimit,
    /// What the user is to be notified of; each connection once.
    pub(super) events: VecDeque<EndpointEvent>,
    pub(super) fast_open: Option<FastOpenCache>,
    /// Made when there is something to remember.
    pub(super) rates: Option<RateCache>,
    pub(super) memory: Memory,
    /// Bytes that may wait to be read, of each connection.
    pub(super) receive_buffer_most: usize,
    /// Connections that something came to out of order, in the order in which it did; each once.
    pub(super) holes: VecDeque<Id>,
    pub(super) ports: Ports,
    /// Connections that are over, if somebody wants to hear of them.
    pub(super) ended: Option<VecDeque<(Id, FourTuple)>>,
    pub(super) counters: Counters,
}

/// What a segment matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// A connection's.
    Connection(Id),
    /// A connection's in TIME-WAIT.
    TimeWait,
    /// No connection's: a listener's, if anybody's.
    None,
}

/// What a listener, TIME-WAIT or nobody answers.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) tuple: FourTuple,
    pub(super) header: Header,
    /// It was sent before.
    pub(super) again: bool,
}

#[derive(Debug)]
pub(super) struct Entry<R> {
    pub(super) connection: Connection,
    pub(super) holder: Holder,
    /// The one that its segments take.
    pub(super) route: RouteHandle<R>,
    /// It is in `to_send` or in `tx_blocked`.
    pub(super) queued: bool,
    /// It is in `events`.
    pub(super) in_events: bool,
    /// What the user was notified of, and still holds.
    pub(super) notified: Readiness,
    /// Bytes of memory that are accounted to it: fewer than there are sequence numbers.
    pub(super) held: u32,
    /// It is in `holes`.
    pub(super) has_holes: bool,
    /// It is counted in [`Counter::CurrEstab`].
    pub(super) established: bool,
    /// The Differentiated Services codepoint of what it sends.
    pub(super) dscp: u8,
    /// Whose handshake made it.
    pub(super) from: Option<ListenerId>,
    /// Its listener waits to hear that the handshake is over (RFC 7413, 5.1).
    pub(super) early: bool,
}

/// Who has a connection open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody yet: it waits to be accepted.
    Listener,
    User,
    /// Nobody any more.
    Nobody,
}

impl<R: Copy> Entry<R> {
    /// A connection of which nobody has been told anything, and that nothing has happened to.
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
    /// An endpoint without connections. Sequence numbers, timestamps and hashes come from `secret`, which
    /// nobody must know.
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

    /// The settings in effect.
    #[must_use]
    pub const fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// What was counted up to now.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many connections there are, half-open ones and those that [wait](Self::waiting) aside. One that is
    /// over is there until its user closes it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// How many connections are in TIME-WAIT.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.time_wait.len()
    }

    /// A connection.
    #[must_use]
    pub fn connection(&self, id: Id) -> Option<&Connection> {
        self.connections.get(id).map(|entry| &entry.connection)
    }

    /// Between whom it is.
    #[must_use]
    pub fn tuple(&self, id: Id) -> Option<&FourTuple> {
        self.connections.tuple(id)
    }

    /// Whose a segment between these two ends is, and whether it opens a connection (SYN without ACK): for
    /// early demultiplexing. One that does is for no connection in TIME-WAIT, because it may open another
    /// (RFC 6191).
    #[must_use]
    pub fn whose(&self, tuple: &FourTuple, opens: bool) -> Match {
        let hash = self.connections.hash(tuple);
        match self.connections.find_hashed(hash, tuple) {
            Some(id) => Match::Connection(id),
            None if !opens && self.time_wait.find_hashed(hash, tuple).is_some() => Match::TimeWait,
            None => Match::None,
        }
    }

    /// The connection between these two ends.
    #[must_use]
    pub fn find(&self, tuple: &FourTuple) -> Option<Id> {
        self.connections.find(tuple)
    }

    /// From now on [`Endpoint::poll_ended`] says which connections are over.
    pub fn report_ends(&mut self) {
        self.ended.get_or_insert_default();
    }

    /// From now on no new connection lets more than `most_bytes` wait to be read, whatever its options are,
    /// and none can be told to.
    pub fn limit_receive_buffers(&mut self, most_bytes: usize) {
        self.receive_buffer_most = self.receive_buffer_most.min(most_bytes);
        self.config.connection = self.bounded(&self.config.connection);
    }

    /// Options with that limit.
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

    /// A connection to which no segment belongs any more: it is over, or in TIME-WAIT.
    pub fn poll_ended(&mut self) -> Option<(Id, FourTuple)> {
        self.ended.as_mut()?.pop_front()
    }

    /// Whether a connection waits to be accepted.
    #[must_use]
    pub fn is_acceptable(&self, at: &ListenAt) -> bool {
        self.listeners.get(at).is_some_and(|listener| listener.accept_queue_len() > 0)
    }

    /// Whether the listener's accept queue has room. If not, no more SYNs should be given to it (Druschel and
    /// Banga, OSDI 1996, 3.4).
    #[must_use]
    pub fn accepts(&self, at: &ListenAt) -> bool {
        self.listeners.get(at).is_some_and(Listener::accepts)
    }

    /// The listener for this end: of the address, else of all.
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
            // Our clock, as it is for whoever answers in place of the connection.
            timestamp_offset: self.numbers.timestamp_offset(tuple),
        }
    }

    /// Something has happened to a connection: what is kept about it is brought up to date. It may have
    /// something to send, and the user something to hear.
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

    /// The same where the user has only read or written: there is less for him to read, or less room to
    /// write, of which he need not hear, and no other state. But if there was no room, there may be some by
    /// now.
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

    /// A connection is over. Segments that come between its two ends are no longer its, but TIME-WAIT's, a
    /// listener's or nobody's (RFC 9293, 3.10.7.1): a program that keeps a dead connection open must not keep
    /// its peer from a new one (3.5.1). It has its name still, for what it may want to read or ask.
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
