//! Programs that run on a router or a network monitor: `screend`, `tcpdump`, and background processes.

use evenkeel_core::capture::Capture;
use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::screen::Verdict;
use evenkeel_core::system::{CaptureSocket, Screen};
use evenkeel_core::time::{Duration, Instant};

use crate::workload::Tally;

/// A screening program that examines packets one by one, and lets all of them pass (W2).
#[derive(Debug)]
pub struct Screend {
    queue_pkts: usize,
    rules: Duration,
    queue: Option<Screen>,
    passed: Tally,
}

impl Screend {
    /// Creates a screening process with a queue of at most `queue_pkts`, and the counter of packets that
    /// passed. The process takes `rules` for each packet to find the matching rule.
    #[must_use]
    pub fn new(queue_pkts: usize, rules: Duration) -> (Self, Tally) {
        let passed = Tally::default();
        (Self { queue_pkts, rules, queue: None, passed: passed.clone() }, passed)
    }
}

impl Program for Screend {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let queue = *self.queue.get_or_insert_with(|| match Screen::open(system, self.queue_pkts) {
            Ok(queue) => queue,
            Err(error) => panic!("cannot screen: {error}"),
        });
        if queue.decide(system, |_| Verdict::Pass).is_err() {
            return Step::Wait(queue.fd());
        }
        system.compute(self.rules);
        self.passed.add_one();
        Step::Again
    }
}

/// The times of a packet monitor for captured frames.
#[derive(Debug, Clone, Copy)]
pub struct Writing {
    /// The time for each frame.
    pub frame: Duration,
    /// The number of frames that fill the output buffer.
    pub buffer_pkts: u64,
    /// The time to write the buffer.
    pub flush: Duration,
}

/// Reads captured frames, all that wait at a time, and writes them out (W5).
#[derive(Debug)]
pub struct Tcpdump {
    wanted: Option<Capture>,
    writing: Writing,
    queue: Option<CaptureSocket>,
    captured: Tally,
}

impl Tcpdump {
    /// Creates a packet monitor, and the counter of frames that it read.
    #[must_use]
    pub fn new(wanted: Capture, writing: Writing) -> (Self, Tally) {
        let captured = Tally::default();
        (Self { wanted: Some(wanted), writing, queue: None, captured: captured.clone() }, captured)
    }
}

impl Program for Tcpdump {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if let Some(wanted) = self.wanted.take() {
            match CaptureSocket::open(system, wanted) {
                Ok(queue) => self.queue = Some(queue),
                Err(error) => panic!("cannot capture: {error}"),
            }
        }
        let Some(queue) = self.queue else { return Step::Exit };
        let mut read = false;
        while queue.front(system).is_ok() {
            queue.pop(system);
            system.compute(self.writing.frame);
            self.captured.add_one();
            if self.captured.get().is_multiple_of(self.writing.buffer_pkts.max(1)) {
                system.compute(self.writing.flush);
            }
            read = true;
        }
        if read { Step::Again } else { Step::Wait(queue.fd()) }
    }
}

/// The background processes of a system, which compute for some time in every interval.
#[derive(Debug, Clone, Copy)]
pub struct Housekeeping {
    interval: Duration,
    busy: Duration,
    next: Instant,
}

impl Housekeeping {
    /// Creates housekeeping that takes `busy` out of every `interval`.
    #[must_use]
    pub const fn new(interval: Duration, busy: Duration) -> Self {
        Self { interval, busy, next: Instant::ZERO }
    }
}

impl Program for Housekeeping {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        system.compute(self.busy);
        // Missed work is not made up for.
        self.next = (self.next + self.interval).max(system.now());
        Step::Sleep(self.next)
    }
}
