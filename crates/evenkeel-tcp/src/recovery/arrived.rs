//! The data that an acknowledgment reports as arrived.

use super::rack::Rack;
use super::rtt::RttEstimator;
use super::scoreboard::{Fate, Position, Segment};
use crate::time::{Duration, Instant};

/// The state before the acknowledgment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) una: Position,
    pub(super) outstanding: u32,
    /// On their way or lost: outstanding, and not known to have arrived.
    pub(super) unaccounted: u32,
    /// `pipe`.
    pub(super) in_flight: u32,
    pub(super) syn_outstanding: bool,
}

/// The data that an acknowledgment reports as arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrived {
    /// Bytes by which `SND.UNA` advanced; bytes newly sacked.
    pub(super) acked: u32,
    pub(super) sacked: u32,
    /// Bytes of which nothing was known before: `DeliveredData` of RFC 9937.
    pub(super) delivered: u32,
    /// The times at which the first and the last of the arrived segments left. Only segments sent once
    /// count, even if they arrived in part.
    pub(super) first_sent: Option<Instant>,
    pub(super) last_sent: Option<Instant>,
    /// A segment that was sent again is acknowledged cumulatively: others may have waited for it, and tell no
    /// round trip (RFC 6298, 3).
    pub(super) retransmitted: bool,
    /// A segment was thought lost and not sent again, and yet it arrived.
    pub(super) lost_in_error: bool,
}

impl Arrived {
    /// Creates the report of `acked` bytes that were acknowledged in order, of which nothing was known
    /// before.
    pub(super) fn in_order(acked: u32) -> Self {
        Self { acked, delivered: acked, ..Self::default() }
    }

    /// Returns the round trip of the segment that left last of those that arrived, if it is known for sure.
    #[inline]
    pub(super) fn round_trip(&self, now: Instant) -> Option<Duration> {
        self.last_sent.filter(|_| !self.retransmitted).map(|sent| now.since(sent))
    }
}

/// Sees each segment that arrives.
pub(super) struct Witness<'a> {
    pub(super) rack: &'a mut Rack,
    pub(super) rtt: &'a mut RttEstimator,
    pub(super) now: Instant,
    pub(super) echoed: Option<Instant>,
    pub(super) arrived: &'a mut Arrived,
}

impl Witness<'_> {
    #[inline]
    pub(super) fn see(&mut self, segment: &Segment) {
        if segment.retransmitted {
            self.arrived.retransmitted = true;
        } else {
            self.time(segment);
            self.arrived.lost_in_error |= segment.fate == Fate::Lost;
        }
        let rtt = self.now.nanos_since(segment.sent_at);
        self.rack.on_delivered(segment, rtt, self.rtt.min_nanos(), self.echoed);
    }

    /// Sees a segment that was acknowledged in part: the receiver had no room for the rest. If it was sent
    /// once, that tells a round trip. No acknowledgment may ever tell another: the rest is sent again.
    #[cold]
    pub(super) fn see_part(&mut self, segment: &Segment) {
        if !segment.retransmitted {
            self.time(segment);
        }
    }

    #[inline]
    fn time(&mut self, segment: &Segment) {
        self.rtt.record_min(self.now.nanos_since(segment.sent_at), self.now);
        self.arrived.first_sent.get_or_insert(segment.sent_at);
        self.arrived.last_sent = self.arrived.last_sent.max(Some(segment.sent_at));
    }

    /// Sees a segment up to which, or up to within which, all has arrived.
    #[inline]
    pub(super) fn see_acknowledged(&mut self, segment: &Segment, whole: bool) {
        if whole { self.see(segment) } else { self.see_part(segment) }
    }
}
