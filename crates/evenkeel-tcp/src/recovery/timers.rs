//! The three timers of loss recovery: reordering (RFC 8985, 6.3), tail loss probe (7) and retransmission (RFC
//! 6298, 5).

use super::Recovery;
use super::episode::{Episode, Frto, Kind};
use super::expired::Expired;
use super::prr::{Delivery, Prr};
use super::scoreboard::{Fate, Position};
use crate::time::{Duration, Instant};

impl Recovery {
    /// Returns when [`Recovery::on_deadline`] is to be called; [`None`] while nothing is outstanding. The
    /// time changes with every segment sent and every acknowledgment.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.next_deadline()).filter(|at| *at != Instant::NEVER)
    }

    /// Returns when [`Recovery::on_deadline`] is to be called; [`Instant::NEVER`] while nothing is
    /// outstanding.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.reordering_at.min(self.tail_loss.at).min(self.retransmission_at)
    }

    /// Handles the expiry of a deadline at `now`, when no acknowledgment has come.
    pub fn on_deadline(&mut self, now: Instant) -> Expired {
        if self.reordering_at <= now {
            self.on_reordering_over(now)
        } else if self.tail_loss.at <= now {
            self.on_probe_due(now)
        } else if self.retransmission_at <= now {
            self.on_timeout(now)
        } else {
            Expired::Nothing
        }
    }

    /// Returns whether [`Recovery::on_deadline`] would say [`Expired::Timeout`].
    #[must_use]
    pub fn is_timeout_due(&self, now: Instant) -> bool {
        self.retransmission_at <= now && self.reordering_at > now && self.tail_loss.at > now
    }

    /// Starts the retransmission timer anew. The segment that it called for last time has not left yet.
    pub fn postpone_timeout(&mut self, now: Instant) {
        self.retransmission_at = self.timeout_from(now);
    }

    /// Does what [`Recovery::on_deadline`] does, while the peer's window is closed, and nothing can be sent
    /// again. The retransmission timer then is the persist timer (RFC 9293, 3.8.6.1): [`Expired::Timeout`]
    /// asks for a probe of the window, the next comes after 2^`probes` timeouts, and none counts as one.
    ///
    /// All that is old enough is lost, however: the peer had no room for it.
    pub fn on_deadline_of_closed_window(&mut self, probes: u8, now: Instant) -> Expired {
        if self.reordering_at <= now {
            return self.on_reordering_over(now);
        }
        self.tail_loss.forget();
        if self.retransmission_at > now {
            return Expired::Nothing;
        }
        self.mark_lost_on_timeout(now);
        self.reduce_on_timeout();
        self.reordering_at = Instant::NEVER;
        let factor = 1u32.checked_shl(u32::from(probes)).unwrap_or(u32::MAX);
        self.retransmission_at = now + self.rto().saturating_mul(factor).min(self.config.rto.max);
        Expired::Timeout
    }

    /// Skips the probe of [`Expired::TailLossProbe`], because no segment may leave.
    pub fn skip_probe(&mut self) {
        self.tail_loss.forget();
    }

    /// The SYN was sent again so often, by a listener, before there was this connection.
    pub fn set_syn_timeouts(&mut self, timeouts: u8) {
        self.timeouts = timeouts;
    }

    /// Returns the expiry of a retransmission timer that is set at `now` (RFC 6298, 5).
    fn timeout_from(&self, now: Instant) -> Instant {
        now.plus_nanos(self.rtt.rto_nanos())
    }

    fn on_reordering_over(&mut self, now: Instant) -> Expired {
        let before = self.before();
        let lost = self.detect_losses(now);
        if lost == 0 {
            return Expired::Nothing;
        }
        let reduced = self.reduce(Kind::FastRecovery, &before, false, now);
        if let Some(Episode { kind: Kind::FastRecovery, prr, .. }) = self.episode.as_deref_mut()
            && !self.config.algorithm.is_model_based()
        {
            let delivery = Delivery { delivered: 0, in_flight: self.board.pipe(), safe: false };
            self.window.cwnd = prr.window(delivery, self.window.ssthresh, self.window.mss);
        }
        Expired::Reordering { lost, reduced }
    }

    fn on_probe_due(&mut self, now: Instant) -> Expired {
        self.tail_loss.cancel();
        self.tail_loss.due = true;
        self.totals.get_or_insert_default().probes += 1;
        self.retransmission_at = self.timeout_from(now);
        Expired::TailLossProbe
    }

    /// Handles the expiry of the retransmission timer (RFC 6298, 5.4 to 5.6; RFC 5681, 3.1; RFC 8985, 6.3).
    fn on_timeout(&mut self, now: Instant) -> Expired {
        self.timeouts = self.timeouts.saturating_add(1);
        self.totals.get_or_insert_default().timeouts += 1;
        self.tail_loss.forget();
        self.mark_lost_on_timeout(now);
        if !self.board.is_syn_outstanding() {
            self.reduce_on_timeout();
        }
        self.reordering_at = Instant::NEVER;
        self.rtt.back_off(&self.config.rto);
        self.retransmission_at = self.timeout_from(now);
        Expired::Timeout
    }

    /// Marks as lost the first segment and segments older than a round trip: `RACK_mark_losses_on_RTO`. A
    /// segment sent a moment ago is not lost because the first is.
    fn mark_lost_on_timeout(&mut self, now: Instant) {
        self.duplicates = 0;
        self.duplicate_bytes = 0;
        if self.board.first().is_some_and(|first| first.fate == Fate::Sacked) {
            self.board.renege();
        }
        let patience = if self.sack { self.patience() } else { Duration::ZERO };
        let lost = self.board.mark_first_lost()
            + self.board.mark_lost_where(|segment| segment.sent_at + patience <= now);
        self.count_lost(lost);
        if self.config.algorithm.is_model_based() {
            self.tell_losses(now);
        }
    }

    fn reduce_on_timeout(&mut self) {
        let end = self.board.nxt();
        let mut frto = Frto::Waiting;
        match self.episode.as_ref().map(|episode| episode.kind) {
            // Reduced already for this window of data.
            Some(Kind::FastRecovery) => frto = Frto::Off,
            // RFC 5682, 3.1, step 1: not in the middle of a recovery from a timeout. That the same segment is
            // overdue again is no progress.
            Some(Kind::Timeout(_)) if self.timeouts == 1 => frto = Frto::Off,
            Some(Kind::WindowReduced | Kind::Timeout(_)) => {}
            None => {
                self.undo = Some(self.point_of_return());
                let flight = self.board.outstanding().min(self.window.cwnd);
                self.control.on_timeout(&mut self.window, flight);
            }
        }
        self.recover = end;
        self.episode = Some(Box::new(Episode { kind: Kind::Timeout(frto), end, prr: Prr::new(1) }));
        self.window.cwnd = self.in_flight().saturating_add(self.window.mss);
    }

    /// F-RTO waits for new data to leave, and none can. Returns whether
    /// [`next_retransmission`](Self::next_retransmission) now gives what is lost instead.
    #[cold]
    pub fn give_up_new_data(&mut self) -> bool {
        let room = self.may_send(self.window.mss);
        let nxt = self.board.nxt();
        let Some(Episode { kind: Kind::Timeout(frto @ Frto::SendingNew), end, .. }) =
            self.episode.as_deref_mut()
        else {
            return false;
        };
        let none_left = nxt == *end && room;
        if none_left {
            *frto = Frto::Off;
        }
        none_left
    }

    pub(super) fn set_timers_after_sending(
        &mut self,
        (start, end): (Position, Position),
        retransmission: bool,
        now: Instant,
    ) {
        // RFC 6298, 5.1; and no segment is sent again less than a timeout after it was (5).
        if self.retransmission_at == Instant::NEVER || start == self.board.una() {
            self.retransmission_at = self.timeout_from(now);
        }
        if self.tail_loss.due {
            self.tail_loss.on_probe(self.board.nxt(), retransmission);
            if end < self.board.nxt() {
                // The peer's window has cut it: its acknowledgment tells nothing of the tail.
                self.tail_loss.forget();
            }
        } else if !retransmission {
            self.schedule_probe(now);
        }
    }

    pub(super) fn set_timers_after_ack(&mut self, advanced: bool, now: Instant) {
        if self.board.is_empty() {
            // RFC 6298, 5.2
            self.retransmission_at = Instant::NEVER;
            self.reordering_at = Instant::NEVER;
            self.tail_loss.cancel();
        } else if advanced {
            // RFC 6298, 5.3
            self.retransmission_at = self.timeout_from(now);
        }
        if advanced {
            self.timeouts = 0;
            self.tail_loss.due = false;
            self.schedule_probe(now);
        } else if self.board.sacked_segments() > 0 {
            self.tail_loss.cancel();
        }
    }

    /// Schedules the tail loss probe (RFC 8985, 7.2): with SACK, outside of recovery, while nothing has
    /// arrived out of order.
    fn schedule_probe(&mut self, now: Instant) {
        let quiet =
            self.episode.is_none() && self.board.sacked_segments() == 0 && self.board.lost_bytes() == 0;
        let possible = self.sack && !self.board.is_syn_outstanding() && !self.board.is_empty();
        if !quiet || !possible || !self.tail_loss.may_probe() {
            return self.tail_loss.cancel();
        }
        let alone = self.board.segments() == 1;
        self.tail_loss.schedule(
            now,
            self.rtt.srtt_nanos(),
            alone,
            self.config.ack_delay_max,
            self.retransmission_at,
        );
    }
}
