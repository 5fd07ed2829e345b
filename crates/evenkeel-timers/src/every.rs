//! Points in time at a steady interval, without drift.

use crate::time::{Duration, Instant};

/// The due times of an event that repeats at a steady interval.
///
/// Each due time is computed from the previous due time, not from the time at which the event was handled.
/// So lateness does not add up. If an event is late by more than half an interval, the next one follows after
/// half an interval, until the lateness is made up for. So there is no burst, and the mean rate is kept.
///
/// ```
/// use evenkeel_timers::{Duration, Every, Instant};
///
/// let mut every = Every::new(Duration::from_micros(20), Instant::ZERO);
/// assert_eq!(every.due(), Instant::from_micros(20));
/// // The event is handled 3 µs late.
/// assert_eq!(every.next(Instant::from_micros(23)), Instant::from_micros(40));
/// // The next one is handled 25 µs late.
/// assert_eq!(every.next(Instant::from_micros(65)), Instant::from_micros(75));
/// assert_eq!(every.next(Instant::from_micros(75)), Instant::from_micros(85));
/// assert_eq!(every.next(Instant::from_micros(85)), Instant::from_micros(100));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every {
    interval: Duration,
    /// The next due time if no event were late.
    steady: Instant,
    due: Instant,
}

impl Every {
    /// Creates an event that is due one interval after `start`. An interval below two nanoseconds counts as
    /// two nanoseconds.
    #[must_use]
    pub fn new(interval: Duration, start: Instant) -> Self {
        let interval = interval.max(Duration::from_nanos(2));
        Self { interval, steady: start + interval, due: start + interval }
    }

    /// Returns the next due time.
    #[must_use]
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Records that the event was handled at `now`. Returns the next due time, which is later than `now`.
    pub fn next(&mut self, now: Instant) -> Instant {
        self.steady += self.interval;
        self.due = self.steady.max(now + self.interval / 2);
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// An event that is late by less than half an interval does not delay the next one. After more
        /// lateness the next follows at half the interval and makes up for it.
        #[test]
        fn lateness_does_not_add_up(
            interval in 2..1_000_u64, late in proptest::collection::vec(0..5_000_u64, 1..100),
        ) {
            let mut every = Every::new(Duration::from_nanos(interval), Instant::ZERO);
            let mut last = Instant::ZERO;
            for (nth, late) in (1..).zip(&late) {
                prop_assert!(every.due() >= Instant::from_nanos(nth * interval), "never early");
                let done = every.due() + Duration::from_nanos(*late);
                prop_assert!(done.nanos_since(last) >= interval / 2);
                last = done;
                every.next(done);
            }
            // On time from now on, it is soon where it would have been.
            let behind = every.due().nanos_since(Instant::from_nanos((late.len() as u64 + 1) * interval));
            for _ in 0..=behind / (interval - interval / 2) {
                every.next(every.due());
            }
            let after = late.len() as u64 + 2 + behind / (interval - interval / 2);
            prop_assert_eq!(every.due(), Instant::from_nanos(after * interval));
        }
    }
}
