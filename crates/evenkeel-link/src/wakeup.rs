//! The protocol between a sleeping thread and its wakers, without its system calls. A flag in memory shows
//! whether a write to an eventfd is needed at all.
//!
//! `tests/interleavings.rs` runs this file with loom's atomics, in all interleavings of threads.

use crate::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The counter of an eventfd (eventfd(2)), readable while it is not 0.
pub(crate) trait Counter {
    fn increment(&self);

    /// Sets the counter to 0, and returns its previous value.
    fn reset(&self) -> u64;
}

/// The state shared by one sleeper and its wakers. A wake-up before the sleep prevents it.
#[derive(Debug)]
pub(crate) struct Sleeper<C> {
    pub(crate) counter: C,
    state: AtomicU8,
    /// The sleeper's own state, as is `owed`: whether it has declared itself asleep, and how many
    /// increments of `counter` it has not seen.
    slept: AtomicBool,
    owed: AtomicU64,
}

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

impl<C: Counter> Sleeper<C> {
    pub(crate) fn new(counter: C) -> Self {
        let (state, slept, owed) = (AtomicU8::new(AWAKE), AtomicBool::new(false), AtomicU64::new(0));
        Self { counter, state, slept, owed }
    }

    /// Ends the sleep, or prevents the next one.
    pub(crate) fn wake(&self) {
        // Release: the woken thread sees everything that the waker wrote before.
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            self.counter.increment();
        }
    }

    /// Declares the thread asleep: a wake-up then increments the counter, until the thread rises. Returns
    /// false if a wake-up has come since the thread was last awake.
    pub(crate) fn fall_asleep(&self) -> bool {
        let asleep = self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if asleep {
            self.slept.store(true, Ordering::Relaxed);
        }
        asleep
    }

    /// Declares the thread awake; returns whether a wake-up has come.
    ///
    /// A waker that saw ASLEEP increments once, maybe after this has reset the counter. That ends one later
    /// sleep needlessly, which is harmless if that sleep resets the counter.
    pub(crate) fn rise(&self) -> bool {
        let slept = self.slept.load(Ordering::Relaxed);
        self.slept.store(false, Ordering::Relaxed);
        let notified = self.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED;
        let owed = self.owed.load(Ordering::Relaxed) + u64::from(notified && slept);
        if owed > 0 {
            self.owed.store(owed.saturating_sub(self.counter.reset()), Ordering::Relaxed);
        }
        notified
    }

    /// Returns the number of increments that the sleeper has not seen.
    #[cfg(test)]
    pub(crate) fn owed(&self) -> u64 {
        self.owed.load(Ordering::Relaxed)
    }

    /// Does the first half of a wake-up of a sleeping thread.
    #[cfg(test)]
    pub(crate) fn begin_to_wake(&self) -> bool {
        self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }
}

/// The state shared by notifiers and one taker, which may wait for the counter.
#[derive(Debug)]
pub(crate) struct Notified<C> {
    pub(crate) counter: C,
    notified: AtomicBool,
}

impl<C: Counter> Notified<C> {
    pub(crate) fn new(counter: C) -> Self {
        Self { counter, notified: AtomicBool::new(false) }
    }

    /// Increments the counter, unless an earlier increment has not been taken.
    pub(crate) fn notify(&self) {
        // Release: the taker sees everything that the notifier wrote before.
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.counter.increment();
        }
    }

    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(Ordering::Acquire)
    }

    /// Takes the notifications since the last call, and returns whether there were any. A notification
    /// during the call may be reported twice: now and by the next call.
    pub(crate) fn take(&self) -> bool {
        // The order matters: a notification after the flag was cleared increments the counter again. So a
        // taker that finds the counter 0 can sleep.
        let incremented = self.counter.reset() > 0;
        self.notified.swap(false, Ordering::AcqRel) || incremented
    }
}
