//! Who wants to hear of each file: callers that have asked for a descriptor of it, and registrations of event
//! queues.

use crate::descriptors::FileId;
use crate::slab::{NONE, Slab};

/// Who hears of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// A caller of `select` or `poll`, and the descriptor that it has asked for.
    Caller(u32, u32),
    /// An event queue, and the key of a registration of it.
    Queue(u32, u32),
}

/// One who watches a file, by a descriptor of his.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) watcher: Watcher,
    /// What the descriptor's reference to the file is called: when it is closed he watches no more.
    pub(crate) reference: u32,
}

/// The watches of each file: a list for each. So a hint finds at once whether there are any.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// By file.
    first: Vec<u32>,
    links: Slab<Link>,
}

#[derive(Debug)]
struct Link {
    watch: Watch,
    next: u32,
}

impl Watches {
    pub(crate) fn add(&mut self, file: FileId, watch: Watch) {
        let index = file.0 as usize;
        if self.first.len() <= index {
            self.first.resize(index + 1, NONE);
        }
        let next = self.first[index];
        self.first[index] = self.links.insert(Link { watch, next });
    }

    /// Takes out the first for which `is` holds.
    pub(crate) fn remove(&mut self, file: FileId, is: impl Fn(Watch) -> bool) -> Option<Watcher> {
        let (mut before, mut place) = (NONE, self.first(file));
        loop {
            let &Link { watch, next } = self.links.get(place)?;
            if !is(watch) {
                (before, place) = (place, next);
                continue;
            }
            self.links.remove(place);
            match self.links.get_mut(before) {
                Some(before) => before.next = next,
                None => self.first[file.0 as usize] = next,
            }
            return Some(watch.watcher);
        }
    }

    /// The watches of one file, the latest first.
    #[inline]
    pub(crate) fn of(&self, file: FileId) -> impl Iterator<Item = Watch> + '_ {
        let mut place = self.first(file);
        core::iter::from_fn(move || {
            let link = self.links.get(place)?;
            place = link.next;
            Some(link.watch)
        })
    }

    /// Whether anybody watches a file.
    #[inline]
    pub(crate) fn is_watched(&self, file: FileId) -> bool {
        self.first(file) != NONE
    }

    #[inline]
    fn first(&self, file: FileId) -> u32 {
        self.first.get(file.0 as usize).copied().unwrap_or(NONE)
    }

    /// All of them, of whatever files.
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
