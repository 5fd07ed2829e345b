//! Polling at an interval that adapts to the load, for soft timers.
//!
//! Source: Aron and Druschel, "Soft timers", ACM TOCS 18(3), 2000, section 4.2.

use crate::time::{Duration, nanos};

/// Network polling by a soft event: while the core is busy interfaces do not interrupt, and are polled at an
/// interval that adapts so that a poll finds so many packets on average. While it is idle they interrupt, so
/// nothing that comes then waits.
///
/// The event is the host's own: a poll is due at an instant, and happens at the end of the unit in which that
/// comes, without an interrupt for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkPolling {
    /// Packets that a poll is to find on average, at least one.
    pub aggregation_quota: u32,
    /// No poll is sooner after the last.
    pub shortest: Duration,
    /// Nor later, however little comes. So a packet waits for its poll no longer than that, and for the end
    /// of the unit in which it is due.
    pub longest: Duration,
}

impl NetworkPolling {
    /// Creates the configuration for an aggregation quota, with intervals of 10 µs to 1 ms: the paper's
    /// shortest period of events, and its backing.
    #[must_use]
    pub const fn new(aggregation_quota: u32) -> Self {
        let (shortest, longest) = (Duration::from_micros(10), Duration::from_millis(1));
        Self { aggregation_quota, shortest, longest }
    }
}

/// An adaptive interval from one poll of the network to the next, chosen so that each poll finds a given
/// number of packets on average: the *aggregation quota*.
///
/// With a quota of one, polls are about as frequent as packets, and avoid interrupts. With a larger quota,
/// packets are processed several at a time, and wait longer. The interval is for polling between interrupts,
/// in a busy system: an idle core has interrupts on, and does not poll.
///
/// The next interval follows from the rate of packets that the last polls found in their planned intervals. A
/// poll may be late, as a soft timer's is, and then finds the packets of the delay as well. The interval is
/// shortened accordingly, so that the average is the quota whatever the lateness is, as long as the quota
/// takes longer to arrive. After a poll that finds nothing, the next interval is up to twice as long.
///
/// ```
/// use core::time::Duration;
/// use evenkeel_core::poll::PollInterval;
///
/// let mut interval = PollInterval::new(2, [Duration::from_micros(10), Duration::from_millis(1)]);
/// // A packet every 50 us: two in 100 us.
/// let (mut wait, mut now, mut taken) = (Duration::from_micros(10), Duration::ZERO, 0);
/// for _ in 0..100 {
///     now += wait;
///     let come = (now.as_micros() / 50) as usize;
///     wait = interval.polled(come - taken);
///     taken = come;
/// }
/// assert!(wait.abs_diff(Duration::from_micros(100)) < Duration::from_micros(20));
/// ```
#[derive(Debug, Clone)]
pub struct PollInterval {
    quota: u32,
    bounds: [Duration; 2],
    interval: Duration,
    /// Packets found, and how long was to be waited for them, the older the less: parts of [`ONE`].
    found: u64,
    waited: u64,
}

/// A packet, or a nanosecond.
const ONE: u64 = 1 << 8;
/// A poll counts for one part of so many of what is estimated.
const WEIGHT: u64 = 16;
/// More than any ring holds.
const FOUND_MAX: usize = 1 << 16;

impl PollInterval {
    /// Creates an interval for `quota` packets a poll, at least one, bounded by `least` and `most`. It
    /// begins with `least`.
    #[must_use]
    pub fn new(quota: u32, [least, most]: [Duration; 2]) -> Self {
        let bounds = [least, most.max(least)];
        Self { quota: quota.max(1), bounds, interval: least, found: 0, waited: 0 }
    }

    /// Returns the time to wait for the next poll.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Records that a poll has found so many packets. Returns the time to wait for the next.
    pub fn polled(&mut self, found: usize) -> Duration {
        let waited = nanos(self.interval).min(1 << 40);
        self.found += found.min(FOUND_MAX) as u64 * ONE;
        self.found -= self.found / WEIGHT;
        self.waited += waited * ONE;
        self.waited -= self.waited / WEIGHT;
        let doubled = (self.interval * 2).max(Duration::from_nanos(1));
        let wanted = match u64::from(self.quota).saturating_mul(self.waited).checked_div(self.found / ONE) {
            Some(nanos) => Duration::from_nanos(nanos / ONE),
            None => doubled,
        };
        // What is estimated of a time of silence is not to be believed at once.
        let [least, most] = self.bounds;
        self.interval = wanted.min(doubled).clamp(least, most);
        self.interval
    }

    /// Forgets what was estimated: the core was idle meanwhile.
    pub const fn restart(&mut self) {
        (self.found, self.waited, self.interval) = (0, 0, self.bounds[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Packets at a distance of `gap` that are polled, each poll later than it was to be by what `late` says;
    /// how many a poll finds on average over so many polls, and the interval at the end.
    struct World {
        interval: PollInterval,
        now: u64,
        next: u64,
    }

    impl World {
        fn new(quota: u32) -> Self {
            Self { interval: PollInterval::new(quota, [us(10), us(1_000)]), now: 0, next: 0 }
        }

        fn run(&mut self, gap: Option<u64>, polls: u64, late: impl Fn(u64) -> u64) -> f64 {
            let mut all = 0;
            self.next = self.now + gap.unwrap_or_default();
            for nth in 0..polls {
                self.now += self.interval.interval().as_nanos() as u64 + late(nth) * 1_000;
                let mut found = 0;
                while gap.is_some() && self.next <= self.now {
                    self.next += gap.unwrap_or_default();
                    found += 1;
                }
                self.interval.polled(found);
                all += found;
            }
            all as f64 / polls as f64
        }
    }

    #[test]
    fn it_converges_to_the_quota_for_a_constant_load_and_for_one_that_steps() {
        for quota in [1, 2, 5, 10, 15] {
            let mut world = World::new(quota);
            for gap in [40_000, 25_000, 60_000, 40_000] {
                world.run(Some(gap), 100, |_| 0);
                let found = world.run(Some(gap), 400, |_| 0);
                let expected = f64::from(quota);
                assert!((found - expected).abs() < 0.1 * expected, "{quota} at {gap}: {found}");
            }
        }
    }

    #[test]
    fn polls_that_are_late_find_no_more_on_average() {
        let mut world = World::new(5);
        world.run(Some(40_000), 100, |nth| nth * 7 % 60);
        let found = world.run(Some(40_000), 400, |nth| nth * 7 % 60);
        // 30 us late on average, in which 0.7 come.
        assert!((found - 5.0).abs() < 0.15, "{found}");
    }

    #[test]
    fn silence_ends_at_the_longest_interval_and_is_forgotten_when_load_comes() {
        let mut world = World::new(1);
        world.run(Some(40_000), 100, |_| 0);
        world.run(None, 200, |_| 0);
        assert_eq!(world.interval.interval(), us(1_000));
        world.run(Some(40_000), 100, |_| 0);
        let found = world.run(Some(40_000), 400, |_| 0);
        assert!((found - 1.0).abs() < 0.1, "{found}");
        world.interval.restart();
        assert_eq!(world.interval.interval(), us(10));
    }

    #[test]
    fn an_interval_is_within_its_bounds_and_no_more_than_doubles() {
        let mut interval = PollInterval::new(15, [us(10), us(1_000)]);
        let mut before = interval.interval();
        for nth in 0..10_000_usize {
            let found = if nth % 97 == 0 { usize::MAX } else { nth % 3 };
            let now = interval.polled(found);
            assert!((us(10)..=us(1_000)).contains(&now) && now <= before * 2, "{nth}: {now:?}");
            before = now;
        }
    }

    #[test]
    fn whatever_it_is_told_it_polls_and_goes_on() {
        let mut interval = PollInterval::new(u32::MAX, [Duration::ZERO, Duration::MAX]);
        for nth in 0..1_000_usize {
            interval.polled(nth % 2);
        }
        assert!(interval.interval() > Duration::from_secs(1));
    }
}
