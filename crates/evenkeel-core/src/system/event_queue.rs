//! Event queues: a program registers its interest once, and the queue reports changes of readiness.

use super::handle::handle;
use super::state::System;
use crate::id::Fd;
use crate::ready::{Event, Interest, Registering};
use crate::socket::{BadDescriptor, ReceiveError, RegisterError, TooManyOpen};

/// An event queue (`kqueue`, `epoll`). A program [adds](EventQueue::add) each descriptor once, and
/// [`EventQueue::take`] returns those that are ready. A descriptor without events costs nothing, so the cost
/// does not grow with the number of descriptors.
///
/// The queue is a descriptor itself. A program can wait for it, select it, and add it to another event queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventQueue(Fd);

handle!(EventQueue);

impl EventQueue {
    /// Opens an event queue.
    ///
    /// # Errors
    /// [`TooManyOpen`] if the process has reached its limit of descriptors.
    pub fn open(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.call();
        system.net.readiness().open_queue(system.process).map(Self)
    }

    /// Returns the event queue that reports all descriptors of this process, present and future ones. Each is
    /// registered with [`Trigger::Edge`](crate::socket::Trigger::Edge), for all kinds of event. Its token is
    /// its own number ([`Fd::of`]).
    ///
    /// The queue reports a descriptor again only after more has come. So read, write, accept or receive until
    /// the call would block.
    ///
    /// # Errors
    /// [`TooManyOpen`] if the process has reached its limit of descriptors.
    pub fn of_all(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.net.readiness().open_events(system.process).map(Self)
    }

    /// Adds a descriptor to the queue. It stays there until it is [deleted](Self::delete) or closed.
    /// [`Trigger`](crate::socket::Trigger) says when the queue reports it.
    ///
    /// # Errors
    /// [`RegisterError`] if one of the descriptors is not valid, or `fd` is in the queue already. Also if
    /// `fd` is this queue, or if event queues would be nested too deeply or in a circle.
    pub fn add(
        self,
        system: &mut System<'_>,
        fd: impl Into<Fd>,
        interest: Interest,
    ) -> Result<(), RegisterError> {
        self.register(system, Registering::Add, fd.into(), interest)
    }

    /// Changes the interest of a descriptor in the queue. The queue then checks the descriptor as if it were
    /// new.
    ///
    /// # Errors
    /// [`RegisterError`] if one of the descriptors is not valid, or `fd` is not in the queue or is the queue.
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

    /// Removes a descriptor from the queue.
    ///
    /// # Errors
    /// [`RegisterError`] if one of the descriptors is not valid, or `fd` is not in the queue or is the queue.
    pub fn delete(self, system: &mut System<'_>, fd: impl Into<Fd>) -> Result<(), RegisterError> {
        system.call();
        Ok(system.net.sockets.ready.delete(system.process, self.0, fd.into())?)
    }

    /// Moves events from the queue to the beginning of `events`, as many as it has room for. Returns their
    /// number. If it is 0, return [`Step::Wait`](crate::process::Step::Wait) for the queue.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no event queue of this process, or if `events` has room for
    /// none.
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
    /// [`ReceiveError::WouldBlock`] if the queue is empty: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no event queue of this process.
    pub fn next(self, system: &mut System<'_>) -> Result<Event, ReceiveError> {
        let mut event = [Event::default()];
        let taken = self.take(system, &mut event)?;
        if taken > 0 { Ok(event[0]) } else { Err(ReceiveError::WouldBlock) }
    }
}
