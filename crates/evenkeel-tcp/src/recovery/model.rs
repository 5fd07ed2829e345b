//! The samples for algorithms with a model of the path, and the record of the path's rate.

use super::arrived::{Arrived, Before};
use super::episode::Kind;
use super::parts::Parts;
use crate::congestion::{Recovering, Sample};
use crate::time::Instant;

/// An update of what is known of the path's rate, after an acknowledgment.
pub(super) struct RateUpdate<'r> {
    parts: &'r mut Parts,
    now: Instant,
}

impl<'r> RateUpdate<'r> {
    pub(super) const fn new(parts: &'r mut Parts, now: Instant) -> Self {
        Self { parts, now }
    }

    /// Updates the pacing: chooses the rate of a start that differs from slow start, and takes a sample of
    /// the rate. `marked` is whether a router has marked a packet.
    #[cold]
    pub(super) fn process(mut self, before: Before, arrived: Arrived, marked: bool) {
        if matches!(&self.parts.pacing, Some(pacing) if pacing.start.is_some()) {
            self.parts.start(arrived.delivered, self.now);
        }
        self.sample(&before, &arrived, marked);
    }

    /// Takes a sample of the rate. The acknowledgment of the SYN tells nothing.
    fn sample(&mut self, before: &Before, arrived: &Arrived, marked: bool) {
        let (parts, now) = (&mut *self.parts, self.now);
        let min_rtt = parts.rtt.min().unwrap_or_default();
        let Some(delivery) = &mut parts.board.delivery else { return };
        let sample = delivery.sample(min_rtt, now).filter(|_| !before.syn_outstanding);
        let delivered = delivery.delivered;
        let Some(rs) = sample else { return };
        delivery.keep(&rs);
        if !parts.has_model {
            return;
        }
        let recovering = match parts.episodes.kind() {
            None | Some(Kind::WindowReduced) => Recovering::No,
            Some(Kind::FastRecovery) => Recovering::Fast,
            Some(Kind::Timeout(_)) => Recovering::Timeout,
        };
        let sample = Sample {
            rate: rs.rate,
            volume: rs.volume,
            delivered,
            prior_delivered: rs.prior_delivered,
            app_limited: rs.app_limited,
            acked: arrived.delivered,
            lost: rs.lost,
            tx_in_flight: rs.tx_in_flight,
            in_flight: parts.in_flight(),
            cwnd_limited: parts.congestion.was_full(),
            selective: parts.sack,
            marked,
            recovering,
            rtt: arrived.round_trip(now),
            mss: parts.congestion.window.mss,
            now,
        };
        parts.congestion.on_sample(&sample);
        parts.congestion.end_round(parts.board.una(), parts.board.nxt(), before.in_flight);
        if parts.congestion.control.limits_itself() {
            let in_flight = parts.in_flight();
            if let Some(delivery) = &mut parts.board.delivery {
                delivery.limit_by_user(in_flight);
            }
        }
    }
}
