//! Trigger states of tokio's runtimes.

use core::future::Future;
use core::pin::Pin;
use core::task::Context;

use evenkeel_timers::{Idle, SoftEvent};
use tokio::runtime::{Builder, Runtime};

use crate::soft_clock::{Call, SoftClock};

impl SoftClock {
    /// Every time that a thread of the runtime parks, and every time that it is woken, is a trigger state.
    ///
    /// The builder has one function for each of both: those that were set before are no longer called.
    /// A runtime of several threads whose threads are busy or asleep has no others but the polling of
    /// sleepers and what the program's tasks call; hooks before each task are not stable in tokio.
    pub fn drive<'a>(&self, builder: &'a mut Builder) -> &'a mut Builder {
        let (parks, wakes) = (self.clone(), self.clone());
        builder.on_thread_park(move || parks.parks()).on_thread_unpark(move || _ = wakes.trigger())
    }

    /// A thread is about to sleep. What its tasks have scheduled since the idle loop was there may be due
    /// soon.
    fn parks(&self) {
        self.trigger();
        if self.idle(false) == Idle::Spin
            && let Some(waker) = &*self.idle_loop()
        {
            waker.wake_by_ref();
        }
    }

    /// Runs a future on a runtime, whose idle loop becomes a trigger state while something is due soon: then
    /// the runtime does not park its thread, but looks after tasks and descriptors and comes by here, again
    /// and again. If nothing is due within [an interval of the backing](Self::idle), it sleeps.
    ///
    /// That is what a runtime of one thread is for (`new_current_thread`). On one of several threads the
    /// calling thread does it, beside the others that run the tasks.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use evenkeel_soft_timers::{Options, SoftClock};
    /// use tokio::runtime::Builder;
    ///
    /// let clock = SoftClock::start(Options::default())?;
    /// let runtime = clock.drive(&mut Builder::new_current_thread()).build()?;
    /// let slept = clock.block_on(&runtime, async {
    ///     let began = clock.measure_time();
    ///     for _ in 0..100 {
    ///         clock.sleep(Duration::from_micros(20)).await;
    ///     }
    ///     clock.measure_time() - began
    /// });
    /// assert!(slept >= 100 * 20_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn block_on<F: Future>(&self, runtime: &Runtime, future: F) -> F::Output {
        let mut future = core::pin::pin!(future);
        let mut alarm = Alarm { clock: self, set: None };
        runtime.block_on(core::future::poll_fn(|context| {
            self.trigger();
            let polled = Pin::as_mut(&mut future).poll(context);
            if polled.is_pending() {
                alarm.come_again(context);
            }
            *self.idle_loop() = polled.is_pending().then(|| context.waker().clone());
            polled
        }))
    }
}

/// When the thread is to be woken to check for events.
struct Alarm<'a> {
    clock: &'a SoftClock,
    set: Option<(u64, SoftEvent)>,
}

impl Alarm<'_> {
    fn come_again(&mut self, context: &Context<'_>) {
        match self.clock.idle(false) {
            Idle::Spin => context.waker().wake_by_ref(),
            Idle::Halt { until: Some(until) } => self.wake_at(until, context),
            Idle::Halt { until: None } => {}
        }
    }

    fn wake_at(&mut self, until: u64, context: &Context<'_>) {
        if self.set.is_some_and(|(at, _)| at == until) {
            return;
        }
        self.turn_off();
        let event = self.clock.schedule_at(until, 0, Call::from(context.waker().clone()));
        self.set = Some((until, event));
    }

    fn turn_off(&mut self) {
        if let Some((_, event)) = self.set.take() {
            self.clock.cancel(event);
        }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.turn_off();
    }
}
