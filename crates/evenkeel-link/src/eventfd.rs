//! An eventfd (eventfd(2)): one thread notifies, another one that sleeps in a [`crate::Halt`] wakes up.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Notified by one thread, taken by another that watches its descriptor. Copies are the same.
#[derive(Debug, Clone)]
pub struct EventFd {
    event: Arc<OwnedFd>,
}

impl EventFd {
    /// One that has not been notified.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Makes [`EventFd::fd`] readable.
    pub fn notify(&self) {
        // Fails only when it has been notified 2^64 times and nobody took it.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// Whether it was notified since the last call; several times count as one.
    #[must_use]
    pub fn take(&self) -> bool {
        rustix::io::read(&*self.event, &mut [0; 8]).is_ok()
    }

    /// Readable while it has been notified and not taken.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.event)
    }

    /// For a signal handler.
    pub(crate) fn raw(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}
