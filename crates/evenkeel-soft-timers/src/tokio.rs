//! Trigger states of tokio's runtimes.

use core::future::Future;
use core::pin::Pin;

use tokio::runtime::{Builder, Runtime};

use crate::idle::IdleLoop;
use crate::soft_clock::SoftClock;

impl SoftClock {
    /// Every time that a thread of the runtime parks, and every time that it is woken, is a trigger state.
    ///
    /// The builder has one function for each of both: those that were set before are no longer called.
    /// A runtime of several threads whose threads are busy or asleep has no others but the polling of
    /// sleepers and what the program's tasks call; hooks before each task are not stable in tokio.
    pub fn drive<'a>(&self, builder: &'a mut Builder) -> &'a mut Builder {
        let (parks, wakes) = (self.clone(), self.clone());
        builder.on_thread_park(move || _ = parks.trigger()).on_thread_unpark(move || _ = wakes.trigger())
    }

    /// Runs a future on a runtime, whose idle loop becomes a trigger state while something is due soon: then
    /// the runtime does not park its thread, but looks after tasks and descriptors and comes by here, again
    /// and again. If nothing is due within [an interval of the backing](Self::idle), it sleeps.
    ///
    /// That is what a runtime of one thread is for (`new_current_thread`). On one of several threads the
    /// calling thread does it, beside the others that run the tasks. One thread at a time: a second one with
    /// the same clock spins as well, and of two that sleep one hears of what others schedule.
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
        let mut idle = IdleLoop::new(self);
        runtime.block_on(core::future::poll_fn(|context| {
            self.trigger();
            let polled = Pin::as_mut(&mut future).poll(context);
            if polled.is_pending() {
                idle.come_again(context);
            }
            polled
        }))
    }
}
