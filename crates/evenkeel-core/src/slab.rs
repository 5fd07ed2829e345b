//! A slab: values that are found by their numbers.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Capacity below which nothing is given back.
const SMALL: usize = 64;

/// A place for each value. Numbers are small: the lowest place that is free is taken first.
///
/// Free places at the end are given up, and memory is given back when a quarter of it is used: each step of
/// that comes after at least as many removals as values are moved.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    /// Free places, and some that were given up: those lie beyond the end.
    free: BinaryHeap<Reverse<u32>>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: BinaryHeap::new(), len: 0 }
    }

    /// Returns the number that the next value will get.
    pub(crate) fn vacant(&self) -> u32 {
        let end = self.places.len() as u32;
        self.free.peek().map_or(end, |&Reverse(number)| number.min(end))
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        let number = self.vacant();
        if let Some(place) = self.places.get_mut(number as usize) {
            self.free.pop();
            *place = Some(value);
        } else {
            // None is free before the end, and none may be taken for free once there are places beyond it.
            self.free.clear();
            self.places.push(Some(value));
        }
        number
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.places.get_mut(number as usize)?.take()?;
        self.len -= 1;
        if number as usize + 1 < self.places.len() {
            self.free.push(Reverse(number));
        } else {
            self.give_up();
        }
        Some(value)
    }

    /// Gives up the free places at the end.
    fn give_up(&mut self) {
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
        let end = self.places.len();
        if self.places.capacity() > SMALL && end < self.places.capacity() / 4 {
            self.places.shrink_to((2 * end).max(SMALL));
            self.free.retain(|&Reverse(number)| (number as usize) < end);
            self.free.shrink_to(self.places.capacity());
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        look();
        self.places.get(number as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        look();
        self.places.get_mut(number as usize)?.as_mut()
    }

    /// Returns an iterator over all entries, with their numbers, in the order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(&self.places)
            .inspect(|_| look())
            .filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

/// Counts an access to a place, for tests.
#[inline]
fn look() {
    #[cfg(test)]
    tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
}

#[cfg(test)]
pub(crate) mod tests {
    use core::cell::Cell;

    use super::*;

    thread_local! {
        /// The accesses of this thread to places of all slabs.
        pub(crate) static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn the_lowest_number_that_is_free_is_the_next() {
        let mut slab = Slab::new();
        assert_eq!(['a', 'b', 'c', 'd'].map(|value| slab.insert(value)), [0, 1, 2, 3]);
        assert_eq!(
            (slab.remove(2), slab.remove(1), slab.remove(1), slab.remove(9)),
            (Some('c'), Some('b'), None, None)
        );
        assert_eq!((slab.len(), slab.vacant()), (2, 1));
        assert_eq!(['e', 'f', 'g'].map(|value| slab.insert(value)), [1, 2, 4]);
        assert_eq!(
            slab.iter().map(|(number, &value)| (number, value)).collect::<Vec<_>>(),
            [(0, 'a'), (1, 'e'), (2, 'f'), (3, 'd'), (4, 'g')]
        );
        *slab.get_mut(4).unwrap() = 'h';
        assert_eq!((slab.get(4), slab.get(5)), (Some(&'h'), None));
    }

    /// Places that were given up, and come again, are free as often as they were left.
    #[test]
    fn numbers_are_those_of_a_sorted_set() {
        let (mut slab, mut taken) = (Slab::new(), std::collections::BTreeSet::new());
        let mut random = 1_u32;
        for step in 0..20_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // More come than go for a while, and then the other way round.
            let comes = (random >> 16) % 8 < if step / 500 % 2 == 0 { 5 } else { 3 };
            if comes {
                let lowest = (0..).find(|number| !taken.contains(number)).unwrap();
                assert_eq!((slab.vacant(), slab.insert(lowest)), (lowest, lowest));
                taken.insert(lowest);
            } else {
                let number = (random >> 4) % (taken.last().map_or(1, |last| last + 1));
                assert_eq!(slab.remove(number).is_some(), taken.remove(&number));
            }
            assert_eq!(slab.len(), taken.len());
        }
        assert!(slab.iter().map(|(number, _)| number).eq(taken));
    }

    #[test]
    fn memory_is_given_back_when_values_have_gone() {
        let mut slab = Slab::new();
        (0..10_000).for_each(|value: u32| _ = slab.insert(value));
        for n in (0..10_000).map(|n| (n * 7_919) % 10_000).filter(|n| *n != 3) {
            assert_eq!(slab.remove(n), Some(n));
        }
        let held = (slab.places.capacity(), slab.free.capacity());
        assert!(held.0 <= 2 * SMALL && held.1 <= 2 * SMALL, "{held:?}");
        assert_eq!((slab.len(), slab.places.len(), slab.vacant(), slab.get(3)), (1, 4, 0, Some(&3)));
    }
}
