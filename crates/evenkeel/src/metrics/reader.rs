//! Snapshots for threads that do not run the host.
//!
//! ```text
//!   reader ── ticket, event ──▶ the thread that runs the host
//!     │                            │ reads what the host counts, without a system call
//!     │                            │ try_lock: fills the slot, or tries again at its next look
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
        let mut slot = self.slot();
        slot.waiting += 1;
        let is_pending = |slot: &mut Slot| slot.answers < ticket && !slot.is_closed;
        let waited = self.filled.wait_timeout_while(slot, patience, is_pending);
        let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        slot.waiting -= 1;
        match &*slot {
            Slot { snapshot, answers, .. } if *answers >= ticket => Ok(Arc::clone(snapshot)),
            Slot { is_closed: true, .. } => Err(NoSnapshot::HostGone),
            _ => Err(NoSnapshot::NotRunning),
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use crate::test_host::{Spinner, engine, run_beside};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Calls `ask` in a thread, while the calling one runs an engine, busy or idle.
    fn beside_engine<T: Send>(busy: bool, ask: impl FnOnce(Reader) -> T + Send) -> T {
        let mut engine = engine();
        if busy {
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        }
        let reader = engine.metrics().unwrap();
        run_beside(&mut engine, || ask(reader))
    }

    #[test]
    fn any_thread_takes_snapshots_of_a_busy_host_and_of_one_that_halts() {
        for busy in [false, true] {
            let taken = beside_engine(busy, |reader| {
                [(); 50].map(|()| reader.snapshot(PATIENCE).expect("the engine runs"))
            });
            assert!(taken.windows(2).all(|pair| pair[0].elapsed < pair[1].elapsed));
            let spinners = taken.iter().filter(|snapshot| {
                let mut bills = snapshot.processes.iter();
                // The bill and the level were read at one moment.
                bills.any(|bill| bill.name == "spinner" && bill.used <= snapshot.cpu.process)
            });
            assert_eq!(spinners.count(), if busy { 50 } else { 0 });
        }
    }

    #[test]
    fn several_readers_get_a_snapshot_each() {
        let taken = beside_engine(true, |reader| {
            thread::scope(|scope| {
                let ask = || (0..100).filter(|_| reader.snapshot(PATIENCE).is_ok()).count();
                let asking = [(); 4].map(|()| scope.spawn(ask));
                asking.map(|asking| asking.join().unwrap())
            })
        });
        assert_eq!(taken, [100; 4]);
    }

    /// A reader that is descheduled while it holds the lock.
    #[test]
    fn a_host_does_not_wait_for_a_reader() {
        let mut engine = engine();
        let (reader, clock) = (engine.metrics().unwrap(), *engine.clock());
        let shared = &reader.shared;
        let slot = shared.slot();
        shared.requests.fetch_add(1, Ordering::AcqRel);
        shared.event.notify();
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let running = scope.spawn(move || {
                for _ in 0..10 {
                    engine.run(clock.now() + Duration::from_millis(1), |_| false).unwrap();
                }
                tell.send(()).unwrap();
                engine
            });
            let ran = told.recv_timeout(PATIENCE);
            let answers = slot.answers;
            drop(slot);
            let mut engine = running.join().unwrap();
            assert_eq!((ran, answers), (Ok(()), 0), "the host waited");
            // The host has not forgotten the request.
            engine.run(clock.now() + PATIENCE, |_| shared.slot().answers > 0).unwrap();
            assert_eq!(shared.slot().answers, 1);
        });
    }

    #[test]
    fn a_host_without_requests_takes_no_snapshots() {
        let mut engine = engine();
        let reader = engine.metrics().unwrap();
        engine.run(engine.clock().now() + Duration::from_millis(5), |_| false).unwrap();
        assert_eq!(reader.shared.slot().snapshot.elapsed, Duration::ZERO);
    }

    #[test]
    fn a_reader_does_not_wait_forever() {
        let mut engine = engine();
        let reader = engine.metrics().unwrap();
        assert_eq!(reader.snapshot(Duration::from_millis(5)), Err(NoSnapshot::NotRunning));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.snapshot(PATIENCE));
            drop(engine);
            assert_eq!(waiting.join().unwrap(), Err(NoSnapshot::HostGone));
        });
    }

    #[test]
    fn handles_of_an_engine_share_one_event() {
        let (mut one, mut other) = (engine(), engine());
        let [a, b, c] = [one.metrics(), one.metrics(), other.metrics()].map(Result::unwrap);
        assert!(a.is_of_same_host(&b) && !a.is_of_same_host(&c));
    }
}
