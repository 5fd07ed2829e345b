//! Pacing: the segments of a window leave over a round trip, not all at once.
//!
//! The pacer has no timer. It says when the next segment may leave; whoever sends waits for that, as exactly
//! as it can. What it is late it may make up for, within bounds, so that a coarse timer costs smoothness but
//! not throughput.

use super::congestion::Window;
use crate::time::{Duration, Instant};

/// Releases segments at a multiple of `cwnd / SRTT`.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    /// The next segment leaves then.
    next: Instant,
}

impl Pacer {
    /// While the window is well below `ssthresh`, twice the rate, because it doubles with every round trip;
    /// in per cent, as in Linux.
    const GAIN_SLOW_START: u64 = 200;
    /// Above it enough more that pacing is never what limits.
    const GAIN_AVOIDANCE: u64 = 120;
    /// What a late sender may make up for, unless an eighth of the round trip is less.
    const CREDIT_MAX: Duration = Duration::from_millis(1);

    pub(super) const fn new() -> Self {
        Self { next: Instant::ZERO }
    }

    /// When the next segment may leave; [`None`] if now.
    pub(super) fn release_time(&self, now: Instant) -> Option<Instant> {
        (self.next > now).then_some(self.next)
    }

    /// So many bytes left.
    pub(super) fn on_sent(&mut self, bytes: u32, window: &Window, srtt: Duration, now: Instant) {
        let credit = (srtt / 8).min(Self::CREDIT_MAX);
        let earliest = Instant::ZERO + now.since(Instant::ZERO + credit);
        self.next = self.next.max(earliest) + Self::time_for(bytes, window, srtt);
    }

    /// How long so many bytes take at the rate of now.
    fn time_for(bytes: u32, window: &Window, srtt: Duration) -> Duration {
        let gain =
            if window.cwnd < window.ssthresh / 2 { Self::GAIN_SLOW_START } else { Self::GAIN_AVOIDANCE };
        let nanos =
            srtt.as_nanos() * u128::from(bytes) * 100 / (u128::from(window.cwnd.max(1)) * u128::from(gain));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    /// Sends whenever it is released, noticing that `late` after the time; returns when segments left.
    fn run(window: &Window, srtt: Duration, segments: u32, late: Duration) -> Vec<Instant> {
        let mut pacer = Pacer::new();
        let mut now = us(1_000_000);
        let mut left = Vec::new();
        for _ in 0..segments {
            if let Some(at) = pacer.release_time(now) {
                now = at + late;
            }
            pacer.on_sent(window.mss, window, srtt, now);
            left.push(now);
        }
        left
    }

    #[test]
    fn a_window_leaves_within_a_round_trip_at_even_distances() {
        let window = Window { cwnd: 120_000, ssthresh: 60_000, mss: 1000 };
        let left = run(&window, Duration::from_millis(144), 101, Duration::ZERO);
        // 1.2 * 120 segments in 144 ms: one a millisecond. The first has a credit of one millisecond.
        assert_eq!(left[1], left[0]);
        assert!(left.windows(2).skip(1).all(|pair| pair[1] - pair[0] == Duration::from_millis(1)));
    }

    #[test]
    fn in_slow_start_the_rate_is_twice_the_windows() {
        let window = Window { cwnd: 100_000, ssthresh: Window::UNKNOWN, mss: 1000 };
        let left = run(&window, Duration::from_millis(200), 202, Duration::ZERO);
        assert_eq!(left[201] - left[1], Duration::from_millis(200));
    }

    #[test]
    fn a_sender_that_is_a_little_late_keeps_the_rate() {
        let window = Window { cwnd: 120_000, ssthresh: 60_000, mss: 1000 };
        let srtt = Duration::from_millis(14) + Duration::from_micros(400);
        let exact = run(&window, srtt, 1000, Duration::ZERO);
        let late = run(&window, srtt, 1000, Duration::from_micros(900));
        assert!(late[999] - exact[999] <= Duration::from_millis(1));
    }

    #[test]
    fn after_a_pause_no_more_than_the_credit_leaves_at_once() {
        let window = Window { cwnd: 100_000, ssthresh: 50_000, mss: 1000 };
        let srtt = Duration::from_millis(12);
        let mut pacer = Pacer::new();
        let mut burst = 0;
        while pacer.release_time(us(10_000_000)).is_none() {
            pacer.on_sent(window.mss, &window, srtt, us(10_000_000));
            burst += 1;
        }
        // A segment takes 100 us, and a millisecond is the credit.
        assert_eq!(burst, 11);
    }
}
