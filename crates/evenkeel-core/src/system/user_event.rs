//! User events: counters by which a program notifies itself.

use super::handle::handle;
use super::state::{System, there_was};
use crate::id::Fd;
use crate::socket::{BadDescriptor, Kind, ReceiveError, TooManyOpen};

/// A user event: a counter, ready to read when something was posted to it (`eventfd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserEvent(Fd);

handle!(UserEvent);

impl UserEvent {
    /// Opens a user event.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn open(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.call();
        let event = system.net.sockets.open_user_event(system.process, &mut system.net.work)?;
        Ok(Self(system.opened(event)))
    }

    /// Adds `times` to the user event.
    ///
    /// # Errors
    /// It is no user event of this process.
    pub fn post(self, system: &mut System<'_>, times: u64) -> Result<(), BadDescriptor> {
        let id = system.begin(self.0, Kind::UserEvent)?;
        system.net.sockets.post(id, times);
        Ok(())
    }

    /// Returns the sum that was posted to the user event since the last such call.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if nothing was: then [`crate::process::Step::Wait`].
    pub fn posted(self, system: &mut System<'_>) -> Result<u64, ReceiveError> {
        let id = system.begin(self.0, Kind::UserEvent)?;
        let posted = system.net.sockets.take_posted(id);
        there_was(posted > 0).map(|()| posted)
    }
}
