//! The processing of a deadline that has passed (RFC 9293, 3.10.8).

use super::super::counters::Counter;
use super::super::recovery::Expired;
use super::super::state::{State, StateEvent};
use super::keepalive::PeerState;
use super::tcb::Tcb;
use super::timers::Timer;
use crate::time::Instant;

/// A deadline that has passed.
pub(super) struct Expiry<'c> {
    tcb: &'c mut Tcb,
    now: Instant,
}

impl<'c> Expiry<'c> {
    #[inline(always)]
    pub(super) const fn new(tcb: &'c mut Tcb, now: Instant) -> Self {
        Self { tcb, now }
    }

    /// Processes the deadline of `timer`.
    pub(super) fn process(mut self, timer: Timer) {
        match timer {
            Timer::Recovery => self.on_recovery(),
            Timer::DelayedAck => {
                self.tcb.timers.delayed_ack.on_deadline();
                self.tcb.counted.add(Counter::DelayedAcks);
            }
            Timer::Pace => self.tcb.timers.pace.stop(),
            Timer::Persist => self.tcb.timers.persist.on_deadline(),
            Timer::Keepalive => self.on_keepalive(),
            Timer::TwoMsl => self.on_two_msl(),
            Timer::GiveUp => self.on_user_timeout(),
        }
    }

    fn on_recovery(&mut self) {
        let (tcb, now) = (&mut *self.tcb, self.now);
        let synchronized = tcb.state.is_synchronized();
        if tcb.snd.wnd == 0 && synchronized {
            return self.on_recovery_of_closed_window();
        }
        match tcb.retransmission.on_deadline(&mut tcb.recovery, synchronized, now) {
            Expired::Timeout => {
                tcb.counted.add(Counter::Timeouts);
                tcb.on_reduction();
                if synchronized {
                    tcb.path.on_timeout(&tcb.negotiated, &mut tcb.recovery, now);
                }
            }
            Expired::Reordering { reduced: true, .. } => tcb.on_reduction(),
            Expired::Reordering { .. } | Expired::TailLossProbe | Expired::Nothing => {}
        }
    }

    /// Processes a deadline of loss recovery while the peer's window is closed: data on its way, or lost,
    /// waits for the window, too. "If the window shrinks to zero, the TCP implementation MUST probe it in
    /// the standard way" (RFC 9293, 3.8.6).
    #[cold]
    fn on_recovery_of_closed_window(&mut self) {
        let probes = self.tcb.timers.persist.backoff().saturating_add(1);
        match self.tcb.recovery.on_deadline_of_closed_window(probes, self.now) {
            Expired::Timeout => {
                self.tcb.timers.persist.on_timeout(probes);
                self.tcb.on_reduction();
            }
            Expired::Reordering { reduced: true, .. } => self.tcb.on_reduction(),
            _ => {}
        }
    }

    fn on_keepalive(&mut self) {
        let timers = &mut self.tcb.timers;
        let asked = !self.tcb.recovery.is_empty() || timers.persist.is_running();
        if timers.keepalive.on_deadline(self.tcb.config.keepalive, asked, self.now) == PeerState::Silent {
            self.on_user_timeout();
        }
    }

    fn on_two_msl(&mut self) {
        if self.tcb.state == State::TimeWait {
            self.tcb.step(StateEvent::Timeout);
        }
        self.tcb.end();
    }

    /// Gives the connection up: the peer has not answered for too long.
    fn on_user_timeout(&mut self) {
        self.tcb.counted.add(Counter::AbortOnTimeout);
        self.tcb.fail(self.tcb.failure.without_answer());
    }
}
