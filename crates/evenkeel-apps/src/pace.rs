//! The pacing of a load generator: the number of frames that are due.

use evenkeel::raw::time::{Duration, Instant};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The frames due at a steady rate, sans-IO. The caller passes the time and sends as many frames as
/// [`Pace::take`] returns.
///
/// A generator that could not run for a while does not make up for it with a burst. Overdue frames beyond
/// `burst_pkts` are given up and counted as missed. [`Pace::granted`] is the load that was really offered.
#[derive(Debug, Clone)]
pub struct Pace {
    rate_pps: Option<u64>,
    burst_pkts: u64,
    start: Instant,
    granted: u64,
    missed: u64,
}

impl Pace {
    /// Creates a pace of `rate_pps` frames per second from `start` on, with at most `burst_pkts` (at least
    /// one) at a time.
    #[must_use]
    pub fn new(rate_pps: u64, burst_pkts: u64, start: Instant) -> Self {
        Self { rate_pps: Some(rate_pps), burst_pkts: burst_pkts.max(1), start, granted: 0, missed: 0 }
    }

    /// Creates a pace without a rate: as fast as the caller can, `burst_pkts` at a time.
    #[must_use]
    pub fn unlimited(burst_pkts: u64, start: Instant) -> Self {
        Self { rate_pps: None, ..Self::new(0, burst_pkts, start) }
    }

    /// Returns how many frames to send now, and counts them as offered.
    pub fn take(&mut self, now: Instant) -> u64 {
        let frames = match self.rate_pps {
            None => self.burst_pkts,
            Some(rate_pps) => {
                let owed = due(rate_pps, now.since(self.start)).saturating_sub(self.granted + self.missed);
                self.missed += owed.saturating_sub(self.burst_pkts);
                owed.min(self.burst_pkts)
            }
        };
        self.granted += frames;
        frames
    }

    /// Returns the time at which the next frame is due. It is not after `now` if a frame is due already,
    /// and [`Instant::NEVER`] at a rate of zero.
    #[must_use]
    pub fn next(&self) -> Instant {
        match self.rate_pps {
            None => self.start,
            Some(0) => Instant::NEVER,
            Some(rate_pps) => {
                let frames = u128::from(self.granted + self.missed) + 1;
                let nanos = (frames * NANOS_PER_SECOND).div_ceil(u128::from(rate_pps));
                self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the number of frames granted so far.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the number of frames given up because the caller was too late for them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the rate really offered from the start until `now`, in frames per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for reports")]
    pub fn offered_pps(&self, now: Instant) -> f64 {
        let seconds = now.since(self.start).as_secs_f64();
        if seconds > 0.0 { self.granted as f64 / seconds } else { 0.0 }
    }
}

/// Returns the number of frames due `elapsed` after the start. Errors do not accumulate, because each result
/// is computed from the start.
fn due(rate_pps: u64, elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos() * u128::from(rate_pps) / NANOS_PER_SECOND).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_punctual_caller_sends_the_exact_rate() {
        let mut pace = Pace::new(333_333, 32, Instant::ZERO);
        for micros in (0..=3_000_000).step_by(7) {
            pace.take(Instant::from_micros(micros));
        }
        pace.take(Instant::from_millis(3_000));
        assert_eq!((pace.granted(), pace.missed()), (999_999, 0));
        assert!((pace.offered_pps(Instant::from_millis(3_000)) - 333_333.0).abs() < 1e-6);
    }

    #[test]
    fn a_late_caller_gets_one_bounded_burst_and_the_rest_is_missed() {
        let mut pace = Pace::new(1_000_000, 32, Instant::ZERO);
        assert_eq!(pace.take(Instant::from_millis(1)), 32);
        assert_eq!(pace.missed(), 968);
        assert_eq!(pace.take(Instant::from_millis(1)), 0, "what was missed is not owed");
        assert_eq!(pace.take(Instant::from_micros(1_010)), 10);
    }

    #[test]
    fn at_the_announced_time_a_frame_is_due_and_not_before() {
        let mut pace = Pace::new(7_000, 8, Instant::ZERO);
        for _ in 0..1_000 {
            let at = pace.next();
            assert_eq!(pace.clone().take(Instant::from_nanos(at.as_nanos() - 1)), 0);
            assert_eq!(pace.take(at), 1);
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let mut stopped = Pace::new(0, 8, Instant::ZERO);
        assert_eq!((stopped.take(Instant::NEVER), stopped.next()), (0, Instant::NEVER));
        let mut unlimited = Pace::unlimited(8, Instant::from_millis(5));
        assert_eq!((unlimited.take(Instant::from_millis(5)), unlimited.granted()), (8, 8));
        let mut absurd = Pace::new(u64::MAX, u64::MAX, Instant::ZERO);
        assert_eq!(absurd.take(Instant::NEVER), u64::MAX);
        assert_eq!(absurd.offered_pps(Instant::ZERO), 0.0);
    }
}
