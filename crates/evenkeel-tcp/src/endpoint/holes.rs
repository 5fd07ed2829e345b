//! The connections with data out of order, which give way while memory is scarce.

use alloc::collections::VecDeque;

use super::super::counters::Counters;
use super::super::table::{Id, Table};
use super::entry::Entry;
use super::memory::Memory;

/// The number of entries, beyond twice the connections, that the list may have before stale ones are removed.
const HOLES_KEPT: usize = 64;

/// The connections with data out of order, in the order in which that began; each once.
#[derive(Debug, Default)]
pub(super) struct Holes(VecDeque<Id>);

impl Holes {
    /// Adds a connection if it has data out of order and is not in the list.
    #[inline]
    pub(super) fn add<R>(&mut self, id: Id, entry: &mut Entry<R>) {
        if entry.connection.has_holes() && !core::mem::replace(&mut entry.has_holes, true) {
            self.0.push_back(id);
        }
    }

    /// Discards data out of order while memory is scarce, and removes stale entries once the list is long.
    #[inline(always)]
    pub(super) fn trim<R: Copy>(
        &mut self,
        connections: &mut Table<Entry<R>>,
        memory: &mut Memory,
        counters: &mut Counters,
    ) {
        // Nearly always there are none.
        if !self.0.is_empty() {
            self.trim_some(connections, memory, counters);
        }
    }

    fn trim_some<R: Copy>(
        &mut self,
        connections: &mut Table<Entry<R>>,
        memory: &mut Memory,
        counters: &mut Counters,
    ) {
        if memory.is_scarce() {
            self.discard(connections, memory, counters);
        } else if self.0.len() > 2 * connections.len() + HOLES_KEPT {
            self.remove_stale(connections);
        }
    }

    /// Discards data out of order while memory is scarce, beginning with the connection that has been in
    /// the list longest: a segment far from the others costs a peer little, and us the room up to it.
    fn discard<R: Copy>(
        &mut self,
        connections: &mut Table<Entry<R>>,
        memory: &mut Memory,
        counters: &mut Counters,
    ) {
        while memory.is_scarce() {
            let Some(id) = self.0.pop_front() else { return };
            let Some(entry) = connections.get_mut(id) else { continue };
            entry.has_holes = false;
            entry.connection.renege();
            counters.count_all(entry.connection.take_counted());
            entry.account(id, memory, counters);
        }
    }

    /// Removes connections that are gone, or have no data out of order any more.
    fn remove_stale<R: Copy>(&mut self, connections: &mut Table<Entry<R>>) {
        self.0.retain(|id| {
            connections.get_mut(*id).is_some_and(|entry| {
                entry.has_holes = entry.connection.has_holes();
                entry.has_holes
            })
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
