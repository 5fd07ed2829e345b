//! Counters of rules.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a set of rules. One thread counts; any may read.
#[derive(Debug, Default)]
pub struct Tally {
    rules: Vec<Counters>,
    /// Packets that the rules were evaluated for.
    evaluated: AtomicU64,
    unmatched: AtomicU64,
    malformed: AtomicU64,
}

/// They lie in one cache line.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Counters {
    /// Packets at which the evaluation ended with this rule, because of `quick`. Packets that a rule was
    /// compared with are those that the rules were evaluated for, less those that ended before it.
    ended: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Evaluations that earlier rules have left to this one.
    carried: AtomicU64,
}

/// A rule's counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that it was compared with.
    pub evaluations: u64,
    /// Packets that it decided about; of a `match` rule, those that it matched.
    pub packets: u64,
    /// Bytes in these, from the IP header on.
    pub bytes: u64,
}

impl Tally {
    /// Returns counters for so many rules.
    #[must_use]
    pub fn new(rules: usize) -> Self {
        Self { rules: (0..rules).map(|_| Counters::default()).collect(), ..Self::default() }
    }

    /// Returns the counters of each rule.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Packets that get as far as the rule.
        let mut left = load(&self.evaluated);
        let count = |c: &Counters| {
            let evaluations = load(&c.carried) + left;
            // A reader may see some counters before others.
            left = left.saturating_sub(load(&c.ended));
            Count { evaluations, packets: load(&c.packets), bytes: load(&c.bytes) }
        };
        self.rules.iter().map(count).collect()
    }

    /// Returns how many packets no rule matched, so that they passed.
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }

    /// Returns how many packets had malformed headers, so that they were dropped.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Adds the counts of an earlier set of rules, whose rules are now those that `succession` says.
    pub fn carry(&self, earlier: &Self, succession: &[Option<usize>]) {
        add(&self.unmatched, earlier.unmatched());
        add(&self.malformed, earlier.malformed());
        for (before, place) in earlier.counts().iter().zip(succession) {
            let Some(counters) = place.and_then(|place| self.rules.get(place)) else { continue };
            add(&counters.carried, before.evaluations);
            add(&counters.packets, before.packets);
            add(&counters.bytes, before.bytes);
        }
    }

    /// Counts a packet that a `match` rule has matched.
    pub(super) fn count_match(&self, rule: usize, bytes: u16) {
        if let Some(counters) = self.rules.get(rule) {
            add(&counters.packets, 1);
            add(&counters.bytes, bytes.into());
        }
    }

    /// Counts a packet, the rule that decided about it, and the rule at which the evaluation ended.
    pub(super) fn count_packet(&self, rule: Option<usize>, ended: Option<usize>, bytes: u16) {
        add(&self.evaluated, 1);
        if let Some(counters) = ended.and_then(|rule| self.rules.get(rule)) {
            add(&counters.ended, 1);
        }
        match rule {
            Some(rule) => self.count_match(rule, bytes),
            None => add(&self.unmatched, 1),
        }
    }

    /// Counts a packet that no rule was compared with.
    pub(super) fn count_skipped(&self) {
        add(&self.unmatched, 1);
    }

    pub(super) fn count_malformed(&self) {
        add(&self.malformed, 1);
    }
}

/// One thread writes, so that an addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
