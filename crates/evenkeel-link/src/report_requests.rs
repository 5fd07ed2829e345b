//! SIGUSR1: a request for a report of the counters so far. The process continues.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::eventfd::EventFd;
use crate::sys;

static REQUESTED: AtomicBool = AtomicBool::new(false);
static EVENT: AtomicI32 = AtomicI32::new(-1);
static REQUESTS: OnceLock<ReportRequests> = OnceLock::new();

/// The requests for a report that reach the process as SIGUSR1.
#[derive(Debug)]
pub struct ReportRequests {
    event: EventFd,
}

impl ReportRequests {
    /// Turns SIGUSR1 into requests, from the first call on. The process has one such handle, and one thread
    /// should take the requests.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn on_signals() -> io::Result<&'static Self> {
        if REQUESTS.get().is_none() {
            let event = EventFd::new()?;
            let requests = REQUESTS.get_or_init(|| Self { event });
            EVENT.store(requests.event.raw(), Ordering::Release);
            sys::on_every_signal(libc::SIGUSR1, on_signal)?;
        }
        REQUESTS.get().ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Returns whether a report was asked for since the last [`ReportRequests::take`]: one load.
    #[inline]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        REQUESTED.load(Ordering::Relaxed)
    }

    /// Takes the request and returns whether there was one. Several requests since the last call count as
    /// one.
    ///
    /// Needs a system call, so a caller that never sleeps should check [`ReportRequests::is_pending`] first.
    /// A caller that was woken by the event should not: the event may outlast its request briefly.
    #[must_use]
    pub fn take(&self) -> bool {
        // The order matters: every request left behind has its event, which wakes the next sleep.
        let _ = self.event.take();
        REQUESTED.swap(false, Ordering::Relaxed)
    }

    /// Returns an event that is notified by each request, so that a sleeping thread wakes up. Taking the
    /// event leaves the request pending.
    #[must_use]
    pub fn event(&self) -> &EventFd {
        &self.event
    }
}

/// Runs in a signal handler, on any thread: an atomic and a `write`, both allowed there (signal-safety(7)).
extern "C" fn on_signal(_signal: libc::c_int) {
    REQUESTED.store(true, Ordering::Relaxed);
    sys::notify_in_signal_handler(EVENT.load(Ordering::Acquire));
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::{Duration, Instant};
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::{Clock, Halt, Woken};

    /// This is one test, because the signal belongs to the process.
    #[test]
    fn a_request_is_pending_until_it_is_taken_and_ends_one_sleep() {
        let requests = ReportRequests::on_signals().unwrap();
        let (mut halt, clock) = (Halt::new().unwrap(), Clock::start());
        halt.watch(requests.event().fd());
        assert!(!requests.is_pending() && !requests.take());
        for _ in 0..3 {
            kill_process(getpid(), Signal::USR1).unwrap();
            let deadline = clock.now() + Duration::from_secs(10);
            while halt.until(&clock, deadline).unwrap() != Woken::Readable {
                assert!(clock.now() < deadline, "the signal did not arrive");
            }
            assert!(requests.is_pending() && requests.take() && !requests.take());
            assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Deadline, "it sleeps again");
        }
        // A handler on another thread may reach its second half after the request was taken.
        sys::notify_in_signal_handler(EVENT.load(Ordering::Acquire));
        assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Readable);
        assert!(!requests.take());
        assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Deadline, "it sleeps again");
    }
}
