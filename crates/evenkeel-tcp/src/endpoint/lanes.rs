//! Ways by which segments leave, and the connections that wait for one of them.
//!
//! Each may be full for a while, an interface that others fill for instance; an endpoint knows nothing of
//! them but a number for each. A connection whose way is full waits, and holds up none whose way is not.

use std::collections::VecDeque;

use super::super::table::Id;

/// A way by which segments leave, for instance an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lane(u8);

/// A set of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lanes(u64);

/// Connections whose lane was full when it was their turn to send, each once.
#[derive(Debug, Default)]
pub(super) struct TxBlocked {
    /// By lane, up to the highest that was ever full.
    queues: Vec<VecDeque<Id>>,
    /// Those whose queues are not empty.
    lanes: Lanes,
}

impl Lane {
    /// The lane of this number. There are [`Lanes::MAX`]; higher numbers begin again with the first.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number % Lanes::MAX)
    }
}

impl Lanes {
    /// How many lanes there are.
    pub const MAX: u8 = 64;
    /// None.
    pub const NONE: Self = Self(0);

    /// The set of one lane.
    #[must_use]
    pub const fn one(lane: Lane) -> Self {
        Self(1 << lane.0)
    }

    /// Whether the lane is in the set.
    #[must_use]
    pub const fn contains(self, lane: Lane) -> bool {
        self.0 >> lane.0 & 1 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The one of the lowest number.
    const fn first(self) -> Option<Lane> {
        if self.is_empty() { None } else { Some(Lane(self.0.trailing_zeros() as u8)) }
    }

    /// Those of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl TxBlocked {
    pub(super) const fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether anybody waits for a lane that is no longer full.
    pub(super) const fn is_any_past(&self, full: Lanes) -> bool {
        !self.lanes.without(full).is_empty()
    }

    pub(super) fn push(&mut self, id: Id, lane: Lane) {
        let index = usize::from(lane.0);
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, VecDeque::new);
        }
        if let Some(queue) = self.queues.get_mut(index) {
            queue.push_back(id);
            self.lanes = self.lanes.union(Lanes::one(lane));
        }
    }

    /// Who has waited longest for a lane that is no longer full: all of one lane, then of another.
    pub(super) fn pop_past(&mut self, full: Lanes) -> Option<Id> {
        let lane = self.lanes.without(full).first()?;
        let queue = self.queues.get_mut(usize::from(lane.0))?;
        let id = queue.pop_front();
        if queue.is_empty() {
            self.lanes = self.lanes.without(Lanes::one(lane));
        }
        id
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}
