//! Exits of the driver's loop: a run that sleeps, and an advance that never does.

use std::io;
use std::ops::ControlFlow;

use evenkeel_core::host::{Host, Level};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link as link;

use super::drive::{Driver, Exit};
use crate::ended::{Ended, Next};

impl Driver {
    /// Runs the host until `until`, until `done` returns true, or until another reason to end. The time of
    /// the thread is not read at the end, for callers that soon run the host again.
    pub(crate) fn run(&mut self, until: Instant, done: impl FnMut(&Host) -> bool) -> io::Result<Ended> {
        // The kernel may otherwise wake this thread 50 µs late, to save a little power.
        link::set_timer_slack(Duration::from_nanos(1))?;
        self.drive(&mut Run { until, done })
    }

    /// Runs at most `units` units of the levels down to `lowest`, or until `done`, for the one of several
    /// threads that drives. It neither sleeps nor polls the descriptors before the thread sleeps.
    pub(crate) fn take_turns(
        &mut self,
        units: usize,
        lowest: Level,
        done: impl Fn() -> bool,
    ) -> io::Result<Next> {
        self.units.host.run_down_to(lowest);
        self.outside.stay_awake();
        self.drive_unobserved(&mut Turns { advance: Advance::new(units, true), done })
    }

    /// Runs at most `units` units without sleeping.
    pub(crate) fn advance(&mut self, units: usize) -> io::Result<Next> {
        let has_looked = self.outside.awake();
        self.drive(&mut Advance::new(units, has_looked))
    }
}

/// An exit at a time, under a condition, or when the run is to end. An idle core halts.
pub(crate) struct Run<F> {
    pub(crate) until: Instant,
    pub(crate) done: F,
}

impl<F: FnMut(&Host) -> bool> Exit for Run<F> {
    type Left = Ended;

    fn before_look(&mut self, driver: &Driver, now: Instant) -> Option<Ended> {
        if driver.is_stopped() {
            Some(Ended::Stopped)
        } else if now >= self.until {
            Some(Ended::Time)
        } else if (self.done)(&driver.units.host) {
            Some(Ended::Done)
        } else {
            driver.have_devices_ended().then_some(Ended::DevicesEnded)
        }
    }

    fn when_idle(&mut self, driver: &mut Driver, now: Instant) -> io::Result<ControlFlow<Ended, Instant>> {
        if driver.spins(now) {
            std::hint::spin_loop();
        } else if driver.units.host.halt(now) {
            return match self.before_look(driver, now) {
                Some(ended) => Ok(ControlFlow::Break(ended)),
                None => driver.sleep(self.until, now).map(ControlFlow::Continue),
            };
        }
        Ok(ControlFlow::Continue(driver.units.now()))
    }

    fn after_turn(&mut self) -> Option<Ended> {
        None
    }
}

/// An exit after a number of turns, or as soon as the core would halt.
pub(crate) struct Advance {
    /// The number of turns that remain.
    turns: usize,
    /// Whether the descriptors have been polled before the core halts.
    has_looked: bool,
}

impl Advance {
    /// Creates an exit after at most `units` units, at least one. `has_looked` is whether the driver is about
    /// to poll the descriptors anyway.
    pub(crate) fn new(units: usize, has_looked: bool) -> Self {
        Self { turns: units.max(1), has_looked }
    }
}

impl Exit for Advance {
    type Left = Next;

    fn before_look(&mut self, _driver: &Driver, _now: Instant) -> Option<Next> {
        None
    }

    fn when_idle(&mut self, driver: &mut Driver, now: Instant) -> io::Result<ControlFlow<Next, Instant>> {
        // An event loop that waits for edges may have consumed one since the descriptors were last polled.
        if !std::mem::replace(&mut self.has_looked, true) {
            driver.outside.look_at_all(&mut driver.units, now)?;
        } else if driver.units.host.halt(now) {
            return Ok(ControlFlow::Break(driver.next(now)));
        }
        Ok(ControlFlow::Continue(driver.units.now()))
    }

    fn after_turn(&mut self) -> Option<Next> {
        self.turns = self.turns.saturating_sub(1);
        (self.turns == 0).then_some(Next::Again)
    }
}

/// An exit as that of an advance, or as soon as a condition holds.
struct Turns<F> {
    advance: Advance,
    done: F,
}

impl<F: Fn() -> bool> Exit for Turns<F> {
    type Left = Next;

    fn before_look(&mut self, driver: &Driver, now: Instant) -> Option<Next> {
        self.advance.before_look(driver, now)
    }

    fn when_idle(&mut self, driver: &mut Driver, now: Instant) -> io::Result<ControlFlow<Next, Instant>> {
        self.advance.when_idle(driver, now)
    }

    fn after_turn(&mut self) -> Option<Next> {
        if (self.done)() { Some(Next::Again) } else { self.advance.after_turn() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use evenkeel_core::time::Duration;

    use super::*;
    use crate::Engine;
    use crate::test_host::{Listens, Spinner, engine};

    /// Attends a descriptor that is always readable. Returns the number of times that it was attended.
    fn attend_readable(engine: &mut Engine) -> Arc<AtomicU64> {
        let (near, far) = UnixStream::pair().unwrap();
        // The end of the stream is readable.
        drop(near);
        let attended: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&attended);
        engine.attend(Arc::new(OwnedFd::from(far)), move |_host, _now| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        attended
    }

    #[test]
    fn an_advance_polls_the_descriptors_before_it_has_an_event_loop_wait() {
        let mut engine = engine();
        let attended = attend_readable(&mut engine);
        engine.look_every(Duration::from_secs(3_600));
        engine.host_mut().spawn("listens", 0, Box::new(Listens));
        assert_eq!(engine.advance(1).unwrap(), Next::Again);
        for _ in 0..3 {
            let before = attended.load(Ordering::Relaxed);
            assert!(matches!(engine.advance(16).unwrap(), Next::Wait(_)));
            assert_eq!(attended.load(Ordering::Relaxed), before + 1);
        }
    }

    #[test]
    fn an_advance_of_a_busy_host_polls_the_descriptors_no_more_often_than_a_run() {
        let mut engine = engine();
        let attended = attend_readable(&mut engine);
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        engine.look_every(Duration::from_secs(3_600));
        for _ in 0..100 {
            assert_eq!(engine.advance(16).unwrap(), Next::Again);
        }
        assert_eq!(attended.load(Ordering::Relaxed), 1);
    }
}
