//! Retransmissions that the timers of loss recovery call for (RFC 6298, 5.4; RFC 8985, 7.3).
//!
//! Loss recovery finds out which segments are lost and runs the timers: see
//! [`recovery`](crate::recovery).

use super::super::recovery::{Expired, Recovery};
use super::super::seq::{SeqNumber, SeqRange};
use super::pace::PaceTimer;
use crate::time::Instant;

/// The segments that the retransmission timer and the tail loss probe let leave.
#[derive(Debug, Default)]
pub(super) struct Retransmission {
    /// Whether one lost segment may leave regardless of the congestion window and the pacer: the
    /// retransmission timer has expired.
    due: bool,
    /// Whether one segment may leave regardless of the congestion window, as a tail loss probe.
    probe_due: bool,
}

impl Retransmission {
    /// Returns whether a tail loss probe is due.
    pub(super) const fn is_probe_due(&self) -> bool {
        self.probe_due
    }

    /// Returns whether a tail loss probe was due, and counts it as sent.
    pub(super) const fn take_probe(&mut self) -> bool {
        core::mem::replace(&mut self.probe_due, false)
    }

    /// Processes a deadline of loss recovery. `synchronized` is whether segments other than a SYN can be
    /// lost.
    pub(super) fn on_deadline(
        &mut self,
        recovery: &mut Recovery,
        synchronized: bool,
        now: Instant,
    ) -> Expired {
        if self.due && recovery.is_timeout_due(now) {
            // The interface is full: the segment of the last timeout has not left yet.
            recovery.postpone_timeout(now);
            return Expired::Nothing;
        }
        let expired = recovery.on_deadline(now);
        match expired {
            Expired::TailLossProbe => self.probe_due = true,
            Expired::Timeout => self.due = synchronized,
            Expired::Reordering { .. } | Expired::Nothing => {}
        }
        expired
    }

    /// Records an acknowledgment of new data: the segment of the last timeout need not leave regardless of
    /// the window.
    pub(super) const fn on_advance(&mut self) {
        self.due = false;
    }

    /// Returns the lost bytes to send again, if they may leave now: at most `room`, and within the peer's
    /// present window, which ends at `edge`. The peer would discard data beyond it (RFC 9293, 3.8.6,
    /// SHLD-16).
    #[cold]
    pub(super) fn next(
        &mut self,
        recovery: &mut Recovery,
        pace: &mut PaceTimer,
        (room, edge): (u16, SeqNumber),
        now: Instant,
    ) -> Option<SeqRange> {
        let range = recovery.next_retransmission(room)?;
        let range = range.intersection(SeqRange::new(range.start, edge));
        if range.is_empty() {
            return None;
        }
        if !self.due && (!recovery.may_send(range.len()) || pace.delays(recovery, now)) {
            return None;
        }
        self.due = false;
        Some(range)
    }
}
