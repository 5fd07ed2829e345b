//! The decision of a thread whether to poll the clock or to halt.

use evenkeel::raw::time::{Duration, Instant, nanos};

/// The action of a thread until the next frame is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The thread polls the clock again at once.
    Spin,
    /// The thread halts until this time, or until a frame comes.
    Halt(Instant),
}

/// The margin by which a thread wakes before a deadline. It follows the measured time of a wake-up on this
/// machine, from a few to some hundred microseconds.
#[derive(Debug, Clone)]
pub(super) struct Margin {
    now: u64,
    most: u64,
}

/// The least margin, even after quick wake-ups: halting and waking take this long at least.
const LEAST: Duration = Duration::from_micros(10);
/// The margin before the first wake-up.
const FIRST: Duration = Duration::from_micros(50);
/// A late wake-up widens the margin by a part of its excess, and an early one narrows it by a smaller part.
/// So 8 of 9 wake-ups are early enough.
const WIDEN: u64 = 8;
const NARROW: u64 = 64;

impl Margin {
    /// Creates a margin that is never longer than `most`.
    pub(super) fn up_to(most: Duration) -> Self {
        Self { now: nanos(FIRST.min(most)), most: nanos(most) }
    }

    /// Returns the action until `due`.
    pub(super) fn until(&self, now: Instant, due: Instant) -> Until {
        if due.nanos_since(now) <= self.now {
            return Until::Spin;
        }
        let never = due == Instant::NEVER;
        Until::Halt(if never { due } else { Instant::from_nanos(due.as_nanos() - self.now) })
    }

    /// Records that a halt that was to end at `at` has ended by the clock at `now`.
    pub(super) fn woken(&mut self, at: Instant, now: Instant) {
        let late = now.nanos_since(at).min(self.most);
        self.now = if late > self.now {
            self.now + (late - self.now).div_ceil(WIDEN)
        } else {
            self.now - (self.now - late) / NARROW
        };
        self.now = self.now.clamp(nanos(LEAST).min(self.most), self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(200);

    #[test]
    fn it_spins_only_for_what_is_due_soon() {
        let (now, margin) = (Instant::from_millis(5), Margin::up_to(MOST));
        for (due, expected) in [
            (0, Until::Spin),
            (5_000, Until::Spin),
            (5_050, Until::Spin),
            (5_051, Until::Halt(Instant::from_micros(5_001))),
            (9_000, Until::Halt(Instant::from_micros(8_950))),
        ] {
            assert_eq!(margin.until(now, Instant::from_micros(due)), expected);
        }
        assert_eq!(margin.until(now, Instant::NEVER), Until::Halt(Instant::NEVER));
        let soon = Instant::from_nanos(5_000_001);
        assert_eq!(Margin::up_to(Duration::ZERO).until(now, soon), Until::Halt(soon), "it never spins");
    }

    /// Simulates wake-ups with these delays, in turn; returns the final margin.
    fn after(late_us: &[u64], most: Duration) -> u64 {
        let mut margin = Margin::up_to(most);
        for turn in 0..20_000 {
            let late = late_us[turn % late_us.len()];
            margin.woken(Instant::from_millis(1), Instant::from_micros(1_000 + late));
        }
        margin.now / 1_000
    }

    #[test]
    fn the_margin_is_what_being_woken_takes_within_its_bounds() {
        assert!((119..=121).contains(&after(&[120], MOST)));
        assert_eq!(after(&[0], MOST), 10, "not less than halting takes");
        assert_eq!(after(&[5_000], MOST), 200, "not more than it may");
        assert_eq!(after(&[120], Duration::ZERO), 0);
        // One wake-up of 20 is very late: staying awake for it all the time is not worth it.
        let mostly: Vec<u64> = core::iter::repeat_n(60, 19).chain([5_000]).collect();
        assert!((60..110).contains(&after(&mostly, MOST)), "{}", after(&mostly, MOST));
    }
}
