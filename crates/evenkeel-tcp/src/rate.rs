//! Rates: bytes in a time.

use core::fmt;

use crate::time::{Duration, nanos};

/// A rate in bytes per second, at least one.
///
/// ```
/// use evenkeel_tcp::Rate;
/// use evenkeel_tcp::time::Duration;
///
/// let rate = Rate::bits_per_s(100_000_000);
/// assert_eq!(rate.time_for(1_500), Duration::from_micros(120));
/// assert_eq!(Rate::of(125_000, Duration::from_millis(10)), Some(rate));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The rate that is higher than any other.
    pub const UNLIMITED: Self = Self(u64::MAX);
    const SECOND_NANOS: u64 = nanos(Duration::from_secs(1));

    /// Creates a rate from bits per second. It is at least one byte per second.
    #[must_use]
    pub const fn bits_per_s(bits: u64) -> Self {
        Self::bytes_per_s(bits / 8)
    }

    /// Creates a rate from bytes per second, at least one.
    #[must_use]
    pub const fn bytes_per_s(bytes: u64) -> Self {
        Self(if bytes == 0 { 1 } else { bytes })
    }

    /// Returns the rate of `bytes` in `time`; [`None`] if the time is zero.
    #[must_use]
    pub fn of(bytes: u64, time: Duration) -> Option<Self> {
        let nanos = nanos(time);
        let rate = match bytes.checked_mul(Self::SECOND_NANOS) {
            Some(product) => product.checked_div(nanos)?,
            None => u64::try_from(
                (u128::from(bytes) * u128::from(Self::SECOND_NANOS)).checked_div(u128::from(nanos))?,
            )
            .unwrap_or(u64::MAX),
        };
        Some(Self::bytes_per_s(rate))
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub const fn as_bytes_per_s(self) -> u64 {
        self.0
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub const fn as_bits_per_s(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Returns the time that `bytes` take at this rate.
    #[must_use]
    pub const fn time_for(self, bytes: u32) -> Duration {
        // 2^32 * 10^9 is less than 2^62.
        Duration::from_nanos(bytes as u64 * Self::SECOND_NANOS / self.0)
    }

    /// Returns the number of bytes that pass in `time` at this rate.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> u64 {
        let product = u128::from(self.0) * u128::from(nanos(time));
        u64::try_from(product / u128::from(Self::SECOND_NANOS)).unwrap_or(u64::MAX)
    }

    /// Returns `percent` hundredths of the rate.
    #[must_use]
    pub fn percent(self, percent: u32) -> Self {
        let percent = u64::from(percent);
        Self::bytes_per_s(match self.0.checked_mul(percent) {
            Some(product) => product / 100,
            None => (self.0 / 100).saturating_mul(percent),
        })
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.as_bits_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_ethernet_frame_takes_240_us_at_50_mbit_and_120_at_100() {
        assert_eq!(Rate::bits_per_s(50_000_000).time_for(1_500), Duration::from_micros(240));
        assert_eq!(Rate::bits_per_s(100_000_000).time_for(1_500), Duration::from_micros(120));
    }

    #[test]
    fn what_arrives_in_a_time_is_its_rate() {
        let rate = Rate::of(1_250_000, Duration::from_millis(100));
        assert_eq!(rate, Some(Rate::bits_per_s(100_000_000)));
        assert_eq!(Rate::bits_per_s(100_000_000).bytes_in(Duration::from_millis(100)), 1_250_000);
        assert_eq!(Rate::bits_per_s(100_000_000).percent(125), Rate::bits_per_s(125_000_000));
        assert_eq!(Rate::of(1, Duration::ZERO), None);
    }

    proptest! {
        #[test]
        fn nothing_overflows(bytes: u64, few: u32, nanos: u64, percent: u32) {
            let time = Duration::from_nanos(nanos);
            for rate in [Rate::bytes_per_s(bytes), Rate::of(bytes, time).unwrap_or(Rate::UNLIMITED)] {
                prop_assert!(rate.as_bytes_per_s() > 0);
                let _ = (rate.time_for(few), rate.bytes_in(time), rate.percent(percent));
            }
        }
    }
}
