//! Counters of the events in worlds.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::host::Host;
use evenkeel_core::tcp::Counter;
use evenkeel_sim::streams::Outcome;
use evenkeel_sim::world::{SegmentId, World};

use crate::plan::{Plan, What};

/// Counters of events by name. Two runs of one world give equal counters.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<String, u64>);

/// The events that must occur in the worlds of a whole run, so that the tests exercise TCP with them.
const MUST_HAPPEN: [&str; 31] = [
    "worlds of two hosts",
    "worlds of eight hosts and more",
    "worlds of several servers",
    "worlds whose servers are clients, too",
    "clients whose connections must work",
    "worlds that lose 15 % and more on a path",
    "worlds with slow CPUs",
    "worlds with IPv6",
    "frames lost",
    "frames doubled",
    "frames changed",
    "frames reordered",
    "frames that queues of wires had no room for",
    "frames that rings had no room for",
    "delays changed under connections",
    "holes under connections",
    "holes under connections healed",
    "calm under connections",
    "streams echoed",
    "streams left",
    "streams failed",
    "segments sent again",
    "segments out of order",
    "timeouts",
    "loss probes",
    "SYN cookies that came back",
    "accept queues full",
    "Fast Open taken",
    "Fast Open acknowledged",
    "Fast Open refused",
    "keepalive probes",
];

impl Tally {
    /// Counts the properties of a planned world.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut tally = Self::default();
        let lossy = |host: usize, server: usize| {
            let loss = |host: usize, way: usize| {
                f64::from(plan.hosts[host].wires[way].loss.numerator())
                    / f64::from(plan.hosts[host].wires[way].loss.denominator())
            };
            let through = |from, to| (1.0 - loss(from, 0)) * (1.0 - loss(to, 1));
            through(host, server).min(through(server, host)) <= 0.85
        };
        let clients = &plan.clients;
        let several = |mut numbers: Vec<usize>| {
            numbers.sort_unstable();
            numbers.dedup();
            numbers.len() > 1
        };
        tally.record("worlds", 1);
        for (what, is_so) in [
            ("worlds of two hosts", plan.hosts.len() == 2),
            ("worlds of eight hosts and more", plan.hosts.len() >= 8),
            ("worlds of several servers", several(clients.iter().map(|client| client.server).collect())),
            ("worlds whose servers are clients, too", clients.iter().any(|c| c.host < plan.servers)),
            ("worlds that lose 15 % and more on a path", clients.iter().any(|c| lossy(c.host, c.server))),
            ("worlds with slow CPUs", plan.hosts.iter().any(|host| host.slow)),
            ("worlds with IPv6", plan.v6),
        ] {
            tally.record(what, u64::from(is_so));
        }
        let must_work = plan.clients.iter().filter(|client| plan.must_work(client)).count();
        tally.record("clients", plan.clients.len() as u64);
        tally.record("clients whose connections must work", must_work as u64);
        tally
    }

    fn record(&mut self, what: &str, times: u64) {
        if times > 0 {
            *self.0.entry(what.to_string()).or_default() += times;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        other.0.iter().filter(|(what, _)| *what != TRACE).for_each(|(what, times)| self.record(what, *times));
    }

    /// Counts a change of the wires of a host with or without connections.
    pub(crate) fn note_change(&mut self, what: What, connected: bool) {
        let what = match what {
            What::Delay => "delays changed under connections",
            What::Hole => "holes under connections",
            What::Healed => "holes under connections healed",
            What::Calm => "calm under connections",
        };
        self.record(what, u64::from(connected));
    }

    /// Counts the outcome of a connection.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Echoed => self.record("streams echoed", 1),
            Outcome::Left => self.record("streams left", 1),
            Outcome::Failed(why) => {
                self.record("streams failed", 1);
                self.record(&format!("streams failed: {why}"), 1);
            }
            Outcome::NotOpened => self.record("streams not opened", 1),
            Outcome::Wrong { .. } => self.record("streams with wrong bytes", 1),
        }
    }

    pub(crate) fn note_host(&mut self, host: &Host) {
        for (what, counter) in [
            ("segments sent again", Counter::RetransSegs),
            ("segments out of order", Counter::OfoQueue),
            ("timeouts", Counter::Timeouts),
            ("loss probes", Counter::LossProbes),
            ("SYN cookies that came back", Counter::SyncookiesRecv),
            ("accept queues full", Counter::ListenOverflows),
            ("Fast Open taken", Counter::FastOpenPassive),
            ("Fast Open acknowledged", Counter::FastOpenActive),
            ("Fast Open refused", Counter::FastOpenActiveFail),
            ("keepalive probes", Counter::KeepAlive),
        ] {
            self.record(what, host.tcp_counters().get(counter));
        }
    }

    pub(crate) fn note_world(&mut self, world: &World, segment: SegmentId) {
        let wires = world.wires(segment);
        for (what, times) in [
            ("frames", wires.offered),
            ("frames lost", wires.lost),
            ("frames doubled", wires.duplicated),
            ("frames changed", wires.corrupted),
            ("frames reordered", wires.reordered),
            ("frames that queues of wires had no room for", wires.overflowed),
            ("frames that rings had no room for", world.arrivals_missed()),
            (TRACE, world.trace().hash()),
        ] {
            self.record(what, times);
        }
    }

    /// Asserts that every event has happened: worlds in which nothing goes wrong show nothing.
    pub(crate) fn assert_everything_happened(&self) {
        let missing: Vec<_> = MUST_HAPPEN.iter().filter(|what| !self.0.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
        let times = |what: &str| self.0.get(what).copied().unwrap_or_default();
        assert!(times("streams echoed") > 5 * times("streams failed"), "{self}");
    }
}

/// The number of a world's trace.
const TRACE: &str = "trace";

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>12} {what}"))
    }
}
