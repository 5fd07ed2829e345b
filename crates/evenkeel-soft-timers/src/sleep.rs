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

/// Waits until a time; see [`SoftClock::sleep_until`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    clock: SoftClock,
    until: u64,
    late: u64,
    pending: Option<(SoftEvent, Waker)>,
}

impl SoftClock {
    /// Sleeps until the clock reads `ticks`; not less. The task is woken in a trigger state, or by the
    /// backing 50 µs later if there was none.
    ///
    /// Works in every executor. Trigger states are calls of [`SoftClock::trigger`], which polling a
    /// sleeper is, too. With the feature `tokio`, those of its runtimes as well. An executor that has nothing
    /// to do sleeps and has none: so the backing's thread is to wait
    /// ([`Waits::Thread`](crate::Waits::Thread)).
    pub fn sleep_until(&self, ticks: u64) -> Sleep {
        Sleep { clock: self.clone(), until: ticks, late: LATE, pending: None }
    }

    /// Sleeps for a time.
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

    /// Returns the time at which the sleep ends, in ticks.
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
