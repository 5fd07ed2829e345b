//! Timers: descriptors that become readable when a time has come.

use super::handle::handle;
use super::state::{System, there_was};
use crate::id::Fd;
use crate::socket::{BadDescriptor, Kind, ReceiveError, TooManyOpen};
use crate::time::{Duration, Instant};

/// A timer: a descriptor that is readable after it has expired (`timerfd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(Fd);

handle!(Timer);

impl Timer {
    /// Opens a timer. It does not run until it is [set](Self::set).
    ///
    /// # Errors
    /// [`TooManyOpen`] if the process has reached its limit of descriptors.
    pub fn open(system: &mut System<'_>) -> Result<Self, TooManyOpen> {
        system.call();
        let timer = system.net.sockets.open_timer(system.process, &mut system.net.work)?;
        Ok(Self(system.opened(timer)))
    }

    /// Sets the timer to expire at `at`, and then after each `interval` if there is one. With
    /// [`Instant::NEVER`] it does not expire. Earlier expirations are no longer reported.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no timer of this process.
    pub fn set(
        self,
        system: &mut System<'_>,
        at: Instant,
        interval: Option<Duration>,
    ) -> Result<(), BadDescriptor> {
        let id = system.begin(self.0, Kind::Timer)?;
        system.net.sockets.set_timer(id, at, interval);
        Ok(())
    }

    /// Returns how often the timer has expired since it was set, or since the last call of this method.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if it has not expired: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::BadDescriptor`] if the descriptor is no timer of this process.
    pub fn expirations(self, system: &mut System<'_>) -> Result<u64, ReceiveError> {
        let id = system.begin(self.0, Kind::Timer)?;
        let expirations = system.net.sockets.take_expirations(id);
        there_was(expirations > 0).map(|()| expirations)
    }
}
