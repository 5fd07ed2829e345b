//! The processor time that a generator's thread uses.

use evenkeel::raw::cpu::{ThreadMeter, thread_cpu_time};
use evenkeel::raw::time::{Duration, Instant};

use super::report::Effort;

/// A meter of the processor time of the thread that started it.
#[derive(Debug)]
pub(super) struct Meter {
    at: Instant,
    ran: Duration,
    delay: Option<Duration>,
    meter: ThreadMeter,
}

impl Meter {
    pub(super) fn start(at: Instant) -> Self {
        let meter = ThreadMeter::of_this_thread();
        Self { at, ran: thread_cpu_time(), delay: meter.read().map(|time| time.run_delay), meter }
    }

    pub(super) fn effort(&self, now: Instant) -> Effort {
        let elapsed = now.since(self.at).as_secs_f64();
        let share =
            |time: Duration| if elapsed > 0.0 { (time.as_secs_f64() / elapsed).min(1.0) } else { 0.0 };
        let delay =
            self.delay.zip(self.meter.read()).map(|(before, now)| now.run_delay.saturating_sub(before));
        Effort {
            cpu_share: share(thread_cpu_time().saturating_sub(self.ran)),
            run_delay_share: share(delay.unwrap_or_default()),
        }
    }
}
