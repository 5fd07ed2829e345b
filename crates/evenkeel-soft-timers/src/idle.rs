//! The idle loop of an executor: a trigger state while something is due soon, and asleep else.

use core::task::{Context, Waker};

use evenkeel_timers::{Idle, SoftEvent};

use crate::soft_clock::{Call, SoftClock};

/// The state of the idle loop of an executor. The thread that runs it polls the clock or sleeps.
pub(crate) struct IdleLoop<'a> {
    clock: &'a SoftClock,
    asleep: Option<Waker>,
    /// The time at which the loop is woken to check for events, in ticks, with its event.
    alarm: Option<(u64, SoftEvent)>,
}

impl<'a> IdleLoop<'a> {
    pub(crate) const fn new(clock: &'a SoftClock) -> Self {
        Self { clock, asleep: None, alarm: None }
    }

    /// Arranges for the loop to run again as soon as the executor can, or at the time of the next event,
    /// because there is nothing to do.
    pub(crate) fn come_again(&mut self, context: &Context<'_>) {
        let waker = context.waker();
        match self.clock.idle_or_asleep(waker) {
            Idle::Spin => waker.wake_by_ref(),
            Idle::Halt { until } => {
                self.asleep = Some(waker.clone());
                until.into_iter().for_each(|until| self.wake_at(until, waker));
            }
        }
    }

    fn wake_at(&mut self, until: u64, waker: &Waker) {
        if self.alarm.is_some_and(|(at, _)| at == until) {
            return;
        }
        self.turn_off();
        let event = self.clock.schedule_at(until, 0, Call::from(waker.clone()));
        self.alarm = Some((until, event));
    }

    fn turn_off(&mut self) {
        if let Some((_, event)) = self.alarm.take() {
            self.clock.cancel(event);
        }
    }
}

impl Drop for IdleLoop<'_> {
    fn drop(&mut self) {
        self.turn_off();
        if let Some(waker) = &self.asleep {
            self.clock.rise(waker);
        }
    }
}
