//! What connections take of the memory that their buffers share, and what they give back.

use super::super::counters::Counters;
use super::super::table::Id;
use super::memory::Memory;
use super::state::{Endpoint, Entry};

/// Entries of the list of connections with holes that are not worth a look.
const HOLES_KEPT: usize = 64;

impl<R: Copy> Endpoint<R> {
    /// Bytes of memory that the buffers of all connections own.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.memory.taken()
    }

    /// For when there are connections with holes.
    pub(super) fn mind_holes(&mut self) {
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
            self.counters.count_all(entry.connection.take_tally());
            entry.account(id, &mut self.memory, &mut self.counters);
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

impl<R> Entry<R> {
    /// The buffers of the connection, which is called `id`, own more bytes than before, or fewer.
    #[inline]
    pub(super) fn account(&mut self, id: Id, memory: &mut Memory, counters: &mut Counters) {
        self.held = memory.account(id, &mut self.connection, self.held as usize, counters) as u32;
    }
}
