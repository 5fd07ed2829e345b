//! The place of a thread or a task in a call that waits.
//!
//! `tests/interleavings.rs` runs this file and `roles.rs` with loom's atomics, in all interleavings of
//! threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use evenkeel_core::time::Duration;

use super::primitives::{AtomicBool, AtomicUsize, Ordering, Parking};

/// A thread or a task that waits in a call. It is the host's waker: the host wakes it when the call may go
/// on.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Whether the host has found that the call may go on.
    called: AtomicBool,
    /// Its place among the parked threads, or [`NOT_PARKED`]. It changes under the lock of the host alone.
    place: AtomicUsize,
    /// The place where a thread sleeps.
    parking: Parking,
    /// The waker of a task.
    task: Mutex<Option<Waker>>,
    rousing: Arc<Rousing>,
}

const NOT_PARKED: usize = usize::MAX;

/// The threads and tasks that are to be woken once the lock on the host is free. Until then they could not go
/// on.
#[derive(Debug, Default)]
pub(crate) struct Rousing {
    threads: Mutex<Vec<Arc<Seat>>>,
    /// The number of threads whose calls may go on, and have not yet.
    called: AtomicUsize,
}

/// The thread or task that has to be woken after a change of roles, if any.
#[derive(Debug)]
#[must_use]
pub(crate) struct Succession(pub(crate) Option<Arc<Seat>>);

impl Seat {
    pub(crate) fn new(rousing: &Arc<Rousing>) -> Arc<Self> {
        Arc::new(Self {
            called: AtomicBool::new(false),
            place: AtomicUsize::new(NOT_PARKED),
            parking: Parking::default(),
            task: Mutex::default(),
            rousing: Arc::clone(rousing),
        })
    }

    /// Returns whether the call may go on.
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Ordering::Acquire)
    }

    /// Records that the call goes on, or is over.
    pub(crate) fn resume(&self) {
        if self.called.swap(false, Ordering::AcqRel) {
            self.rousing.called.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns its place among the parked threads, if it is one.
    pub(crate) fn place(&self) -> Option<usize> {
        let place = self.place.load(Ordering::Relaxed);
        (place != NOT_PARKED).then_some(place)
    }

    /// Sets its place among the parked threads.
    pub(crate) fn set_place(&self, place: Option<usize>) {
        self.place.store(place.unwrap_or(NOT_PARKED), Ordering::Relaxed);
    }

    /// Declares, with the host locked, that the thread is about to [sleep](Seat::sleep).
    pub(crate) fn prepare_to_sleep(&self) {
        self.parking.prepare();
    }

    /// Sleeps without the lock, until the thread is roused or the time has passed.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.parking.sleep(timeout);
    }

    /// Ends the sleep. Does nothing if the thread does not sleep, or the task has not set its waker since.
    pub(crate) fn rouse(&self) {
        self.parking.wake();
        if let Some(task) = self.take_task() {
            task.wake();
        }
    }

    /// Sets the waker of the task that is to be roused.
    pub(crate) fn set_task(&self, task: &Waker) {
        let mut place = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *place {
            Some(other) => other.clone_from(task),
            None => *place = Some(task.clone()),
        }
    }

    /// Removes and returns the waker of the task that is to be roused.
    pub(crate) fn take_task(&self) -> Option<Waker> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Wake for Seat {
    fn wake(self: Arc<Self>) {
        if !self.called.swap(true, Ordering::AcqRel) {
            let rousing = Arc::clone(&self.rousing);
            rousing.called.fetch_add(1, Ordering::Relaxed);
            rousing.add(self);
        }
    }
}

impl Rousing {
    /// Has a thread or a task woken once the lock is free.
    pub(crate) fn add(&self, seat: Arc<Seat>) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(seat);
    }

    /// Has the thread or task woken that a change of roles concerns.
    pub(crate) fn settle(&self, Succession(seat): Succession) {
        seat.into_iter().for_each(|seat| self.add(seat));
    }

    /// Returns whether there are threads or tasks whose calls may go on, and have not yet.
    pub(crate) fn has_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) > 0
    }

    /// Returns the threads and tasks that are to be woken now.
    pub(crate) fn take(&self) -> Vec<Arc<Seat>> {
        std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
