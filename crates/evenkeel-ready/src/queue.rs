//! The event queue: registrations, and a list of those that may be ready.

use crate::descriptors::FileId;
use crate::kinds::Kinds;
use evenkeel_base::slab::{NONE, Slab};

/// The condition under which a registration reports again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The registration reports in each call, as long as the file is ready.
    Level,
    /// The registration reports when something has happened since its last report (`EPOLLET`, `EV_CLEAR`).
    /// The program reads until there is nothing more.
    Edge,
    /// The registration reports once, and then not before it is modified (`EPOLLONESHOT`, `EV_DISPATCH`).
    /// `EPOLLET` with `EPOLLONESHOT` has the effect of this trigger: after the one report the edge decides
    /// nothing.
    OneShot,
}

/// The kinds of event that a registration asks for, and the way in which it reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// The kinds asked for: readable, writable, exceptional, read-closed. [Hang-up and
    /// error](Kinds::HANG_UP_OR_ERROR) are reported even if not asked for.
    pub events: Kinds,
    /// The condition under which the registration reports again.
    pub trigger: Trigger,
    /// A value that the caller chooses, and that each event of the registration returns.
    pub token: u64,
}

impl Interest {
    /// Returns the kinds to test: those asked for, hang-up and error.
    pub(crate) const fn asked(&self) -> Kinds {
        self.events.intersection(Kinds::ASKED_FOR).union(Kinds::HANG_UP_OR_ERROR)
    }
}

/// A report of an event queue about one registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// The token of the registration.
    pub token: u64,
    /// The kinds of event that the file of the registration is ready for.
    pub ready: Kinds,
}

/// The effect of a hint on a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hinted {
    /// The registration does not ask for any of the kinds.
    Ignored,
    /// The registration was in the list already.
    Again,
    /// The registration was added to the list.
    Listed,
}

/// Registrations, each of a file, and a list of those that may be ready.
///
/// The list links the registrations themselves: an event allocates nothing, and registrations outside of
/// the list cost nothing. It is a ring: to move the first to the end is to begin with the next.
#[derive(Debug)]
pub(crate) struct EventQueue {
    registrations: Slab<Registration>,
    /// The first registration of the list. `listed` is the length of the list.
    first: u32,
    listed: usize,
}

#[derive(Debug)]
struct Registration {
    token: u64,
    file: FileId,
    /// The neighbours in the list. `next` is `NONE` if the registration is not in the list.
    next: u32,
    previous: u32,
    /// The kinds to test. None after a one-shot has reported, until it is modified.
    asked: Kinds,
    trigger: Trigger,
    /// Whether the registration is exclusive: of a file's exclusive registrations, a hint reaches only as
    /// many as it takes to wake a caller.
    is_exclusive: bool,
}

impl EventQueue {
    pub(crate) const fn new() -> Self {
        Self { registrations: Slab::new(), first: NONE, listed: 0 }
    }

    /// Adds a registration and returns its key.
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

    /// Changes what a registration asks for. A registration in the list stays there and will be tested.
    pub(crate) fn modify(&mut self, key: u32, interest: Interest) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.asked = interest.asked();
            (registration.trigger, registration.token) = (interest.trigger, interest.token);
        }
    }

    /// Removes a registration, also from the list.
    pub(crate) fn delete(&mut self, key: u32) {
        self.unlist(key);
        self.registrations.remove(key);
    }

    /// Returns the file of each registration.
    pub(crate) fn registered(&self) -> impl Iterator<Item = FileId> {
        self.registrations.iter().map(|(_, registration)| registration.file)
    }

    /// Records that the file of a registration may have become ready: adds the registration to the list if
    /// it asks for one of `kinds`.
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

    /// Returns the number of registrations that may be ready.
    pub(crate) const fn listed(&self) -> usize {
        self.listed
    }

    /// Returns the file of the registration that has been in the list for longest, and the kinds to test.
    #[inline]
    pub(crate) fn first(&self) -> Option<(FileId, Kinds)> {
        let &Registration { file, asked, .. } = self.registrations.get(self.first)?;
        Some((file, asked))
    }

    /// Handles the test of the first registration in the list, which is `ready` for these kinds, and
    /// returns the event to report. The registration leaves the list. With trigger
    /// [`Level`](Trigger::Level) it moves to the end of the list instead, behind all others.
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

    /// Adds a registration that is not in the list at the end of the list.
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

    /// Removes a registration from the list, if it is there.
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
