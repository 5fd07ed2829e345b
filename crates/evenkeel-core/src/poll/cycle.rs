//! The CPU cycle limit (TOCS 1997, section 7): users get what packets leave them, and that is never nothing.

use super::limit::Limit;
use crate::time::{Duration, Instant};

/// Limits the share of the core that goes to taking packets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleLimit {
    /// Accounting period. The paper has 10 ms.
    pub period: Duration,
    /// Share of the period, in percent, after which input is inhibited until the period ends or the core is
    /// idle.
    pub percent: u8,
}

/// The CPU time that has been used of a cycle limit in the current period.
///
/// Time is charged when a unit of work is over, so the limit is overrun by one unit at most.
#[derive(Debug)]
pub(super) struct Budget {
    limit: CycleLimit,
    used: Duration,
    period_ends: Instant,
}

impl Budget {
    pub(super) fn new(limit: CycleLimit) -> Self {
        Self { limit, used: Duration::ZERO, period_ends: Instant::ZERO + limit.period }
    }

    /// Returns whether more than `percent` of the limit's CPU time has been used in this period.
    pub(super) fn exceeds(&self, percent: u8) -> bool {
        self.used > self.limit.period * u32::from(self.limit.percent) / 100 * u32::from(percent) / 100
    }

    pub(super) const fn period_ends(&self) -> Instant {
        self.period_ends
    }

    /// Begins a new period if this one is over. Returns whether it was.
    pub(super) fn renew(&mut self, now: Instant) -> bool {
        let over = now >= self.period_ends;
        if over {
            self.used = Duration::ZERO;
            self.period_ends = now + self.limit.period;
        }
        over
    }

    /// Resets the budget: the next period begins with the next work, so that no work gets the rest of one
    /// period and all of another.
    pub(super) fn reset(&mut self) {
        self.used = Duration::ZERO;
        self.period_ends = Instant::ZERO;
    }

    pub(super) fn charge(&mut self, elapsed: Duration, takes_in: bool) {
        if takes_in {
            self.used += elapsed;
        }
    }
}

impl Limit for Budget {
    fn is_reached(&self) -> bool {
        self.exceeds(100)
    }

    fn charge(&mut self, elapsed: Duration, takes_in: bool) {
        self.charge(elapsed, takes_in);
    }

    fn roll(&mut self, now: Instant) -> bool {
        let was_reached = self.is_reached();
        self.renew(now) && was_reached
    }

    fn idle(&mut self) -> bool {
        let was_reached = self.is_reached();
        self.reset();
        was_reached
    }

    fn next_deadline(&self) -> Instant {
        if self.is_reached() { self.period_ends } else { Instant::NEVER }
    }
}
