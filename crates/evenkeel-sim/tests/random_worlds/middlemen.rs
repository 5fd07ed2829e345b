//! Programs between others: they screen forwarded packets, and capture passing ones.

use evenkeel_core::capture::Capture;
use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::screen::Verdict;
use evenkeel_core::system::{CaptureSocket, Screen};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::rng::{Ratio, Rng};

/// A screening program. Until some time it refuses some packets, sleeps now and then, and may end.
#[derive(Debug)]
pub(crate) struct Screener {
    rng: Rng,
    fickle_until: Instant,
    queue: Option<Screen>,
}

impl Screener {
    pub(crate) const fn new(rng: Rng, fickle_until: Instant) -> Self {
        Self { rng, fickle_until, queue: None }
    }
}

impl Program for Screener {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else {
            let limit = self.rng.between(1, 32) as usize;
            // Another process may screen already.
            self.queue = Screen::open(system, limit).ok();
            return if self.queue.is_some() { Step::Again } else { Step::Exit };
        };
        let fickle = system.now() < self.fickle_until;
        if fickle && self.rng.chance(Ratio::new(1, 2_000)) {
            return Step::Exit;
        }
        if fickle && self.rng.chance(Ratio::percent(1)) {
            return Step::Sleep(system.now() + self.rng.duration(Duration::from_millis(20)));
        }
        let verdict = match self.rng.below(20) {
            0 if fickle => Verdict::Drop,
            1 if fickle => Verdict::Reject,
            _ => Verdict::Pass,
        };
        if queue.decide(system, |_| verdict).is_ok() { Step::Again } else { Step::Wait(queue.fd()) }
    }
}

/// A capturing program that checks that its counters add up.
#[derive(Debug)]
pub(crate) struct Monitor {
    rng: Rng,
    queue: Option<CaptureSocket>,
    read: u64,
}

impl Monitor {
    pub(crate) const fn new(rng: Rng) -> Self {
        Self { rng, queue: None, read: 0 }
    }

    fn wanted(&mut self) -> Capture {
        Capture {
            snaplen: self.rng.between(1, 2_000) as usize,
            limit_pkts: self.rng.between(1, 64) as usize,
            sent_too: self.rng.chance(Ratio::percent(50)),
            ..Capture::default()
        }
    }
}

impl Program for Monitor {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else {
            let wanted = self.wanted();
            self.queue = CaptureSocket::open(system, wanted).ok();
            return if self.queue.is_some() { Step::Again } else { Step::Exit };
        };
        let now = system.now();
        let Ok(captured) = queue.front(system) else { return Step::Wait(queue.fd()) };
        assert!(captured.bytes.len() <= captured.original_bytes && captured.at <= now);
        queue.pop(system);
        self.read += 1;
        let counters = queue.counters(system).expect("it is this program's");
        assert_eq!(counters.delivered, self.read);
        assert!(
            counters.seen >= counters.accepted && counters.accepted >= counters.delivered + counters.dropped
        );
        system.compute(self.rng.duration(Duration::from_micros(50)));
        Step::Again
    }
}
