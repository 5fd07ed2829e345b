//! A slab: a store of values under small numbers, their places. A vacant place is used again.
//!
//! | | next place | memory |
//! | --- | --- | --- |
//! | [`Latest`] | the one that became vacant last | that of the largest number of values at one time |
//! | [`Lowest`] | the lowest vacant one | freed when only a quarter of it is used |

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

/// The number that stands for no place.
pub const NONE: u32 = u32::MAX;

/// Capacity below which nothing is given back.
const SMALL: usize = 64;

/// A store with a place for each value. `V` decides which vacant place is used next.
///
/// ```
/// use evenkeel_base::Slab;
///
/// let mut descriptors = Slab::lowest_first();
/// for file in ["in", "out", "err", "log"] {
///     descriptors.insert(file);
/// }
/// descriptors.remove(2);
/// descriptors.remove(1);
/// assert_eq!(descriptors.vacant(), 1);
/// assert_eq!(descriptors.insert("socket"), 1);
/// assert_eq!(descriptors.get(3), Some(&"log"));
/// assert_eq!(descriptors.iter().count(), 3);
/// ```
#[derive(Debug)]
pub struct Slab<T, V = Latest> {
    places: Vec<Place<T>>,
    vacant: V,
}

/// A place of a slab.
#[derive(Debug)]
pub enum Place<T> {
    /// A place with a value.
    Taken(T),
    /// A vacant place, with the next vacant one if they are a list.
    Vacant(u32),
}

/// The vacant places of a slab.
pub trait Vacancies {
    /// Returns the place of the next value, in a slab with `end` places.
    fn next(&self, end: u32) -> u32;

    /// Records that the next place has a value. `link` is what the place held while it was vacant.
    fn fill(&mut self, link: u32);

    /// Records that a place was added for a value, because none was vacant.
    fn append(&mut self);

    /// Returns what a place holds that becomes vacant.
    fn link(&self) -> u32;

    /// Records that a place became vacant. May remove vacant places at the end.
    fn free<T>(&mut self, place: u32, places: &mut Vec<Place<T>>);
}

/// Vacant places of which the latest is used first: a list through the places.
#[derive(Debug)]
pub struct Latest(u32);

/// Vacant places of which the lowest is used first.
///
/// Vacant places at the end are removed. Memory is freed when only a quarter of it is used. Each time, at
/// least as many values were removed before as are moved.
#[derive(Debug)]
pub struct Lowest {
    /// Vacant places, and some that were removed: those lie beyond the end.
    places: BinaryHeap<Reverse<u32>>,
    /// The number of vacant places.
    count: usize,
}

impl<T> Slab<T> {
    /// The size of a place in bytes.
    pub const BYTES: usize = size_of::<Place<T>>();

    /// Creates an empty slab that uses the latest vacant place first.
    #[must_use]
    pub const fn new() -> Self {
        Self { places: Vec::new(), vacant: Latest(NONE) }
    }
}

impl<T> Slab<T, Lowest> {
    /// Creates an empty slab that uses the lowest vacant place first.
    #[must_use]
    pub const fn lowest_first() -> Self {
        Self { places: Vec::new(), vacant: Lowest { places: BinaryHeap::new(), count: 0 } }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.count
    }

    /// Returns whether the slab has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, V: Vacancies> Slab<T, V> {
    /// Returns the place that the next value gets.
    #[inline]
    #[must_use]
    pub fn vacant(&self) -> u32 {
        self.vacant.next(self.places.len() as u32)
    }

    /// Inserts a value and returns its place.
    ///
    /// # Panics
    /// At 2^32 - 1 values.
    pub fn insert(&mut self, value: T) -> u32 {
        let place = self.vacant();
        if let Some(vacant) = self.places.get_mut(place as usize) {
            if let Place::Vacant(link) = mem::replace(vacant, Place::Taken(value)) {
                self.vacant.fill(link);
            }
        } else {
            assert!(place != NONE, "a slab has at most 2^32 - 1 places");
            self.vacant.append();
            self.places.push(Place::Taken(value));
        }
        place
    }

    /// Removes a value from its place.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let taken = self.places.get_mut(place as usize).filter(|taken| taken.value().is_some())?;
        let Place::Taken(value) = mem::replace(taken, Place::Vacant(self.vacant.link())) else { return None };
        self.vacant.free(place, &mut self.places);
        Some(value)
    }

    /// Returns the value in a place.
    #[inline]
    #[must_use]
    pub fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.value()
    }

    /// Returns the value in a place, to change it.
    #[inline]
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        match self.places.get_mut(place as usize) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns an iterator over all values with their places, in the order of places.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(place, taken)| Some((place, taken.value()?)))
    }

    /// Returns an iterator over all values, in the order of their places.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.places.into_iter().filter_map(|place| match place {
            Place::Taken(value) => Some(value),
            Place::Vacant(_) => None,
        })
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Place<T> {
    #[inline]
    const fn value(&self) -> Option<&T> {
        match self {
            Self::Taken(value) => Some(value),
            Self::Vacant(_) => None,
        }
    }
}

impl Vacancies for Latest {
    #[inline]
    fn next(&self, end: u32) -> u32 {
        self.0.min(end)
    }

    #[inline]
    fn fill(&mut self, link: u32) {
        self.0 = link;
    }

    #[inline]
    fn append(&mut self) {}

    #[inline]
    fn link(&self) -> u32 {
        self.0
    }

    #[inline]
    fn free<T>(&mut self, place: u32, _: &mut Vec<Place<T>>) {
        self.0 = place;
    }
}

impl Vacancies for Lowest {
    fn next(&self, end: u32) -> u32 {
        self.places.peek().map_or(end, |&Reverse(place)| place.min(end))
    }

    fn fill(&mut self, _: u32) {
        self.places.pop();
        self.count -= 1;
    }

    /// Forgets the places that were removed: the end may pass them again.
    fn append(&mut self) {
        self.places.clear();
    }

    fn link(&self) -> u32 {
        NONE
    }

    fn free<T>(&mut self, place: u32, places: &mut Vec<Place<T>>) {
        self.count += 1;
        if place as usize + 1 < places.len() {
            self.places.push(Reverse(place));
            return;
        }
        while places.last().is_some_and(|last| last.value().is_none()) {
            places.pop();
            self.count -= 1;
        }
        let end = places.len();
        if places.capacity() > SMALL && end < places.capacity() / 4 {
            places.shrink_to((2 * end).max(SMALL));
            self.places.retain(|&Reverse(place)| (place as usize) < end);
            self.places.shrink_to(places.capacity());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn the_latest_vacant_place_is_used_first() {
        let mut slab = Slab::new();
        assert_eq!(['a', 'b', 'c'].map(|value| slab.insert(value)), [0, 1, 2]);
        assert_eq!((slab.remove(1), slab.remove(0), slab.remove(0)), (Some('b'), Some('a'), None));
        assert_eq!((slab.get(0), slab.get(2), slab.get(3)), (None, Some(&'c'), None));
        assert_eq!(slab.vacant(), 0);
        assert_eq!(['d', 'e', 'f'].map(|value| slab.insert(value)), [0, 1, 3]);
        assert_eq!((slab.remove(0), slab.remove(2)), (Some('d'), Some('c')));
        assert_eq!(['g', 'h'].map(|value| slab.insert(value)), [2, 0]);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &'h'), (1, &'e'), (2, &'g'), (3, &'f')]);
        *slab.get_mut(3).unwrap() = 'i';
        assert_eq!((slab.get_mut(NONE).is_none(), slab.remove(NONE), slab.get(3)), (true, None, Some(&'i')));
        slab.remove(1);
        assert_eq!(slab.into_values().collect::<String>(), "hgi");
    }

    #[test]
    fn the_lowest_vacant_place_is_used_first() {
        let mut slab = Slab::lowest_first();
        assert_eq!(['a', 'b', 'c', 'd'].map(|value| slab.insert(value)), [0, 1, 2, 3]);
        assert_eq!(
            (slab.remove(2), slab.remove(1), slab.remove(1), slab.remove(9)),
            (Some('c'), Some('b'), None, None)
        );
        assert_eq!((slab.len(), slab.is_empty(), slab.vacant()), (2, false, 1));
        assert_eq!(['e', 'f', 'g'].map(|value| slab.insert(value)), [1, 2, 4]);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &'a'), (1, &'e'), (2, &'f'), (3, &'d'), (4, &'g')]);
        *slab.get_mut(4).unwrap() = 'h';
        assert_eq!((slab.get(4), slab.get(5)), (Some(&'h'), None));
    }

    /// Places that were removed at the end, and come again, are vacant as often as they were left.
    #[test]
    fn lowest_places_are_those_of_a_sorted_set() {
        let (mut slab, mut taken, mut random) = (Slab::lowest_first(), BTreeSet::new(), SplitMix64::new(1));
        for step in 0..20_000_u32 {
            // More come than go for a while, and then more go than come.
            let comes = random.remainder(8) < if step / 500 % 2 == 0 { 5 } else { 3 };
            if comes {
                let lowest = (0..).find(|place| !taken.contains(place)).unwrap();
                assert_eq!((slab.vacant(), slab.insert(lowest)), (lowest, lowest));
                taken.insert(lowest);
            } else {
                let end = taken.last().map_or(1, |last| last + 1);
                let place = random.remainder(end.into()) as u32;
                assert_eq!(slab.remove(place).is_some(), taken.remove(&place));
            }
            assert_eq!(slab.len(), taken.len());
        }
        assert!(slab.iter().map(|(place, _)| place).eq(taken));
    }

    #[test]
    fn memory_is_given_back_when_values_have_gone() {
        let mut slab = Slab::lowest_first();
        (0..10_000).for_each(|value: u32| _ = slab.insert(value));
        for n in (0..10_000).map(|n| (n * 7_919) % 10_000).filter(|n| *n != 3) {
            assert_eq!(slab.remove(n), Some(n));
        }
        let held = (slab.places.capacity(), slab.vacant.places.capacity());
        assert!(held.0 <= 2 * SMALL && held.1 <= 2 * SMALL, "{held:?}");
        assert_eq!((slab.len(), slab.places.len(), slab.vacant(), slab.get(3)), (1, 4, 0, Some(&3)));
    }
}
