//! The event queue: who is registered, and who of them may be ready.

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
    /// Once, and then not before it is modified (`EPOLLONESHOT`, `EV_DISPATCH`).
    OneShot,
}

/// What a registration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Readable, writable, exceptional. Of [trouble](Kinds::TROUBLE) it hears unasked.
    pub events: Kinds,
    /// When it reports again.
    pub trigger: Trigger,
    /// What its events are called: the caller's own.
    pub token: u64,
}

impl Interest {
    /// What is to be looked at.
    pub(crate) const fn asked(&self) -> Kinds {
        self.events.intersection(Kinds::ASKED_FOR).union(Kinds::TROUBLE)
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

/// A registration that is to be asked whether it is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) key: u32,
    pub(crate) target: u32,
    pub(crate) asked: Kinds,
}

/// What became of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hinted {
    /// Nobody wants to hear of that.
    Ignored,
    /// It was to be asked anyway.
    Again,
    /// It is to be asked now.
    Listed,
}

/// Registrations, each of a target that the caller knows, and a list of those that may be ready.
///
/// The list goes through the registrations themselves: nothing is allocated for an event, and nobody looks
/// at those that are not in it.
#[derive(Debug)]
pub(crate) struct EventQueue {
    registrations: Slab<Registration>,
    /// The ends of the list, and how many are in it.
    first: u32,
    last: u32,
    listed: usize,
}

#[derive(Debug)]
struct Registration {
    token: u64,
    target: u32,
    next: u32,
    previous: u32,
    asked: Kinds,
    trigger: Trigger,
    is_listed: bool,
    /// A one-shot that has reported is not.
    is_enabled: bool,
}

impl EventQueue {
    pub(crate) const fn new() -> Self {
        Self { registrations: Slab::new(), first: NONE, last: NONE, listed: 0 }
    }

    /// Adds a registration. Returns its key.
    pub(crate) fn add(&mut self, target: u32, interest: Interest) -> u32 {
        self.registrations.insert(Registration {
            token: interest.token,
            target,
            next: NONE,
            previous: NONE,
            asked: interest.asked(),
            trigger: interest.trigger,
            is_listed: false,
            is_enabled: true,
        })
    }

    /// It asks for something else from now on. If it is in the list it stays there: it will be asked.
    pub(crate) fn modify(&mut self, key: u32, interest: Interest) {
        if let Some(registration) = self.registrations.get_mut(key) {
            registration.asked = interest.asked();
            (registration.trigger, registration.token) = (interest.trigger, interest.token);
            registration.is_enabled = true;
        }
    }

    /// Takes a registration out.
    pub(crate) fn delete(&mut self, key: u32) {
        self.unlist(key);
        self.registrations.remove(key);
    }

    /// The targets of all registrations.
    pub(crate) fn targets(&self) -> impl Iterator<Item = u32> {
        self.registrations.iter().map(|(_, registration)| registration.target)
    }

    /// The target of a registration may have become ready.
    #[inline]
    pub(crate) fn hint(&mut self, key: u32, kinds: Kinds) -> Hinted {
        match self.registrations.get(key) {
            Some(registration) if registration.is_enabled && registration.asked.intersects(kinds) => {
                if registration.is_listed {
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

    /// The one that has been in the list for longest.
    pub(crate) fn first(&self) -> Option<Candidate> {
        let &Registration { target, asked, .. } = self.registrations.get(self.first)?;
        Some(Candidate { key: self.first, target, asked })
    }

    /// One of the list was asked, and is `ready`: what to report. It leaves the list; if it is to report as
    /// long as it is ready it goes to the end, so that the others come first.
    pub(crate) fn settle(&mut self, key: u32, ready: Kinds) -> Option<Event> {
        self.unlist(key);
        if ready.is_empty() {
            return None;
        }
        let registration = self.registrations.get_mut(key)?;
        let event = Event { token: registration.token, ready };
        match registration.trigger {
            Trigger::Level => self.list(key),
            Trigger::Edge => {}
            Trigger::OneShot => registration.is_enabled = false,
        }
        Some(event)
    }

    /// Puts one that is not in the list at its end.
    fn list(&mut self, key: u32) {
        let last = self.last;
        let Some(registration) = self.registrations.get_mut(key) else { return };
        (registration.next, registration.previous, registration.is_listed) = (NONE, last, true);
        match self.registrations.get_mut(last) {
            Some(last) => last.next = key,
            None => self.first = key,
        }
        self.last = key;
        self.listed += 1;
    }

    /// Takes one out of the list, if it is in it.
    fn unlist(&mut self, key: u32) {
        let Some(registration) = self.registrations.get_mut(key) else { return };
        if !core::mem::take(&mut registration.is_listed) {
            return;
        }
        let (next, previous) = (registration.next, registration.previous);
        match self.registrations.get_mut(next) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
        match self.registrations.get_mut(previous) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        self.listed -= 1;
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
