//! The sleep of a thread that drives a host and does not hold its engine meanwhile.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::time::Instant;

/// The events that end the sleep of a thread between two calls of [`Engine::advance`].
///
/// It does not borrow the engine. So a thread can release a lock around the engine before it sleeps, and
/// other threads can [enter](crate::Engine::enter) the host meanwhile.
///
/// [`Engine::advance`]: crate::Engine::advance
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rest {
    /// The descriptors of [`Engine::descriptors`](crate::Engine::descriptors). The sleep ends when one is
    /// readable.
    pub descriptors: Vec<Arc<OwnedFd>>,
    /// A number that grows with every change to the set of descriptors. A thread that has registered them
    /// elsewhere compares it with that of its previous rest.
    pub generation: u64,
    /// The time on the engine's clock at which the sleep ends at the latest; [`Instant::NEVER`] if only a
    /// descriptor ends it. If there is work already, this is [`Instant::ZERO`].
    pub until: Instant,
}

/// The state of the thread that drives a host, while it waits without the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sleeper {
    /// It does not wait.
    #[default]
    Awake,
    /// It waits until this time at the latest, and no thread makes calls on the host before it is awake.
    Waits { until: Instant },
    /// It waits until this time at the latest, while others may enter the host.
    Rests { until: Instant },
    /// It was notified, and has not run the host since.
    Notified,
}

impl Sleeper {
    /// Lets others enter the host while the thread waits.
    pub(crate) fn rest(&mut self) {
        if let Self::Waits { until } = *self {
            *self = Self::Rests { until };
        }
    }

    /// Records that a thread that lets others enter the host wakes at this time, or before.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_at(&mut self, at: Instant) {
        if let Self::Rests { until } = self {
            *until = at.min(*until);
        }
    }

    /// Returns the time at which the thread wakes by itself, if others may enter the host meanwhile.
    pub(crate) fn rests_until(self) -> Option<Instant> {
        match self {
            Self::Rests { until } => Some(until),
            Self::Awake | Self::Waits { .. } | Self::Notified => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::system::Timer;
    use std::os::fd::{AsFd as _, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use evenkeel_core::process::ProcessId;
    use evenkeel_core::time::Duration;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::test_host::{Spinner, engine};
    use crate::{Engine, Next};

    /// Sleeps until a descriptor is readable or the time has passed. Returns whether one is readable.
    fn sleep<'a>(descriptors: impl Iterator<Item = BorrowedFd<'a>>, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).unwrap();
        let mut polled: Vec<_> = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut polled, Some(&timeout)).unwrap() > 0
    }

    fn is_notified(engine: &Engine) -> bool {
        sleep(engine.descriptors(), Duration::ZERO)
    }

    /// Runs the host until it has nothing to do. Returns an attached process with a timer that is not set.
    fn asleep(engine: &mut Engine) -> (ProcessId, Timer) {
        let me = engine.attach("me");
        let timer = engine.enter(me, Timer::open).unwrap().unwrap();
        fall_asleep(engine);
        (me, timer)
    }

    fn fall_asleep(engine: &mut Engine) -> Rest {
        while engine.advance(16).unwrap() == Next::Again {}
        engine.rest()
    }

    fn set(engine: &mut Engine, (me, timer): (ProcessId, Timer), after: Duration) {
        let at = engine.clock().now() + after;
        engine.enter(me, |system| timer.set(system, at, None)).unwrap().unwrap();
    }

    const SOON: Duration = Duration::from_secs(3_600);
    const LATE: Duration = Duration::from_secs(7_200);

    #[test]
    fn a_call_that_brings_the_deadline_forward_wakes_the_sleeper_and_no_other_does() {
        let mut engine = engine();
        let timer = asleep(&mut engine);
        assert_eq!(engine.rest().until, Instant::NEVER);
        engine.enter(timer.0, |system| timer.1.expirations(system)).unwrap().unwrap_err();
        assert!(!is_notified(&engine), "the call has changed no deadline");
        set(&mut engine, timer, SOON);
        assert!(is_notified(&engine) && engine.rest().until == Instant::ZERO);
        fall_asleep(&mut engine);
        assert!(!is_notified(&engine) && engine.rest().until > Instant::ZERO + SOON);
        set(&mut engine, timer, LATE);
        assert!(!is_notified(&engine), "the sleeper wakes earlier by itself");
    }

    /// Such a loop makes calls between a sleep and the next advance, and is awake then.
    #[test]
    fn a_loop_that_does_not_share_its_engine_is_not_woken_by_its_own_calls() {
        let mut engine = engine();
        let timer = asleep(&mut engine);
        while engine.advance(16).unwrap() == Next::Again {}
        set(&mut engine, timer, SOON);
        assert!(!is_notified(&engine));
        assert_eq!(engine.rest().until, Instant::ZERO, "the deadline of the last advance is too late");
    }

    #[test]
    fn a_call_after_which_work_is_pending_wakes_the_sleeper() {
        let mut engine = engine();
        let timer = asleep(&mut engine);
        set(&mut engine, timer, Duration::from_millis(100));
        fall_asleep(&mut engine);
        // The scheduler's own deadline is later than that of the timer.
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        engine.enter(timer.0, |_| ()).unwrap();
        assert!(is_notified(&engine));
    }

    #[test]
    fn a_new_descriptor_wakes_the_sleeper_and_changes_the_generation() {
        let mut engine = engine();
        asleep(&mut engine);
        let before = engine.rest();
        let (_near, far) = UnixStream::pair().unwrap();
        engine.attend(Arc::new(OwnedFd::from(far)), |_host, _now| {});
        assert!(is_notified(&engine));
        fall_asleep(&mut engine);
        let after = engine.rest();
        assert!(after.generation > before.generation);
        assert_eq!(after.descriptors.len(), before.descriptors.len() + 1);
        assert_eq!(engine.descriptors().count(), after.descriptors.len());
    }

    /// The driving thread sleeps without a limit, and another sets a timer that only the former can serve.
    #[test]
    fn a_thread_that_sleeps_without_the_engine_serves_what_another_enters() {
        let mut engine = engine();
        let (me, timer) = asleep(&mut engine);
        let (clock, shared, over) = (*engine.clock(), Mutex::new(engine), AtomicBool::new(false));
        let give_up = clock.now() + Duration::from_secs(30);
        thread::scope(|scope| {
            let driving = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && clock.now() < give_up {
                    let rest = {
                        let mut engine = shared.lock().unwrap();
                        engine.advance(16).unwrap();
                        engine.rest()
                    };
                    let time = rest.until.since(clock.now()).min(Duration::from_secs(30));
                    sleep(rest.descriptors.iter().map(|fd| fd.as_fd()), time);
                }
            });
            for _ in 0..20 {
                set(&mut shared.lock().unwrap(), (me, timer), Duration::from_micros(200));
                let has_expired = || {
                    let mut engine = shared.lock().unwrap();
                    engine.enter(me, |system| timer.expirations(system)).unwrap().is_ok()
                };
                while !has_expired() && clock.now() < give_up {
                    thread::yield_now();
                }
            }
            over.store(true, Ordering::Relaxed);
            shared.lock().unwrap().waker().wake();
            driving.join().unwrap();
        });
        assert!(clock.now() < give_up, "the driving thread was not woken");
    }
}
