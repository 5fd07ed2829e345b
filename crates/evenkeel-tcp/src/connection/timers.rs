//! The deadlines of a connection.

use super::super::counters::Counter;
use super::super::recovery::Expired;
use super::super::state::{State, StateEvent};
use super::config::Keepalive;
use super::error::Error;
use super::tcb::{Connection, Timers};
use crate::time::{Duration, Instant};

/// The purpose of a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    const KINDS: usize = 7;
}

impl Connection {
    /// Returns the time at which [`Connection::on_deadline`] is to be called; [`Instant::NEVER`] if
    /// nothing is due at all.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.pace_deadline().min(self.next_deadline_but_pace())
    }

    /// Returns the time at which the pacer releases the next segment; [`Instant::NEVER`] if none waits.
    /// Callers should meet it exactly; other deadlines may be late.
    pub(crate) const fn pace_deadline(&self) -> Instant {
        if matches!(self.state, State::Closed) { Instant::NEVER } else { self.timers.pace }
    }

    /// Returns the first deadline other than the pacer's; [`Instant::NEVER`] if there is none.
    pub(crate) fn next_deadline_but_pace(&self) -> Instant {
        if self.state == State::Closed {
            return Instant::NEVER;
        }
        let Timers { delayed_ack, persist, keepalive, two_msl, .. } = self.timers;
        let others = delayed_ack.min(persist).min(keepalive).min(two_msl);
        self.recovery.next_deadline().min(others).min(self.patience_ends())
    }

    /// Returns the next deadline and its purpose; `None` if nothing is due at all.
    #[must_use]
    pub fn deadline(&self) -> Option<(Instant, Timer)> {
        if self.state == State::Closed {
            return None;
        }
        let timers = &self.timers;
        let all = [
            (self.recovery.next_deadline(), Timer::Recovery),
            (timers.delayed_ack, Timer::DelayedAck),
            (timers.pace, Timer::Pace),
            (timers.persist, Timer::Persist),
            (timers.keepalive, Timer::Keepalive),
            (timers.two_msl, Timer::TwoMsl),
            (self.patience_ends(), Timer::GiveUp),
        ];
        all.into_iter().min().filter(|(at, _)| *at != Instant::NEVER)
    }

    /// Processes the deadlines that have passed at `now`. Does nothing if none has.
    pub fn on_deadline(&mut self, now: Instant) {
        // Several deadlines may have passed. Each stops its timer, or sets it to later than `now`; one of
        // loss recovery may set another that is due at once.
        for _ in 0..2 * Timer::KINDS {
            let Some((_, timer)) = self.deadline().filter(|(at, _)| *at <= now) else { return };
            self.expire(timer, now);
        }
    }

    fn expire(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Recovery => self.on_recovery_deadline(now),
            Timer::DelayedAck => {
                self.timers.delayed_ack = Instant::NEVER;
                self.tally.note(Counter::DelayedAcks);
                self.due.ack = true;
            }
            Timer::Pace => self.timers.pace = Instant::NEVER,
            Timer::Persist => {
                self.timers.persist = Instant::NEVER;
                self.timers.persist_backoff = self.timers.persist_backoff.saturating_add(1);
                self.due.window_probe = true;
            }
            Timer::Keepalive => self.on_keepalive(now),
            Timer::TwoMsl => self.on_two_msl(),
            Timer::GiveUp => self.give_up(),
        }
    }

    fn on_recovery_deadline(&mut self, now: Instant) {
        if self.snd.wnd == 0 && self.state.is_synchronized() {
            return self.on_deadline_of_closed_window(now);
        }
        if self.due.retransmission && self.recovery.is_timeout_due(now) {
            // The interface is full: the segment of the last timeout has not left yet.
            return self.recovery.postpone_timeout(now);
        }
        match self.recovery.on_deadline(now) {
            Expired::TailLossProbe => self.due.tail_loss_probe = true,
            Expired::Timeout => {
                self.tally.note(Counter::Timeouts);
                self.due.retransmission = self.state.is_synchronized();
                self.tell_reduction();
                self.suspect_path(now);
            }
            Expired::Reordering { reduced, .. } => {
                if reduced {
                    self.tell_reduction();
                }
            }
            Expired::Nothing => {}
        }
    }

    /// Processes a deadline of loss recovery while the peer's window is closed: data on its way, or lost,
    /// waits for the window, too. "If the window shrinks to zero, the TCP implementation MUST probe it in
    /// the standard way" (RFC 9293, 3.8.6).
    #[cold]
    fn on_deadline_of_closed_window(&mut self, now: Instant) {
        let probes = self.timers.persist_backoff.saturating_add(1);
        match self.recovery.on_deadline_of_closed_window(probes, now) {
            Expired::Timeout => {
                self.timers.persist_backoff = probes;
                self.due.window_probe = true;
                self.tell_reduction();
            }
            Expired::Reordering { reduced: true, .. } => self.tell_reduction(),
            _ => {}
        }
    }

    /// Records that the congestion window has become smaller: the next new data report it with CWR (RFC
    /// 3168, 6.1.2).
    pub(super) const fn tell_reduction(&mut self) {
        self.snd.cwr |= self.ecn && self.state.is_synchronized();
    }

    /// Returns the end of R2 (RFC 9293, 3.8.3), measured in time: from when something was first sent, or a
    /// window found closed, without a sign of the peer. [`Instant::NEVER`] if nothing waits for the peer.
    #[inline]
    fn patience_ends(&self) -> Instant {
        let probes = self.timers.persist != Instant::NEVER || self.due.window_probe && self.snd.unsent() > 0;
        let waits = !self.recovery.is_empty() || probes;
        let patience =
            if self.state.is_synchronized() { self.config.user_timeout } else { self.config.connect_timeout };
        if waits { self.snd.progress + patience } else { Instant::NEVER }
    }

    fn give_up(&mut self) {
        self.tally.note(Counter::AbortOnTimeout);
        self.fail(if self.soft_error { Error::Unreachable } else { Error::TimedOut });
    }

    /// Starts the persist timer: data waits for a window that is too small, and nothing is on its way
    /// whose acknowledgment could open it. Does nothing if the timer runs.
    pub(super) fn start_persist(&mut self, now: Instant) {
        if !self.recovery.is_empty() || self.timers.persist != Instant::NEVER {
            return;
        }
        if self.timers.persist_backoff == 0 {
            self.snd.progress = now;
        }
        let longest = self.config.recovery.rto.max;
        let factor = 1u32.checked_shl(u32::from(self.timers.persist_backoff)).unwrap_or(u32::MAX);
        self.timers.persist = now + self.recovery.rto().saturating_mul(factor).min(longest);
    }

    /// Brings the next window probe forward to at most one timeout from now, or stops probing if no data
    /// waits: the peer's window is open, or has moved.
    ///
    /// A timer that runs is never postponed: a peer whose window moves by a few bytes at a time, and never
    /// far enough, would put off the override of silly-window avoidance for ever (RFC 9293, 3.8.6.2.1).
    pub(super) fn ease_persist(&mut self, now: Instant) {
        if self.timers.persist == Instant::NEVER || self.snd.unsent() == 0 {
            return self.stop_persist();
        }
        self.timers.persist_backoff = 0;
        self.timers.persist = self.timers.persist.min(now + self.recovery.rto());
    }

    pub(super) const fn stop_persist(&mut self) {
        self.timers.persist = Instant::NEVER;
        self.timers.persist_backoff = 0;
        self.due.window_probe = false;
    }

    /// Restarts the keep-alive timer, because the peer has sent something.
    pub(super) fn restart_keepalive(&mut self, now: Instant) {
        if let Some(keepalive) = self.config.keepalive.filter(|_| self.state != State::TimeWait) {
            self.timers.keepalive = now + keepalive.idle;
            self.timers.keepalive_probes = 0;
        }
    }

    /// Sets the keep-alive probes to an idle peer, or turns them off (RFC 9293, 3.8.4, MUST-24).
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>, now: Instant) {
        self.own_config().keepalive = keepalive;
        self.timers.keepalive = Instant::NEVER;
        if self.state.is_synchronized() {
            self.restart_keepalive(now);
        }
    }

    /// Sends a keep-alive probe, unless other segments already ask the peer for an answer (RFC 9293,
    /// 3.8.4). Gives up after the last unanswered probe.
    fn on_keepalive(&mut self, now: Instant) {
        self.timers.keepalive = Instant::NEVER;
        let Some(keepalive) = self.config.keepalive else { return };
        if !self.recovery.is_empty() || self.timers.persist != Instant::NEVER {
            return self.restart_keepalive(now);
        }
        if self.timers.keepalive_probes >= keepalive.probes_max {
            return self.give_up();
        }
        self.timers.keepalive_probes += 1;
        self.timers.keepalive = now + keepalive.interval.max(Duration::from_millis(1));
        self.due.keepalive = true;
    }

    fn on_two_msl(&mut self) {
        if self.state == State::TimeWait {
            self.step(StateEvent::Timeout);
        }
        self.end();
    }
}
