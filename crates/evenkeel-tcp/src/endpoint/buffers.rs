//! What connections take of the memory that their buffers share, and what they give back.

use super::super::table::Id;
use super::state::{Endpoint, Entry};

/// Entries of the list of connections with holes that are not worth a look.
const HOLES_KEPT: usize = 64;

impl<R: Copy> Endpoint<R> {
    /// Bytes of memory that the buffers of all connections own.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.memory.taken()
    }

    /// A connection has more bytes than before, or fewer.
    pub(super) fn account(&mut self, id: Id) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        let held = entry.connection.held();
        let before = core::mem::replace(&mut entry.held, held);
        if held != before {
            self.memory.account(before, held, &mut self.counters);
        }
        if entry.connection.has_holes() && !core::mem::replace(&mut entry.has_holes, true) {
            self.holes.push_back(id);
        }
        if !self.holes.is_empty() {
            self.mind_holes();
        }
    }

    fn mind_holes(&mut self) {
        if self.memory.is_scarce() || self.holes.len() > 2 * self.connections.len() + HOLES_KEPT {
            self.fill_holes();
        }
    }

    /// While memory is scarce, what came out of order is thrown away, what has waited longest first: a
    /// segment far from the others costs a peer little, and us the room up to it. Those that are gone, or
    /// have no holes any more, are left out once there may be as many of them as of others.
    fn fill_holes(&mut self) {
        if !self.memory.is_scarce() {
            let connections = &mut self.connections;
            return self.holes.retain(|id| {
                connections.get_mut(*id).is_some_and(|entry| {
                    entry.has_holes = entry.connection.has_holes();
                    entry.has_holes
                })
            });
        }
        while self.memory.is_scarce()
            && let Some(id) = self.holes.pop_front()
        {
            let Some(entry) = self.connections.get_mut(id) else { continue };
            entry.has_holes = false;
            entry.connection.renege();
            let held = entry.connection.held();
            let before = core::mem::replace(&mut entry.held, held);
            self.counters.count_all(entry.connection.take_tally());
            self.memory.account(before, held, &mut self.counters);
        }
    }

    /// A connection to which something is about to happen, told how much memory there is. [`Endpoint::touch`]
    /// must follow.
    pub(super) fn entry(&mut self, id: Id) -> Option<&mut Entry<R>> {
        let entry = self.connections.get_mut(id)?;
        entry.connection.set_allowance(self.memory.allowance());
        Some(entry)
    }
}
