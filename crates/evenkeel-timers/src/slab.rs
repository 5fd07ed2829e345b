//! The assignment of keys to owners. Keys are small numbers; free keys are assigned again.

use crate::heap::NOBODY;

/// A table of the owner of each key. Assigning and freeing a key allocates nothing once there is room.
pub(crate) struct Slab<W> {
    places: Vec<Place<W>>,
    /// The first of a list of keys that nobody has.
    vacant: u32,
}

enum Place<W> {
    Taken(W),
    /// With the next one of the list.
    Vacant(u32),
}

impl<W> Slab<W> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), vacant: NOBODY }
    }

    /// Assigns the key that was freed last, or a new one.
    ///
    /// # Panics
    /// At 2^32 - 1 keys.
    pub(crate) fn insert(&mut self, who: W) -> u32 {
        let key = self.vacant;
        if let Some(place) = self.places.get_mut(key as usize) {
            if let Place::Vacant(next) = core::mem::replace(place, Place::Taken(who)) {
                self.vacant = next;
            }
            return key;
        }
        let key = u32::try_from(self.places.len()).ok().filter(|key| *key != NOBODY);
        self.places.push(Place::Taken(who));
        key.expect("memory ends before")
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<W> {
        let place = self.places.get_mut(key as usize)?;
        match core::mem::replace(place, Place::Vacant(self.vacant)) {
            Place::Taken(who) => {
                self.vacant = key;
                Some(who)
            }
            vacant @ Place::Vacant(_) => {
                *place = vacant;
                None
            }
        }
    }

    pub(crate) fn get(&self, key: u32) -> Option<&W> {
        self.places.get(key as usize).and_then(Place::taken)
    }

    /// Returns every key in use with its owner, in the order of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &W)> {
        (0..).zip(&self.places).filter_map(|(key, place)| Some((key, place.taken()?)))
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = W> {
        self.places.into_iter().filter_map(|place| match place {
            Place::Taken(who) => Some(who),
            Place::Vacant(_) => None,
        })
    }
}

impl<W> Place<W> {
    const fn taken(&self) -> Option<&W> {
        match self {
            Self::Taken(who) => Some(who),
            Self::Vacant(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_given_again_and_belong_to_one() {
        let mut slab = Slab::new();
        assert_eq!(["a", "b", "c"].map(|who| slab.insert(who)), [0, 1, 2]);
        assert_eq!((slab.remove(1), slab.remove(1), slab.remove(9)), (Some("b"), None, None));
        assert_eq!((slab.remove(0), slab.get(0), slab.get(2)), (Some("a"), None, Some(&"c")));
        assert_eq!(["d", "e", "f"].map(|who| slab.insert(who)), [0, 1, 3]);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &"d"), (1, &"e"), (2, &"c"), (3, &"f")]);
    }
}
