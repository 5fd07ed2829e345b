//! The memory that the buffers of all connections share.

use super::super::buffer::Spares;
use super::super::connection::{Allowance, Connection};
use super::super::counters::{Counter, Counters};
use super::super::table::Id;

/// The divisor of the memory limit that gives the most bytes of small spare buffers to keep; a large spare
/// buffer may have as many.
const SPARES_SHARE: usize = 1_024;

/// The account of the memory that all buffers share.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    /// The bytes that connections own.
    taken: usize,
    /// The memory of empty buffers, which no connection owns at present.
    spares: Spares,
    /// The bytes of both together, from which the allowance follows.
    used: usize,
    allowance: Allowance,
}

impl Memory {
    pub(super) fn new(limit: usize) -> Self {
        let spares = Spares::new(limit / SPARES_SHARE);
        let mut memory = Self { limit, taken: 0, spares, used: 0, allowance: Allowance::default() };
        memory.renew_allowance();
        memory
    }

    pub(super) const fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the memory that one connection may take. The last quarter is for connections that need it
    /// to go on.
    pub(super) const fn allowance(&self) -> Allowance {
        self.allowance
    }

    fn renew_allowance(&mut self) {
        let left = u32::try_from(self.limit.saturating_sub(self.used)).unwrap_or(u32::MAX);
        self.allowance = Allowance { left, pressed: self.used > self.limit / 4 * 3 };
    }

    pub(super) const fn is_scarce(&self) -> bool {
        self.allowance.pressed
    }

    /// Returns the spare memory, for buffers that need some.
    pub(super) const fn spares(&mut self) -> &mut Spares {
        &mut self.spares
    }

    /// Updates the account of the connection `id`, which had `before` bytes, and takes the memory of its
    /// empty buffers for others. Returns the bytes that it has now.
    #[inline]
    pub(super) fn account(
        &mut self,
        id: Id,
        connection: &mut Connection,
        before: usize,
        counters: &mut Counters,
    ) -> usize {
        connection.give_to(&mut self.spares, id);
        let after = connection.held();
        self.change(before, after, counters);
        after
    }

    /// Updates the account for a connection that had `before` bytes and has `after` now. Mostly its memory
    /// comes from the spares, or returns to them.
    #[inline]
    pub(super) fn change(&mut self, before: usize, after: usize, counters: &mut Counters) {
        self.taken = (self.taken + after).saturating_sub(before);
        if self.used != self.taken + self.spares.bytes() {
            self.note_used(counters);
        }
    }

    fn note_used(&mut self, counters: &mut Counters) {
        let was_scarce = self.is_scarce();
        self.used = self.taken + self.spares.bytes();
        self.renew_allowance();
        if self.is_scarce() && !was_scarce {
            counters.count(Counter::MemoryPressures);
        }
    }
}
