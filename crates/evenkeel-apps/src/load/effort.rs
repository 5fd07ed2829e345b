//! The processor time that a generator's thread uses.

use evenkeel::raw::cpu::{ThreadMeter, ThreadTime};
use evenkeel::raw::time::{Duration, Instant};

use super::report::Effort;

/// A meter of the processor time of the thread that started it. Any thread can read it.
#[derive(Debug)]
pub(super) struct Meter {
    at: Instant,
    before: Option<ThreadTime>,
    meter: ThreadMeter,
}

impl Meter {
    pub(super) fn start(at: Instant) -> Self {
        let meter = ThreadMeter::of_this_thread();
        Self { at, before: meter.read(), meter }
    }

    pub(super) fn effort(&self, now: Instant) -> Effort {
        let elapsed = now.since(self.at).as_secs_f64();
        let share =
            |time: Duration| if elapsed > 0.0 { (time.as_secs_f64() / elapsed).min(1.0) } else { 0.0 };
        self.before.zip(self.meter.read()).map_or_else(Effort::default, |(before, now)| Effort {
            cpu_share: share(now.ran.saturating_sub(before.ran)),
            run_delay_share: share(now.run_delay.saturating_sub(before.run_delay)),
        })
    }
}
