//! The connections that wait to be accepted.

use alloc::collections::VecDeque;

use super::super::table::Id;

/// The connections of a listener that wait to be accepted, the one that has waited longest first.
#[derive(Debug, Default)]
pub(super) struct AcceptQueue {
    waiting: VecDeque<Id>,
    /// The number of connections in `waiting` that are gone.
    withdrawn: usize,
}

impl AcceptQueue {
    /// Returns the number of connections that wait, without those that are gone.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() - self.withdrawn
    }

    /// Adds a connection. Returns whether none waited before.
    pub(super) fn push(&mut self, connection: Id) -> bool {
        let first = self.len() == 0;
        self.waiting.push_back(connection);
        first
    }

    /// Removes and returns the connection that has waited longest, which may be gone.
    pub(super) fn pop(&mut self) -> Option<Id> {
        self.waiting.pop_front()
    }

    /// Records that the connection that was removed last was gone.
    pub(super) const fn on_withdrawn_popped(&mut self) {
        self.withdrawn = self.withdrawn.saturating_sub(1);
    }

    /// Records that a connection is gone. `is_there` returns whether a connection still exists. All are
    /// checked only when half of them are gone, so the average cost is low.
    pub(super) fn withdraw(&mut self, is_there: impl Fn(Id) -> bool) {
        self.withdrawn += 1;
        if 2 * self.withdrawn >= self.waiting.len() {
            self.waiting.retain(|id| is_there(*id));
            self.withdrawn = 0;
        }
    }
}
