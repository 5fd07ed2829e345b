//! The conversion of the kernel's time stamps of frames to the emulator's clock.

use evenkeel::raw::time::{Clock, Duration, Instant};

/// The interval of comparisons of the two clocks. The system's clock is slewed, and may step.
const EVERY: Duration = Duration::from_millis(100);
/// The number of readings in a comparison, of which the tightest counts.
const TRIES: usize = 4;

/// The system's clock in terms of the emulator's clock.
#[derive(Debug)]
pub(super) struct Wall {
    /// Nanoseconds since 1970 when the emulator's clock was at zero.
    zero: u64,
    again: Instant,
}

impl Wall {
    pub(super) fn new(clock: &Clock) -> Self {
        let mut wall = Self { zero: 0, again: Instant::ZERO };
        wall.compare(clock, clock.now());
        wall
    }

    /// Compares the clocks, if the interval has passed.
    pub(super) fn compare(&mut self, clock: &Clock, now: Instant) {
        if now < self.again {
            return;
        }
        let reading = || {
            let before = clock.now();
            let (nanos, after) = clock.wall_now();
            (after.nanos_since(before), nanos.saturating_sub(after.as_nanos()))
        };
        if let Some((_, zero)) = (0..TRIES).map(|_| reading()).min() {
            self.zero = zero;
        }
        self.again = now + EVERY;
    }

    /// Returns the time of a stamp on the emulator's clock. Any error is towards later times, so that no
    /// frame leaves before its time.
    pub(super) const fn time_of(&self, stamp_nanos: u64) -> Instant {
        Instant::from_nanos(stamp_nanos.saturating_sub(self.zero))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_never_taken_for_earlier_than_it_is() {
        let clock = Clock::start();
        let wall = Wall::new(&clock);
        for _ in 0..1_000 {
            let before = clock.now();
            let (stamp, after) = clock.wall_now();
            let time = wall.time_of(stamp);
            // The system's clock may be slewed meanwhile, by at most 500 ppm.
            let slack = Duration::from_micros(50);
            assert!(time + slack >= before && after + slack >= time, "{before:?} {time:?} {after:?}");
        }
    }
}
