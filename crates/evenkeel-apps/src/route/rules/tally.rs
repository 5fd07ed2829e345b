//! The counters of screening rules.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::raw::screen::FlowHits;

use super::rule::{Rule, RuleSet};

/// The counters of a set of rules. One thread counts; any thread may read.
#[derive(Debug, Default)]
pub struct Counters {
    rules: Vec<RuleCounters>,
    /// The rarely used counters of each rule.
    shares: Vec<Share>,
    /// Packets for which the rules were evaluated.
    evaluated: AtomicU64,
    unmatched: AtomicU64,
    malformed: AtomicU64,
}

/// The counters of a rule. Four of them share a cache line, because there are many rules and each packet
/// may match another one.
#[derive(Debug, Default)]
#[repr(align(16))]
struct RuleCounters {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// A rule's share in the evaluation. The number of packets that a rule was compared with is the number of
/// evaluations, less those that ended before the rule.
#[derive(Debug, Default)]
struct Share {
    /// Whether the evaluation ends with each packet that the rule matches.
    is_quick: bool,
    /// Evaluations that count for this rule from earlier sets.
    carried: AtomicU64,
    /// Packets that count for this rule from earlier sets.
    carried_packets: AtomicU64,
}

/// A rule's counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that were compared with the rule.
    pub evaluations: u64,
    /// Packets that the rule decided; for a `match` rule, packets that it matched.
    pub packets: u64,
    /// Bytes in these packets, from the IP header on.
    pub bytes: u64,
}

impl Counters {
    /// Returns counters for rules.
    #[must_use]
    pub fn new(set: &RuleSet) -> Self {
        let share = |rule: &Rule| Share { is_quick: rule.quick, ..Share::default() };
        Self {
            rules: set.rules.iter().map(|_| RuleCounters::default()).collect(),
            shares: set.rules.iter().map(share).collect(),
            ..Self::default()
        }
    }

    /// Returns the counters of each rule.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Packets that reach the rule.
        let mut left = load(&self.evaluated);
        let count = |(c, share): (&RuleCounters, &Share)| {
            let (packets, bytes) = (load(&c.packets), load(&c.bytes));
            let evaluations = load(&share.carried) + left;
            if share.is_quick {
                // A reader may see some counters earlier than others.
                left = left.saturating_sub(packets.saturating_sub(load(&share.carried_packets)));
            }
            Count { evaluations, packets, bytes }
        };
        self.rules.iter().zip(&self.shares).map(count).collect()
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

    /// Adds the counts of an earlier set of rules. `succession` maps its rules to those of this set.
    pub fn carry(&self, earlier: &Self, succession: &[Option<usize>]) {
        add(&self.unmatched, earlier.unmatched());
        add(&self.malformed, earlier.malformed());
        for (before, place) in earlier.counts().iter().zip(succession) {
            let both = place.and_then(|place| self.rules.get(place).zip(self.shares.get(place)));
            let Some((counters, share)) = both else { continue };
            add(&share.carried, before.evaluations);
            add(&share.carried_packets, before.packets);
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

    /// Counts a packet and the rule that decided about it.
    pub(super) fn count_packet(&self, rule: Option<usize>, bytes: u16) {
        add(&self.evaluated, 1);
        match rule {
            Some(rule) => self.count_match(rule, bytes),
            None => add(&self.unmatched, 1),
        }
    }

    /// Counts packets of a flow, and the rule that decided about it.
    pub(in crate::route) fn count_flow(&self, rule: Option<usize>, hits: FlowHits) {
        add(&self.evaluated, hits.packets);
        match rule.map(|rule| self.rules.get(rule)) {
            Some(Some(counters)) => {
                add(&counters.packets, hits.packets);
                add(&counters.bytes, hits.bytes);
            }
            Some(None) => {}
            None => add(&self.unmatched, hits.packets),
        }
    }

    /// Counts packets of a flow that no rule was compared with.
    pub(in crate::route) fn count_skipped_flow(&self, hits: FlowHits) {
        add(&self.unmatched, hits.packets);
    }

    /// Counts a packet that no rule was compared with.
    pub(super) fn count_skipped(&self) {
        add(&self.unmatched, 1);
    }

    pub(super) fn count_malformed(&self) {
        add(&self.malformed, 1);
    }
}

/// Adds to a counter. Only one thread writes, so the addition need not be atomic.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
