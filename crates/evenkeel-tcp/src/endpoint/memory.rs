//! The memory that the buffers of all connections share.

use super::super::connection::Allowance;
use super::super::counters::{Counter, Counters};

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

    pub(super) const fn is_scarce(&self) -> bool {
        self.taken > self.limit / 4 * 3
    }

    /// Somebody who had `before` bytes has `after` now.
    pub(super) const fn account(&mut self, before: usize, after: usize, counters: &mut Counters) {
        let was_scarce = self.is_scarce();
        self.taken = (self.taken + after).saturating_sub(before);
        if self.is_scarce() && !was_scarce {
            counters.count(Counter::MemoryPressures);
        }
    }
}
