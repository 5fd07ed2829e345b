//! A bound for worlds that would run for ever: it detects hosts that continue to work while hardly any time
//! passes.

use evenkeel_core::time::{Duration, Instant};

/// The length of one observation interval.
const SPAN: Duration = Duration::from_millis(1);
/// The number of events in [`SPAN`] that counts as a standstill. Work that costs nothing takes a
/// nanosecond, so a host that finds such work again and again reaches this number in a third of [`SPAN`];
/// bursts of some ten thousand frames do not.
pub(crate) const MOST: u64 = 1_000_000;

/// Counts how often something goes on while little time passes.
#[derive(Debug)]
pub(crate) struct Standstill {
    until: Instant,
    times: u64,
}

impl Standstill {
    pub(crate) const fn new() -> Self {
        Self { until: Instant::ZERO, times: 0 }
    }

    /// Counts once more. Returns whether it was too often for the time that has passed.
    #[inline]
    pub(crate) fn is_reached(&mut self, now: Instant) -> bool {
        if now >= self.until {
            (self.until, self.times) = (now + SPAN, 0);
        }
        self.times += 1;
        self.times > MOST
    }
}
