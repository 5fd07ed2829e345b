//! Settings of a socket that its clones share, and that any thread may change.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_core::time::{Duration, Instant};

/// The conduct of calls that would block.
#[derive(Debug, Default)]
pub(super) struct Blocking {
    nonblocking: AtomicBool,
    read: Timeout,
    write: Timeout,
}

/// The longest time that a call waits, in nanoseconds; 0 for no limit.
#[derive(Debug, Default)]
pub(super) struct Timeout(AtomicU64);

impl Blocking {
    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(super) const fn read(&self) -> &Timeout {
        &self.read
    }

    pub(super) const fn write(&self) -> &Timeout {
        &self.write
    }

    /// Returns the time until which a call that begins now waits, within `timeout`.
    pub(super) fn until(&self, timeout: &Timeout, now: impl FnOnce() -> Instant) -> Instant {
        if self.nonblocking.load(Ordering::Relaxed) {
            return Instant::ZERO;
        }
        timeout.get().map_or(Instant::NEVER, |timeout| now() + timeout)
    }
}

impl Timeout {
    pub(super) fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos != 0).then(|| Duration::from_nanos(nanos))
    }

    /// Sets the limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is zero.
    pub(super) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let nanos = match timeout {
            None => 0,
            Some(Duration::ZERO) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
            }
            Some(timeout) => u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
        };
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }
}
