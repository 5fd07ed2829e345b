//! SIGHUP for programs that reread their configuration. In other programs it is a signal to end
//! ([`crate::Stop`]).

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::eventfd::EventFd;
use crate::sys;

static EVENT: AtomicI32 = AtomicI32::new(-1);
static HANGUP: OnceLock<EventFd> = OnceLock::new();

/// Turns SIGHUP into notifications of the process's one eventfd, from the first call on. From then on SIGHUP
/// does not end the process ([`crate::Stop`]).
///
/// # Errors
/// If the process may open no more descriptors.
pub fn hangup_events() -> io::Result<&'static EventFd> {
    if HANGUP.get().is_none() {
        let event = EventFd::new()?;
        let event = HANGUP.get_or_init(|| event);
        EVENT.store(event.raw(), Ordering::Release);
        sys::on_every_signal(libc::SIGHUP, on_hangup)?;
    }
    HANGUP.get().ok_or_else(|| io::ErrorKind::Other.into())
}

/// Returns whether SIGHUP asks for a reload ([`hangup_events`]) instead of the end of the process.
pub(crate) fn is_claimed() -> bool {
    HANGUP.get().is_some()
}

/// Runs in a signal handler, so it may only call `write` (signal-safety(7)).
extern "C" fn on_hangup(_signal: libc::c_int) {
    sys::notify_in_signal_handler(EVENT.load(Ordering::Acquire));
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Duration;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::{Clock, Halt, Woken};

    /// This is one test, because the signal belongs to the process.
    #[test]
    fn every_signal_is_seen_once() {
        let hangup = hangup_events().unwrap();
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
