//! Snapshots for threads that do not run the host.
//!
//! ```text
//!   reader ── ticket, event ──▶ the thread that runs the host
//!     │                            │ reads what the host counts, without a system call
//!     │                            │ try_lock: puts the snapshot into the slot, or tries again at its next look
//!     ◀────────── slot ────────────┘
//!     │ adds thread time and devices: system calls, on the reader's bill
//! ```
//!
//! Readers hold the lock of the slot only to copy a pointer, and the host never waits for it. While no thread
//! asks, the host does nothing for it.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant as WallInstant;

use evenkeel_core::host::Host;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::EventFd;

use super::snapshot::Snapshot;
use crate::observer::Observer;

/// A cheap, cloneable handle that takes snapshots of a running host, from any thread.
///
/// A host of which no snapshot is requested does no work for its readers.
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<Shared>,
    observer: Observer,
}

#[derive(Debug)]
struct Shared {
    /// Requests so far. Each request has its number as a ticket.
    requests: AtomicU64,
    event: EventFd,
    slot: Mutex<Slot>,
    filled: Condvar,
}

/// The snapshot that the host has taken last.
#[derive(Debug, Default)]
struct Slot {
    snapshot: Arc<Snapshot>,
    /// The last request that the snapshot answers: it was taken after that request.
    answers: u64,
    /// The number of threads that wait for a snapshot.
    waiting: usize,
    /// Whether the host is gone.
    is_closed: bool,
}

/// The reason why there is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoSnapshot {
    /// The host is gone.
    HostGone,
    /// No thread has run the host in time.
    NotRunning,
}

impl fmt::Display for NoSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostGone => "the host is gone",
            Self::NotRunning => "no thread has run the host in time",
        })
    }
}

impl std::error::Error for NoSnapshot {}

impl Reader {
    /// Requests a snapshot, and waits for it for at most `patience`. The snapshot is taken after the call.
    /// It wakes a halted host.
    ///
    /// The thread that runs the host reads what the host counts, all at one moment. This call then reads the
    /// time of that thread and the counters of its devices, a little later.
    ///
    /// # Errors
    /// [`NoSnapshot`] if the host is gone, or if no thread runs it.
    pub fn snapshot(&self, patience: Duration) -> Result<Snapshot, NoSnapshot> {
        let mut snapshot = Snapshot::clone(&*self.shared.request(patience)?);
        snapshot.complete(&self.observer);
        Ok(snapshot)
    }

    /// Returns whether this handle and `other` are for the same host.
    #[must_use]
    pub fn is_of_same_host(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        // Nothing that holds the lock panics.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, patience: Duration) -> Result<Arc<Snapshot>, NoSnapshot> {
        let ticket = self.requests.fetch_add(1, Ordering::AcqRel) + 1;
        self.event.notify();
        let end = WallInstant::now().checked_add(patience);
        let mut slot = self.slot();
        loop {
            if slot.is_closed {
                return Err(NoSnapshot::HostGone);
            }
            if slot.answers >= ticket {
                return Ok(Arc::clone(&slot.snapshot));
            }
            let left = end.map_or(patience, |end| end.saturating_duration_since(WallInstant::now()));
            if left.is_zero() {
                return Err(NoSnapshot::NotRunning);
            }
            slot.waiting += 1;
            let waited = self.filled.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner);
            slot = waited.0;
            slot.waiting -= 1;
        }
    }

    /// Exchanges the snapshot in the slot for `snapshot`, which answers the requests up to `answers`. Returns
    /// false, without waiting, if a reader holds the lock of the slot.
    fn try_fill(&self, snapshot: &mut Arc<Snapshot>, answers: u64) -> bool {
        let mut slot = match self.slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        std::mem::swap(&mut slot.snapshot, snapshot);
        slot.answers = answers;
        if slot.waiting > 0 {
            self.filled.notify_all();
        }
        true
    }
}

/// The side of a host that answers requests for snapshots.
#[derive(Debug)]
struct Publisher {
    shared: Arc<Shared>,
    /// The snapshot before the last, whose memory is used again.
    spare: Arc<Snapshot>,
}

impl Publisher {
    /// Takes a snapshot of `host` for all requests so far. Never waits: if a reader holds the lock of the
    /// slot, the driver calls this again at its next look.
    fn publish(&mut self, host: &Host, now: Instant) {
        let answers = self.shared.requests.load(Ordering::Acquire);
        if Arc::get_mut(&mut self.spare).is_none() {
            // A reader still copies it.
            self.spare = Arc::default();
        }
        if let Some(spare) = Arc::get_mut(&mut self.spare) {
            spare.read(host, now.since(Instant::ZERO));
        }
        if !self.shared.try_fill(&mut self.spare, answers) {
            self.shared.event.notify();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.shared.slot().is_closed = true;
        self.shared.filled.notify_all();
    }
}

/// Creates a handle that takes snapshots of a host, the event that each request notifies, and the callback
/// that answers it.
///
/// # Errors
/// If the process may open no more descriptors.
pub(crate) fn publish(
    observer: Observer,
) -> io::Result<(Reader, EventFd, impl FnMut(&mut Host, Instant) + Send + 'static)> {
    let event = EventFd::new()?;
    let shared = Arc::new(Shared {
        requests: AtomicU64::new(0),
        event: event.clone(),
        slot: Mutex::default(),
        filled: Condvar::new(),
    });
    let mut publisher = Publisher { shared: Arc::clone(&shared), spare: Arc::default() };
    Ok((Reader { shared, observer }, event, move |host: &mut Host, now| {
        publisher.publish(host, now);
    }))
}
