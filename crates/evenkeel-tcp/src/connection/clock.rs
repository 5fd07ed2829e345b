//! The timestamps option (RFC 7323): our clock, and the last value of the peer's.

use super::super::options::Timestamps;
use crate::time::{Duration, Instant};

/// The timestamps of both directions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The offset of our timestamps from the host's milliseconds.
    offset: u32,
    /// TS.Recent, the peer's last timestamp, and the time in seconds at which it came.
    recent: u32,
    recent_at: u32,
}

impl Clock {
    /// The age in seconds at which TS.Recent is too old to compare with: the peer's clock may have gone
    /// half round (RFC 7323, 5.5).
    const OUTDATED_SECONDS: u32 = 24 * 24 * 3_600;

    pub(super) const fn new(offset: u32) -> Self {
        Self { offset, recent: 0, recent_at: 0 }
    }

    /// Returns the timestamp of `now`. The clock ticks once in a millisecond.
    fn value(&self, now: Instant) -> u32 {
        self.offset.wrapping_add((now.as_nanos() / 1_000_000) as u32)
    }

    /// Returns the timestamps option of a segment that leaves at `now`.
    pub(super) fn option(&self, now: Instant) -> Timestamps {
        Timestamps { value: self.value(now), echo: self.recent }
    }

    /// Returns TS.Recent: the peer's last timestamp that counted.
    pub(super) const fn recent(&self) -> u32 {
        self.recent
    }

    /// Records the peer's timestamp `value` as TS.Recent.
    pub(super) const fn set_recent(&mut self, value: u32, now: Instant) {
        self.recent = value;
        self.recent_at = seconds(now);
    }

    /// Returns whether the timestamp `value` is older than TS.Recent: the segment is from an earlier round
    /// of the sequence numbers (PAWS, RFC 7323, 5.3, R1).
    pub(super) fn is_old(&self, value: u32, now: Instant) -> bool {
        (value.wrapping_sub(self.recent) as i32) < 0
            && seconds(now).wrapping_sub(self.recent_at) <= Self::OUTDATED_SECONDS
    }

    /// Returns the time since we sent the timestamp that the peer echoes; `None` if `echo` is later than
    /// `now`.
    pub(super) fn age(&self, echo: u32, now: Instant) -> Option<Duration> {
        let ticks = self.value(now).wrapping_sub(echo) as i32;
        u64::try_from(ticks).ok().map(Duration::from_millis)
    }
}

const fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}
