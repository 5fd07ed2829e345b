//! The accounting of the memory that all connections' buffers share.

use super::super::counters::Counters;
use super::super::table::Id;
use super::memory::Memory;
use super::state::{Endpoint, Entry};

/// The number of entries, beyond twice the connections, that the list of connections with holes may have
/// before stale ones are removed.
const HOLES_KEPT: usize = 64;

impl<R: Copy> Endpoint<R> {
    /// Returns the bytes of memory that the buffers of all connections own.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.memory.taken()
    }

    /// Discards data out of order while memory is scarce, and removes stale entries from the list of
    /// connections with holes once it is long.
    pub(super) fn mind_holes(&mut self) {
        if self.memory.is_scarce() || self.holes.len() > 2 * self.connections.len() + HOLES_KEPT {
            self.fill_holes();
        }
    }

    /// Discards data out of order while memory is scarce, beginning with the connection that has been in
    /// the list longest: a segment far from the others costs a peer little, and us the room up to it.
    /// Otherwise removes the entries of connections that are gone, or have no holes any more.
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

    /// Returns a connection for a call on it, after setting its memory allowance. [`Endpoint::touch`] must
    /// follow.
    pub(super) fn entry(&mut self, id: Id) -> Option<&mut Entry<R>> {
        let entry = self.connections.get_mut(id)?;
        entry.connection.set_allowance(self.memory.allowance());
        Some(entry)
    }
}

impl<R> Entry<R> {
    /// Updates the account of the memory that the buffers of the connection `id` own.
    #[inline]
    pub(super) fn account(&mut self, id: Id, memory: &mut Memory, counters: &mut Counters) {
        self.held = memory.account(id, &mut self.connection, self.held as usize, counters) as u32;
    }
}
