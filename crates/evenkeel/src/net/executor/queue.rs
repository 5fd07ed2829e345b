//! The tasks of an executor that may go on, and the times that tasks wait for.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::vec;

use evenkeel_core::time::Instant;

use super::super::seat::Seat;
use super::super::shared::Shared;

/// The part of an executor that other threads reach.
pub(super) struct Queue {
    shared: Arc<Shared>,
    /// The place of the executor's thread while it waits.
    pub(super) seat: Arc<Seat>,
    /// The places of the tasks that may go on.
    ready: Mutex<Vec<usize>>,
    timers: Mutex<Timers>,
    /// Whether the thread waits, or is about to.
    waits: AtomicBool,
}

/// The tasks that wait for a time, by that time and by the number of their wait.
#[derive(Default)]
struct Timers {
    waiting: BTreeMap<(Instant, u64), Waker>,
    next: u64,
}

/// A task as its wakers know it.
pub(super) struct Task {
    place: usize,
    queue: Arc<Queue>,
    /// Whether it is among the tasks that may go on.
    is_queued: AtomicBool,
}

impl Task {
    pub(super) fn new(place: usize, queue: &Arc<Queue>) -> Self {
        Self { place, queue: Arc::clone(queue), is_queued: AtomicBool::new(false) }
    }

    /// Records that the task is about to be polled. Returns whether it has been woken.
    pub(super) fn begin(&self) -> bool {
        self.is_queued.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.place);
        }
    }
}

/// Places of tasks that may go on. Those that are not taken from it go on in the next run of the executor.
pub(super) struct Batch<'a> {
    queue: &'a Queue,
    places: vec::IntoIter<usize>,
}

impl Batch<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.places.len() == 0
    }
}

impl Iterator for Batch<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.places.next()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.is_empty() {
            lock(&self.queue.ready).splice(0..0, self.places.by_ref());
        }
    }
}

impl Queue {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            seat: shared.seat(),
            ready: Mutex::default(),
            timers: Mutex::default(),
            waits: AtomicBool::new(false),
        }
    }

    /// Adds a task that may go on, and wakes the thread if it waits.
    pub(super) fn push(&self, place: usize) {
        lock(&self.ready).push(place);
        // The thread looks at the list after it has set this.
        if self.waits.load(Ordering::SeqCst) && !self.seat.is_called() {
            Arc::clone(&self.seat).wake();
            // Threads are woken when the host is released. No waker is called with the host locked.
            drop(self.shared.lock());
        }
    }

    /// Removes and returns the tasks that may go on, with those whose time has come.
    pub(super) fn take_ready(&self) -> Batch<'_> {
        for waker in lock(&self.timers).take_due(|| self.shared.now()) {
            waker.wake();
        }
        Batch { queue: self, places: mem::take(&mut *lock(&self.ready)).into_iter() }
    }

    /// Prepares a wait. Returns the time at which it ends at the latest, or `None` if a task may go on.
    pub(super) fn begin_to_wait(&self) -> Option<Instant> {
        self.seat.resume();
        self.waits.store(true, Ordering::SeqCst);
        let has_ready = !lock(&self.ready).is_empty();
        if has_ready {
            self.end_wait();
        }
        (!has_ready).then(|| lock(&self.timers).deadline())
    }

    pub(super) fn end_wait(&self) {
        self.waits.store(false, Ordering::SeqCst);
        self.seat.resume();
    }

    /// Waits without the host, which is gone.
    pub(super) fn sleep(&self, until: Instant) {
        self.seat.prepare_to_sleep();
        if !self.seat.is_called() {
            self.seat.sleep((until != Instant::NEVER).then(|| until.since(self.shared.now())));
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.shared.now()
    }

    /// Has a task woken at a time. Returns the number of the wait.
    pub(super) fn wake_at(&self, deadline: Instant, waker: &Waker) -> u64 {
        let mut timers = lock(&self.timers);
        let number = timers.next;
        timers.next += 1;
        timers.waiting.insert((deadline, number), waker.clone());
        number
    }

    /// Ends a wait for a time.
    pub(super) fn forget(&self, deadline: Instant, number: u64) {
        lock(&self.timers).waiting.remove(&(deadline, number));
    }
}

impl Timers {
    fn deadline(&self) -> Instant {
        self.waiting.first_key_value().map_or(Instant::NEVER, |(&(deadline, _), _)| deadline)
    }

    fn take_due(&mut self, now: impl FnOnce() -> Instant) -> Vec<Waker> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let later = self.waiting.split_off(&(now() + evenkeel_core::time::Duration::from_nanos(1), 0));
        mem::replace(&mut self.waiting, later).into_values().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
