//! Entries of a [`Table`] that all wait equally long, in the order in which they will have waited enough.
//!
//! Where every wait is as long as every other, a queue is all the timer that is needed: the first to come is
//! the first to expire.

use super::table::{Id, Table};
use crate::time::{Duration, Instant};

/// The position of an entry in its queue. It is part of the entry, so that leaving from the middle costs no
/// more than leaving from the front.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    deadline: Instant,
    next: Option<Link>,
    previous: Option<Link>,
}

/// The place of a neighbour in the slab, plus one: so "none" costs nothing.
type Link = core::num::NonZeroU32;

/// An entry that can stand in a queue (one at a time).
pub(super) trait Waits {
    fn place(&self) -> &Place;
    fn place_mut(&mut self) -> &mut Place;
}

/// A queue of entries of one table.
#[derive(Debug)]
pub(super) struct Queue {
    wait: Duration,
    first: Option<Link>,
    last: Option<Link>,
    len: usize,
}

impl Queue {
    pub(super) const fn new(wait: Duration) -> Self {
        Self { wait, first: None, last: None, len: 0 }
    }

    /// Returns the number of entries in the queue.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns since when the holder of this place has waited here.
    pub(super) fn since(&self, place: &Place) -> Instant {
        Instant::ZERO + (place.deadline.since(Instant::ZERO).saturating_sub(self.wait))
    }

    /// Adds `id`, which is in no queue. It waits from `now` on.
    pub(super) fn push<V: Waits>(&mut self, table: &mut Table<V>, id: Id, now: Instant) {
        let link = Link::new(id.index() + 1);
        let previous = self.last;
        let Some(entry) = table.get_mut(id) else { return };
        *entry.place_mut() = Place { deadline: now + self.wait, next: None, previous };
        self.last = link;
        self.len += 1;
        match neighbor(table, previous) {
            Some(previous) => previous.next = link,
            None => self.first = link,
        }
    }

    /// Removes `id`, which is in this queue.
    pub(super) fn remove<V: Waits>(&mut self, table: &mut Table<V>, id: Id) {
        let Some(&Place { next, previous, .. }) = table.get(id).map(Waits::place) else { return };
        self.len -= 1;
        match neighbor(table, previous) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match neighbor(table, next) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
    }

    /// Returns the entry that has waited longest.
    pub(super) fn first<V>(&self, table: &Table<V>) -> Option<Id> {
        table.at(self.first?.get() - 1)
    }

    /// Returns the deadline of the entry that has waited longest.
    pub(super) fn deadline<V: Waits>(&self, table: &Table<V>) -> Option<Instant> {
        table.get(self.first(table)?).map(|entry| entry.place().deadline)
    }

    /// Returns the entry that has waited longest, if its deadline has passed.
    pub(super) fn due<V: Waits>(&self, table: &Table<V>, now: Instant) -> Option<Id> {
        self.first(table).filter(|_| self.deadline(table) <= Some(now))
    }
}

fn neighbor<V: Waits>(table: &mut Table<V>, link: Option<Link>) -> Option<&mut Place> {
    let id = table.at(link?.get() - 1)?;
    table.get_mut(id).map(Waits::place_mut)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::secret::Secret;
    use crate::tuple::tests::tuple;

    #[derive(Debug, Default)]
    struct Waiting(Place);

    impl Waits for Waiting {
        fn place(&self) -> &Place {
            &self.0
        }
        fn place_mut(&mut self) -> &mut Place {
            &mut self.0
        }
    }

    #[test]
    fn a_place_is_16_bytes() {
        assert_eq!(size_of::<Place>(), 16);
    }

    proptest! {
        /// Two queues over one table against two lists: who comes, who leaves from the middle, who is due.
        #[test]
        fn does_what_a_list_does(steps in prop::collection::vec((0..20_u16, 0..2_usize, 0..3_u64), 1..200)) {
            let mut table = Table::new(Secret::new([0; 16]), 100);
            let mut queues = [Queue::new(Duration::from_nanos(5)), Queue::new(Duration::from_nanos(11))];
            let mut lists = [VecDeque::<(Id, Instant)>::new(), VecDeque::new()];
            let mut now = Instant::ZERO;
            for (n, which, pass) in steps {
                now += Duration::from_nanos(pass);
                let id = table.insert(tuple(n), Waiting::default());
                if let Ok(id) = id {
                    queues[which].push(&mut table, id, now);
                    lists[which].push_back((id, now + queues[which].wait));
                } else if let Err(crate::table::Refused::Taken(id)) = id {
                    let which = lists.iter().position(|list| list.iter().any(|entry| entry.0 == id)).unwrap();
                    queues[which].remove(&mut table, id);
                    lists[which].retain(|entry| entry.0 != id);
                    table.remove(id);
                }
                for (queue, list) in queues.iter_mut().zip(&mut lists) {
                    prop_assert_eq!(queue.deadline(&table), list.front().map(|entry| entry.1));
                    while let Some(id) = queue.due(&table, now) {
                        queue.remove(&mut table, id);
                        table.remove(id);
                        let (expected, deadline) = list.pop_front().unwrap();
                        prop_assert_eq!(id, expected);
                        prop_assert!(deadline <= now);
                    }
                    prop_assert!(list.iter().all(|entry| entry.1 > now));
                    prop_assert_eq!(queue.len(), list.len());
                }
            }
        }
    }
}
