//! A store of values under small numbers, the places, which are used again.

/// A store with a place for each value. The place that became vacant last is used first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    vacant: u32,
}

#[derive(Debug)]
enum Place<T> {
    Taken(T),
    /// A vacant place, with the next vacant one.
    Vacant(u32),
}

/// The value that stands for no place.
pub(crate) const NONE: u32 = u32::MAX;

impl<T> Slab<T> {
    /// The size of a place in bytes.
    #[cfg(test)]
    pub(crate) const BYTES: usize = size_of::<Place<T>>();

    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), vacant: NONE }
    }

    /// # Panics
    /// At 2^32 - 1 values: memory ends before.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let place = self.vacant;
        if let Some(vacant) = self.places.get_mut(place as usize) {
            if let Place::Vacant(next) = *vacant {
                self.vacant = next;
            }
            *vacant = Place::Taken(value);
            return place;
        }
        let place = u32::try_from(self.places.len()).ok().filter(|place| *place != NONE);
        self.places.push(Place::Taken(value));
        place.expect("memory ends before")
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let taken = self.places.get_mut(place as usize).filter(|taken| matches!(taken, Place::Taken(_)))?;
        let Place::Taken(value) = core::mem::replace(taken, Place::Vacant(self.vacant)) else { return None };
        self.vacant = place;
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        match self.places.get(place as usize) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        match self.places.get_mut(place as usize) {
            Some(Place::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns all values with their places, in the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(place, taken)| match taken {
            Place::Taken(value) => Some((place, value)),
            Place::Vacant(_) => None,
        })
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::new();
        assert_eq!(['a', 'b', 'c'].map(|value| slab.insert(value)), [0, 1, 2]);
        assert_eq!((slab.remove(1), slab.remove(0), slab.remove(0)), (Some('b'), Some('a'), None));
        assert_eq!((slab.get(0), slab.get(2), slab.get(3)), (None, Some(&'c'), None));
        assert_eq!(['d', 'e', 'f'].map(|value| slab.insert(value)), [0, 1, 3]);
        assert_eq!(slab.iter().map(|(_, &value)| value).collect::<String>(), "decf");
        *slab.get_mut(3).unwrap() = 'g';
        assert_eq!(slab.get(3), Some(&'g'));
        assert_eq!(slab.get_mut(NONE), None);
    }
}
