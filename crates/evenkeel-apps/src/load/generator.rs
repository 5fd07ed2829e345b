//! The generator, which decides when each connection is opened, used, kept and closed.
//!
//! As with the S-Client of Banga and Druschel (*Measuring the Capacity of a Web Server*, 1997), the start
//! of requests does not wait for the handling of answers. A connection that is not established within a
//! bounded time is given up. So the offered rate does not fall when the server is saturated.
//!
//! The generator first chooses among the server's addresses. The first connection that is established is also
//! the first one for requests. If none is established, the run ends before it begins.

use std::collections::VecDeque;

use evenkeel::raw::time::{Duration, Instant, Timer, Timers};

use super::account::{Account, Failure, Job};
use super::agenda::Agenda;
use super::arrivals::{Arrivals, Spacing};
use super::cold::Cold;
use super::crew::{Chosen, Part};
use super::curve::Curve;
use super::finding::Finding;
use super::glance::Glance;
use super::plan::Plan;
use super::report::{ConnectionCounts, Measured};
use super::request::Request;
use super::transport::{Close, Id, Transport};
use crate::dice::Dice;
use crate::http::{Answered, ResponseReader, Unfinished};

/// The maximum number of requests begun in one turn. Between turns, events are handled and the clock is
/// read.
const BATCH: usize = 4;
/// The maximum number of reads from one connection in a turn.
const READS: usize = 16;
/// The maximum number of bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// The time that a server may take to close a connection after its last answer. If the generator closed the
/// connection instead, its port would stay in TIME-WAIT.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A generator that makes requests as planned, sans-IO.
///
/// The caller calls [`Generator::turn`] when [`Generator::deadline`] has come and after events, and
/// [`Generator::handle`] for each connection with an event, until the generator [is
/// over](Generator::is_over). Then it calls [`Generator::finish`].
#[derive(Debug)]
pub struct Generator {
    agenda: Agenda,
    request: Request,
    phase: Phase,
    finding: Finding,
    chosen: Chosen,
    cold_arrivals: Arrivals,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    timers: Timers<u32>,
    /// The places of idle connections. The one used last is used first.
    idle: Vec<u32>,
    /// The connections that had more to read than one turn allows.
    more: VecDeque<Id>,
    /// The number of connections for requests, without those that are being closed.
    hot: usize,
    closing: usize,
    /// The number of requests that have a connection.
    in_flight: usize,
    cold: Cold,
    dice: Dice,
    connections: ConnectionCounts,
    buffer: Box<[u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The generator looks for an address of the server to which it can connect.
    Finding,
    /// The generator opens cold connections.
    Gathering,
    Running,
    /// No request is due any more. Those under way come to their end.
    Draining,
    Over,
}

/// A place for a connection.
#[derive(Debug)]
struct Slot {
    generation: u32,
    timer: Timer,
    cold: bool,
    /// The number of requests sent on this connection.
    asked: u64,
    /// The connection's index in the list of idle ones.
    rank: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Vacant,
    /// The handshake with the server's address of this index is under way, to see whether it can be used.
    Trying(usize),
    /// The handshake is under way. A cold connection has no request.
    Opening {
        job: Option<Job>,
        since: Instant,
    },
    Idle,
    /// A request is being sent, or its answer is awaited.
    Busy(Busy),
    /// The server is expected to close the connection.
    Closing,
}

#[derive(Debug)]
struct Busy {
    job: Option<Job>,
    since: Instant,
    sent: usize,
    last: bool,
    reader: ResponseReader,
}

impl Part for Generator {
    fn glance(&self, now: Instant) -> Glance {
        self.glance(now)
    }

    fn so_far(&self, now: Instant) -> Measured {
        self.so_far(now)
    }
}

impl Generator {
    /// Creates a generator for a server with one address. It has done nothing yet.
    #[must_use]
    pub fn new(plan: Plan, request: Request) -> Self {
        let whole = plan.warm_up.saturating_add(plan.length);
        let most = plan.connections;
        let cold_seed = plan.seed.wrapping_add(1);
        let cold_arrivals = Arrivals::new(Curve::flat(plan.cold_rate, whole), Spacing::Poisson, cold_seed);
        let cold_arrivals = cold_arrivals.share(plan.share);
        Self {
            request,
            phase: Phase::Finding,
            finding: Finding::new(1),
            chosen: Chosen::default(),
            cold_arrivals,
            slots: Vec::new(),
            vacant: Vec::new(),
            timers: Timers::new(),
            idle: Vec::new(),
            more: VecDeque::new(),
            hot: 0,
            closing: 0,
            in_flight: 0,
            cold: Cold::new(plan.cold),
            dice: Dice::new(plan.seed.wrapping_add(2 + plan.share.index as u64)),
            connections: ConnectionCounts { limit: plan.connections, ..ConnectionCounts::default() },
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            agenda: Agenda::new(plan, most),
        }
    }

    /// Sets the number of the server's addresses. All connections go to the first one to which a connection
    /// is established.
    #[must_use]
    pub fn with_addresses(self, addresses: usize) -> Self {
        Self { finding: Finding::new(addresses), ..self }
    }

    /// Makes the generator choose the server's address together with the other threads of the run.
    #[must_use]
    pub(super) fn with_others(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    /// Returns whether the generator has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns whether the time of the plan has begun.
    pub(super) fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Finding | Phase::Gathering)
    }

    /// Returns a snapshot of the generator at `now`.
    #[must_use]
    pub fn glance(&self, now: Instant) -> Glance {
        Glance {
            finding: self.phase == Phase::Finding,
            gathering: self.phase == Phase::Gathering,
            measured: self.agenda.account.measured(now),
            length: self.agenda.plan.length,
            counts: self.agenda.account.totals,
            in_flight: self.in_flight,
            waiting: self.agenda.waiting.len(),
            cold: self.cold.open(),
        }
    }

    /// Returns the time at which the next turn is due. It is in the past if the turn is due at once.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        if self.phase == Phase::Finding {
            return self.timers.next_deadline().min(self.finding.next());
        }
        let next = self.timers.next_deadline().min(self.cold.next());
        let could_go_on = self.could_serve() || !self.more.is_empty();
        if could_go_on || self.phase == Phase::Gathering && self.cold.is_gathered() {
            return Instant::ZERO;
        }
        let due = if self.phase == Phase::Running {
            self.agenda.next_due(self.in_flight).min(self.agenda.at(&self.cold_arrivals))
        } else {
            Instant::NEVER
        };
        next.min(self.agenda.patience()).min(due)
    }

    /// Does everything that is due at `now`.
    pub fn turn(&mut self, now: Instant, transport: &mut impl Transport) {
        self.agenda.account.advance(now);
        while let Some(place) = self.timers.poll_expired(now) {
            self.expire(place, now, transport);
        }
        if self.phase == Phase::Finding {
            return self.find(now, transport);
        }
        for _ in 0..self.more.len() {
            if let Some(id) = self.more.pop_front() {
                self.handle(now, id, transport);
            }
        }
        self.agenda.give_up_waiting(now);
        self.serve_waiting(now, transport);
        for _ in 0..BATCH {
            if self.cold.take(now) {
                self.open(None, now, transport);
            }
        }
        if self.phase == Phase::Gathering && self.cold.is_gathered() {
            self.begin(now);
        }
        if self.phase == Phase::Running {
            self.ask_cold(now, transport);
            self.arrive(now, transport);
            if self.agenda.is_all_due(now) {
                self.phase = Phase::Draining;
            }
        }
        if self.phase == Phase::Draining && self.in_flight == 0 && self.agenda.waiting.is_empty() {
            self.phase = Phase::Over;
        }
    }

    /// Tries addresses of the server, as far as attempts are due.
    fn find(&mut self, now: Instant, transport: &mut impl Transport) {
        while let Some(address) = self.finding.take(now) {
            let place = self.vacancy(false);
            if let Err(fault) = transport.connect(self.id(place), address) {
                self.vacant.push(place);
                self.finding.failed(address, fault.failure(false));
                continue;
            }
            self.slot_mut(place).state = State::Trying(address);
            self.set_timer(place, now + self.agenda.plan.connect_timeout.min(self.agenda.plan.timeout));
        }
        if self.finding.is_hopeless() {
            self.phase = Phase::Over;
        }
    }

    /// Chooses the address to which a connection is established, and resets the attempts at others. If
    /// another thread has chosen another address, this connection is an attempt at the wrong one.
    fn found(&mut self, id: Id, address: usize, now: Instant, transport: &mut impl Transport) {
        let chosen = self.chosen.or_this(address);
        self.finding.found = Some(chosen);
        let keeps = chosen == address;
        for place in 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX) {
            if !(keeps && place == id.place) && matches!(self.slot(place).state, State::Trying(_)) {
                self.vacate(place, Close::Reset, transport);
            }
        }
        self.phase = Phase::Gathering;
        if !keeps {
            return;
        }
        self.hot = 1;
        (self.connections.opened, self.connections.most) = (1, 1);
        self.rest(id.place);
        self.hear_end(id, now, transport);
    }

    /// Starts the time of the plan.
    fn begin(&mut self, now: Instant) {
        self.phase = Phase::Running;
        self.cold.counts.at_start = self.cold.open();
        self.agenda.begin(now);
    }

    /// Ends the run before its time.
    pub fn stop(&mut self, now: Instant) {
        self.agenda.account.advance(now);
        self.phase = Phase::Over;
    }

    /// Closes all connections, and returns the results. Requests without an answer count as unfinished.
    pub fn finish(&mut self, now: Instant, transport: &mut impl Transport) -> Measured {
        self.cold.counts.at_end = self.cold.open();
        let places = 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        for place in places {
            if let State::Opening { job: Some(job), .. } | State::Busy(Busy { job: Some(job), .. }) =
                self.slot(place).state
            {
                self.agenda.account.failed(&job, Failure::Unfinished, now);
            }
            if !matches!(self.slot(place).state, State::Vacant) {
                transport.close(self.id(place), Close::Reset);
            }
        }
        self.agenda.give_up_all(now);
        let account = core::mem::take(&mut self.agenda.account);
        self.measured(now, account)
    }

    /// Returns the results so far. The generator goes on.
    #[must_use]
    pub fn so_far(&self, now: Instant) -> Measured {
        self.measured(now, self.agenda.account.clone())
    }

    fn measured(&self, now: Instant, account: Account) -> Measured {
        Measured {
            connections: self.connections,
            cold: (self.agenda.plan.cold > 0).then_some(self.cold.counts),
            address: self.finding.found,
            unreached: self.finding.unreached.clone(),
            ..self.agenda.measured(now, account, self.is_over())
        }
    }

    // --- What is due ---

    /// Begins the requests that are due, or queues them.
    fn arrive(&mut self, now: Instant, transport: &mut impl Transport) {
        for _ in 0..BATCH {
            let Some(job) = self.agenda.take_due(now, self.in_flight) else { return };
            if !self.agenda.waiting.is_empty() || !self.serve(job, now, transport) {
                self.agenda.waits(job);
            }
        }
    }

    fn ask_cold(&mut self, now: Instant, transport: &mut impl Transport) {
        for _ in 0..BATCH {
            if self.agenda.at(&self.cold_arrivals) > now {
                return;
            }
            self.cold_arrivals.advance();
            if self.cold.idle.is_empty() {
                self.cold.counts.missed += 1;
                continue;
            }
            let place = self.cold.idle[self.dice.below(self.cold.idle.len())];
            self.take_idle(place);
            self.cold.busy += 1;
            self.cold.counts.requests += 1;
            self.ask(place, None, now, transport);
        }
    }

    /// Assigns a connection to a request. Returns false if no connection is free now.
    fn serve(&mut self, job: Job, now: Instant, transport: &mut impl Transport) -> bool {
        if let Some(&place) = self.idle.last() {
            self.take_idle(place);
            self.agenda.account.offered(&job);
            self.in_flight += 1;
            self.ask(place, Some(job), now, transport);
        } else if self.hot < self.agenda.plan.connections {
            self.open(Some(job), now, transport);
        } else {
            return false;
        }
        true
    }

    fn could_serve(&self) -> bool {
        !self.agenda.waiting.is_empty() && (!self.idle.is_empty() || self.hot < self.agenda.plan.connections)
    }

    fn serve_waiting(&mut self, now: Instant, transport: &mut impl Transport) {
        for _ in 0..BATCH {
            let Some(&job) = self.agenda.waiting.front() else { return };
            if !self.could_serve() {
                return;
            }
            self.agenda.waiting.pop_front();
            self.serve(job, now, transport);
        }
    }

    /// Handles the end of a connection's time limit.
    fn expire(&mut self, place: u32, now: Instant, transport: &mut impl Transport) {
        let failure = match self.slot(place).state {
            State::Opening { .. } | State::Trying(_) => Failure::ConnectTimeout,
            State::Busy(_) => Failure::Timeout,
            State::Closing => return self.drop(place, Close::Reset, now, transport),
            State::Vacant | State::Idle => return,
        };
        self.fail(place, failure, now, transport);
    }

    // --- What happens on a connection ---

    /// Handles an event on a connection.
    pub fn handle(&mut self, now: Instant, id: Id, transport: &mut impl Transport) {
        self.agenda.account.advance(now);
        let current = self.slots.get(id.place as usize).filter(|slot| slot.generation == id.generation);
        let Some(slot) = current else { return };
        match slot.state {
            State::Trying(address) => match transport.is_open(id) {
                Ok(true) => self.found(id, address, now, transport),
                Ok(false) => {}
                Err(fault) => self.fail(id.place, fault.failure(false), now, transport),
            },
            State::Opening { .. } => match transport.is_open(id) {
                Ok(true) => self.established(id, now, transport),
                Ok(false) => {}
                Err(fault) => self.fail(id.place, fault.failure(false), now, transport),
            },
            State::Busy(_) => {
                self.write(id.place, now, transport);
                self.read(id, now, transport);
            }
            State::Idle => {
                // An idle server has nothing to send but the end of the connection.
                if !matches!(transport.read(id, &mut self.buffer), Ok(None)) {
                    self.connections.closed_idle += u64::from(!self.slot(id.place).cold);
                    self.drop(id.place, Close::Reset, now, transport);
                }
            }
            State::Closing => {
                for _ in 0..READS {
                    match transport.read(id, &mut self.buffer) {
                        Ok(None) => return,
                        Ok(Some(0)) | Err(_) => {
                            return self.drop(id.place, Close::Ordinary, now, transport);
                        }
                        Ok(Some(_)) => {}
                    }
                }
                self.drop(id.place, Close::Reset, now, transport);
            }
            State::Vacant => {}
        }
    }

    /// Begins to open a connection for a request, or a cold one.
    fn open(&mut self, job: Option<Job>, now: Instant, transport: &mut impl Transport) {
        let place = self.vacancy(job.is_none());
        if let Err(fault) = transport.connect(self.id(place), self.finding.found.unwrap_or(0)) {
            self.vacant.push(place);
            return match job {
                Some(job) => self.agenda.lose(&job, fault.failure(false), now),
                None => self.cold.failed(now),
            };
        }
        self.slot_mut(place).state = State::Opening { job, since: now };
        if let Some(job) = job {
            self.agenda.account.offered(&job);
            self.in_flight += 1;
            self.hot += 1;
            self.connections.opened += 1;
            self.connections.most = self.connections.most.max(self.hot);
        }
        self.set_timer(place, now + self.agenda.plan.connect_timeout.min(self.agenda.plan.timeout));
    }

    fn established(&mut self, id: Id, now: Instant, transport: &mut impl Transport) {
        let State::Opening { job, since } = self.slot(id.place).state else { return };
        if let Some(job) = job {
            if job.counts {
                self.agenda.account.connect.record(now.since(since));
            }
            self.ask(id.place, Some(job), now, transport);
        } else {
            self.cold.established();
            self.rest(id.place);
        }
        self.hear_end(id, now, transport);
    }

    /// Handles the end of a connection that was closed as it was established, because no other event
    /// reports it.
    fn hear_end(&mut self, id: Id, now: Instant, transport: &mut impl Transport) {
        let waits = matches!(self.slot(id.place).state, State::Busy(_) | State::Idle);
        if waits && self.id(id.place) == id && transport.has_ended(id) {
            self.handle(now, id, transport);
        }
    }

    /// Sends a request on a connection that is open.
    fn ask(&mut self, place: u32, job: Option<Job>, now: Instant, transport: &mut impl Transport) {
        self.set_timer(place, now + self.agenda.plan.timeout);
        let reader = ResponseReader::new(self.request.is_head);
        let most = self.agenda.plan.requests_per_connection.filter(|_| job.is_some());
        let slot = self.slot_mut(place);
        slot.asked += 1;
        let last = most.is_some_and(|most| slot.asked >= most);
        slot.state = State::Busy(Busy { job, since: now, sent: 0, last, reader });
        self.write(place, now, transport);
    }

    fn write(&mut self, place: u32, now: Instant, transport: &mut impl Transport) {
        let id = self.id(place);
        while let State::Busy(busy) = &mut self.slots[place as usize].state {
            let rest = self.request.bytes(busy.last).get(busy.sent..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
            match transport.write(id, rest) {
                Ok(0) => return,
                Ok(sent) => {
                    busy.sent += sent;
                    self.agenda.account.bytes_out += sent as u64;
                }
                Err(fault) => return self.fail(place, fault.failure(true), now, transport),
            }
        }
    }

    fn read(&mut self, id: Id, now: Instant, transport: &mut impl Transport) {
        for _ in 0..READS {
            if self.id(id.place) != id {
                return;
            }
            let State::Busy(busy) = &mut self.slots[id.place as usize].state else { return };
            let heard = match transport.read(id, &mut self.buffer) {
                Ok(None) => return,
                Ok(Some(0)) => match busy.reader.end() {
                    Ok(answered) => Ok((answered, true)),
                    Err(Unfinished::Short) => Err(Failure::Short),
                    Err(Unfinished::Malformed) => Err(Failure::Malformed),
                },
                Ok(Some(len)) => {
                    self.agenda.account.bytes_in += len as u64;
                    let bytes = self.buffer.get(..len).unwrap_or_default();
                    match busy.reader.receive(bytes) {
                        Ok(None) => continue,
                        Ok(Some(answered)) => Ok((answered, false)),
                        Err(_) => Err(Failure::Malformed),
                    }
                }
                Err(fault) => Err(fault.failure(true)),
            };
            return match heard {
                Ok((answered, ended)) => self.complete(id, answered, ended, now, transport),
                Err(failure) => self.fail(id.place, failure, now, transport),
            };
        }
        self.more.push_back(id);
    }

    /// Handles a complete answer, and keeps or closes its connection.
    fn complete(
        &mut self,
        id: Id,
        answered: Answered,
        ended: bool,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let slot = self.slot_mut(id.place);
        let State::Busy(busy) = core::mem::replace(&mut slot.state, State::Idle) else { return };
        let all_sent = busy.sent == self.request.bytes(busy.last).len();
        match busy.job {
            Some(job) => {
                self.agenda.account.answered(&job, answered.status, busy.since, now);
                self.in_flight -= 1;
            }
            None => {
                self.cold.counts.answered += 1;
                self.cold.busy -= 1;
            }
        }
        let ended = ended || transport.has_ended(id);
        if answered.keep && all_sent && !busy.last && !ended {
            return self.rest(id.place);
        }
        // From now on the connection counts as one that is being closed.
        self.leave(id.place, now);
        self.slot_mut(id.place).state = State::Closing;
        self.closing += 1;
        if ended {
            self.drop(id.place, Close::Ordinary, now, transport);
        } else if !all_sent || self.closing > self.agenda.plan.connections {
            self.drop(id.place, Close::Reset, now, transport);
        } else {
            self.set_timer(id.place, now + CLOSE_WITHIN);
        }
    }

    /// Handles the failure of a connection, and of its request if it has one.
    fn fail(&mut self, place: u32, failure: Failure, now: Instant, transport: &mut impl Transport) {
        let asked = self.slot(place).asked;
        match core::mem::replace(&mut self.slot_mut(place).state, State::Idle) {
            State::Opening { job: Some(job), .. } => {
                self.in_flight -= 1;
                self.agenda.lose(&job, failure, now);
                self.leave(place, now);
            }
            State::Opening { job: None, .. } => self.cold.failed(now),
            State::Trying(address) => self.finding.failed(address, failure),
            State::Busy(Busy { job: Some(job), reader, .. }) => {
                self.in_flight -= 1;
                // The server closed a kept connection just as it was to be used again: RFC 9112, 9.3.1.
                let stale = asked > 1 && !reader.has_begun() && !job.again && self.request.idempotent;
                if stale && matches!(failure, Failure::Short | Failure::Reset) {
                    self.agenda.account.repeated += u64::from(job.counts);
                    self.agenda.waiting.push_front(Job { again: true, ..job });
                } else {
                    self.agenda.lose(&job, failure, now);
                }
                self.leave(place, now);
            }
            State::Busy(Busy { job: None, .. }) => {
                self.cold.busy -= 1;
                self.leave(place, now);
            }
            State::Vacant | State::Idle | State::Closing => {}
        }
        self.vacate(place, Close::Reset, transport);
    }

    // --- Places ---

    /// Closes a connection that is idle or being closed.
    fn drop(&mut self, place: u32, how: Close, now: Instant, transport: &mut impl Transport) {
        match self.slot(place).state {
            State::Idle => {
                self.take_idle(place);
                self.leave(place, now);
            }
            State::Closing => self.closing -= 1,
            _ => {}
        }
        self.vacate(place, how, transport);
    }

    /// Removes a connection from the number of open ones of its kind.
    fn leave(&mut self, place: u32, now: Instant) {
        if self.slot(place).cold {
            self.cold.lost(now);
        } else {
            self.hot -= 1;
        }
    }

    /// Makes a connection idle: it waits for its next request.
    fn rest(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        slot.state = State::Idle;
        self.timers.cancel(&slot.timer);
        let idle = if slot.cold { &mut self.cold.idle } else { &mut self.idle };
        slot.rank = idle.len();
        idle.push(place);
    }

    /// Removes a connection from the list of idle ones.
    fn take_idle(&mut self, place: u32) {
        let Slot { cold, rank, .. } = self.slots[place as usize];
        let idle = if cold { &mut self.cold.idle } else { &mut self.idle };
        idle.swap_remove(rank);
        if let Some(&moved) = idle.get(rank) {
            self.slots[moved as usize].rank = rank;
        }
    }

    /// Returns a place for a new connection.
    fn vacancy(&mut self, cold: bool) -> u32 {
        let place = self.vacant.pop().unwrap_or_else(|| {
            let place = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            let timer = self.timers.register(place);
            self.slots.push(Slot { generation: 0, timer, cold, asked: 0, rank: 0, state: State::Vacant });
            place
        });
        let slot = self.slot_mut(place);
        slot.generation = slot.generation.wrapping_add(1);
        (slot.cold, slot.asked) = (cold, 0);
        place
    }

    fn vacate(&mut self, place: u32, how: Close, transport: &mut impl Transport) {
        transport.close(self.id(place), how);
        let slot = &mut self.slots[place as usize];
        slot.state = State::Vacant;
        self.timers.cancel(&slot.timer);
        self.vacant.push(place);
    }

    fn set_timer(&mut self, place: u32, deadline: Instant) {
        self.timers.set(&self.slots[place as usize].timer, deadline);
    }

    fn slot(&self, place: u32) -> &Slot {
        &self.slots[place as usize]
    }

    fn slot_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    fn id(&self, place: u32) -> Id {
        Id { place, generation: self.slot(place).generation }
    }
}
