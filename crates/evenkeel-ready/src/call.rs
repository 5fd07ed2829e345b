//! Types that all calls that wait for events share.

use crate::kinds::Kinds;
use crate::set::FdSets;

/// The choice whether a call waits that finds nothing ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The call returns, as with a timeout of zero.
    No,
    /// The caller sleeps until it is woken, or gives up.
    UntilReady,
}

/// The result of a call, and its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// The number of ready descriptors. `select` counts a descriptor once for each set that it is in. If
    /// the number is zero and the call [waits](Wait::UntilReady), the caller is asleep now.
    pub ready: usize,
    /// The number of descriptors whose status was requested: most of the cost.
    pub tests: usize,
}

/// An entry of a call of `poll`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEntry {
    /// The descriptor; [`PollEntry::IGNORED`] is passed over.
    pub fd: u32,
    /// The kinds that the caller asks for: readable, writable, exceptional, read-closed.
    pub events: Kinds,
    /// The kinds that the call reports: those asked for that hold; [hang-up and
    /// error](Kinds::HANG_UP_OR_ERROR) also if not asked for; or that the descriptor is [not
    /// open](Kinds::INVALID).
    pub ready: Kinds,
}

impl PollEntry {
    /// A value of `fd` for an entry that is not used. In C it is -1.
    pub const IGNORED: u32 = u32::MAX;

    /// Creates an entry without reported kinds.
    #[must_use]
    pub const fn new(fd: u32, events: Kinds) -> Self {
        Self { fd, events, ready: Kinds::NONE }
    }

    /// Returns the kinds to test: those asked for, hang-up and error.
    pub(crate) const fn asked(&self) -> Kinds {
        self.events.intersection(Kinds::ASKED_FOR).union(Kinds::HANG_UP_OR_ERROR)
    }
}

/// Kinds of event for which `select` says that a descriptor is ready to read.
const TO_READ: Kinds = Kinds::READABLE.union(Kinds::HANG_UP_OR_ERROR);
/// Kinds of event for which `select` says that a descriptor is ready to write.
const TO_WRITE: Kinds = Kinds::WRITABLE.union(Kinds::HANG_UP_OR_ERROR);

/// The subset of the three sets of `select` that a descriptor is in.
#[derive(Clone, Copy)]
pub(crate) struct InSets {
    read: bool,
    write: bool,
    exception: bool,
}

impl InSets {
    /// Returns the sets that contain a descriptor.
    #[inline]
    pub(crate) fn of(sets: &FdSets, fd: u32) -> Self {
        let (read, write) = (sets.read.contains(fd), sets.write.contains(fd));
        Self { read, write, exception: sets.exception.contains(fd) }
    }

    /// Returns the sets in which a caller asks for these kinds of event.
    #[inline]
    pub(crate) const fn asking(kinds: Kinds) -> Self {
        let (read, write) = (kinds.intersects(Kinds::READABLE), kinds.intersects(Kinds::WRITABLE));
        Self { read, write, exception: kinds.intersects(Kinds::EXCEPTIONAL) }
    }

    /// Returns the sets in which `select` reports these kinds of event.
    #[inline]
    pub(crate) const fn telling(kinds: Kinds) -> Self {
        let (read, write) = (kinds.intersects(TO_READ), kinds.intersects(TO_WRITE));
        Self { read, write, exception: kinds.intersects(Kinds::EXCEPTIONAL) }
    }

    /// Returns the sets that are in both.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        let (read, write) = (self.read & other.read, self.write & other.write);
        Self { read, write, exception: self.exception & other.exception }
    }

    /// Returns the kinds to test for a descriptor in these sets.
    #[inline]
    pub(crate) const fn asked(self) -> Kinds {
        let (read, write) = (TO_READ.when(self.read), TO_WRITE.when(self.write));
        read.union(write).union(Kinds::EXCEPTIONAL.when(self.exception))
    }

    pub(crate) fn len(self) -> usize {
        usize::from(self.read) + usize::from(self.write) + usize::from(self.exception)
    }

    /// Adds a descriptor to these sets.
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

    /// Removes a descriptor from the other sets.
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
