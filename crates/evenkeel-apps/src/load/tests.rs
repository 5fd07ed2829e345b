//! Tests of the generator with servers of arbitrary behaviour, in virtual time.

use std::collections::BTreeMap;

use evenkeel::raw::time::{Duration, Instant};
use proptest::prelude::*;

use super::*;
use crate::dice::Dice;

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server's reaction to an opened connection, or to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    /// The server accepts, or answers.
    Right,
    /// The server accepts or answers, and then closes.
    RightAndClose,
    Nothing,
    Refuse,
    /// The server sends an incomplete answer and closes.
    Half,
    Garbage,
    Reset,
    /// The server sends an answer, and bytes after it that nothing asked for.
    TooMuch,
}

const DEEDS: [Deed; 8] = [
    Deed::Right,
    Deed::RightAndClose,
    Deed::Nothing,
    Deed::Refuse,
    Deed::Half,
    Deed::Garbage,
    Deed::Reset,
    Deed::TooMuch,
];

/// A simulated server, and the network to it.
struct World {
    now: Instant,
    dice: Dice,
    /// The number of deeds out of 100 that are right; the others are random.
    right: usize,
    /// The time that a deed takes.
    takes: Duration,
    /// The start and end of a time in which the server does nothing.
    stall: (Instant, Instant),
    connections: BTreeMap<u32, Connection>,
    to_come: BTreeMap<(Instant, u64), (Id, News)>,
    number: u64,
    most: usize,
    room: usize,
    /// The right answer.
    good: &'static [u8],
    /// Whether the server closes connections as it accepts them.
    slams: bool,
    /// The deed for the first connection to each of the server's addresses, and the time that it takes. For
    /// later ones the dice decide.
    greets: Vec<(Deed, Duration)>,
    /// The addresses that were connected to, in order.
    called: Vec<usize>,
}

#[derive(Debug)]
struct Connection {
    id: Id,
    open: bool,
    heard: Vec<u8>,
    to_read: Vec<u8>,
    ended: bool,
    fault: Option<Fault>,
}

#[derive(Debug)]
enum News {
    Open,
    Fault(Fault),
    Bytes(&'static [u8]),
    End,
}

impl World {
    fn new(seed: u64, right: usize, takes: Duration) -> Self {
        Self {
            now: Instant::from_millis(3),
            dice: Dice::new(seed),
            right,
            takes,
            stall: (Instant::NEVER, Instant::NEVER),
            connections: BTreeMap::new(),
            to_come: BTreeMap::new(),
            number: 0,
            most: 0,
            room: usize::MAX,
            good: GOOD,
            slams: false,
            greets: vec![(Deed::Right, takes)],
            called: Vec::new(),
        }
    }

    fn deed(&mut self) -> Deed {
        if self.dice.below(100) < self.right { Deed::Right } else { DEEDS[self.dice.below(DEEDS.len())] }
    }

    /// Schedules an event for the time at which the server is ready for it.
    fn later(&mut self, id: Id, after: Duration, news: News) {
        let mut at = self.now + after;
        if (self.stall.0..self.stall.1).contains(&at) {
            at = self.stall.1;
        }
        self.number += 1;
        self.to_come.insert((at, self.number), (id, news));
    }

    fn get(&mut self, id: Id) -> &mut Connection {
        let connection = self.connections.get_mut(&id.place).filter(|connection| connection.id == id);
        connection.expect("the generator uses a connection that it does not have")
    }

    /// Handles a whole request.
    fn serve(&mut self, id: Id) {
        let takes = self.takes;
        match self.deed() {
            Deed::Right => {
                let cut = self.dice.below(self.good.len());
                self.later(id, takes, News::Bytes(&self.good[..cut]));
                self.later(id, takes, News::Bytes(&self.good[cut..]));
            }
            Deed::RightAndClose => {
                self.later(id, takes, News::Bytes(GOOD));
                self.later(id, takes, News::End);
            }
            Deed::Nothing => {}
            Deed::Half => {
                self.later(id, takes, News::Bytes(&GOOD[..GOOD.len() - 2]));
                self.later(id, takes, News::End);
            }
            Deed::Garbage => self.later(id, takes, News::Bytes(b"\x16\x03\x01 nonsense\r\n\r\n")),
            Deed::Refuse | Deed::Reset => self.later(id, takes, News::Fault(Fault::Reset)),
            Deed::TooMuch => {
                self.later(id, takes, News::Bytes(GOOD));
                self.later(id, takes + Duration::from_millis(1), News::Bytes(b"and another thing"));
            }
        }
    }

    /// Lets the next event happen, if it is due by `until`. Returns the connection of the event.
    fn happen(&mut self, until: Instant) -> Option<Id> {
        let next = self.to_come.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
        self.now = self.now.max(next.unwrap_or(until));
        next?;
        let (_, (id, news)) = self.to_come.pop_first()?;
        let connection = self.connections.get_mut(&id.place).filter(|connection| connection.id == id)?;
        match news {
            News::Open => (connection.open, connection.ended) = (true, self.slams),
            News::Fault(fault) => connection.fault = Some(fault),
            News::Bytes(bytes) => connection.to_read.extend_from_slice(bytes),
            News::End => connection.ended = true,
        }
        Some(id)
    }

    /// Runs a plan to its end, or to `stop`.
    fn run(&mut self, plan: Plan, stop: Instant) -> Measured {
        let request = Request::new(&"http://here/".parse().unwrap(), "GET", &[], b"").unwrap();
        let mut generator = Generator::new(plan, request).with_addresses(self.greets.len());
        let mut idle_turns = 0;
        while !generator.is_over() {
            if self.now >= stop {
                generator.stop(self.now);
                break;
            }
            let before = self.now;
            generator.turn(self.now, self);
            if generator.is_over() {
                break;
            }
            if let Some(id) = self.happen(generator.deadline().min(stop)) {
                generator.handle(self.now, id, self);
            }
            idle_turns = if self.now == before { idle_turns + 1 } else { 0 };
            assert!(idle_turns < 100_000, "it turns and turns");
        }
        let measured = generator.finish(self.now, self);
        assert!(self.connections.is_empty(), "connections are left behind");
        measured
    }
}

impl Transport for World {
    fn connect(&mut self, id: Id, address: usize) -> Result<(), Fault> {
        let is_first = !self.called.contains(&address);
        self.called.push(address);
        let taken = self.connections.get(&id.place);
        assert!(taken.is_none(), "the place of {taken:?} is not free");
        if self.connections.len() >= self.room {
            return Err(Fault::NoPort);
        }
        let (open, heard, to_read) = (false, Vec::new(), Vec::new());
        self.connections.insert(id.place, Connection { id, open, heard, to_read, ended: false, fault: None });
        self.most = self.most.max(self.connections.len());
        let (deed, takes) = if is_first { self.greets[address] } else { (self.deed(), self.takes) };
        match deed {
            Deed::Nothing => {}
            Deed::Refuse | Deed::Garbage => self.later(id, takes, News::Fault(Fault::Refused)),
            Deed::RightAndClose => {
                self.later(id, takes, News::Open);
                self.later(id, takes, News::End);
            }
            _ => self.later(id, takes, News::Open),
        }
        Ok(())
    }

    fn is_open(&mut self, id: Id) -> Result<bool, Fault> {
        let connection = self.get(id);
        connection.fault.map_or(Ok(connection.open), Err)
    }

    fn write(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Fault> {
        let connection = self.get(id);
        assert!(connection.open);
        if let Some(fault) = connection.fault {
            return Err(fault);
        }
        connection.heard.extend_from_slice(bytes);
        if connection.heard.ends_with(b"\r\n\r\n") {
            connection.heard.clear();
            self.serve(id);
        }
        Ok(bytes.len())
    }

    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        let connection = self.get(id);
        let len = connection.to_read.len().min(to.len());
        if len > 0 {
            to[..len].copy_from_slice(&connection.to_read[..len]);
            connection.to_read.drain(..len);
            return Ok(Some(len));
        }
        match connection.fault {
            Some(fault) => Err(fault),
            None => Ok(connection.ended.then_some(0)),
        }
    }

    fn has_ended(&mut self, id: Id) -> bool {
        self.get(id).ended
    }

    fn close(&mut self, id: Id, _: Close) {
        self.get(id);
        self.connections.remove(&id.place);
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn plan(rate: f64, length: Duration) -> Plan {
    Plan {
        load: Load::Open { curve: Curve::flat(rate, length), spacing: Spacing::Constant },
        length,
        warm_up: Duration::ZERO,
        connections: 100,
        requests_per_connection: None,
        timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(5),
        cold: 0,
        cold_rate: 0.0,
        interval: Duration::from_secs(1),
        seed: 1,
        share: Share::WHOLE,
    }
}

fn report(measured: &Measured) -> Report {
    Report::new(measured, Effort { cpu_share: 0.0, run_delay_share: 0.0 })
}

fn p99(measured: &Measured) -> Duration {
    measured.response().percentile(99.0).unwrap()
}

/// A server that stands still for one second of ten makes every tenth user wait. A closed loop stands still
/// with it, and sees only one wait.
#[test]
fn the_open_loop_sees_a_stall_that_the_closed_loop_omits() {
    let run = |load: Load, connections| {
        let mut world = World::new(1, 100, millis(1));
        world.stall = (Instant::from_millis(4_000), Instant::from_millis(5_000));
        let length = Duration::from_secs(10);
        world.run(Plan { load, connections, ..plan(100.0, length) }, Instant::NEVER)
    };
    let curve = Curve::flat(100.0, Duration::from_secs(10));
    for connections in [1, 1_000] {
        let open = run(Load::Open { curve: curve.clone(), spacing: Spacing::Constant }, connections);
        let counts = report(&open).counts;
        assert_eq!((counts.due, counts.statuses.successful), (1_000, 1_000));
        assert!(p99(&open) > millis(850), "{:?}", p99(&open));
        assert!(open.response().percentile(50.0).unwrap() < millis(4));
    }
    for connections in [1, 10] {
        let closed = run(Load::Closed, connections);
        assert!(p99(&closed) < millis(2), "{:?}", p99(&closed));
        assert!(closed.response().percentile(100.0).unwrap() > millis(990), "it has seen it, once");
    }
}

/// The service times of an open loop on one connection are like those of a closed loop. Only the response
/// times show the waiting.
#[test]
fn service_times_do_not_show_what_waiting_requests_wait_for() {
    let mut world = World::new(1, 100, millis(1));
    world.stall = (Instant::from_millis(4_000), Instant::from_millis(5_000));
    let plan = Plan { connections: 1, ..plan(100.0, Duration::from_secs(10)) };
    let report = report(&world.run(plan, Instant::NEVER));
    assert!(report.service_us.p99.unwrap() < 2_000.0, "{:?}", report.service_us);
    assert!(report.response_us.p99.unwrap() > 850_000.0, "{:?}", report.response_us);
    assert!(report.waited > 90, "{}", report.waited);
}

/// A server that needs 10 ms for each request can serve 100 of 1000 requests a second. All are offered
/// nevertheless, because each has its own connection and is given up in time.
#[test]
fn the_offered_rate_does_not_fall_when_the_server_answers_nobody() {
    let mut world = World::new(1, 100, millis(1));
    world.stall = (Instant::from_millis(5), Instant::NEVER);
    world.slams = true;
    let timeout = millis(300);
    let plan =
        Plan { timeout, connect_timeout: millis(100), connections: 1_000, ..plan(1_000.0, millis(5_000)) };
    let report = report(&world.run(plan, Instant::NEVER));
    assert_eq!((report.counts.due, report.counts.offered), (5_000, 5_000));
    assert_eq!(report.counts.failed.of(Failure::ConnectTimeout), 5_000);
    assert!((report.offered_rps - 1_000.0).abs() < 1e-6);
    // Attempts are given up after 100 ms, so this is the number under way at a time.
    assert!((99..=102).contains(&report.connections.most), "{:?}", report.connections);
    assert!((report.response_us.p50.unwrap() - 100_000.0).abs() < 1_000.0);
}

#[test]
fn requests_that_find_no_connection_are_given_up_in_time_and_told() {
    let mut world = World::new(1, 100, millis(1));
    world.stall = (Instant::from_millis(5), Instant::NEVER);
    world.slams = true;
    let timeout = millis(300);
    let plan = Plan { timeout, connections: 10, ..plan(1_000.0, millis(1_000)) };
    let report = report(&world.run(plan, Instant::NEVER));
    let [unsent, unconnected] =
        [Failure::Unsent, Failure::ConnectTimeout].map(|f| report.counts.failed.of(f));
    // Ten connections, and each is waited for 300 ms: in 1.3 s that makes 40 or 50.
    assert_eq!((report.counts.offered, unsent), (unconnected, 1_000 - unconnected));
    assert!(
        (40..=50).contains(&unconnected) && report.doubts().contains(&Doubt::NotOffered),
        "{unconnected}"
    );
    assert!(report.response_us.max.unwrap() < 602_000.0, "{:?}", report.response_us);
}

#[test]
fn kept_connections_are_used_again_and_others_are_not() {
    let run = |requests_per_connection| {
        let mut world = World::new(1, 100, millis(1));
        let plan = Plan { requests_per_connection, ..plan(100.0, millis(1_000)) };
        report(&world.run(plan, Instant::NEVER))
    };
    let [kept, close, some] = [None, Some(1), Some(7)].map(run);
    assert_eq!(kept.connections.opened, 1);
    assert_eq!(close.connections.opened, 100);
    assert_eq!(some.connections.opened, 100_u64.div_ceil(7));
    for report in [kept, close, some] {
        assert_eq!((report.counts.due, report.counts.statuses.successful), (100, 100));
        assert_eq!(report.doubts(), []);
    }
}

#[test]
fn a_connection_that_the_server_does_not_keep_is_not_used_again() {
    let mut world = World::new(1, 100, millis(1));
    world.good = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let report = report(&world.run(plan(100.0, millis(1_000)), Instant::NEVER));
    assert_eq!((report.connections.opened, report.counts.statuses.successful), (100, 100));
    assert_eq!((report.repeated, report.connections.closed_idle), (0, 0));
    // The server does not close them, either, and the generator waits at most a second for that.
    assert!(world.most > 50 && world.most <= 102, "{}", world.most);
}

/// No second event reports an end that came together with the start of the connection.
#[test]
fn a_connection_that_is_closed_as_it_is_accepted_is_seen_at_once() {
    let mut world = World::new(1, 100, millis(1));
    world.slams = true;
    let report = report(&world.run(Plan { cold: 5, ..plan(10.0, millis(1_000)) }, Instant::NEVER));
    assert_eq!(report.counts.failed.of(Failure::Short), 10, "{:?}", report.counts.failed);
    let cold = report.cold.unwrap();
    assert!(cold.closed >= 5 && cold.at_end == 0, "{cold:?}");
}

/// The server closes a kept connection at the moment when the next request is sent on it.
#[test]
fn a_request_on_a_connection_that_was_just_closed_is_sent_again_once() {
    let mut world = World::new(1, 100, millis(1));
    let request = Request::new(&"http://here/".parse().unwrap(), "GET", &[], b"").unwrap();
    let mut generator = Generator::new(plan(10.0, millis(190)), request);
    let until = |world: &mut World, generator: &mut Generator, until: Instant| {
        while world.now < until && !generator.is_over() {
            generator.turn(world.now, world);
            if let Some(id) = world.happen(generator.deadline().min(until)) {
                generator.handle(world.now, id, world);
            }
        }
    };
    until(&mut world, &mut generator, Instant::from_millis(50));
    world.connections.values_mut().for_each(|connection| connection.fault = Some(Fault::Reset));
    until(&mut world, &mut generator, Instant::from_millis(1_000));
    let report = report(&generator.finish(world.now, &mut world));
    assert_eq!((report.repeated, report.counts.statuses.successful, report.counts.offered), (1, 2, 2));
}

#[test]
fn what_comes_in_the_warm_up_does_not_count() {
    let mut world = World::new(1, 100, millis(1));
    world.stall = (Instant::ZERO, Instant::from_millis(500));
    let plan = Plan { warm_up: millis(1_000), ..plan(100.0, millis(1_000)) };
    let report = report(&world.run(plan, Instant::NEVER));
    assert_eq!((report.warm_up, report.counts.due), (100, 100));
    assert!(report.response_us.max.unwrap() < 2_000.0, "{:?}", report.response_us);
    assert_eq!(report.intervals.len(), 1);
}

#[test]
fn cold_connections_are_there_before_the_first_request_and_made_again() {
    let mut world = World::new(1, 100, millis(1));
    let plan = Plan { cold: 200, cold_rate: 50.0, ..plan(100.0, millis(4_000)) };
    let request = Request::new(&"http://here/".parse().unwrap(), "GET", &[], b"").unwrap();
    let mut generator = Generator::new(plan, request);
    let mut cut = false;
    while !generator.is_over() {
        generator.turn(world.now, &mut world);
        let glance = generator.glance(world.now);
        if !cut && glance.measured > millis(1_000) {
            cut = true;
            assert!(glance.cold >= 200, "{glance:?}");
            let ids: Vec<Id> = world.connections.values().map(|connection| connection.id).take(50).collect();
            ids.into_iter().for_each(|id| world.later(id, Duration::ZERO, News::End));
        }
        if let Some(id) = world.happen(generator.deadline()) {
            generator.handle(world.now, id, &mut world);
        }
    }
    let report = report(&generator.finish(world.now, &mut world));
    let cold = report.cold.unwrap();
    assert_eq!((cold.wanted, cold.at_start, cold.at_end), (200, 200, 200), "{cold:?}");
    assert!(cold.closed >= 45 && cold.opened == 200 + cold.closed, "{cold:?}");
    assert!((150..250).contains(&cold.requests) && cold.answered + 5 >= cold.requests, "{cold:?}");
    assert_eq!(report.counts.statuses.successful, 400);
}

#[test]
fn want_of_ports_is_told_and_hurts_nobody_else() {
    for load in [plan(100.0, millis(1_000)).load, Load::Closed] {
        let mut world = World::new(1, 100, millis(30));
        world.room = 2;
        let plan = Plan { load, connections: 10, ..plan(100.0, millis(1_000)) };
        let report = report(&world.run(plan, Instant::NEVER));
        assert!(report.counts.failed.of(Failure::NoPort) > 0, "{:?}", report.counts);
        assert!(report.counts.statuses.successful > 20, "{:?}", report.counts);
    }
}

#[test]
fn one_that_is_stopped_tells_what_there_was_so_far() {
    let mut world = World::new(1, 100, millis(100));
    let plan = Plan { requests_per_connection: Some(1), ..plan(100.0, millis(10_000)) };
    // The first connection takes 100 ms.
    let measured = world.run(plan, Instant::from_millis(3_103));
    let report = report(&measured);
    assert!(report.stopped && (report.seconds - 3.0).abs() < 0.01, "{}", report.seconds);
    let unfinished = report.counts.failed.of(Failure::Unfinished);
    assert!((5..=25).contains(&unfinished), "{unfinished}");
    assert_eq!(report.counts.due, report.counts.statuses.all() + unfinished);
    assert!((report.target_rps.unwrap() - 100.0).abs() < 1e-6);
}

/// The index of the address used, the addresses that failed, those tried, and the time of the first
/// request.
type Found = (Option<usize>, Vec<(usize, Failure)>, Vec<usize>, Instant);

/// Returns the address used, the failed ones, the tried ones, and the time until the first request was due.
/// `addresses` has the deed of each address at the first attempt, and the milliseconds that it takes.
fn found(addresses: &[(Deed, u64)]) -> Found {
    let mut world = World::new(1, 100, millis(1));
    world.greets = addresses.iter().map(|(deed, after)| (*deed, millis(*after))).collect();
    let begun = world.now;
    let plan = Plan { requests_per_connection: Some(1), ..plan(10.0, millis(500)) };
    let measured = world.run(plan, Instant::NEVER);
    let Measured { address, ref unreached, .. } = measured;
    let counts = report(&measured).counts;
    if let Some(address) = address {
        assert_eq!((counts.due, counts.statuses.successful), (5, 5));
        // The connection that was established first is used, so four more are enough.
        let used = world.called.iter().filter(|called| **called == address).count();
        assert_eq!((used, measured.connections.opened), (5, 5), "{:?}", world.called);
    } else {
        assert_eq!((counts.due, measured.connections.opened), (0, 0));
    }
    let tried = world.called.iter().copied().take(addresses.len());
    let took = world.now - begun;
    (address, unreached.clone(), tried.collect(), Instant::ZERO + took)
}

/// A client of a server with several addresses uses the first one that answers (RFC 8305; RFC 6724, 10.2).
#[test]
fn the_first_address_that_answers_is_used() {
    let (right, refuse, nothing) = (Deed::Right, Deed::Refuse, Deed::Nothing);
    let refused = |address| (address, Failure::Refused);
    let (address, unreached, ..) = found(&[(right, 1), (right, 0)]);
    assert_eq!((address, unreached), (Some(0), vec![]));
    // The first address refuses, or does not answer within 250 ms.
    let (address, unreached, tried, _) = found(&[(refuse, 1), (right, 1), (right, 1)]);
    assert_eq!((address, unreached, &tried[..2]), (Some(1), vec![refused(0)], &[0, 1][..]));
    let (address, unreached, _, took) = found(&[(nothing, 0), (right, 1)]);
    assert_eq!((address, unreached), (Some(1), vec![]));
    assert!(took < Instant::from_millis(900), "{took:?}");
    // A slow address wins if its connection is established first.
    let (address, ..) = found(&[(right, 400), (right, 400)]);
    assert_eq!(address, Some(0));
    // The generator does not wait for attempts that cannot matter any more.
    let (address, unreached, tried, _) = found(&[(nothing, 0), (refuse, 1), (right, 1)]);
    assert_eq!((address, unreached, tried), (Some(2), vec![refused(1)], vec![0, 1, 2]));
}

/// A run against a server that cannot be reached ends before its planned length.
#[test]
fn a_server_that_cannot_be_reached_is_given_up_at_once() {
    let (refuse, nothing) = (Deed::Refuse, Deed::Nothing);
    let (address, unreached, _, took) = found(&[(refuse, 1)]);
    assert_eq!((address, unreached), (None, vec![(0, Failure::Refused)]));
    assert!(took < Instant::from_millis(10), "{took:?}");
    let (address, unreached, ..) = found(&[(refuse, 1), (refuse, 1)]);
    assert_eq!((address, unreached), (None, vec![(0, Failure::Refused), (1, Failure::Refused)]));
    let (address, unreached, _, took) = found(&[(nothing, 0), (refuse, 1)]);
    assert_eq!((address, unreached), (None, vec![(1, Failure::Refused), (0, Failure::ConnectTimeout)]));
    assert!(took < Instant::from_millis(5_010), "after the timeout of a connection: {took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// For any server, the run ends in time and each due request is accounted for once. There are at most as
    /// many connections as allowed. The world checks that none is left open or used after its close.
    #[test]
    fn every_request_ends_in_one_way(
        seed: u64,
        right in 0usize..=100,
        takes in 0u64..200,
        rate in 1.0f64..2_000.0,
        connections in 1usize..60,
        cold in 0usize..40,
        per_connection in proptest::option::of(1u64..6),
        closed: bool,
        poisson: bool,
        warm_up in 0u64..500,
        room in 1usize..200,
        stall in 0u64..2_000,
        stop in proptest::option::of(0u64..3_000),
    ) {
        let mut world = World::new(seed, right, millis(takes));
        world.room = room;
        world.stall = (Instant::from_millis(stall), Instant::from_millis(stall + 700));
        let base = plan(rate, millis(1_000));
        let spacing = if poisson { Spacing::Poisson } else { Spacing::Constant };
        let plan = Plan {
            load: if closed {
                Load::Closed
            } else {
                Load::Open { curve: Curve::flat(rate, millis(1_000)), spacing }
            },
            warm_up: millis(warm_up),
            connections,
            requests_per_connection: per_connection,
            timeout: millis(400),
            connect_timeout: millis(250),
            cold,
            cold_rate: 20.0,
            interval: millis(100),
            seed,
            ..base
        };
        let measured = world.run(plan, stop.map_or(Instant::NEVER, Instant::from_millis));
        // As many connections again may be closing.
        prop_assert!(world.most <= 2 * connections + cold);
        let report = report(&measured);
        let Counts { due, offered, statuses, failed } = report.counts;
        prop_assert_eq!(due, statuses.all() + failed.all());
        let never = [Failure::Unsent, Failure::NoPort, Failure::NoDescriptor].map(|f| failed.of(f));
        prop_assert!(offered + never.iter().sum::<u64>() <= due);
        prop_assert!(offered >= statuses.all());
        let waited = [Failure::Unsent, Failure::Timeout, Failure::ConnectTimeout].map(|f| failed.of(f));
        prop_assert_eq!(report.response_us.count, statuses.all() + waited.iter().sum::<u64>());
        prop_assert_eq!(report.service_us.count, statuses.all());
        prop_assert!(report.response_us.max.unwrap_or_default() <= 1_052_000.0, "{:?}", report.response_us);
        let sum = |of: fn(&Interval) -> u64| report.intervals.iter().map(of).sum::<u64>();
        prop_assert_eq!((sum(|i| i.due), sum(|i| i.offered)), (due, offered));
        prop_assert_eq!((sum(|i| i.answered), sum(|i| i.failed)), (statuses.all(), failed.all()));
        if stop.is_none() {
            prop_assert_eq!(failed.of(Failure::Unfinished), 0);
            prop_assert!(world.now < Instant::from_millis(20_000), "{:?}", world.now);
        }
    }
}
