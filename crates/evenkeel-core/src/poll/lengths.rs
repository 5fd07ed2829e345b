//! Scheduling by the length of queues (Massalin and Pu's Synthesis kernel; TOCS 1997, section 10): the fuller
//! the queues that a thread fills, the less of the core it gets. Marks and a timeout are the cruder form of
//! it.

use super::cycle::{Budget, CycleLimit};
use super::limit::Limit;
use crate::time::{Duration, Instant};

/// Leaves the taking in of packets that share of each period that the fullest queue it fills leaves: nothing
/// but one unit of work if that is full, so that a hung consumer does not stop input for longer than a
/// period.
///
/// What a period finds of older packets shows when the first new one joins them.
#[derive(Debug)]
pub(super) struct QueueShare {
    budget: Budget,
    /// The highest fill level, in percent, that a queue had in this period when a packet was put into it.
    fullest_percent: u8,
}

impl QueueShare {
    pub(super) fn new(period: Duration) -> Self {
        Self { budget: Budget::new(CycleLimit { period, percent: 100 }), fullest_percent: 0 }
    }
}

impl Limit for QueueShare {
    fn is_reached(&self) -> bool {
        self.budget.exceeds(100 - self.fullest_percent)
    }

    fn charge(&mut self, elapsed: Duration, takes_in: bool) {
        self.budget.charge(elapsed, takes_in);
    }

    fn filled(&mut self, percent: u8) {
        self.fullest_percent = self.fullest_percent.max(percent.min(100));
    }

    fn roll(&mut self, now: Instant) -> bool {
        let was_reached = self.is_reached();
        let renewed = self.budget.renew(now);
        if renewed {
            self.fullest_percent = 0;
        }
        renewed && was_reached
    }

    fn idle(&mut self) -> bool {
        let was_reached = self.is_reached();
        self.budget.reset();
        self.fullest_percent = 0;
        was_reached
    }

    fn next_deadline(&self) -> Instant {
        if self.is_reached() { self.budget.period_ends() } else { Instant::NEVER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_fuller_a_queue_the_smaller_the_share_of_whoever_fills_it() {
        for (percent, share_us) in [(0, 1_000), (25, 750), (75, 250), (99, 10)] {
            let mut share = QueueShare::new(MS);
            share.roll(Instant::from_millis(5));
            share.filled(percent);
            share.filled(percent / 2);
            share.charge(MS, false);
            share.charge(Duration::from_micros(share_us), true);
            assert!(!share.is_reached(), "{percent} %");
            share.charge(Duration::from_nanos(1), true);
            assert!(share.is_reached(), "{percent} %");
            assert_eq!(share.next_deadline(), Instant::from_millis(6));
            assert!(!share.roll(Instant::from_micros(5_999)) && share.roll(Instant::from_millis(6)));
            assert!(!share.is_reached());
        }
    }

    #[test]
    fn behind_a_full_queue_a_period_still_takes_in_one_unit() {
        let mut share = QueueShare::new(MS);
        share.filled(100);
        assert!(!share.is_reached());
        share.charge(Duration::from_nanos(1), true);
        assert!(share.is_reached());
        assert!(share.idle() && !share.is_reached(), "an idle core has nobody to protect");
    }
}
