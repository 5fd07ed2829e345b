//! The processing of a segment that leaves.

use super::config::Restart;
use super::congestion::{Congestion, initial_window};
use super::pacing::Leaving;
use super::parts::Parts;
use super::scoreboard::Position;
use crate::SeqRange;
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// The time for which an unused window is kept (RFC 7661, 4.4.3).
const NON_VALIDATED_MAX: Duration = Duration::from_secs(300);

/// A segment that leaves.
pub(super) struct Sending<'r> {
    parts: &'r mut Parts,
    start: Position,
    end: Position,
    retransmission: bool,
    now: Instant,
}

impl<'r> Sending<'r> {
    #[inline(always)]
    pub(super) fn new(parts: &'r mut Parts, range: SeqRange, retransmission: bool, now: Instant) -> Self {
        let start = parts.board.position(range.start);
        let end = start + u64::from(range.len());
        Self { parts, start, end, retransmission, now }
    }

    /// Records that the segment left.
    #[inline(always)]
    pub(super) fn process(mut self) {
        if self.retransmission {
            self.count_again();
        } else {
            self.after_idle();
            self.parts.board.sent(self.end, self.now);
        }
        let bytes = (self.end - self.start) as u32;
        self.parts.episodes.on_sent(bytes);
        if self.parts.pacing.is_some() {
            self.pace(bytes);
        }
        self.parts.last_sent = self.now;
        self.parts.congestion.on_sent(self.parts.in_flight());
        self.set_timers();
    }

    fn count_again(&mut self) {
        let Self { parts, start, end, now, .. } = self;
        let bytes = parts.board.sent_again(*start, *end, *now);
        if let Some(undo) = &mut parts.episodes.undo {
            undo.on_sent_again(*start, *end, bytes, *now);
        }
        let counters = parts.counters();
        counters.retransmitted_segments += 1;
        counters.retransmitted_bytes += u64::from(bytes);
    }

    /// Adapts the state of congestion control to the time in which nothing was sent, because knowledge of
    /// the path ages (RFC 5681, 4.1).
    #[inline]
    fn after_idle(&mut self) {
        let parts = &mut *self.parts;
        if !parts.board.is_empty() || parts.board.is_syn_outstanding() {
            return;
        }
        parts.congestion.on_idle(self.now);
        if self.now.nanos_since(parts.last_sent) > parts.rtt.rto_nanos() {
            self.after_pause();
        }
    }

    /// Adapts the connection after a pause longer than a retransmission timeout.
    #[cold]
    fn after_pause(&mut self) {
        let (parts, now) = (&mut *self.parts, self.now);
        let Congestion { window, control, .. } = &mut parts.congestion;
        if parts.has_model {
            return control.on_restart(window, now);
        }
        if let Some(known) = parts.pacing.as_ref().and_then(|pacing| pacing.known_window(window)) {
            window.cwnd = known;
            return;
        }
        let initial = initial_window(&parts.config, window.mss);
        let (Restart::LastRate, Some(pacing), Some(srtt)) =
            (parts.config.restart, &mut parts.pacing, parts.rtt.srtt())
        else {
            window.cwnd = window.cwnd.min(initial);
            return;
        };
        // RFC 7661, 4.4.3, for each of its periods.
        let periods = now.since(parts.last_sent).as_nanos() / NON_VALIDATED_MAX.as_nanos();
        if periods > 0 {
            window.ssthresh = window.ssthresh.max(window.cwnd / 4 * 3);
            let halved = window.cwnd.checked_shr(u32::try_from(periods).unwrap_or(u32::MAX));
            window.cwnd = halved.unwrap_or(0).max(initial);
        }
        let known = parts.board.delivery.as_ref().and_then(|delivery| delivery.rate);
        let by_window = Rate::of(u64::from(window.cwnd), srtt);
        // A connection that had little to say has shown no rate: slow start would be as fast as this.
        let least = Rate::of(u64::from(initial), srtt);
        if let Some(rate) = known.into_iter().chain(by_window).min().max(least) {
            pacing.be_careful(rate, srtt, now);
        }
    }

    /// Records in the pacing that the segment left.
    #[cold]
    fn pace(&mut self, bytes: u32) {
        let parts = &mut *self.parts;
        if !self.retransmission {
            parts.board.stamp_new(bytes, self.now);
        }
        if let Some(pacing) = &mut parts.pacing {
            let Congestion { window, control, .. } = &parts.congestion;
            let rate = if parts.has_model { control.pacing_rate(window, parts.rtt.srtt()) } else { None };
            let sent = Leaving { bytes, overhead: u32::from(parts.overhead), rate };
            pacing.on_sent(sent, window, parts.rtt.srtt_nanos(), self.now);
        }
    }

    #[inline]
    fn set_timers(&mut self) {
        let (parts, now) = (&mut *self.parts, self.now);
        // RFC 6298, 5.1; and no segment is sent again less than a timeout after it was (5).
        if parts.retransmission.deadline() == Instant::NEVER || self.start == parts.board.una() {
            parts.restart_retransmission_timer(now);
        }
        if parts.tail_loss.due {
            parts.tail_loss.on_probe(parts.board.nxt(), self.retransmission);
            if self.end < parts.board.nxt() {
                // The peer's window has cut it: its acknowledgment tells nothing of the tail.
                parts.tail_loss.forget();
            }
        } else if !self.retransmission {
            parts.schedule_probe(now);
        }
    }
}
