//! The event queue: who is registered, and who of them may be ready.

use crate::descriptors::FileId;
use crate::kinds::Kinds;
use crate::slab::{NONE, Slab};

/// When a registration reports again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// In each call, as long as the file is ready.
    Level,
    /// When something has happened since it reported last (`EPOLLET`, `EV_CLEAR`): who was told reads until
    /// there is nothing more.
    Edge,
    /// Once, and then not before it is modified (`EPOLLONESHOT`, `EV_DISPATCH`). `EPOLLET` with
    /// `EPOLLONESHOT` is this, too: after its one report nothing is left for the edge to decide.
    OneShot,
}

/// What a registration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Readable, writable, exceptional, read-closed. [Hang-up and error](Kinds::HANG_UP_OR_ERROR) are
    /// reported unasked.
    pub events: Kinds,
    /// When it reports again.
    pub trigger: Trigger,
    /// What its events are called: the caller's own.
    pub token: u64,
}

impl Interest {
    /// What is to be looked at.
    pub(crate) const fn asked(&self) -> Kinds {
        self.events.intersection(Kinds::ASKED_FOR).union(Kinds::HANG_UP_OR_ERROR)
    }
}

/// What an event queue reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// Of which registration.
    pub token: u64,
    /// What its file is ready for.
    pub ready: Kinds,
}

/// What became of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hinted {
    /// The registration does not ask for that.
    Ignored,
    /// It was in the list already.
    Again,
    /// It is in the list now.
    Listed,
}

/// Registrations, each of a file, and a list of those that may be ready.
///
/// The list goes through the registrations themselves: nothing is allocated for an event, and nobody looks
/// at those that are not in it. It is a ring: to send the first to the end is to begin with the next.
#[derive(Debug)]
pub(crate) struct EventQueue {
    registrations: Slab<Registration>,
    /// The first of the list, and how many are in it.
    first: u32,
    listed: usize,
}

#[derive(Debug)]
struct Registration {
    token: u64,
    file: FileId,
    /// The neighbours in the list; if it is not in it there is no next one.
    next: u32,
    previous: u32,
    /// What is to be looked at; nothing after a one-shot has reported, until it is modified.
    asked: Kinds,
    trigger: Trigger,
    /// Of those of a file that are exclusive, a hint reaches only so many as it takes to wake a caller.
    is_exclusive: bool,
}

impl EventQueue {
    pub(crate) const fn new() -> Self {
        Self { registrations: Slab::new(), first: NONE, listed: 0 }
    }

    /// Adds a registration. Returns its key.
    pub(crate) fn add(&mut self, file: FileId, interest: Interest, is_exclusive: bool) -> u32 {
        self.registrations.insert(Registration {
            token: interest.token,
            file,
            next: NONE,
            previous: NONE,
            asked: interest.asked(),
            trigger: interest.trigger,
            is_exclusive,
        })
    }

    /// Returns whether a registration is exclusive.
    #[inline]
    pub(crate) fn is_exclusive(&self, key: u32) -> bool {
        self.registrations.get(key).is_some_and(|registration| registration.is_exclusive)
    }

    /// It asks for something else from now on. If it is in the list it stays there: it will be asked.
    pub(crate) fn modify(&mut self, key: u32, interest: Interest) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.asked = interest.asked();
            (registration.trigger, registration.token) = (interest.trigger, interest.token);
        }
    }

    /// Takes a registration out.
    pub(crate) fn delete(&mut self, key: u32) {
        self.unlist(key);
        self.registrations.remove(key);
    }

    /// The file of each registration.
    pub(crate) fn registered(&self) -> impl Iterator<Item = FileId> {
        self.registrations.iter().map(|(_, registration)| registration.file)
    }

    /// The file of a registration may have become ready.
    #[inline]
    pub(crate) fn hint(&mut self, key: u32, kinds: Kinds) -> Hinted {
        match self.registrations.get(key) {
            Some(registration) if registration.asked.intersects(kinds) => {
                if registration.next != NONE {
                    return Hinted::Again;
                }
                self.list(key);
                Hinted::Listed
            }
            _ => Hinted::Ignored,
        }
    }

    /// How many may be ready.
    pub(crate) const fn listed(&self) -> usize {
        self.listed
    }

    /// The one that has been in the list for longest: its file, and what for it is to be asked.
    #[inline]
    pub(crate) fn first(&self) -> Option<(FileId, Kinds)> {
        let &Registration { file, asked, .. } = self.registrations.get(self.first)?;
        Some((file, asked))
    }

    /// The first of the list was asked, and is `ready`: what to report. It leaves the list; if it is to
    /// report as long as it is ready it goes to the end, so that the others come first.
    #[inline]
    pub(crate) fn settle(&mut self, ready: Kinds) -> Option<Event> {
        if ready.is_empty() {
            self.unlist(self.first);
            return None;
        }
        let registration = self.registrations.get_mut(self.first)?;
        let event = Event { token: registration.token, ready };
        match registration.trigger {
            Trigger::Level => self.first = registration.next,
            Trigger::Edge => self.unlist(self.first),
            Trigger::OneShot => {
                registration.asked = Kinds::NONE;
                self.unlist(self.first);
            }
        }
        Some(event)
    }

    /// Puts one that is not in the list at its end.
    #[inline]
    fn list(&mut self, key: u32) {
        let last = if let Some(first) = self.registrations.get_mut(self.first) {
            core::mem::replace(&mut first.previous, key)
        } else {
            self.first = key;
            key
        };
        let next = self.first;
        if let Some(last) = self.registrations.get_mut(last) {
            last.next = key;
        }
        if let Some(registration) = self.registrations.get_mut(key) {
            (registration.next, registration.previous) = (next, last);
        }
        self.listed += 1;
    }

    /// Takes one out of the list, if it is in it.
    fn unlist(&mut self, key: u32) {
        let Some(registration) = self.registrations.get_mut(key) else { return };
        let (next, previous) = (core::mem::replace(&mut registration.next, NONE), registration.previous);
        if next == NONE {
            return;
        }
        self.listed -= 1;
        if next == key {
            self.first = NONE;
            return;
        }
        if let Some(next) = self.registrations.get_mut(next) {
            next.previous = previous;
        }
        if let Some(previous) = self.registrations.get_mut(previous) {
            previous.next = next;
        }
        if self.first == key {
            self.first = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_takes_24_bytes() {
        assert_eq!(Slab::<Registration>::BYTES, 24);
    }
}
