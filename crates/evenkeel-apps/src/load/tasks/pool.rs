//! The connections of one thread and the requests on them, sans-IO.
//!
//! Unlike those of the [generator](super::super::Generator), a connection may have several requests at once.
//! A change of the pool returns orders, which the runtime's tasks carry out.

use evenkeel::raw::time::Instant;

use super::super::account::{Account, Failure, Job};
use super::super::agenda::Agenda;
use super::super::arrivals::{Arrivals, Spacing};
use super::super::cold::Cold;
use super::super::crew::{Chosen, Part};
use super::super::curve::Curve;
use super::super::finding::Finding;
use super::super::glance::Glance;
use super::super::plan::Plan;
use super::super::report::{ConnectionCounts, Measured, RefusedTls};
use super::super::transport::Id;
use super::counted::Bytes;
use super::fault::Failed;
use crate::dice::Dice;

/// The maximum number of requests begun in one turn. Between turns, other tasks run.
const BATCH: usize = 4;

/// The end of a connection to which requests are given.
pub(super) trait Line: Sized + Send {
    /// Returns an end for one request: a copy, or this one if the connection can have one request at a time.
    fn for_request(line: &mut Option<Self>) -> Option<Self>;

    /// Returns whether the connection takes no more requests.
    fn is_closed(&self) -> bool;
}

/// A thing to be done.
#[derive(Debug)]
pub(super) enum Order<L> {
    /// A connection is to be opened to the server's address of this index.
    Open { id: Id, address: usize },
    /// A request is to be sent. One on a cold connection has no job.
    Ask { id: Id, line: L, job: Option<Job>, last: bool },
}

/// The connections of one thread.
#[derive(Debug)]
pub(super) struct Pool<L> {
    agenda: Agenda,
    phase: Phase,
    finding: Finding,
    chosen: Chosen,
    /// The number of requests that a connection can have at a time.
    streams: usize,
    /// Whether sending the request twice does no harm.
    idempotent: bool,
    slots: Vec<Slot<L>>,
    vacant: Vec<u32>,
    /// The places of connections that can take a request. The one used last is used first.
    free: Vec<u32>,
    /// The places of connections that are being opened and can take a request.
    opening: Vec<u32>,
    /// The number of connections.
    hot: usize,
    /// The number of requests that have a connection.
    in_flight: usize,
    cold: Cold,
    cold_arrivals: Arrivals,
    dice: Dice,
    connections: ConnectionCounts,
    refused_tls: Option<RefusedTls>,
    pub(super) bytes: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// An address of the server is looked for to which a connection can be opened.
    Finding,
    /// Cold connections are being opened.
    Gathering,
    Running,
    /// No request is due any more. Those under way come to their end.
    Draining,
    Over,
}

/// A place for a connection.
#[derive(Debug)]
struct Slot<L> {
    generation: u32,
    state: State<L>,
}

#[derive(Debug)]
enum State<L> {
    Vacant,
    /// The server's address of this index is tried.
    Trying(usize),
    /// The connection is being opened for these requests.
    Opening {
        jobs: Vec<Job>,
        since: Instant,
    },
    Open(Open<L>),
    OpeningCold,
    /// A cold connection. Its line is gone while it has a request, if it can have one at a time.
    Cold(Option<L>),
}

#[derive(Debug)]
struct Open<L> {
    line: Option<L>,
    /// The number of requests given to the connection.
    asked: u64,
    /// The number of requests that have no answer yet.
    busy: usize,
    /// Whether the connection takes no more requests.
    retired: bool,
    /// Whether the connection is in the list of those that can take a request.
    listed: bool,
}

impl<L: Line> Pool<L> {
    /// Creates a pool without connections, for a server with a number of addresses.
    pub(super) fn new(
        plan: Plan,
        streams: usize,
        idempotent: bool,
        addresses: usize,
        chosen: Chosen,
    ) -> Self {
        let limit = plan.connections;
        let whole = plan.warm_up.saturating_add(plan.length);
        let seed = plan.seed.wrapping_add(1);
        let cold_arrivals = Arrivals::new(Curve::flat(plan.cold_rate, whole), Spacing::Poisson, seed);
        Self {
            cold: Cold::new(plan.cold),
            cold_arrivals: cold_arrivals.share(plan.share),
            dice: Dice::new(seed.wrapping_add(1 + plan.share.index as u64)),
            phase: Phase::Finding,
            finding: Finding::new(addresses),
            chosen,
            streams,
            idempotent,
            slots: Vec::new(),
            vacant: Vec::new(),
            free: Vec::new(),
            opening: Vec::new(),
            hot: 0,
            in_flight: 0,
            connections: ConnectionCounts { limit, ..ConnectionCounts::default() },
            refused_tls: None,
            bytes: Bytes::default(),
            agenda: Agenda::new(plan, limit.saturating_mul(streams)),
        }
    }

    /// Returns whether the run has ended.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns whether the time of the plan has begun.
    pub(super) fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Finding | Phase::Gathering)
    }

    /// Returns whether the end of a request may make a turn due before the deadline.
    pub(super) fn follows_answers(&self) -> bool {
        self.phase == Phase::Draining || self.agenda.is_closed_loop()
    }

    /// Returns the time at which the next turn is due. It is in the past if the turn is due at once.
    pub(super) fn deadline(&self) -> Instant {
        match self.phase {
            Phase::Finding => self.finding.next(),
            _ if self.could_serve() => Instant::ZERO,
            Phase::Gathering if self.cold.is_gathered() => Instant::ZERO,
            Phase::Running => {
                let due = self.agenda.next_due(self.in_flight).min(self.agenda.at(&self.cold_arrivals));
                due.min(self.agenda.patience()).min(self.cold.next())
            }
            _ => self.agenda.patience().min(self.cold.next()),
        }
    }

    /// Does everything that is due at `now`.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Order<L>> {
        let mut orders = Vec::new();
        self.agenda.account.advance(now);
        if self.phase == Phase::Finding {
            self.find(now, &mut orders);
            return orders;
        }
        self.agenda.give_up_waiting(now);
        self.serve_waiting(now, &mut orders);
        self.open_cold(now, &mut orders);
        if self.phase == Phase::Gathering && self.cold.is_gathered() {
            self.phase = Phase::Running;
            self.cold.counts.at_start = self.cold.open();
            self.agenda.begin(now);
        }
        if self.phase == Phase::Running {
            self.ask_cold(now, &mut orders);
            self.arrive(now, &mut orders);
            if self.agenda.is_all_due(now) {
                self.phase = Phase::Draining;
            }
        }
        if self.phase == Phase::Draining && self.in_flight == 0 && self.agenda.waiting.is_empty() {
            self.phase = Phase::Over;
        }
        orders
    }

    /// Ends the run before its time.
    pub(super) fn stop(&mut self, now: Instant) {
        self.agenda.account.advance(now);
        self.phase = Phase::Over;
    }

    /// Returns the results, when no task has a request any more.
    pub(super) fn finish(&mut self, now: Instant) -> Measured {
        self.cold.counts.at_end = self.cold.open();
        for slot in &mut self.slots {
            if let State::Opening { jobs, .. } = &mut slot.state {
                jobs.drain(..).for_each(|job| self.agenda.lose(&job, Failure::Unfinished, now));
            }
        }
        self.agenda.give_up_all(now);
        let account = std::mem::take(&mut self.agenda.account);
        self.measured(now, account)
    }

    fn measured(&self, now: Instant, account: Account) -> Measured {
        let mut measured = Measured {
            connections: self.connections,
            cold: (self.agenda.plan.cold > 0).then_some(self.cold.counts),
            address: self.finding.found,
            unreached: self.finding.unreached.clone(),
            refused_tls: self.refused_tls.clone(),
            ..self.agenda.measured(now, account, self.is_over())
        };
        (measured.account.bytes_in, measured.account.bytes_out) = self.bytes.read_and_written();
        measured
    }

    // --- What is due ---

    /// Tries addresses of the server, as far as attempts are due.
    fn find(&mut self, now: Instant, orders: &mut Vec<Order<L>>) {
        while let Some(address) = self.finding.take(now) {
            let id = self.occupy(State::Trying(address));
            orders.push(Order::Open { id, address });
        }
        if self.finding.is_hopeless() {
            self.phase = Phase::Over;
        }
    }

    /// Begins the requests that are due, or queues them.
    fn arrive(&mut self, now: Instant, orders: &mut Vec<Order<L>>) {
        for _ in 0..BATCH {
            let Some(job) = self.agenda.take_due(now, self.in_flight) else { return };
            if !self.agenda.waiting.is_empty() || !self.serve(job, now, orders) {
                self.agenda.waits(job);
            }
        }
    }

    fn open_cold(&mut self, now: Instant, orders: &mut Vec<Order<L>>) {
        for _ in 0..BATCH {
            if self.cold.take(now) {
                let id = self.occupy(State::OpeningCold);
                orders.push(Order::Open { id, address: self.finding.found.unwrap_or(0) });
            }
        }
    }

    /// Begins the requests on cold connections that are due.
    fn ask_cold(&mut self, now: Instant, orders: &mut Vec<Order<L>>) {
        for _ in 0..BATCH {
            if self.agenda.at(&self.cold_arrivals) > now {
                return;
            }
            self.cold_arrivals.advance();
            if self.cold.idle.is_empty() {
                self.cold.counts.missed += 1;
                continue;
            }
            let place = self.cold.idle.swap_remove(self.dice.below(self.cold.idle.len()));
            let id = self.id(place);
            let State::Cold(line) = &mut self.slots[place as usize].state else { continue };
            self.cold.busy += 1;
            self.cold.counts.requests += 1;
            match L::for_request(line) {
                Some(line) => orders.push(Order::Ask { id, line, job: None, last: false }),
                None => self.returned_cold(id, None, now),
            }
        }
    }

    /// Handles the end of a request on a cold connection.
    fn returned_cold(&mut self, id: Id, line: Option<L>, now: Instant) {
        self.cold.busy -= 1;
        if let Some(line) = line.filter(|line| !line.is_closed()) {
            self.slots[id.place as usize].state = State::Cold(Some(line));
            self.cold.idle.push(id.place);
        } else {
            self.cold.lost(now);
            self.vacate(id.place);
        }
    }

    fn could_serve(&self) -> bool {
        let could =
            !self.free.is_empty() || !self.opening.is_empty() || self.hot < self.agenda.plan.connections;
        could && !self.agenda.waiting.is_empty()
    }

    fn serve_waiting(&mut self, now: Instant, orders: &mut Vec<Order<L>>) {
        for _ in 0..BATCH {
            if !self.could_serve() {
                return;
            }
            let Some(job) = self.agenda.waiting.pop_front() else { return };
            if !self.serve(job, now, orders) {
                return self.agenda.waiting.push_front(job);
            }
        }
    }

    /// Assigns a connection to a request. Returns false if none can take one now.
    fn serve(&mut self, job: Job, now: Instant, orders: &mut Vec<Order<L>>) -> bool {
        if let Some((id, line, last)) = self.take_free() {
            orders.push(Order::Ask { id, line, job: Some(job), last });
        } else if let Some(&place) = self.opening.last() {
            self.board(place, job);
        } else if self.hot < self.agenda.plan.connections {
            let id = self.occupy(State::Opening { jobs: Vec::new(), since: now });
            self.opening.push(id.place);
            self.count_opened();
            self.board(id.place, job);
            orders.push(Order::Open { id, address: self.finding.found.unwrap_or(0) });
        } else {
            return false;
        }
        self.agenda.account.offered(&job);
        self.in_flight += 1;
        true
    }

    /// Assigns a connection that is being opened to a request.
    fn board(&mut self, place: u32, job: Job) {
        let most = self.agenda.plan.requests_per_connection.and_then(|most| usize::try_from(most).ok());
        let room = most.map_or(self.streams, |most| most.min(self.streams));
        let State::Opening { jobs, .. } = &mut self.slots[place as usize].state else { return };
        jobs.push(job);
        if jobs.len() >= room {
            self.opening.retain(|other| *other != place);
        }
    }

    /// Takes a connection that can have a request, and returns whether the request is its last one.
    fn take_free(&mut self) -> Option<(Id, L, bool)> {
        while let Some(&place) = self.free.last() {
            let id = self.id(place);
            match self.ask(id) {
                Some((line, last)) => {
                    self.list(id);
                    return Some((id, line, last));
                }
                None => self.end_open(id),
            }
        }
        None
    }

    /// Gives a request to an open connection, if that takes one. Returns whether it is the last one.
    fn ask(&mut self, id: Id) -> Option<(L, bool)> {
        let most = self.agenda.plan.requests_per_connection;
        let open = self.open_at(id)?;
        let line = L::for_request(&mut open.line).filter(|line| !line.is_closed())?;
        open.busy += 1;
        open.asked += 1;
        open.retired |= most.is_some_and(|most| open.asked >= most);
        Some((line, open.retired))
    }

    // --- What happens ---

    /// Handles a connection that is open.
    pub(super) fn established(&mut self, id: Id, line: L, now: Instant) -> Vec<Order<L>> {
        let mut orders = Vec::new();
        self.agenda.account.advance(now);
        let Some(slot) =
            self.slots.get_mut(id.place as usize).filter(|slot| slot.generation == id.generation)
        else {
            return orders;
        };
        let open = Open { line: Some(line), asked: 0, busy: 0, retired: false, listed: false };
        match std::mem::replace(&mut slot.state, State::Open(open)) {
            State::Trying(address) if self.phase == Phase::Finding => self.found(id, address),
            State::Opening { jobs, since } => {
                self.opening.retain(|other| *other != id.place);
                for job in jobs {
                    if job.counts {
                        self.agenda.account.connect.record(now.since(since));
                    }
                    match self.ask(id) {
                        Some((line, last)) => {
                            orders.push(Order::Ask { id, line, job: Some(job), last });
                        }
                        None => self.lose(job, Failed { failure: Failure::Reset, unprocessed: true }, now),
                    }
                }
                self.list(id);
            }
            State::OpeningCold => {
                if let State::Open(Open { line, .. }) = std::mem::replace(&mut slot.state, State::Vacant) {
                    slot.state = State::Cold(line);
                }
                self.cold.established();
                self.cold.idle.push(id.place);
            }
            State::Trying(_) | State::Vacant | State::Open(_) | State::Cold(_) => self.vacate(id.place),
        }
        self.serve_waiting(now, &mut orders);
        orders
    }

    /// Chooses the address to which a connection is open, unless another thread has chosen another one.
    fn found(&mut self, id: Id, address: usize) {
        let chosen = self.chosen.or_this(address);
        self.finding.found = Some(chosen);
        self.phase = Phase::Gathering;
        if chosen == address {
            self.count_opened();
            self.list(id);
        } else {
            self.vacate(id.place);
        }
    }

    /// Handles a connection that could not be opened: its requests fail.
    pub(super) fn unestablished(
        &mut self,
        id: Id,
        failure: Failure,
        refused: Option<RefusedTls>,
        now: Instant,
    ) -> Vec<Order<L>> {
        let mut orders = Vec::new();
        self.agenda.account.advance(now);
        self.refused_tls = self.refused_tls.take().or(refused);
        if self.id(id.place) != id {
            return orders;
        }
        match std::mem::replace(&mut self.slots[id.place as usize].state, State::Vacant) {
            State::Trying(address) => self.finding.failed(address, failure),
            State::Opening { jobs, .. } => {
                self.opening.retain(|other| *other != id.place);
                self.hot -= 1;
                jobs.into_iter().for_each(|job| self.lose(job, Failed::by(failure), now));
            }
            State::OpeningCold => self.cold.failed(now),
            State::Vacant | State::Open(_) | State::Cold(_) => {}
        }
        self.vacate(id.place);
        self.serve_waiting(now, &mut orders);
        orders
    }

    /// Handles a complete answer.
    pub(super) fn answered(&mut self, job: Option<&Job>, status: u16, sent: Instant, now: Instant) {
        self.agenda.account.advance(now);
        let Some(job) = job else {
            self.cold.counts.answered += 1;
            return;
        };
        self.agenda.account.answered(job, status, sent, now);
        self.in_flight -= 1;
    }

    /// Handles a request without an answer. `begun` says whether the answer has begun.
    pub(super) fn failed(&mut self, id: Id, job: Job, failed: Failed, begun: bool, now: Instant) {
        self.agenda.account.advance(now);
        let is_kept = self.open_at(id).is_some_and(|open| open.asked > 1);
        // The server closed a kept connection just as it was to be used again: RFC 9112, 9.3.1.
        let is_stale = self.streams == 1
            && is_kept
            && !begun
            && self.idempotent
            && matches!(failed.failure, Failure::Short | Failure::Reset);
        let unprocessed = failed.unprocessed || is_stale;
        self.lose(job, Failed { unprocessed, ..failed }, now);
    }

    /// Counts a request that had a connection and failed, or lets it be sent again.
    fn lose(&mut self, job: Job, failed: Failed, now: Instant) {
        self.in_flight -= 1;
        if failed.unprocessed && !job.again && self.phase != Phase::Over {
            self.agenda.waits_again(job);
        } else {
            self.agenda.lose(&job, failed.failure, now);
        }
    }

    /// Handles the end of a request's use of a connection. `line` is what it has used, if that can be used
    /// again.
    pub(super) fn returned(&mut self, id: Id, line: Option<L>, now: Instant) -> Vec<Order<L>> {
        let mut orders = Vec::new();
        if self.is_cold(id) {
            self.returned_cold(id, line, now);
            return orders;
        }
        if let Some(open) = self.open_at(id) {
            open.busy -= 1;
            open.retired |= line.as_ref().is_none_or(Line::is_closed);
            open.line = line.or(open.line.take());
            self.list(id);
        }
        self.serve_waiting(now, &mut orders);
        orders
    }

    /// Handles the end of a connection. Requests on it fail by themselves.
    pub(super) fn ended(&mut self, id: Id, now: Instant) {
        // One that has a request is lost with it.
        if self.is_cold(id) && self.cold.idle.contains(&id.place) {
            self.cold.idle.retain(|other| *other != id.place);
            self.cold.lost(now);
            return self.vacate(id.place);
        }
        self.end_open(id);
    }

    fn end_open(&mut self, id: Id) {
        if let Some(open) = self.open_at(id) {
            let was_idle = open.busy == 0 && !open.retired;
            self.connections.closed_idle += u64::from(was_idle);
            self.retire(id);
        }
    }

    // --- Places ---

    /// Gives a connection no more requests.
    fn retire(&mut self, id: Id) {
        if let Some(open) = self.open_at(id) {
            open.retired = true;
            self.list(id);
        }
    }

    /// Lists a connection that can take a request, and removes one that is at its end.
    fn list(&mut self, id: Id) {
        let streams = self.streams;
        let Some(open) = self.open_at(id) else { return };
        let (retired, idle, was_listed) = (open.retired, open.busy == 0, open.listed);
        open.listed = !retired && open.busy < streams && open.line.is_some();
        match (was_listed, open.listed) {
            (false, true) => self.free.push(id.place),
            (true, false) if self.free.last() == Some(&id.place) => drop(self.free.pop()),
            (true, false) => self.free.retain(|other| *other != id.place),
            _ => {}
        }
        if retired && idle {
            self.hot -= 1;
            self.vacate(id.place);
        }
    }

    fn count_opened(&mut self) {
        self.hot += 1;
        self.connections.opened += 1;
        self.connections.most = self.connections.most.max(self.hot);
    }

    fn open_at(&mut self, id: Id) -> Option<&mut Open<L>> {
        match self.slots.get_mut(id.place as usize) {
            Some(Slot { generation, state: State::Open(open) }) if *generation == id.generation => Some(open),
            _ => None,
        }
    }

    fn is_cold(&self, id: Id) -> bool {
        let slot = self.slots.get(id.place as usize).filter(|slot| slot.generation == id.generation);
        slot.is_some_and(|slot| matches!(slot.state, State::Cold(_)))
    }

    /// Takes a place for a connection.
    fn occupy(&mut self, state: State<L>) -> Id {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Vacant });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[place as usize].state = state;
        self.id(place)
    }

    fn vacate(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        slot.state = State::Vacant;
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(place);
    }

    /// Checks that the lists and numbers of connections agree with the connections. `lives` says whether a
    /// connection has not been reported as ended.
    #[cfg(test)]
    pub(super) fn check(&self, lives: impl Fn(Id) -> bool) {
        assert!(self.cold.idle.iter().all(|place| lives(self.id(*place))));
        let count = |is: fn(&State<L>) -> bool| self.slots.iter().filter(|slot| is(&slot.state)).count();
        let used = count(|state| matches!(state, State::Opening { .. } | State::Open(_)));
        assert_eq!((used, count(|state| matches!(state, State::Vacant))), (self.hot, self.vacant.len()));
        assert_eq!(count(|state| matches!(state, State::Cold(_))), self.cold.open());
        assert_eq!(count(|state| matches!(state, State::Open(open) if open.listed)), self.free.len());
    }

    fn id(&self, place: u32) -> Id {
        Id { place, generation: self.slots[place as usize].generation }
    }
}

impl<L: Line> Part for Pool<L> {
    fn glance(&self, now: Instant) -> Glance {
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

    fn so_far(&self, now: Instant) -> Measured {
        self.measured(now, self.agenda.account.clone())
    }
}
