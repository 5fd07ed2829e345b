//! Connections that wait for their egress interface, which is full: others fill it, for instance. Each waits
//! for the interface that its route has now, and holds up none that leaves by another.

use std::collections::VecDeque;

use super::super::table::Id;
use super::egress::{Egress, EgressSet};

/// Connections whose egress interface was full when it was their turn to send, each once.
#[derive(Debug, Default)]
pub(super) struct TxBlocked {
    /// By interface, up to the highest that was ever full.
    queues: Vec<VecDeque<Id>>,
    /// Those whose queues are not empty.
    waited_for: EgressSet,
    /// Of the routes by which they wait where they do.
    generation: u32,
}

impl TxBlocked {
    pub(super) const fn is_empty(&self) -> bool {
        self.waited_for.is_empty()
    }

    /// Whether anybody may have waited long enough: an interface is no longer full, or routes have changed.
    pub(super) const fn may_go_on(&self, full: EgressSet, generation: u32) -> bool {
        !self.waited_for.without(full).is_empty() || (self.is_stale(generation) && !self.is_empty())
    }

    /// Whether routes have changed since they began to wait: they may leave by another interface.
    pub(super) const fn is_stale(&self, generation: u32) -> bool {
        self.generation != generation
    }

    /// Nobody may be here who began to wait under another generation.
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

    /// Who has waited longest for an interface that is not full: all of one, then of another.
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
