//! quinn's timers, in trigger states.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use evenkeel_soft_timers::{Sleep, SoftClock};
use evenkeel_tcp::time::nanos;
use quinn::AsyncTimer;

/// One moment on both clocks: quinn counts in instants of the standard library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base {
    instant: Instant,
    ticks: u64,
}

impl Base {
    #[expect(clippy::disallowed_methods, reason = "quinn's times are of that clock")]
    pub(crate) fn new(clock: &SoftClock) -> Self {
        Self { instant: Instant::now(), ticks: clock.measure_time() }
    }

    pub(crate) fn instant(&self, ticks: u64) -> Instant {
        self.instant + Duration::from_nanos(ticks.saturating_sub(self.ticks))
    }

    /// Converts an instant to ticks of the clock. An instant before the clock's reference instant counts as
    /// the reference. Instants centuries ahead saturate.
    fn ticks(&self, instant: Instant) -> u64 {
        self.ticks.saturating_add(nanos(instant.saturating_duration_since(self.instant)))
    }
}

#[derive(Debug)]
pub(crate) struct Timer {
    clock: SoftClock,
    base: Base,
    sleep: Sleep,
}

impl Timer {
    pub(crate) fn new(clock: &SoftClock, base: Base, at: Instant) -> Self {
        Self { clock: clock.clone(), base, sleep: clock.sleep_until(base.ticks(at)) }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        let ticks = self.base.ticks(at);
        if ticks != self.sleep.until() {
            self.sleep = self.clock.sleep_until(ticks);
        }
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.sleep).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_soft_timers::Options;
    use std::task::Waker;

    #[test]
    fn a_timer_ends_when_it_says_and_can_be_set_anew() {
        let clock = SoftClock::start(Options::default()).unwrap();
        let base = Base::new(&clock);
        let late = base.instant(clock.measure_time() + 3_600_000_000_000);
        let mut timer = Box::pin(Timer::new(&clock, base, late));
        let mut context = Context::from_waker(Waker::noop());
        assert!(timer.as_mut().poll(&mut context).is_pending());
        let until = clock.measure_time() + 200_000;
        timer.as_mut().reset(base.instant(until));
        while timer.as_mut().poll(&mut context).is_pending() {}
        assert!(clock.measure_time() >= until);
        assert_eq!(clock.pending(), 0, "what it was set to first is forgotten");
    }

    #[test]
    fn times_are_the_same_on_both_clocks() {
        let clock = SoftClock::start(Options::default()).unwrap();
        let base = Base::new(&clock);
        for ticks in [base.ticks, base.ticks + 1, base.ticks + 1_000_000_007] {
            assert_eq!(base.ticks(base.instant(ticks)), ticks);
        }
        assert_eq!(base.ticks(base.instant - Duration::from_nanos(1)), base.ticks);
    }
}
