//! Token buckets, each kept as one instant.

use crate::time::{Duration, Instant};

/// So many events a second in the long run, and so many at once: of each bucket.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    interval: Option<Duration>,
    tolerance: Duration,
}

/// The remaining events that a [`RateLimit`] lets pass. A new bucket is full.
///
/// Instead of a count of tokens it keeps the instant at which it will be full again (the generic cell rate
/// algorithm): nothing has to be refilled.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    full_at: Instant,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { full_at: Instant::ZERO }
    }
}

impl RateLimit {
    /// Creates a limit of `per_s` events a second on average and `burst` at once. A limit that lets nothing
    /// pass has zero of either.
    #[must_use]
    pub fn new(per_s: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_s).filter(|_| burst > 0);
        let tolerance = interval.unwrap_or_default() * burst.saturating_sub(1);
        Self { interval, tolerance }
    }

    /// Returns whether there is a token in the bucket.
    #[must_use]
    pub fn has_token(&self, bucket: &Bucket, now: Instant) -> bool {
        self.interval.is_some() && bucket.full_at.since(now) <= self.tolerance
    }

    /// Takes tokens, also more than there are: the bucket owes them.
    pub fn take(&self, bucket: &mut Bucket, tokens: u32, now: Instant) {
        bucket.full_at = bucket.full_at.max(now) + self.interval.unwrap_or_default() * tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(limit: RateLimit, bucket: &mut Bucket, at: Instant) -> usize {
        let mut pass = || {
            let passes = limit.has_token(bucket, at);
            limit.take(bucket, u32::from(passes), at);
            passes
        };
        (0..50).filter(|_| pass()).count()
    }

    #[test]
    fn a_burst_passes_then_the_rate() {
        let (limit, mut bucket) = (RateLimit::new(100, 10), Bucket::default());
        assert_eq!(passed(limit, &mut bucket, Instant::from_millis(1)), 10);
        assert_eq!(passed(limit, &mut bucket, Instant::from_millis(5)), 0);
        assert_eq!(passed(limit, &mut bucket, Instant::from_millis(31)), 3);
        assert_eq!(passed(limit, &mut bucket, Instant::from_millis(9_000)), 10);
        assert_eq!(passed(RateLimit::new(0, 10), &mut Bucket::default(), Instant::ZERO), 0);
    }

    #[test]
    fn what_a_bucket_owes_is_refilled_first() {
        let (limit, mut bucket) = (RateLimit::new(100, 10), Bucket::default());
        limit.take(&mut bucket, 15, Instant::from_millis(1));
        assert_eq!(passed(limit, &mut bucket, Instant::from_millis(51)), 0);
        assert_eq!(passed(limit, &mut bucket, Instant::from_millis(81)), 3);
    }
}
