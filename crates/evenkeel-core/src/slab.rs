//! Values by number.

use std::collections::BTreeSet;

/// Capacity below which nothing is given back.
const SMALL: usize = 64;

/// A place for each value. Numbers are small: the lowest place that is free is taken first.
///
/// Free places at the end are given up, and memory is given back when a quarter of it is used: each step of
/// that comes after at least as many removals as values are moved.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: BTreeSet<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: BTreeSet::new() }
    }

    /// The number that the next value will get.
    pub(crate) fn vacant(&self) -> u32 {
        self.free.first().copied().unwrap_or(self.places.len() as u32)
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop_first().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(number as usize) {
            Some(place) => *place = Some(value),
            None => self.places.push(Some(value)),
        }
        number
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.places.get_mut(number as usize)?.take()?;
        self.free.insert(number);
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
            self.free.remove(&(self.places.len() as u32));
        }
        if self.places.capacity() > SMALL && self.places.len() < self.places.capacity() / 4 {
            self.places.shrink_to((2 * self.places.len()).max(SMALL));
        }
        Some(value)
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

    /// All, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(&self.places)
            .inspect(|_| look())
            .filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

/// A place is looked at, which tests count.
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
        /// Places of all slabs that this thread has looked at.
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

    #[test]
    fn memory_is_given_back_when_values_have_gone() {
        let mut slab = Slab::new();
        (0..10_000).for_each(|value: u32| _ = slab.insert(value));
        for n in (0..10_000).map(|n| (n * 7_919) % 10_000).filter(|n| *n != 3) {
            assert_eq!(slab.remove(n), Some(n));
        }
        assert!(slab.places.capacity() <= 2 * SMALL, "{}", slab.places.capacity());
        assert_eq!((slab.len(), slab.free.len(), slab.vacant(), slab.get(3)), (1, 3, 0, Some(&3)));
    }
}
