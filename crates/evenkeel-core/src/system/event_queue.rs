//! Event queues: readiness that is declared once, and reported as it changes.

use super::handle::handle;
use super::state::System;
use crate::id::Fd;
use crate::ready::{Event, Interest, Registering};
use crate::socket::{BadDescriptor, ReceiveError, RegisterError, TooManyOpen};

/// An event queue (`kqueue`, `epoll`). Descriptors are [added](EventQueue::add) to it once, and
/// [`EventQueue::take`] returns which of them are ready. A descriptor costs nothing until something has
/// come for it, so their number does not matter.
///
/// It is a descriptor itself: to be waited for, selected, and added to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventQueue(Fd);

handle!(EventQueue);

impl EventQueue {
    /// Opens an event queue.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn open(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.call();
        system.net.readiness().open_queue(system.process).map(Self)
    }

    /// Returns the event queue that reports all descriptors of this process: those that it has, and those
    /// that it will have. Each was added with [`Trigger::Edge`](crate::socket::Trigger::Edge), for all kinds
    /// of event, and with its own number as the token ([`Fd::of`]).
    ///
    /// So read, write, accept or receive until there is nothing more: a descriptor is mentioned again when
    /// more has come.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn of_all(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.net.readiness().open_events(system.process).map(Self)
    }

    /// Adds a descriptor to the queue, until it is [deleted](Self::delete) or closed. See
    /// [`Trigger`](crate::socket::Trigger) for when it reports.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub fn add(
        self,
        system: &mut System<'_>,
        fd: impl Into<Fd>,
        interest: Interest,
    ) -> Result<(), RegisterError> {
        self.register(system, Registering::Add, fd.into(), interest)
    }

    /// Changes the interest of a descriptor that was added. The queue then checks it as if it were new.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub fn modify(
        self,
        system: &mut System<'_>,
        fd: impl Into<Fd>,
        interest: Interest,
    ) -> Result<(), RegisterError> {
        self.register(system, Registering::Modify, fd.into(), interest)
    }

    fn register(
        self,
        system: &mut System<'_>,
        registering: Registering,
        fd: Fd,
        interest: Interest,
    ) -> Result<(), RegisterError> {
        system.call();
        system.net.readiness().set_interest(registering, system.process, self.0, fd, interest)
    }

    /// Takes a descriptor out of the queue.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub fn delete(self, system: &mut System<'_>, fd: impl Into<Fd>) -> Result<(), RegisterError> {
        system.call();
        Ok(system.net.sockets.ready.delete(system.process, self.0, fd.into())?)
    }

    /// Takes events from the queue, as many as there are and `events` has room for: they are at its
    /// beginning. Returns how many. If none, [`Step::Wait`](crate::process::Step::Wait) for the queue.
    ///
    /// # Errors
    /// It is no event queue of this process, or there is no room for any event.
    pub fn take(self, system: &mut System<'_>, events: &mut [Event]) -> Result<usize, BadDescriptor> {
        system.call();
        match system.net.readiness().take_events(system.process, self.0, events) {
            Ok(taken) => Ok(taken),
            Err(RegisterError::BadDescriptor(bad)) => Err(bad),
            Err(_) => Err(BadDescriptor::OtherKind),
        }
    }

    /// Takes the event that has waited longest.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn next(self, system: &mut System<'_>) -> Result<Event, ReceiveError> {
        let mut event = [Event::default()];
        let taken = self.take(system, &mut event)?;
        if taken > 0 { Ok(event[0]) } else { Err(ReceiveError::WouldBlock) }
    }
}
