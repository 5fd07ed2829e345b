//! The counters of a program with streams. Any thread may read them while the program runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel::raw::error::ListenError;

/// A counter that one thread writes and others read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds to the counter. Only the program writes its counters, so an addition need not be atomic.
    pub(super) fn add(&self, by: u64) {
        self.0.store(self.get() + by, Ordering::Relaxed);
    }

    pub(super) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }
}

/// The live counters and flags of a server.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) accepted: Count,
    pub(super) open: Count,
    pub(super) most: Count,
    pub(super) failed: Count,
    pub(super) reset: Count,
    pub(super) timed_out: Count,
    pub(super) requests: Count,
    pub(super) bytes_in: Count,
    pub(super) bytes_out: Count,
    listening: AtomicBool,
    ended: AtomicBool,
    refused: Mutex<Option<ListenError>>,
}

impl Counters {
    /// Returns the number of connections accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Returns the number of connections that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.get()
    }

    /// Returns the maximum number of connections that were open at a time.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.get()
    }

    /// Returns the number of connections that failed: reset, or timed out by TCP.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }

    /// Returns the number of failed connections that the client has reset.
    #[must_use]
    pub fn reset(&self) -> u64 {
        self.reset.get()
    }

    /// Returns the number of connections whose client took too long for the service.
    #[must_use]
    pub fn timed_out(&self) -> u64 {
        self.timed_out.get()
    }

    /// Returns the number of requests answered, for services that have requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Returns the number of bytes read from all connections.
    #[must_use]
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.get()
    }

    /// Returns the number of bytes written to all connections.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.get()
    }

    /// Returns whether the server has begun to listen.
    #[must_use]
    pub fn listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Returns whether the server has exited.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns the error with which the server could not start to listen, if it could not.
    #[must_use]
    pub fn refused(&self) -> Option<ListenError> {
        self.refused.lock().map_or(None, |refused| *refused)
    }

    pub(super) fn begin(&self) {
        self.listening.store(true, Ordering::Release);
    }

    pub(super) fn refuse(&self, error: ListenError) {
        if let Ok(mut refused) = self.refused.lock() {
            *refused = Some(error);
        }
        self.end();
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Records the number of connections that are open now.
    pub(super) fn record_open(&self, open: usize) {
        let open = open as u64;
        self.open.set(open);
        self.most.set(self.most.get().max(open));
    }
}
