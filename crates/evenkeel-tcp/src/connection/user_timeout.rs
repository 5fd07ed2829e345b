//! The user timeout (RFC 9293, 3.8.3 and 3.9.1): the time that a peer has to answer.

use super::super::state::State;
use super::config::Config;
use crate::time::Instant;

/// The wait for a sign of the peer.
#[derive(Debug)]
pub(super) struct UserTimeout {
    /// The time of the peer's last sign of progress while something waited for it.
    progress: Instant,
}

impl UserTimeout {
    pub(super) const fn new(now: Instant) -> Self {
        Self { progress: now }
    }

    /// Restarts the timeout: the peer has shown progress, or something begins to wait for it.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.progress = now;
    }

    /// Returns the end of R2 (RFC 9293, 3.8.3), measured in time: from when something was first sent, or a
    /// window found closed, without a sign of the peer.
    #[inline]
    pub(super) fn deadline(&self, state: State, config: &Config) -> Instant {
        let patience = if state.is_synchronized() { config.user_timeout } else { config.connect_timeout };
        self.progress + patience
    }
}
