//! What a program with streams has done; may be read from anywhere while it runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_core::socket::ListenError;

/// A counter that one thread writes and others read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the program writes its counters, so that an addition need not be one operation.
    pub(super) fn add(&self, by: u64) {
        self.0.store(self.get() + by, Ordering::Relaxed);
    }

    pub(super) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }
}

/// What a server has done.
#[derive(Debug, Default)]
pub struct Tally {
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

impl Tally {
    /// Connections accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Connections open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.get()
    }

    /// The most that were open at a time.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.get()
    }

    /// Connections that ended otherwise than by closing: reset, timed out by TCP.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }

    /// Of these, connections that the client has reset.
    #[must_use]
    pub fn reset(&self) -> u64 {
        self.reset.get()
    }

    /// Connections whose client took too long for the service.
    #[must_use]
    pub fn timed_out(&self) -> u64 {
        self.timed_out.get()
    }

    /// Requests answered, of services that have such.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Bytes read.
    #[must_use]
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.get()
    }

    /// Bytes written.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.get()
    }

    /// Whether it listens.
    #[must_use]
    pub fn listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Why it could not start, if it could not.
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

    /// So many are open now.
    pub(super) fn note_open(&self, open: usize) {
        let open = open as u64;
        self.open.set(open);
        self.most.set(self.most.get().max(open));
    }
}
