//! The count of frames that a program of `keeper.rs` has kept from the kernel's stack.

use core::fmt;

use aya::maps::{MapData, PerCpuArray};

/// The counter of the frames that the kernel's stack did not get.
pub(crate) struct Kept(PerCpuArray<MapData, u64>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.frames()).finish()
    }
}

impl Kept {
    /// Returns the counter in a map of the program.
    pub(crate) const fn of(counts: PerCpuArray<MapData, u64>) -> Self {
        Self(counts)
    }

    pub(crate) fn frames(&self) -> u64 {
        self.0.get(&0, 0).map_or(0, |of_cpus| of_cpus.iter().sum())
    }
}
