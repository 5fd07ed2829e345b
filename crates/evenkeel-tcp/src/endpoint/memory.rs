//! The memory that the buffers of all connections share.

use super::super::buffer::Spares;
use super::super::connection::{Allowance, Connection};
use super::super::counters::{Counter, Counters};
use super::super::table::Id;

/// Of what empty buffers leave behind, small ones may be this part of all there is, and a large one as much.
const SPARES_SHARE: usize = 1_024;

/// How much there is, and how much is taken.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    /// What connections own.
    taken: usize,
    /// What none owns at present.
    spares: Spares,
    /// Both together, and what follows from it.
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

    /// What one connection may take. A quarter is kept for those who need it to go on.
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

    /// Memory for buffers that are to hold something.
    pub(super) const fn spares(&mut self) -> &mut Spares {
        &mut self.spares
    }

    /// The connection `id` that had `before` bytes may have more now, or fewer. What its buffers do not need
    /// is there for others. Says how many it has.
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

    /// Somebody who had `before` bytes has `after` now. Mostly it has taken them of those that nobody needed,
    /// or has left them to others.
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
