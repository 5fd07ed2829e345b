//! What the calls that wait for events have in common.

use crate::kinds::Kinds;
use crate::set::FdSets;

/// Whether a call that finds nothing ready waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It returns, as with a timeout of zero.
    No,
    /// The caller sleeps until it is woken, or gives up.
    UntilReady,
}

/// What a call has found, and what it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// How many are ready: as `select` counts them a descriptor once for each set that it is in, else once.
    /// If none, and the call [waits](Wait::UntilReady), the caller is asleep now.
    pub ready: usize,
    /// Of how many descriptors the status was asked for: most of the cost.
    pub tests: usize,
}

/// An entry of a call of `poll`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEntry {
    /// Which descriptor; [`PollEntry::IGNORED`] is passed over.
    pub fd: u32,
    /// What the caller asks for: readable, writable, exceptional, read-closed.
    pub events: Kinds,
    /// What it is told: of these, those that hold; [hang-up and error](Kinds::HANG_UP_OR_ERROR) unasked; or
    /// that the descriptor is [not open](Kinds::INVALID).
    pub ready: Kinds,
}

impl PollEntry {
    /// In place of a descriptor: there is nothing to tell. In C it is -1.
    pub const IGNORED: u32 = u32::MAX;

    /// An entry that nothing is told of yet.
    #[must_use]
    pub const fn new(fd: u32, events: Kinds) -> Self {
        Self { fd, events, ready: Kinds::NONE }
    }

    /// What is to be looked at.
    pub(crate) const fn asked(&self) -> Kinds {
        self.events.intersection(Kinds::ASKED_FOR).union(Kinds::HANG_UP_OR_ERROR)
    }
}

/// Kinds of event for which `select` says that a descriptor is ready to read.
const TO_READ: Kinds = Kinds::READABLE.union(Kinds::HANG_UP_OR_ERROR);
/// And to write.
const TO_WRITE: Kinds = Kinds::WRITABLE.union(Kinds::HANG_UP_OR_ERROR);

/// In which of three sets a descriptor is.
#[derive(Clone, Copy)]
pub(crate) struct InSets {
    read: bool,
    write: bool,
    exception: bool,
}

impl InSets {
    /// In which one is.
    #[inline]
    pub(crate) fn of(sets: &FdSets, fd: u32) -> Self {
        let (read, write) = (sets.read.contains(fd), sets.write.contains(fd));
        Self { read, write, exception: sets.exception.contains(fd) }
    }

    /// By which one asks for these kinds of event.
    #[inline]
    pub(crate) const fn asking(kinds: Kinds) -> Self {
        let (read, write) = (kinds.intersects(Kinds::READABLE), kinds.intersects(Kinds::WRITABLE));
        Self { read, write, exception: kinds.intersects(Kinds::EXCEPTIONAL) }
    }

    /// By which one is told of these kinds of event.
    #[inline]
    pub(crate) const fn telling(kinds: Kinds) -> Self {
        let (read, write) = (kinds.intersects(TO_READ), kinds.intersects(TO_WRITE));
        Self { read, write, exception: kinds.intersects(Kinds::EXCEPTIONAL) }
    }

    /// Those of both.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        let (read, write) = (self.read & other.read, self.write & other.write);
        Self { read, write, exception: self.exception & other.exception }
    }

    /// What is to be looked at.
    #[inline]
    pub(crate) const fn asked(self) -> Kinds {
        let (read, write) = (TO_READ.when(self.read), TO_WRITE.when(self.write));
        read.union(write).union(Kinds::EXCEPTIONAL.when(self.exception))
    }

    pub(crate) fn len(self) -> usize {
        usize::from(self.read) + usize::from(self.write) + usize::from(self.exception)
    }

    /// Puts one into these sets.
    #[inline]
    pub(crate) fn add(self, fd: u32, sets: &mut FdSets) {
        if self.read {
            sets.read.insert(fd);
        }
        if self.write {
            sets.write.insert(fd);
        }
        if self.exception {
            sets.exception.insert(fd);
        }
    }

    /// Has one be in no others.
    #[inline]
    pub(crate) fn keep(self, fd: u32, sets: &mut FdSets) {
        if !self.read {
            sets.read.remove(fd);
        }
        if !self.write {
            sets.write.remove(fd);
        }
        if !self.exception {
            sets.exception.remove(fd);
        }
    }
}
