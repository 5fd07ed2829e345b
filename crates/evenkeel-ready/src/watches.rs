//! The watchers of each file: callers that have asked for a descriptor of it, and registrations of event
//! queues.

use alloc::vec::Vec;
#[cfg(test)]
use core::cell::Cell;

use crate::descriptors::FileId;
use evenkeel_base::slab::{NONE, Slab};

/// A caller or registration that hints for a file reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// A caller of `select` or `poll`, and the descriptor that it has asked for.
    Caller(u32, u32),
    /// An event queue, and the key of a registration of it.
    Queue(u32, u32),
}

/// A watch on a file through one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) watcher: Watcher,
    /// The name of the descriptor's reference to the file. The watch ends when that is closed.
    pub(crate) reference: u32,
}

/// The watches of all files, in a list for each file. A hint sees at once whether a file has any.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// The first link of each file.
    first: Vec<u32>,
    links: Slab<Link>,
    /// The number of links that were visited.
    #[cfg(test)]
    pub(crate) looks: Cell<u64>,
}

#[derive(Debug)]
struct Link {
    watch: Watch,
    next: u32,
}

/// A place in the list of a file.
#[derive(Debug)]
pub(crate) struct At {
    file: FileId,
    before: u32,
    place: u32,
}

impl Watches {
    /// Adds a watch before all others of the file.
    pub(crate) fn add(&mut self, file: FileId, watch: Watch) {
        let index = file.0 as usize;
        if self.first.len() <= index {
            self.first.resize(index + 1, NONE);
        }
        let next = self.first[index];
        self.first[index] = self.links.insert(Link { watch, next });
    }

    /// Adds a watch behind all others of the file.
    pub(crate) fn add_last(&mut self, file: FileId, watch: Watch) {
        let mut last = self.first(file);
        while let Some(next) = self.link(last).map(|link| link.next).filter(|next| *next != NONE) {
            last = next;
        }
        if last == NONE {
            return self.add(file, watch);
        }
        let place = self.links.insert(Link { watch, next: NONE });
        if let Some(last) = self.links.get_mut(last) {
            last.next = place;
        }
    }

    /// Removes the first watch of a file for which `is` holds.
    pub(crate) fn remove(&mut self, file: FileId, is: impl Fn(Watch) -> bool) -> Option<Watcher> {
        self.remove_from(&mut self.beginning(file), is)
    }

    /// Returns the place before the first watch of a file.
    pub(crate) fn beginning(&self, file: FileId) -> At {
        At { file, before: NONE, place: self.first(file) }
    }

    /// Removes the first watch from a place on for which `is` holds. The next search continues behind it.
    /// No other watch of that file may be added or removed in between.
    pub(crate) fn remove_from(&mut self, at: &mut At, is: impl Fn(Watch) -> bool) -> Option<Watcher> {
        loop {
            let &Link { watch, next } = self.link(at.place)?;
            if !is(watch) {
                (at.before, at.place) = (at.place, next);
                continue;
            }
            self.links.remove(at.place);
            match self.links.get_mut(at.before) {
                Some(before) => before.next = next,
                None => self.first[at.file.0 as usize] = next,
            }
            at.place = next;
            return Some(watch.watcher);
        }
    }

    #[inline]
    fn link(&self, place: u32) -> Option<&Link> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.links.get(place)
    }

    /// Returns the watches of one file: the latest first, and those added as the last behind all others.
    #[inline]
    pub(crate) fn of(&self, file: FileId) -> impl Iterator<Item = Watch> + '_ {
        let mut place = self.first(file);
        core::iter::from_fn(move || {
            let link = self.link(place)?;
            place = link.next;
            Some(link.watch)
        })
    }

    /// Returns whether a file has a watch.
    #[inline]
    pub(crate) fn is_watched(&self, file: FileId) -> bool {
        self.first(file) != NONE
    }

    #[inline]
    fn first(&self, file: FileId) -> u32 {
        self.first.get(file.0 as usize).copied().unwrap_or(NONE)
    }

    /// Returns the watches of all files.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Watch> {
        self.links.iter().map(|(_, link)| link.watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_takes_20_bytes() {
        assert_eq!(Slab::<Link>::BYTES, 20);
    }
}
