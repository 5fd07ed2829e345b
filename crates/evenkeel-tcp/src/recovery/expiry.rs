//! The processing of a deadline of loss recovery: reordering (RFC 8985, 6.3), tail loss probe (7) and
//! retransmission (RFC 6298, 5).

use alloc::boxed::Box;

use super::episode::{Episode, Frto, Kind};
use super::expired::Expired;
use super::parts::Parts;
use super::prr::{Delivery, Prr};
use super::scoreboard::Fate;
use crate::time::{Duration, Instant};

/// A deadline that may have passed.
pub(super) struct Expiry<'r> {
    parts: &'r mut Parts,
    now: Instant,
}

impl<'r> Expiry<'r> {
    #[inline(always)]
    pub(super) const fn new(parts: &'r mut Parts, now: Instant) -> Self {
        Self { parts, now }
    }

    /// Processes the expiry of a deadline, when no acknowledgment has come.
    pub(super) fn process(mut self) -> Expired {
        if self.parts.rack.reordering_at <= self.now {
            self.on_reordering_over()
        } else if self.parts.tail_loss.at <= self.now {
            self.on_probe_due()
        } else if self.parts.retransmission.deadline() <= self.now {
            self.on_timeout()
        } else {
            Expired::Nothing
        }
    }

    /// Processes the expiry of a deadline while the peer's window is closed, and `probes` probes have left.
    pub(super) fn process_with_closed_window(mut self, probes: u8) -> Expired {
        if self.parts.rack.reordering_at <= self.now {
            return self.on_reordering_over();
        }
        self.parts.tail_loss.forget();
        if self.parts.retransmission.deadline() > self.now {
            return Expired::Nothing;
        }
        self.mark_lost();
        self.reduce();
        let parts = &mut *self.parts;
        parts.rack.reordering_at = Instant::NEVER;
        let factor = 1u32.checked_shl(u32::from(probes)).unwrap_or(u32::MAX);
        let interval = parts.rtt.rto().saturating_mul(factor).min(parts.config.rto.max);
        parts.retransmission.restart_for_probe(interval, self.now);
        Expired::Timeout
    }

    fn on_reordering_over(&mut self) -> Expired {
        let (parts, now) = (&mut *self.parts, self.now);
        let before = parts.before();
        let lost = parts.detect_losses(now);
        if lost == 0 {
            return Expired::Nothing;
        }
        let reduced = parts.reduce(Kind::FastRecovery, &before, false, now);
        let episode = parts.episodes.current.as_deref_mut().filter(|_| !parts.has_model);
        if let Some(Episode { kind: Kind::FastRecovery, prr, .. }) = episode {
            let delivery = Delivery { delivered: 0, in_flight: parts.board.pipe(), safe: false };
            let window = &mut parts.congestion.window;
            window.cwnd = prr.window(delivery, window.ssthresh, window.mss);
        }
        Expired::Reordering { lost, reduced }
    }

    fn on_probe_due(&mut self) -> Expired {
        let parts = &mut *self.parts;
        parts.tail_loss.cancel();
        parts.tail_loss.due = true;
        parts.counters().probes += 1;
        parts.restart_retransmission_timer(self.now);
        Expired::TailLossProbe
    }

    /// Processes the expiry of the retransmission timer (RFC 6298, 5.4 to 5.6; RFC 5681, 3.1; RFC 8985, 6.3).
    fn on_timeout(&mut self) -> Expired {
        self.parts.timeouts = self.parts.timeouts.saturating_add(1);
        self.parts.counters().timeouts += 1;
        self.parts.tail_loss.forget();
        self.mark_lost();
        if !self.parts.board.is_syn_outstanding() {
            self.reduce();
        }
        let parts = &mut *self.parts;
        parts.rack.reordering_at = Instant::NEVER;
        parts.rtt.back_off(&parts.config.rto);
        parts.restart_retransmission_timer(self.now);
        Expired::Timeout
    }

    /// Marks as lost the first segment and segments older than a round trip: `RACK_mark_losses_on_RTO`. A
    /// segment sent a moment ago is not lost because the first is.
    fn mark_lost(&mut self) {
        let (parts, now) = (&mut *self.parts, self.now);
        parts.duplicates.forget();
        if parts.board.first().is_some_and(|first| first.fate == Fate::Sacked) {
            parts.board.renege();
        }
        let patience = if parts.sack { parts.patience() } else { Duration::ZERO };
        let lost = parts.board.mark_first_lost()
            + parts.board.mark_lost_where(|segment| segment.sent_at + patience <= now);
        parts.on_lost(lost, now);
    }

    fn reduce(&mut self) {
        let parts = &mut *self.parts;
        let end = parts.board.nxt();
        let mut frto = Frto::Waiting;
        match parts.episodes.kind() {
            // Reduced already for this window of data.
            Some(Kind::FastRecovery) => frto = Frto::Off,
            // RFC 5682, 3.1, step 1: not in the middle of a recovery from a timeout. That the same segment is
            // overdue again is no progress.
            Some(Kind::Timeout(_)) if parts.timeouts == 1 => frto = Frto::Off,
            Some(Kind::WindowReduced | Kind::Timeout(_)) => {}
            None => {
                parts.episodes.undo = Some(parts.point_of_return());
                let congestion = &mut parts.congestion;
                let flight = parts.board.outstanding().min(congestion.window.cwnd);
                congestion.control.on_timeout(&mut congestion.window, flight);
            }
        }
        parts.episodes.recover = end;
        let kind = Kind::Timeout(frto);
        parts.episodes.current = Some(Box::new(Episode { kind, end, prr: Prr::new(1) }));
        parts.congestion.window.cwnd = parts.in_flight().saturating_add(parts.congestion.window.mss);
    }
}
