//! Numbers for identifications and jitter, from a seed.

use core::time::Duration;

use evenkeel_base::SplitMix64;

/// SplitMix64: small, and good enough where only collisions and synchronisation are to be avoided, not
/// prediction.
#[derive(Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random time from zero to `longest`.
    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        self.0.up_to(longest)
    }
}
