//! Who wants to hear of each descriptor: callers that have asked for it, and registrations of event queues.

use crate::slab::{NONE, Slab};

/// Who hears of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// A caller of `select` or `poll`.
    Caller(u32),
    /// An event queue, and the key of a registration of it.
    Queue(u32, u32),
}

/// The watchers of each descriptor: a list for each, by what a reference to a file is called.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    first: Vec<u32>,
    watches: Slab<Watch>,
}

#[derive(Debug)]
struct Watch {
    watcher: Watcher,
    next: u32,
}

impl Watches {
    pub(crate) fn add(&mut self, reference: u32, watcher: Watcher) {
        let index = reference as usize;
        if self.first.len() <= index {
            self.first.resize(index + 1, NONE);
        }
        let next = self.first[index];
        self.first[index] = self.watches.insert(Watch { watcher, next });
    }

    /// Takes out the first for which `is` holds.
    pub(crate) fn remove(&mut self, reference: u32, is: impl Fn(Watcher) -> bool) -> Option<Watcher> {
        let (mut before, mut place) = (NONE, *self.first.get(reference as usize)?);
        loop {
            let &Watch { watcher, next } = self.watches.get(place)?;
            if !is(watcher) {
                (before, place) = (place, next);
                continue;
            }
            self.watches.remove(place);
            match self.watches.get_mut(before) {
                Some(before) => before.next = next,
                None => self.first[reference as usize] = next,
            }
            return Some(watcher);
        }
    }

    /// The watchers of one descriptor, the latest first.
    #[inline]
    pub(crate) fn of(&self, reference: u32) -> impl Iterator<Item = Watcher> + '_ {
        let mut place = self.first.get(reference as usize).copied().unwrap_or(NONE);
        core::iter::from_fn(move || {
            let watch = self.watches.get(place)?;
            place = watch.next;
            Some(watch.watcher)
        })
    }

    /// All of them, of whatever descriptors.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Watcher> {
        self.watches.iter().map(|(_, watch)| watch.watcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_takes_16_bytes() {
        assert_eq!(Slab::<Watch>::BYTES, 16);
    }
}
