//! An eventfd (eventfd(2)) between two threads. A notification wakes a thread that sleeps in a
//! [`crate::Halt`]; a running thread checks it without a system call.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::wakeup::{Counter, Notified};

/// An event that one thread notifies and another takes. The other may watch its descriptor. All clones share
/// one state.
#[derive(Debug, Clone)]
pub struct EventFd(Arc<Notified<Arc<OwnedFd>>>);

impl EventFd {
    /// Creates an event that has not been notified.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Notified::new(Arc::new(event)))))
    }

    /// Makes [`EventFd::fd`] readable. Needs a system call unless an earlier notification has not been taken.
    pub fn notify(&self) {
        self.0.notify();
    }

    /// Returns whether there is a notification that [`EventFd::take`] has not taken. Needs one load and no
    /// system call. Ignores notifications by a signal handler.
    #[must_use]
    #[inline]
    pub fn is_notified(&self) -> bool {
        self.0.is_notified()
    }

    /// Takes the notifications since the last call, and returns whether there were any. A notification
    /// during the call may be reported twice: now and by the next call.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.take()
    }

    /// Returns the descriptor, which is readable while there is a notification that has not been taken.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0.counter)
    }

    /// Returns the raw descriptor, for a signal handler.
    pub(crate) fn raw(&self) -> RawFd {
        self.0.counter.as_raw_fd()
    }
}

impl Counter for OwnedFd {
    fn increment(&self) {
        // The write fails only if the counter is at its limit, and then the descriptor is already readable.
        let _ = rustix::io::write(self, &1_u64.to_ne_bytes());
    }

    fn reset(&self) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(self, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }
}

impl Counter for Arc<OwnedFd> {
    fn increment(&self) {
        self.as_ref().increment();
    }

    fn reset(&self) -> u64 {
        self.as_ref().reset()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use evenkeel_core::time::Duration;

    use super::*;
    use crate::{Clock, Halt};

    #[test]
    fn notifications_count_once_and_are_seen_without_a_system_call() {
        let event = EventFd::new().unwrap();
        let (mut halt, clock) = (Halt::new().unwrap(), Clock::start());
        halt.watch(event.fd());
        let mut is_readable = || {
            halt.until(&clock, evenkeel_core::time::Instant::ZERO).unwrap();
            halt.is_readable(0)
        };
        for _ in 0..3 {
            assert!(!event.is_notified() && !event.take() && !is_readable());
            event.notify();
            event.clone().notify();
            assert!(event.is_notified() && is_readable());
            assert!(event.take());
        }
    }

    /// If a notification were lost, the taker would sleep until the far deadline, and its count would be
    /// short.
    #[test]
    fn no_notification_is_lost() {
        const TURNS: u32 = 50_000;
        let event = EventFd::new().unwrap();
        let (mut halt, clock) = (Halt::new().unwrap(), Clock::start());
        halt.watch(event.fd());
        let (done, notifier) = (Arc::new(AtomicU32::new(0)), event.clone());
        let theirs = Arc::clone(&done);
        let other = thread::spawn(move || {
            for turn in 1..=TURNS {
                theirs.store(turn, Ordering::Relaxed);
                notifier.notify();
                if turn.is_multiple_of(7) {
                    thread::yield_now();
                }
            }
        });
        let end = clock.now() + Duration::from_secs(60);
        let mut seen = 0;
        while seen < TURNS {
            halt.until(&clock, end).unwrap();
            assert!(clock.now() < end, "lost at {seen}");
            if event.take() {
                seen = done.load(Ordering::Relaxed);
            }
        }
        other.join().unwrap();
    }
}
