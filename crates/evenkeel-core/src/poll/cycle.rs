//! The CPU cycle limit (TOCS 1997, section 7): users get what packets leave them, and that is never nothing.

use crate::time::{Duration, Instant};

/// Limits the share of the core that goes to taking packets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleLimit {
    /// Accounting period. The paper has 10 ms.
    pub period: Duration,
    /// Share of the period, in percent, after which input is inhibited until the period ends or the core is idle.
    pub percent: u8,
}

/// What has been used of the limit in this period.
///
/// Time is charged when a unit of work is over, so the limit is overrun by one unit at most.
#[derive(Debug)]
pub(super) struct Budget {
    limit: CycleLimit,
    used: Duration,
    period_ends: Instant,
    spent: bool,
}

impl Budget {
    pub(super) fn new(limit: CycleLimit) -> Self {
        Self { limit, used: Duration::ZERO, period_ends: Instant::ZERO + limit.period, spent: false }
    }

    /// Whether nothing is left in this period.
    pub(super) const fn is_spent(&self) -> bool {
        self.spent
    }

    pub(super) fn charge(&mut self, elapsed: Duration) {
        self.used += elapsed;
        self.spent |= self.used > self.limit.period * u32::from(self.limit.percent) / 100;
    }

    /// Begins a new period if this one is over. Returns whether that lifts an inhibition.
    pub(super) fn roll(&mut self, now: Instant) -> bool {
        if now < self.period_ends {
            return false;
        }
        self.period_ends = now + self.limit.period;
        self.refill()
    }

    /// The core is idle: the next period begins with the next work, so that none gets what is left of one period and all of another.
    /// Returns whether that lifts an inhibition.
    pub(super) fn idle(&mut self) -> bool {
        self.period_ends = Instant::ZERO;
        self.refill()
    }

    /// Forgets what was used. Returns whether that lifts an inhibition.
    fn refill(&mut self) -> bool {
        self.used = Duration::ZERO;
        core::mem::take(&mut self.spent)
    }

    /// When [`Budget::roll`] lifts an inhibition.
    pub(super) const fn next_deadline(&self) -> Instant {
        if self.spent { self.period_ends } else { Instant::NEVER }
    }
}
