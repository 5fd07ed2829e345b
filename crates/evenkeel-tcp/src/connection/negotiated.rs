//! The options on which both SYNs agree: timestamps, SACK and window scaling. [`ecn`](super::ecn) has the
//! agreement on ECN.

use super::super::options::{SackBlocks, Timestamps};
use super::super::segment::{Flags, Header};
use super::super::seq::SeqNumber;
use super::clock::Clock;
use super::config::{Agreement, Config};
use crate::time::{Duration, Instant};

/// The size of the timestamps option in bytes, padding included.
const TIMESTAMPS_LEN: u16 = 12;

/// The options in use; before the SYNs agree, those that the peer may still agree to.
#[derive(Debug)]
pub(super) struct Negotiated {
    clock: Clock,
    /// Whether both sides send timestamps.
    timestamps: bool,
    /// Whether both sides can use SACK.
    sack: bool,
    /// Whether both sides scale their windows.
    scaling: bool,
}

impl Negotiated {
    /// Returns the options that `config` offers. `timestamp_offset` is added to our timestamps.
    pub(super) fn offer(config: &Config, timestamp_offset: u32) -> Self {
        Self {
            clock: Clock::new(timestamp_offset),
            timestamps: config.timestamps,
            sack: config.sack,
            scaling: config.window_scaling,
        }
    }

    /// Puts into effect the options on which the SYNs agree.
    pub(super) fn agree(&mut self, agreement: &Agreement, now: Instant) {
        self.scaling = agreement.window_scale.is_some();
        self.sack = agreement.sack;
        self.timestamps &= agreement.timestamp.is_some();
        if let Some(value) = agreement.timestamp {
            self.clock.set_recent(value, now);
        }
    }

    /// Returns whether SACK is in use.
    pub(super) const fn sack(&self) -> bool {
        self.sack
    }

    /// Returns whether windows are scaled.
    pub(super) const fn scaling(&self) -> bool {
        self.scaling
    }

    /// Returns whether timestamps are in use.
    pub(super) const fn timestamps(&self) -> bool {
        self.timestamps
    }

    /// Returns the timestamps option of a segment that leaves at `now`.
    #[inline]
    pub(super) fn timestamps_option(&self, now: Instant) -> Option<Timestamps> {
        self.timestamps.then(|| self.clock.option(now))
    }

    /// Returns the bytes of options in a segment that reports no SACK.
    pub(super) const fn options_len(&self) -> u16 {
        if self.timestamps { TIMESTAMPS_LEN } else { 0 }
    }

    /// Returns TS.Recent, if timestamps are in use.
    pub(super) fn ts_recent(&self) -> Option<u32> {
        self.timestamps.then_some(self.clock.recent())
    }

    /// Returns the SACK blocks of a segment that count.
    pub(super) fn sack_blocks(&self, header: &Header) -> SackBlocks {
        if self.sack { header.options.sack } else { SackBlocks::default() }
    }

    /// Returns whether a segment passes PAWS (RFC 7323, 5.3, R1): it has a timestamp that is not old, or
    /// timestamps are not in use.
    #[inline]
    pub(super) fn is_timely(&self, header: &Header, now: Instant) -> bool {
        !self.timestamps
            || header.options.timestamps.is_some_and(|clocks| !self.clock.is_old(clocks.value, now))
    }

    /// Returns whether a segment has a timestamp that is old by PAWS.
    pub(super) fn is_old(&self, header: &Header, now: Instant) -> bool {
        let old = |clocks: Timestamps| self.clock.is_old(clocks.value, now);
        self.timestamps && header.options.timestamps.is_some_and(old)
    }

    /// Returns whether a segment lacks the timestamp that both sides agreed on; it is then dropped
    /// silently (RFC 7323, 3.2). A SYN is excepted: a peer that has begun anew must get an answer (RFC
    /// 5961, 4.2). The caller handles resets before.
    pub(super) const fn lacks_timestamp(&self, header: &Header) -> bool {
        self.timestamps && header.options.timestamps.is_none() && !header.flags.contains(Flags::SYN)
    }

    /// Records the timestamp to echo: that of the segment for which the last ACK, of number `last_ack`, was
    /// sent (RFC 7323, 4.3).
    #[inline]
    pub(super) fn on_segment(&mut self, header: &Header, last_ack: SeqNumber, now: Instant) {
        let in_order = self.timestamps && header.seq.at_or_before(last_ack);
        if let Some(clocks) = header.options.timestamps.filter(|_| in_order) {
            self.clock.set_recent(clocks.value, now);
        }
    }

    /// Returns the time since the segment was sent whose timestamp `header` echoes. `None` if timestamps
    /// are not in use, or if the time is longer than `rto_max`, the longest retransmission timeout.
    #[inline]
    pub(super) fn age_of_echo(&self, header: &Header, rto_max: Duration, now: Instant) -> Option<Duration> {
        let clocks = header.options.timestamps.filter(|_| self.timestamps)?;
        let age = self.clock.age(clocks.echo, now)?;
        // No segment is under way for that long: the echo was forged, and the pacer would wait as long for
        // the next segment.
        Some(age).filter(|age| *age <= rto_max)
    }
}
