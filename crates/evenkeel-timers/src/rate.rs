//! A token bucket, kept as one instant.

use crate::time::{Duration, Instant};

/// Lets `burst` events pass at once and `per_s` a second in the long run.
///
/// Instead of a count of tokens it keeps the instant at which the bucket will be full again (the generic cell
/// rate algorithm): nothing has to be refilled.
#[derive(Debug, Clone)]
pub struct RateLimit {
    interval: Option<Duration>,
    tolerance: Duration,
    full_at: Instant,
}

impl RateLimit {
    /// So many a second, and so many at once. One that lets nothing pass has zero of either.
    #[must_use]
    pub fn new(per_s: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_s).filter(|_| burst > 0);
        let tolerance = interval.unwrap_or_default() * burst.saturating_sub(1);
        Self { interval, tolerance, full_at: Instant::ZERO }
    }

    /// Whether one more may pass now; takes its token if so.
    pub fn pass(&mut self, now: Instant) -> bool {
        let Some(interval) = self.interval else { return false };
        let full_at = self.full_at.max(now);
        let passes = full_at.since(now) <= self.tolerance;
        if passes {
            self.full_at = full_at + interval;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate() {
        let mut limit = RateLimit::new(100, 10);
        let passed = |limit: &mut RateLimit, at| (0..50).filter(|_| limit.pass(at)).count();
        assert_eq!(passed(&mut limit, Instant::from_millis(1)), 10);
        assert_eq!(passed(&mut limit, Instant::from_millis(5)), 0);
        assert_eq!(passed(&mut limit, Instant::from_millis(31)), 3);
        assert_eq!(passed(&mut limit, Instant::from_millis(9_000)), 10);
        assert!(!RateLimit::new(0, 10).pass(Instant::ZERO));
    }
}
