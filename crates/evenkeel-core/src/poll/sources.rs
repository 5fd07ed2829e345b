//! The sources that a polling thread serves, and sets of them.

/// A source that a polling thread serves: the receive ring of one queue of one interface, or the transmit
/// side of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// A set of sources. A host has at most [`Sources::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources(u64);

impl Sources {
    /// Most sources a set can hold.
    pub const MAX: usize = 64;
    /// The empty set of sources.
    pub const NONE: Self = Self(0);
    /// The set of all possible sources.
    pub const ALL: Self = Self(u64::MAX);

    /// Returns the set of one source.
    #[must_use]
    pub const fn one(source: SourceId) -> Self {
        Self(1 << (source.0 as u64 % Self::MAX as u64))
    }

    /// Returns whether the source is in the set.
    #[must_use]
    pub const fn contains(self, source: SourceId) -> bool {
        self.0 & Self::one(source).0 != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the sources of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the intersection of two sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the first source of the set whose number is at least `from`, or else the first of all: the
    /// source whose turn it is.
    #[must_use]
    pub const fn next(self, from: u16) -> Option<SourceId> {
        let later = if from < Self::MAX as u16 { self.0 >> from << from } else { 0 };
        match (later, self.0) {
            (0, 0) => None,
            (0, all) => Some(SourceId(all.trailing_zeros() as u16)),
            (later, _) => Some(SourceId(later.trailing_zeros() as u16)),
        }
    }

    /// Returns the sources of the set, lowest number first.
    pub fn iter(self) -> impl Iterator<Item = SourceId> {
        (0..Self::MAX as u16).map(SourceId).filter(move |&source| self.contains(source))
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
