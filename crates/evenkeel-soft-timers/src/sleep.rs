//! Sleeping: a future that any executor can run.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use evenkeel_timers::SoftEvent;
use evenkeel_timers::time::nanos;

use crate::soft_clock::{Call, SoftClock};

/// The default of [`Sleep::late_by_at_most`] in ticks: how late a sleeper may be if no trigger state
/// occurs.
const LATE: u64 = 50_000;

/// A future that waits until a time; see [`SoftClock::sleep_until`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    clock: SoftClock,
    until: u64,
    late: u64,
    pending: Option<(SoftEvent, Waker)>,
}

impl SoftClock {
    /// Sleeps until the clock reads at least `ticks`. A trigger state wakes the task, or the backing 50 µs
    /// later if there was none.
    ///
    /// The future works in every executor. Trigger states are calls of [`SoftClock::trigger`], and each poll
    /// of a sleeper. With the feature `tokio`, its runtimes have some, too. An idle executor sleeps and has
    /// none, so the backing's thread must wait ([`Waits::Thread`](crate::Waits::Thread)).
    ///
    /// ```
    /// use core::future::Future;
    /// use core::pin::pin;
    /// use core::task::{Context, Waker};
    ///
    /// use evenkeel_soft_timers::{Options, SoftClock};
    ///
    /// let clock: SoftClock = SoftClock::start(Options::default())?;
    /// let until = clock.measure_time() + 50_000;
    /// let mut sleep = pin!(clock.sleep_until(until));
    ///
    /// // The smallest executor: it polls again and again.
    /// let mut context = Context::from_waker(Waker::noop());
    /// while sleep.as_mut().poll(&mut context).is_pending() {}
    /// assert!(clock.measure_time() >= until);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sleep_until(&self, ticks: u64) -> Sleep {
        Sleep { clock: self.clone(), until: ticks, late: LATE, pending: None }
    }

    /// Sleeps for a duration, from now on.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.measure_time().saturating_add(nanos(time)))
    }
}

impl Sleep {
    /// Sets how many ticks after its end the backing wakes the task if no trigger state has done so. A
    /// larger value means fewer interrupts; with zero the sleep is a kernel timer.
    pub fn late_by_at_most(mut self, ticks: u64) -> Self {
        self.late = ticks;
        self
    }

    /// Returns the time until which the task sleeps, in ticks.
    #[must_use]
    pub const fn until(&self) -> u64 {
        self.until
    }

    fn forget(&mut self) {
        if let Some((event, _)) = self.pending.take() {
            self.clock.cancel(event);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.clock.trigger();
        let same = |waker: &Waker| waker.will_wake(context.waker());
        let waits = self.pending.as_ref().filter(|(event, _)| self.clock.is_pending(*event));
        match waits.map(|(_, waker)| same(waker)) {
            None if self.clock.measure_time() >= self.until => return Poll::Ready(()),
            Some(true) => return Poll::Pending,
            _ => self.forget(),
        }
        let waker = context.waker().clone();
        let event = self.clock.schedule_at(self.until, self.late, Call::from(waker.clone()));
        self.pending = Some((event, waker));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
