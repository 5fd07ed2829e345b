//! A queue of byte strings in one piece of memory, one close behind the other.
//!
//! ```text
//!   +--------+-----------+------+--------------+------+
//!   | newest |   free    | free | oldest       |      |    what is too long for the room at the end
//!   +--------+-----------+------+--------------+------+    begins anew at the front
//!       tail ^                  ^ head
//! ```

/// A queue of byte strings. Who holds it keeps their [`Place`]s, in the same order.
#[derive(Debug)]
pub(crate) struct ByteQueue {
    memory: Box<[u8]>,
    head: usize,
    tail: usize,
    queued: usize,
    longest: usize,
    /// A string's equal share of the memory.
    share: usize,
}

/// The place of a string in the queue's memory, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    start: usize,
    end: usize,
}

impl ByteQueue {
    /// Creates a queue for `count` strings of at most `longest` bytes, in at most `limit_bytes` of memory.
    /// If those suffice for `count` of the longest ([`ByteQueue::needs`]), there is room for as many strings
    /// of any lengths. There is room for one in any case.
    pub(crate) fn new(count: usize, longest: usize, limit_bytes: usize) -> Self {
        let longest = longest.max(1);
        let len = Self::needs(count, longest).min(limit_bytes.max(2 * longest));
        // Memory that is never written costs nothing.
        Self { memory: vec![0; len].into(), head: 0, tail: 0, queued: 0, longest, share: len / (count + 1) }
    }

    /// Returns the memory that is enough for `count` strings of at most `longest` bytes, whatever their
    /// lengths and the order of calls: one more, for what is left unused at the end.
    pub(crate) const fn needs(count: usize, longest: usize) -> usize {
        (count + 1).saturating_mul(longest)
    }

    /// Returns how many strings would fill as much of the memory as is in use, if each had an equal share of
    /// it.
    #[inline]
    pub(crate) fn occupancy(&self) -> usize {
        let used = if self.tail >= self.head {
            self.tail - self.head
        } else {
            self.memory.len() - self.head + self.tail
        };
        used / self.share.max(1)
    }

    /// Appends a string, as far as the longest goes. `None` if there is no room for it.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<Place> {
        let bytes = bytes.get(..self.longest).unwrap_or(bytes);
        let fits_behind = self.tail >= self.head && self.memory.len() - self.tail >= bytes.len();
        let start = if fits_behind {
            self.tail
        } else {
            let start = if self.tail >= self.head { 0 } else { self.tail };
            // Never up to the oldest: a full memory would look like an empty one.
            (self.head - start > bytes.len()).then_some(start)?
        };
        let place = Place { start, end: start + bytes.len() };
        self.memory.get_mut(place.start..place.end)?.copy_from_slice(bytes);
        (self.tail, self.queued) = (place.end, self.queued + 1);
        Some(place)
    }

    /// Returns a string that is queued.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> &[u8] {
        self.memory.get(place.start..place.end).unwrap_or_default()
    }

    /// Removes the oldest string, which lies at `place`.
    #[inline]
    pub(crate) fn pop(&mut self, place: Place) {
        self.queued = self.queued.saturating_sub(1);
        self.head = place.end;
        if self.queued == 0 {
            // From the front again, where the memory is in the cache.
            (self.head, self.tail) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_longer_than_the_longest_is_cut() {
        let mut bytes = ByteQueue::new(1, 4, usize::MAX);
        let place = bytes.push(&[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(bytes.get(place), [1, 2, 3, 4]);
    }

    #[test]
    fn memory_is_bounded_and_says_how_full_it_is() {
        let mut bytes = ByteQueue::new(1_000, 1_000, 10_000);
        let places: Vec<_> = core::iter::from_fn(|| bytes.push(&[7; 1_000])).collect();
        assert_eq!((places.len(), bytes.occupancy()), (10, 10_000 / (10_000 / 1_001)));
        bytes.pop(places[0]);
        assert!(bytes.push(&[8; 999]).is_some() && bytes.push(&[8; 1_000]).is_none());
        let mut one = ByteQueue::new(1_000, 1_000, 0);
        assert!(one.push(&[7; 1_000]).is_some(), "there is room for one in any case");
    }

    proptest! {
        /// Strings come out as they went in, and there is always room for as many as was said.
        #[test]
        fn strings_of_any_length_fit(
            count in 1..6_usize,
            longest in 1..40_usize,
            steps in prop::collection::vec((any::<bool>(), 0..40_usize), 0..300),
        ) {
            let (mut bytes, mut model) = (ByteQueue::new(count, longest, usize::MAX), VecDeque::new());
            for (step, (push, len)) in steps.into_iter().enumerate() {
                if push && model.len() < count {
                    let string = vec![step as u8; len.min(longest)];
                    let place = bytes.push(&string);
                    prop_assert!(place.is_some(), "no room for {} with {} queued", len, model.len());
                    model.push_back((place.unwrap(), string));
                } else if let Some((place, _)) = model.pop_front() {
                    bytes.pop(place);
                }
                for (place, string) in &model {
                    prop_assert_eq!(bytes.get(*place), &string[..]);
                }
            }
        }
    }
}
