//! The timestamps option (RFC 7323): our clock, and what we last heard of the peer's.

use super::super::options::Timestamps;
use crate::time::{Duration, Instant};

/// Timestamps in both directions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// Added to ours.
    offset: u32,
    /// TS.Recent, and when it came, in seconds.
    recent: u32,
    recent_at: u32,
}

impl Clock {
    /// TS.Recent says nothing after so long: the peer's clock may have gone half round (RFC 7323, 5.5).
    const OUTDATED_SECONDS: u32 = 24 * 24 * 3_600;

    pub(super) const fn new(offset: u32) -> Self {
        Self { offset, recent: 0, recent_at: 0 }
    }

    /// It ticks once in a millisecond.
    fn value(&self, now: Instant) -> u32 {
        self.offset.wrapping_add((now.as_nanos() / 1_000_000) as u32)
    }

    /// What a segment says that leaves now.
    pub(super) fn option(&self, now: Instant) -> Timestamps {
        Timestamps { value: self.value(now), echo: self.recent }
    }

    /// TS.Recent.
    pub(super) const fn recent(&self) -> u32 {
        self.recent
    }

    /// What the peer's clock says.
    pub(super) const fn hear(&mut self, value: u32, now: Instant) {
        self.recent = value;
        self.recent_at = seconds(now);
    }

    /// `value` is older than what was heard last: the segment is from an earlier round of the sequence
    /// numbers (PAWS, RFC 7323, 5.3, R1).
    pub(super) fn is_old(&self, value: u32, now: Instant) -> bool {
        value.wrapping_sub(self.recent).cast_signed() < 0
            && seconds(now).wrapping_sub(self.recent_at) <= Self::OUTDATED_SECONDS
    }

    /// How long ago we sent what the peer echoes; `None` if that is not from the past.
    pub(super) fn age(&self, echo: u32, now: Instant) -> Option<Duration> {
        let ticks = self.value(now).wrapping_sub(echo).cast_signed();
        u64::try_from(ticks).ok().map(Duration::from_millis)
    }
}

const fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}
