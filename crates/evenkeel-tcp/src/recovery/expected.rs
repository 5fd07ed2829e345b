//! The acknowledgment that nearly always comes: of the next segments, in order, while nothing is lost, sacked
//! or sent again, and no reduction of the window under way.

use super::arrived::{Arrived, Witness};
use super::model::RateUpdate;
use super::parts::Parts;
use crate::SeqNumber;
use crate::congestion::Arrival;
use crate::time::{Duration, Instant};

/// An acknowledgment of the expected kind.
pub(super) struct ExpectedAck<'r> {
    parts: &'r mut Parts,
    now: Instant,
}

impl<'r> ExpectedAck<'r> {
    #[inline(always)]
    pub(super) const fn new(parts: &'r mut Parts, now: Instant) -> Self {
        Self { parts, now }
    }

    /// Processes the acknowledgment `ack`, which advances.
    #[inline(always)]
    pub(super) fn process(self, ack: SeqNumber, rtt_echo: impl FnOnce() -> Option<Duration>) {
        let Self { parts, now } = self;
        let (before, position) = (parts.before(), parts.board.position(ack));
        let acked = position.saturating_sub(parts.board.una()) as u32;
        // Of segments that were sent only once the echo tells nothing.
        let mut arrived = Arrived::in_order(acked);
        let (rack, rtt) = (&mut parts.rack, &mut parts.rtt);
        let mut witness = Witness { rack, rtt, now, echoed: None, arrived: &mut arrived };
        parts.board.acknowledge(position, |segment, whole| witness.see_acknowledged(segment, whole));
        parts.sample_rtt(&arrived, rtt_echo, now);
        parts.duplicates.restart();
        if !parts.has_model {
            let (una, nxt) = (parts.board.una(), parts.board.nxt());
            let Parts { congestion, rtt, .. } = &mut *parts;
            congestion.grow(now, || {
                let (rtt, srtt) = (arrived.round_trip(now), rtt.srtt());
                Arrival { bytes: arrived.delivered, una, nxt, rtt, srtt, now }
            });
            parts.congestion.end_round(una, nxt, before.in_flight);
        }
        parts.set_timers_after_ack(true, now);
        if parts.pacing.is_some() {
            RateUpdate::new(parts, now).process(before, arrived, false);
        }
    }
}
