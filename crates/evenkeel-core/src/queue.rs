//! Bounded queues that processes read.

use std::collections::VecDeque;

use crate::poll::Gate;

/// A bounded queue that a process reads.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<T>,
    limit: usize,
    /// Feedback to whatever fills it.
    gate: Gate,
}

impl<T> Queue<T> {
    pub(crate) fn new(limit: usize, gate: Gate) -> Self {
        Self { items: VecDeque::with_capacity(limit), limit, gate }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.items.len() < self.limit
    }

    /// Appends. The caller has seen to it that there is room.
    pub(crate) fn push(&mut self, item: T) {
        self.items.push_back(item);
    }

    /// Removes and returns the oldest item, and whether input may resume now that it is gone.
    pub(crate) fn pop(&mut self) -> Option<(T, bool)> {
        let item = self.items.pop_front()?;
        Some((item, self.gate.on_dequeue(self.items.len())))
    }

    /// Returns the queue's watermarks, and its length: for the caller to report an enqueue or the attempt.
    pub(crate) fn gate(&mut self) -> (&mut Gate, usize) {
        (&mut self.gate, self.items.len())
    }

    pub(crate) fn filled_percent(&self) -> u8 {
        self.gate.filled_percent(self.items.len())
    }

    pub(crate) fn reopen(&mut self) -> bool {
        self.gate.reopen(self.items.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    pub(crate) fn into_items(self) -> VecDeque<T> {
        self.items
    }
}
