//! The timers of a connection, and what is due because one of them has expired.

use super::delayed_ack::DelayedAck;
use super::keepalive::KeepaliveTimer;
use super::pace::PaceTimer;
use super::persist::Persist;
use super::user_timeout::UserTimeout;
use crate::time::Instant;

/// The purpose of a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Timer {
    /// Loss recovery: retransmission, reordering, or a tail loss probe.
    Recovery,
    /// A delayed acknowledgment is due.
    DelayedAck,
    /// The pacer releases the next segment.
    Pace,
    /// The peer's window has been too small for too long.
    Persist,
    /// The peer has been silent for long.
    Keepalive,
    /// TIME-WAIT, or an orphaned FIN-WAIT-2, is over.
    TwoMsl,
    /// The peer has not answered for too long.
    GiveUp,
}

impl Timer {
    /// The number of kinds of timers.
    pub(super) const KINDS: usize = 7;
}

/// The timers of a connection. Loss recovery has its own.
#[derive(Debug)]
pub(super) struct Timers {
    pub(super) delayed_ack: DelayedAck,
    pub(super) persist: Persist,
    pub(super) keepalive: KeepaliveTimer,
    pub(super) pace: PaceTimer,
    pub(super) user_timeout: UserTimeout,
    /// The end of TIME-WAIT, or of FIN-WAIT-2 once the user has closed the connection.
    pub(super) two_msl: Instant,
}

impl Timers {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            delayed_ack: DelayedAck::default(),
            persist: Persist::default(),
            keepalive: KeepaliveTimer::default(),
            pace: PaceTimer::default(),
            user_timeout: UserTimeout::new(now),
            two_msl: Instant::NEVER,
        }
    }

    /// Returns the first deadline other than those of the pacer, of loss recovery and of the user timeout.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        let (delayed_ack, keepalive) = (self.delayed_ack.deadline(), self.keepalive.deadline());
        delayed_ack.min(self.persist.deadline()).min(keepalive).min(self.two_msl)
    }

    /// Returns whether a segment other than data is due.
    #[inline]
    pub(super) const fn any_due(&self) -> bool {
        self.delayed_ack.is_due() | self.persist.is_due() | self.keepalive.is_due()
    }

    /// Starts the timer of TIME-WAIT, and stops all others ("turn off the other timers").
    pub(super) const fn start_time_wait(&mut self, end: Instant) {
        self.delayed_ack.stop_timer();
        self.persist.stop();
        self.keepalive.stop_timer();
        self.pace.stop();
        self.two_msl = end;
    }

    /// Stops all timers, and cancels what is due: the connection is over.
    pub(super) fn cancel(&mut self) {
        self.delayed_ack.cancel();
        self.persist.stop();
        self.keepalive = KeepaliveTimer::default();
        self.pace.stop();
        self.two_msl = Instant::NEVER;
    }
}
