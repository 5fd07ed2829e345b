//! A part of a host whose deadline is known as long as nobody has changed the part.

use core::cell::Cell;
use core::ops::{Deref, DerefMut};

use crate::time::Instant;

/// A part that may wait for a time.
pub(crate) trait Waits {
    /// Until when it waits; [`Instant::NEVER`] if it does not.
    fn next_deadline(&self) -> Instant;
}

/// Such a part, and what it said last. Whoever may change it has what it said forgotten: that cannot be left
/// out.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    part: T,
    deadline: Cell<Option<Instant>>,
}

impl<T: Waits> Timed<T> {
    pub(crate) const fn new(part: T) -> Self {
        Self { part, deadline: Cell::new(None) }
    }

    /// Until when it waits.
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
