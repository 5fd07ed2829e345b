//! The samples for algorithms with a model of the path, and the record of the path's rate.

use super::Recovery;
use super::ack::{Arrived, Before};
use super::episode::Kind;
use crate::congestion::{Lost, Recovering, Sample};
use crate::time::{Duration, Instant};

impl Recovery {
    /// An acknowledgment is dealt with: what does it tell of the rate? The acknowledgment of the SYN tells
    /// nothing.
    pub(super) fn sample(&mut self, before: &Before, arrived: &Arrived, marked: bool, now: Instant) {
        let min_rtt = self.rtt.min().unwrap_or_default();
        let Some(delivery) = &mut self.board.delivery else { return };
        let sample = delivery.sample(min_rtt, now).filter(|_| !before.syn_outstanding);
        let delivered = delivery.delivered;
        let Some(rs) = sample else { return };
        delivery.keep(&rs);
        if !self.config.algorithm.is_model_based() {
            return;
        }
        let recovering = match self.episode.as_ref().map(|episode| episode.kind) {
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
            in_flight: self.in_flight(),
            cwnd_limited: self.flight_max.saturating_add(self.window.mss) > self.window.cwnd,
            selective: self.sack,
            marked,
            recovering,
            rtt: self.round_trip(arrived, now),
            mss: self.window.mss,
            now,
        };
        self.control.on_sample(&mut self.window, &sample);
        self.told_at = now;
        self.end_round(before);
        if self.control.limits_itself() {
            let in_flight = self.in_flight();
            if let Some(delivery) = &mut self.board.delivery {
                delivery.limit_by_user(in_flight);
            }
        }
    }

    /// Returns the round trip of the segment that left last of those that arrived.
    fn round_trip(&self, arrived: &Arrived, now: Instant) -> Option<Duration> {
        arrived.last_sent.filter(|_| !arrived.retransmitted).map(|sent| now.since(sent))
    }

    /// Tells the algorithm of each segment that is newly lost.
    #[cold]
    pub(super) fn tell_losses(&mut self, now: Instant) {
        let Some(delivery) = &mut self.board.delivery else { return };
        let delivered = delivery.delivered;
        for lost in delivery.take_losses() {
            let lost = Lost {
                start: lost.start,
                len: lost.len,
                tx_in_flight: lost.tx_in_flight,
                since_sent: lost.since_sent,
                app_limited: lost.app_limited,
                delivered,
                selective: self.sack,
                now,
            };
            self.control.on_lost(&self.window, &lost);
        }
    }
}
