//! The memory that the buffers of all connections share.

use super::super::connection::Allowance;
use super::super::counters::{Counter, Counters};
use super::super::table::Id;
use super::{Endpoint, Entry};

/// How much there is, and how much is taken.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    taken: usize,
}

impl Memory {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, taken: 0 }
    }

    pub(super) const fn taken(&self) -> usize {
        self.taken
    }

    /// A quarter is kept for those who need it to go on.
    pub(super) fn allowance(&self) -> Allowance {
        let left = u32::try_from(self.limit.saturating_sub(self.taken)).unwrap_or(u32::MAX);
        Allowance { left, pressed: self.is_scarce() }
    }

    const fn is_scarce(&self) -> bool {
        self.taken > self.limit / 4 * 3
    }

    /// Somebody who had `before` octets has `after` now.
    pub(super) const fn account(&mut self, before: usize, after: usize, counters: &mut Counters) {
        let was_scarce = self.is_scarce();
        self.taken = (self.taken + after).saturating_sub(before);
        if self.is_scarce() && !was_scarce {
            counters.count(Counter::MemoryPressures);
        }
    }
}

impl Endpoint {
    /// Octets of memory that the buffers of all connections own.
    #[must_use]
    pub const fn buffered(&self) -> usize {
        self.memory.taken()
    }

    /// A connection to which something is about to happen, told how much memory there is. [`Endpoint::touch`] must follow.
    pub(super) fn entry(&mut self, id: Id) -> Option<&mut Entry> {
        let entry = self.connections.get_mut(id)?;
        entry.connection.set_allowance(self.memory.allowance());
        Some(entry)
    }
}
