//! A wrapper of a part of a host, which remembers the part's deadline until the part may have changed.

use core::cell::Cell;
use core::ops::{Deref, DerefMut};

use crate::time::Instant;

/// A part that may wait for a time.
pub(crate) trait Waits {
    /// Returns the time until which the part waits; [`Instant::NEVER`] if it does not wait.
    fn next_deadline(&self) -> Instant;
}

/// A part with a deadline, and the deadline it returned last. Any access that may change the part clears the
/// remembered deadline; no caller can bypass that.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    part: T,
    deadline: Cell<Option<Instant>>,
}

impl<T: Waits> Timed<T> {
    pub(crate) const fn new(part: T) -> Self {
        Self { part, deadline: Cell::new(None) }
    }

    /// Returns the time until which the part waits.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        if let Some(deadline) = self.deadline.get() {
            return deadline;
        }
        let deadline = self.part.next_deadline();
        self.deadline.set(Some(deadline));
        deadline
    }
}

impl<T> Deref for Timed<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> DerefMut for Timed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.deadline.set(None);
        &mut self.part
    }
}
