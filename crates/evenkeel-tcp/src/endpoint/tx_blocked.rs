//! Connections that wait for their egress interface, which is full, for instance of other traffic. Each
//! waits for the interface of its present route, and delays none that leaves through another.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::super::table::Id;
use super::egress::{Egress, EgressSet};

/// The connections whose egress interface was full at their turn to send, each once.
#[derive(Debug, Default)]
pub(super) struct TxBlocked {
    /// The waiting connections by interface, up to the highest that was ever full.
    queues: Vec<VecDeque<Id>>,
    /// The interfaces whose queues are not empty.
    waited_for: EgressSet,
    /// The generation of the routes under which the connections wait.
    generation: u32,
}

impl TxBlocked {
    pub(super) const fn is_empty(&self) -> bool {
        self.waited_for.is_empty()
    }

    /// Returns whether a connection may go on: its interface is no longer full, or routes have changed.
    pub(super) const fn may_go_on(&self, full: EgressSet, generation: u32) -> bool {
        !self.waited_for.without(full).is_empty() || (self.is_stale(generation) && !self.is_empty())
    }

    /// Returns whether routes have changed since the connections began to wait: they may leave through
    /// another interface.
    pub(super) const fn is_stale(&self, generation: u32) -> bool {
        self.generation != generation
    }

    /// Adds a connection. None that began to wait under another generation may be left.
    pub(super) fn push(&mut self, id: Id, egress: Egress, generation: u32) {
        let index = egress.index();
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, VecDeque::new);
        }
        if let Some(queue) = self.queues.get_mut(index) {
            queue.push_back(id);
            self.waited_for = self.waited_for.union(EgressSet::one(egress));
            self.generation = generation;
        }
    }

    /// Removes and returns the connection that has waited longest for the first interface that is not
    /// full.
    pub(super) fn pop(&mut self, full: EgressSet) -> Option<Id> {
        let egress = self.waited_for.without(full).first()?;
        let queue = self.queues.get_mut(egress.index())?;
        let id = queue.pop_front();
        if queue.is_empty() {
            self.waited_for = self.waited_for.without(EgressSet::one(egress));
        }
        id
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}
