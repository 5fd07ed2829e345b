//! A queue of future events in order of time. Events due at one time happen in the order in which they were
//! scheduled.

use alloc::collections::BinaryHeap;
use core::cmp::{Ordering, Reverse};
use evenkeel_timers::Instant;

/// A queue of future events.
///
/// ```
/// use evenkeel_timers::Instant;
/// use evenkeel_wan::event::Events;
///
/// let mut events = Events::new();
/// events.schedule(Instant::from_millis(20), "second");
/// events.schedule(Instant::from_millis(10), "first");
/// assert_eq!(events.next_due(), Instant::from_millis(10));
/// assert_eq!(events.pop_due(Instant::from_millis(10)), Some("first"));
/// assert_eq!(events.pop_due(Instant::from_millis(10)), None);
/// ```
#[derive(Debug)]
pub struct Events<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Instant,
    order: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0 }
    }
}

impl<T> Events<T> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Schedules `event` to happen at `due`.
    pub fn schedule(&mut self, due: Instant, event: T) {
        self.heap.push(Reverse(Entry { due, order: self.scheduled, event }));
        self.scheduled += 1;
    }

    /// Returns the time at which the next event is due, or [`Instant::NEVER`] if there is none.
    #[must_use]
    pub fn next_due(&self) -> Instant {
        self.heap.peek().map_or(Instant::NEVER, |Reverse(entry)| entry.due)
    }

    /// Takes the next event if it is due by `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next_due() > now || self.heap.is_empty() {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.event)
    }

    /// Returns the number of events scheduled and not yet taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether nothing is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_time_then_of_scheduling() {
        let mut events = Events::new();
        for (micros, name) in [(5, "late"), (1, "first"), (1, "second"), (1, "third")] {
            events.schedule(Instant::from_micros(micros), name);
        }
        assert_eq!(events.next_due(), Instant::from_micros(1));
        assert_eq!(events.pop_due(Instant::ZERO), None);
        let due: Vec<_> = std::iter::from_fn(|| events.pop_due(Instant::from_micros(4))).collect();
        assert_eq!(due, ["first", "second", "third"]);
        assert_eq!(events.len(), 1);
        assert_eq!(events.pop_due(Instant::from_micros(5)), Some("late"));
        assert_eq!(events.next_due(), Instant::NEVER);
        assert!(events.is_empty());
    }
}
