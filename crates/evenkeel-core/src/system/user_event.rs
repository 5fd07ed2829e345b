//! User events: counters with which a program notifies itself.

use super::handle::handle;
use super::state::{System, there_was};
use crate::id::Fd;
use crate::socket::{BadDescriptor, Kind, ReceiveError, TooManyOpen};

/// A user event: a counter that is readable after something was added to it (`eventfd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserEvent(Fd);

handle!(UserEvent);

impl UserEvent {
    /// Opens a user event.
    ///
    /// # Errors
    /// [`TooManyOpen`] if the process has reached its limit of descriptors.
    pub fn open(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.call();
        let event = system.net.sockets.open_user_event(system.process, &mut system.net.work)?;
        Ok(Self(system.opened(event)))
    }

    /// Adds `times` to the counter of the user event.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no user event of this process.
    pub fn post(self, system: &mut System<'_>, times: u64) -> Result<(), BadDescriptor> {
        let id = system.begin(self.0, Kind::UserEvent)?;
        system.net.sockets.post(id, times);
        Ok(())
    }

    /// Returns the sum of all numbers posted since the last call of this method.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if the sum is 0: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no user event of this process.
    pub fn posted(self, system: &mut System<'_>) -> Result<u64, ReceiveError> {
        let id = system.begin(self.0, Kind::UserEvent)?;
        let posted = system.net.sockets.take_posted(id);
        there_was(posted > 0).map(|()| posted)
    }
}
