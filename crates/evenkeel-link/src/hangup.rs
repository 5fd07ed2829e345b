//! SIGHUP: asked to read its configuration again, a program does so and goes on.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};

use crate::sys;

/// The process-wide wish to read the configuration again.
///
/// [`Hangup::fd`] is readable from the signal until [`Hangup::take`].
#[derive(Debug)]
pub struct Hangup {
    event: Arc<OwnedFd>,
}

static EVENT: AtomicI32 = AtomicI32::new(-1);
static HANGUP: OnceLock<Hangup> = OnceLock::new();

impl Hangup {
    /// Turns SIGHUP into this wish, from the first call on.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn on_signal() -> io::Result<&'static Self> {
        if HANGUP.get().is_none() {
            let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let hangup = HANGUP.get_or_init(|| Self { event });
            EVENT.store(hangup.event.as_raw_fd(), Ordering::Release);
            sys::on_every_signal(libc::SIGHUP, on_hangup)?;
        }
        HANGUP.get().ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Readable once there was a signal.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.event)
    }

    /// Whether there was a signal since the last call; several count as one.
    #[must_use]
    pub fn take(&self) -> bool {
        rustix::io::read(&*self.event, &mut [0; 8]).is_ok()
    }
}

/// Runs in a signal handler: nothing but a `write` is allowed here (signal-safety(7)).
extern "C" fn on_hangup(_signal: libc::c_int) {
    sys::notify_in_signal_handler(EVENT.load(Ordering::Acquire));
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Duration;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::{Clock, Halt, Woken};

    /// One test for the whole life, because the signal is the process's.
    #[test]
    fn every_signal_is_seen_once() {
        let hangup = Hangup::on_signal().unwrap();
        let (mut halt, clock) = (Halt::new().unwrap(), Clock::start());
        halt.watch(hangup.fd());
        assert!(!hangup.take());
        for _ in 0..3 {
            kill_process(getpid(), Signal::HUP).unwrap();
            let deadline = clock.now() + Duration::from_secs(10);
            while halt.until(&clock, deadline).unwrap() != Woken::Readable {
                assert!(clock.now() < deadline, "the signal did not arrive");
            }
            assert!(hangup.take() && !hangup.take());
        }
    }
}
