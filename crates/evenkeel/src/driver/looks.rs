//! The times at which a busy core looks outside of its host.

use evenkeel_core::time::{Duration, Instant};

/// The interval at which a busy host checks whether the run is to end, and polls what is visible without a
/// system call. It then also polls devices whose rings are not in memory.
const LOOK_PERIOD: Duration = Duration::from_micros(20);

/// The interval at which descriptors are polled if all rings are in memory. Urgent events are seen without
/// that ([`Engine::attend_event`](crate::Engine::attend_event)).
const ASK_PERIOD: Duration = Duration::from_millis(1);

/// The times at which a busy core looks outside of its host, polls descriptors, and does incremental work.
#[derive(Debug)]
pub(crate) struct Looks {
    period: Duration,
    next_look: Instant,
    /// The time when descriptors are polled next.
    next_ask: Instant,
    /// The time before which no further piece of incremental work is done.
    next_piece: Instant,
}

impl Default for Looks {
    fn default() -> Self {
        let (next_look, next_ask, next_piece) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
        Self { period: LOOK_PERIOD, next_look, next_ask, next_piece }
    }
}

impl Looks {
    pub(crate) fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// Makes everything due, for a core without other work.
    pub(crate) fn hurry(&mut self) {
        (self.next_look, self.next_ask, self.next_piece) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
    }

    /// Records that the core looks now.
    pub(crate) fn record_look(&mut self, now: Instant) {
        self.next_look = now + self.period;
    }

    /// Returns whether the descriptors are to be polled now; if so, sets the next time. `often` is whether
    /// the rings of some device are visible through a system call only.
    pub(crate) fn take_ask(&mut self, now: Instant, often: bool) -> bool {
        if now < self.next_ask {
            return false;
        }
        self.next_ask = now + if often { self.period } else { ASK_PERIOD.max(self.period) };
        true
    }

    pub(crate) fn is_piece_due(&self, now: Instant) -> bool {
        now >= self.next_piece
    }

    /// Records that a piece of incremental work has taken from `begin` to `end`. Three quarters of the time
    /// remain for packets and programs.
    pub(crate) fn record_piece(&mut self, begin: Instant, end: Instant) {
        self.next_piece = end + 3 * end.since(begin);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use evenkeel_link::EventFd;

    use super::*;
    use crate::Ended;
    use crate::driver::Driver;
    use crate::test_host::{Spinner, engine};

    #[test]
    fn what_another_thread_notifies_is_seen_by_a_busy_core_without_asking_descriptors() {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let (event, heard) = (EventFd::new().unwrap(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&heard);
        engine.attend_event(&event, move |_host, _now| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        engine.driver.outside.looks.next_ask = Instant::NEVER;
        for turn in 1..=3 {
            event.notify();
            event.notify();
            let until = engine.clock().now() + Duration::from_secs(10);
            let ended = engine.run(until, |_| heard.load(Ordering::Relaxed) == turn).unwrap();
            assert_eq!(ended, Ended::Done, "after {turn}");
        }
        let until = engine.clock().now() + Duration::from_millis(1);
        engine.run(until, |_| false).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_is_readable_while_a_piece_is_not_yet_due_is_attended_when_it_is() {
        let mut engine = engine();
        let (mut near, far) = UnixStream::pair().unwrap();
        let heard: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&heard);
        engine.attend(Arc::new(OwnedFd::from(far)), move |_host, _now| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        near.write_all(&[1]).unwrap();
        let now = engine.clock().now();
        engine.driver.outside.looks.next_piece = Instant::NEVER;
        let Driver { units, outside, .. } = &mut engine.driver;
        outside.look(units, now).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), 0);
        // The descriptor is not asked a second time.
        (outside.looks.next_ask, outside.looks.next_piece) = (Instant::NEVER, now);
        outside.look(units, now).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
}
