//! Token buckets, each of which is one instant.

use crate::time::{Duration, Instant};

/// A limit on events: a mean rate, and a number of events that may pass at once.
///
/// One limit serves many buckets, for example one bucket for each peer.
///
/// ```
/// use evenkeel_timers::{Bucket, Duration, Instant, RateLimit};
///
/// // 100 answers a second, at most 3 at once.
/// let limit = RateLimit::new(100, 3);
/// let mut bucket = Bucket::default();
/// let mut passes = |now| {
///     let has_token = limit.has_token(&bucket, now);
///     if has_token {
///         limit.take(&mut bucket, 1, now);
///     }
///     has_token
/// };
///
/// let now = Instant::from_millis(1_000);
/// assert_eq!([(); 4].map(|()| passes(now)), [true, true, true, false]);
/// assert!(passes(now + Duration::from_millis(10)));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    interval: Option<Duration>,
    tolerance: Duration,
}

/// The remaining events that a [`RateLimit`] lets pass. A new bucket is full.
///
/// A bucket stores the instant at which it will be full again, instead of a count of tokens (the generic cell
/// rate algorithm). So nothing has to be refilled.
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
    /// Creates a limit of `per_s` events a second on average and `burst` events at once. If either is zero,
    /// no event passes.
    #[must_use]
    pub fn new(per_s: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_s).filter(|_| burst > 0);
        let tolerance = interval.unwrap_or_default() * burst.saturating_sub(1);
        Self { interval, tolerance }
    }

    /// Returns whether the bucket has a token.
    #[must_use]
    pub fn has_token(&self, bucket: &Bucket, now: Instant) -> bool {
        self.interval.is_some() && bucket.full_at.since(now) <= self.tolerance
    }

    /// Takes tokens from the bucket. If it has fewer, it owes the rest, and is refilled later.
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
