//! The order in which connections send: one segment each in turn, if their interfaces have room.

use alloc::collections::VecDeque;

use super::super::table::Id;
use super::egress::{Egress, EgressSet};
use super::tx_blocked::TxBlocked;

/// The connections that may have something to send, each once.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    ready: VecDeque<Id>,
    /// Connections whose interface was full at their turn.
    blocked: TxBlocked,
    /// The interfaces that are full now.
    full: EgressSet,
}

impl SendQueue {
    /// Adds a connection, which is in no queue yet.
    #[inline]
    pub(super) fn push(&mut self, id: Id) {
        self.ready.push_back(id);
    }

    /// Sets which interfaces are full.
    pub(super) const fn set_full(&mut self, full: EgressSet) {
        self.full = full;
    }

    /// Returns whether an interface is full.
    #[inline]
    pub(super) const fn is_full(&self, egress: Egress) -> bool {
        self.full.contains(egress)
    }

    /// Returns whether a connection would have its turn if the interfaces in `full` were full.
    pub(super) fn may_go_on(&self, full: EgressSet, generation: u32) -> bool {
        !self.ready.is_empty() || self.blocked.may_go_on(full, generation)
    }

    /// Returns the connection that is to send next. It stays in the queue until its turn has ended.
    #[inline]
    pub(super) fn first(&mut self, generation: u32) -> Option<Id> {
        if !self.blocked.is_empty() {
            self.unblock(generation);
        }
        self.ready.front().copied()
    }

    /// Ends the turn of the first connection.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        self.ready.pop_front();
    }

    /// Ends the turn of the first connection, which has more to send.
    #[inline]
    pub(super) fn rotate(&mut self) {
        if let Some(id) = self.ready.pop_front() {
            self.ready.push_back(id);
        }
    }

    /// Ends the turn of the first connection, `id`: its interface is full.
    pub(super) fn block(&mut self, id: Id, egress: Egress, generation: u32) {
        self.end_turn();
        self.blocked.push(id, egress, generation);
    }

    /// Moves the connection that has waited longest for an interface that is no longer full to the front
    /// of the queue, since it has missed a turn. If routes have changed, moves all that wait: their turns
    /// find out through which interface they leave now.
    #[cold]
    fn unblock(&mut self, generation: u32) {
        if !self.blocked.is_stale(generation) {
            if let Some(id) = self.blocked.pop(self.full) {
                self.ready.push_front(id);
            }
            return;
        }
        let mut first: VecDeque<Id> = core::iter::from_fn(|| self.blocked.pop(EgressSet::NONE)).collect();
        first.append(&mut self.ready);
        self.ready = first;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.blocked.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of the next turns, each of which ends with nothing more to send.
    fn turns(queue: &mut SendQueue, generation: u32) -> Vec<u32> {
        let turn = || {
            let id = queue.first(generation)?;
            queue.end_turn();
            Some(id.index())
        };
        core::iter::from_fn(turn).collect()
    }

    #[test]
    fn connections_take_turns_and_who_waited_for_an_interface_is_next() {
        let (mut queue, egress) = (SendQueue::default(), Egress::new(3));
        let [a, b, c] = [1, 2, 3].map(Id::of_test);
        [a, b, c].into_iter().for_each(|id| queue.push(id));
        queue.set_full(EgressSet::one(egress));
        assert!(queue.is_full(egress) && queue.first(0) == Some(a));
        queue.block(a, egress, 0);
        assert_eq!(queue.first(0), Some(b));
        queue.rotate();
        assert_eq!(queue.first(0), Some(c), "the other still waits");
        queue.set_full(EgressSet::NONE);
        assert_eq!(turns(&mut queue, 0), [1, 3, 2]);
    }

    #[test]
    fn under_other_routes_all_that_wait_have_a_turn() {
        let (mut queue, egress) = (SendQueue::default(), Egress::new(3));
        queue.push(Id::of_test(1));
        queue.set_full(EgressSet::one(egress));
        queue.block(Id::of_test(1), egress, 0);
        assert!(!queue.may_go_on(EgressSet::one(egress), 0) && queue.may_go_on(EgressSet::one(egress), 1));
        assert_eq!(turns(&mut queue, 1), [1]);
    }
}
