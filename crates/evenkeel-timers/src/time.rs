//! Points in time. Real or virtual, time is a number that the caller passes in.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// A point in time, in nanoseconds since a start that the caller chooses.
///
/// The caller decides which clock it comes from: a processor's counter, the kernel's monotonic clock, or the
/// virtual time of a simulator. Arithmetic saturates: no sum exceeds [`Instant::NEVER`], and no difference is
/// below zero.
///
/// ```
/// use evenkeel_timers::{Duration, Instant};
///
/// let start = Instant::from_millis(5);
/// let end = start + Duration::from_micros(250);
/// assert_eq!((end.as_nanos(), end - start), (5_250_000, Duration::from_micros(250)));
/// assert_eq!(start.since(end), Duration::ZERO);
/// assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
/// assert_eq!(format!("{end:?}"), "0.005250000s");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of time.
    pub const ZERO: Self = Self(0);
    /// The instant of no event: later than all others.
    pub const NEVER: Self = Self(u64::MAX);

    /// Creates the instant `nanos` ns after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates the instant `micros` µs after the start.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Creates the instant `millis` ms after the start.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start, for reports.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for reports only")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Returns the time since `earlier` in nanoseconds; zero if `earlier` is later.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the instant `nanos` ns later, saturating at [`Instant::NEVER`].
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// Returns the nanoseconds of a duration, saturating at `u64::MAX` (584 years).
#[must_use]
pub const fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

impl Add<Duration> for Instant {
    type Output = Self;
    /// Adds a duration, saturating at [`Instant::NEVER`].
    fn add(self, by: Duration) -> Self {
        self.plus_nanos(nanos(by))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
