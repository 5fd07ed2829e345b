//! Random numbers of tests, from a seed.

use core::time::Duration;

use evenkeel_base::SplitMix64;

/// The random number generator `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a time from zero to `longest`.
    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        self.0.up_to(longest)
    }
}
