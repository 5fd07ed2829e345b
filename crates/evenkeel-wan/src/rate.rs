//! The rates at which frames leave, one after the other.

use evenkeel_timers::Instant;

use crate::trace::{Cursor, Trace};

/// The rate at which frames leave.
///
/// ```
/// use evenkeel_wan::Rate;
///
/// let dsl = Rate::Bits(16_000_000);
/// // Recorded with mahimahi: one opportunity at 10 ms, two at 20 ms.
/// let lte = Rate::Trace("10\n20\n20\n".parse()?);
/// # assert_ne!(dsl, lte);
/// # Ok::<(), evenkeel_wan::TraceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Rate {
    /// Frames leave at once.
    #[default]
    Unlimited,
    /// A number of bits per second. Zero counts as 1.
    Bits(u64),
    /// Frames leave at the delivery opportunities of a trace, which begins with the [`Path`](crate::Path).
    Trace(Trace),
}

/// A wire on which frames leave one after the other.
///
/// Nothing is rounded away: a frame has left at the first whole nanosecond at which a wire of exactly that
/// rate would have sent it, however many have left before.
#[derive(Debug, Clone)]
pub(crate) enum Wire {
    Unlimited,
    Bits {
        bps: u64,
        /// The time at which the last accepted frame has left: whole nanoseconds here, and `parts` of a
        /// `bps`th of one.
        free: Instant,
        parts: u64,
    },
    Trace(Cursor),
}

/// Longer frames take as long as one of this length: none that exists is that long.
const FRAME_BYTES_MAX: u32 = 1 << 20;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl Wire {
    pub(crate) fn new(rate: &Rate, begin: Instant) -> Self {
        match rate {
            Rate::Unlimited => Self::Unlimited,
            Rate::Bits(bps) => Self::Bits { bps: (*bps).max(1), free: Instant::ZERO, parts: 0 },
            Rate::Trace(trace) => Self::Trace(Cursor::new(trace.clone(), begin)),
        }
    }

    /// Changes the rate from now on. Frames that were accepted leave as before.
    pub(crate) fn set_rate(&mut self, rate: &Rate, begin: Instant) {
        match (&mut *self, rate) {
            (Self::Bits { bps, free, parts }, Rate::Bits(now)) if bps != now => {
                *free = up(*free, *parts);
                (*bps, *parts) = ((*now).max(1), 0);
            }
            (Self::Bits { .. }, Rate::Bits(_)) | (Self::Unlimited, Rate::Unlimited) => {}
            (Self::Trace(cursor), Rate::Trace(trace)) if cursor.trace() == trace => {}
            _ => *self = Self::new(rate, begin),
        }
    }

    /// Returns when a frame that arrives now begins to leave.
    pub(crate) fn start(&mut self, now: Instant) -> Instant {
        match self {
            Self::Unlimited => now,
            Self::Bits { free, parts, .. } => up(*free, *parts).max(now),
            Self::Trace(cursor) => {
                cursor.seek(now);
                cursor.time()
            }
        }
    }

    /// Accepts a frame that comes now and counts as so many bytes; says when it has left.
    pub(crate) fn accept(&mut self, now: Instant, bytes: u32) -> Instant {
        let bytes = bytes.clamp(1, FRAME_BYTES_MAX);
        match self {
            Self::Unlimited => now,
            Self::Bits { bps, free, parts } => {
                if *free < now {
                    (*free, *parts) = (now, 0);
                }
                let work = (u64::from(bytes) * 8 * NANOS_PER_SECOND).saturating_add(*parts);
                *free = free.plus_nanos(work / *bps);
                *parts = work % *bps;
                up(*free, *parts)
            }
            Self::Trace(cursor) => {
                cursor.seek(now);
                cursor.consume(bytes);
                cursor.time()
            }
        }
    }
}

/// Returns the first whole nanosecond that is not earlier.
const fn up(whole: Instant, parts: u64) -> Instant {
    if parts > 0 { whole.plus_nanos(1) } else { whole }
}
