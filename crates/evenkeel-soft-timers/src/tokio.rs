//! Trigger states of tokio's runtimes.

use core::future::Future;
use core::pin::Pin;

use tokio::runtime::{Builder, Runtime};

use crate::idle::IdleLoop;
use crate::soft_clock::SoftClock;

impl SoftClock {
    /// Makes a trigger state of each time that a thread of the runtime parks or is woken. Returns the
    /// builder.
    ///
    /// The builder has one function for each of both, so functions that were set before are no longer called.
    /// While all threads of a runtime are busy or asleep, the only other trigger states are polls of sleepers
    /// and calls of the program's tasks: tokio has no stable hooks before each task.
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn drive<'a>(&self, builder: &'a mut Builder) -> &'a mut Builder {
        let (parks, wakes) = (self.clone(), self.clone());
        builder.on_thread_park(move || _ = parks.trigger()).on_thread_unpark(move || _ = wakes.trigger())
    }

    /// Runs a future on a runtime, and makes a trigger state of its idle loop while an event is due soon.
    /// Then the runtime does not park its thread, but polls tasks, descriptors and this clock again and
    /// again. If no event is due within [an interval of the backing](Self::idle), it sleeps.
    ///
    /// A runtime of one thread (`new_current_thread`) suits best. In a runtime of several threads, the
    /// calling thread does this while the others run tasks. Use it on one thread at a time. A second thread
    /// with the same clock would spin as well, and of two that sleep, only one is woken for newly scheduled
    /// events.
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
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
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
