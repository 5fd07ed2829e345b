//! A bell: one thread rings it, another one that sleeps in a [`crate::Halt`] hears it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Rung by one thread, heard by another that watches its descriptor. Copies are the same bell.
#[derive(Debug, Clone)]
pub struct Bell {
    event: Arc<OwnedFd>,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Makes [`Bell::fd`] readable.
    pub fn ring(&self) {
        // Fails only when it has been rung 2^64 times and nobody heard.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// Whether it was rung since the last call; several times count as one.
    #[must_use]
    pub fn heard(&self) -> bool {
        rustix::io::read(&*self.event, &mut [0; 8]).is_ok()
    }

    /// Readable while it has been rung and not heard.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.event)
    }

    /// For a signal handler.
    pub(crate) fn raw(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}
