//! The wait for the pacer: the time at which it releases the next segment.

use super::super::recovery::Recovery;
use crate::time::Instant;

/// The timer of the pacer.
#[derive(Debug)]
pub(super) struct PaceTimer {
    /// The time at which the pacer releases the next segment; [`Instant::NEVER`] if none waits.
    at: Instant,
}

impl Default for PaceTimer {
    fn default() -> Self {
        Self { at: Instant::NEVER }
    }
}

impl PaceTimer {
    /// Returns the time at which the next segment is released.
    pub(super) const fn deadline(&self) -> Instant {
        self.at
    }

    /// Returns whether a segment waits.
    pub(super) fn is_running(&self) -> bool {
        self.at != Instant::NEVER
    }

    /// Returns whether the pacer delays the next segment, and sets the timer to its release time if so.
    #[inline]
    pub(super) fn delays(&mut self, recovery: &mut Recovery, now: Instant) -> bool {
        let release = recovery.release_time(now).filter(|release| *release > now);
        if let Some(release) = release {
            self.at = release;
        }
        release.is_some()
    }

    /// Stops the timer: the next segment need not wait.
    pub(super) const fn stop(&mut self) {
        self.at = Instant::NEVER;
    }
}
