//! What each rule has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a set of rules. One thread counts; any may read.
#[derive(Debug, Default)]
pub struct Tally {
    rules: Vec<Counters>,
    unmatched: AtomicU64,
    malformed: AtomicU64,
}

#[derive(Debug, Default)]
struct Counters {
    evaluations: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// A rule's counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that it was compared with.
    pub evaluations: u64,
    /// Packets that it decided about.
    pub packets: u64,
    /// Bytes in these, from the IP header on.
    pub bytes: u64,
}

impl Tally {
    /// Counters for so many rules.
    #[must_use]
    pub fn new(rules: usize) -> Self {
        Self { rules: (0..rules).map(|_| Counters::default()).collect(), ..Self::default() }
    }

    /// The counters of each rule.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let count = |c: &Counters| Count {
            evaluations: load(&c.evaluations),
            packets: load(&c.packets),
            bytes: load(&c.bytes),
        };
        self.rules.iter().map(count).collect()
    }

    /// Packets that no rule matched, and so passed.
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }

    /// Packets with malformed headers, and so dropped.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Goes on from an earlier count, whose rules are now those that `succession` says.
    pub fn carry(&self, earlier: &Self, succession: &[Option<usize>]) {
        add(&self.unmatched, earlier.unmatched());
        add(&self.malformed, earlier.malformed());
        for (before, place) in earlier.rules.iter().zip(succession) {
            let Some(counters) = place.and_then(|place| self.rules.get(place)) else { continue };
            add(&counters.evaluations, before.evaluations.load(Ordering::Relaxed));
            add(&counters.packets, before.packets.load(Ordering::Relaxed));
            add(&counters.bytes, before.bytes.load(Ordering::Relaxed));
        }
    }

    pub(super) fn count_evaluation(&self, rule: usize) {
        if let Some(counters) = self.rules.get(rule) {
            add(&counters.evaluations, 1);
        }
    }

    pub(super) fn count_packet(&self, rule: Option<usize>, bytes: u16) {
        match rule.and_then(|rule| self.rules.get(rule)) {
            Some(counters) => {
                add(&counters.packets, 1);
                add(&counters.bytes, bytes.into());
            }
            None => add(&self.unmatched, 1),
        }
    }

    pub(super) fn count_malformed(&self) {
        add(&self.malformed, 1);
    }
}

/// One thread writes, so that an addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
