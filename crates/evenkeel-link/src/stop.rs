//! SIGINT, SIGTERM and SIGHUP: the process returns from its loop and drops its resources, so nothing is left
//! behind.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};

use crate::{hangup, sys};

/// The time after the first signal in which further ones do not count. `timeout` signals its child and then
/// the whole process group, and a closing terminal sends SIGHUP and SIGTERM together.
const REPEATED_NS: u64 = 200_000_000;

/// The process-wide request to end.
///
/// The request wakes a [`crate::Halt`] that watches [`Stop::fd`]. The descriptor stays readable, so no halt
/// sleeps after the request.
#[derive(Debug)]
pub struct Stop {
    event: Arc<OwnedFd>,
}

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The time of the first signal, in nanoseconds of the kernel's monotonic clock; 0 before the first signal.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);
static EVENT: AtomicI32 = AtomicI32::new(-1);
static STOP: OnceLock<Stop> = OnceLock::new();

impl Stop {
    /// Turns SIGINT, SIGTERM and SIGHUP into this flag, from the first call on. SIGHUP is left to
    /// [`crate::hangup_events`] if that was called, and stays ignored if the process was started so
    /// (`nohup`).
    ///
    /// A further signal that comes at least 200 ms after the first one ends the process at once.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn on_signals() -> io::Result<&'static Self> {
        if STOP.get().is_none() {
            let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let stop = STOP.get_or_init(|| Self { event });
            EVENT.store(stop.event.as_raw_fd(), Ordering::Release);
            sys::on_every_signal(libc::SIGINT, on_signal)?;
            sys::on_every_signal(libc::SIGTERM, on_signal)?;
            if !hangup::is_claimed() && !sys::is_ignored(libc::SIGHUP)? {
                sys::on_every_signal(libc::SIGHUP, on_signal)?;
            }
        }
        STOP.get().ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Returns whether the process was asked to end. One load, so it can be called after every work item.
    #[inline]
    #[must_use]
    pub fn requested(&self) -> bool {
        REQUESTED.load(Ordering::Relaxed)
    }

    /// Requests the end from inside the program.
    pub fn request(&self) {
        REQUESTED.store(true, Ordering::Relaxed);
        // The write fails only if the descriptor is readable already.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptor, which becomes readable at the request to end and stays so.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.event)
    }
}

/// Runs in a signal handler. Everything it calls is async-signal-safe (signal-safety(7)): atomics,
/// `clock_gettime`, `write`, `signal` and `raise`.
extern "C" fn on_signal(signal: libc::c_int) {
    let now = sys::monotonic_ns().max(1);
    match FIRST_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            REQUESTED.store(true, Ordering::Relaxed);
            sys::notify_in_signal_handler(EVENT.load(Ordering::Acquire));
        }
        Err(first) if now.saturating_sub(first) < REPEATED_NS => {}
        Err(_) => sys::die_of(signal),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::{Duration, Instant};
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::{Clock, Halt, Woken};

    /// This is one test, because the flag belongs to the process.
    #[test]
    fn a_signal_sets_the_flag_and_ends_every_sleep() {
        let stop = Stop::on_signals().unwrap();
        let (mut halt, clock) = (Halt::new().unwrap(), Clock::start());
        halt.watch(stop.fd());
        assert!(!stop.requested());
        assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Deadline);
        kill_process(getpid(), Signal::TERM).unwrap();
        let deadline = clock.now() + Duration::from_secs(10);
        while halt.until(&clock, deadline).unwrap() != Woken::Readable {
            assert!(clock.now() < deadline, "the signal did not arrive");
        }
        assert!(stop.requested());
        assert_eq!(halt.until(&clock, Instant::NEVER).unwrap(), Woken::Readable, "stays readable");
        assert!(Stop::on_signals().unwrap().requested(), "there is one flag only");
    }
}
