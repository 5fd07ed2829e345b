//! The part of a run that one of several threads has.

/// The part of a run that one of several threads has. Of the requests of the run, in the order in which they
/// are due, each thread makes one in `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The thread's number, from zero.
    pub index: usize,
    /// The number of threads.
    pub of: usize,
}

impl Share {
    /// The whole run.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns whether other threads have parts of the run.
    #[must_use]
    pub const fn is_part(self) -> bool {
        self.of > 1
    }

    /// Returns the thread's part of a number of things.
    pub(super) const fn part(self, all: usize) -> usize {
        all / self.of + (self.index < all % self.of) as usize
    }
}
