//! The retransmission timer (RFC 6298, 5).

use crate::time::{Duration, Instant};

/// The retransmission timer of a connection.
#[derive(Debug)]
pub(super) struct RetransmissionTimer {
    /// The time of the timeout; [`Instant::NEVER`] while nothing is outstanding.
    at: Instant,
}

impl RetransmissionTimer {
    pub(super) const fn new() -> Self {
        Self { at: Instant::NEVER }
    }

    /// Returns the time of the timeout.
    #[inline]
    pub(super) const fn deadline(&self) -> Instant {
        self.at
    }

    /// Restarts the timer: it expires `rto_nanos` from `now`.
    #[inline]
    pub(super) fn restart(&mut self, rto_nanos: u64, now: Instant) {
        self.at = now.plus_nanos(rto_nanos);
    }

    /// Restarts the timer for the probe of a closed window: it expires after `interval`.
    pub(super) fn restart_for_probe(&mut self, interval: Duration, now: Instant) {
        self.at = now + interval;
    }

    /// Stops the timer: all is acknowledged.
    #[inline]
    pub(super) const fn stop(&mut self) {
        self.at = Instant::NEVER;
    }
}
