//! Keep-alive probes to idle peers (RFC 9293, 3.8.4).

use super::config::Keepalive;
use crate::time::{Duration, Instant};

/// The timer of keep-alive probes, and the probes that have not been answered.
#[derive(Debug)]
pub(super) struct KeepaliveTimer {
    /// The time of the next probe; [`Instant::NEVER`] if there are no probes.
    at: Instant,
    /// The number of probes since the peer last sent something.
    probes: u8,
    /// Whether a probe is due.
    due: bool,
}

/// The result of a deadline of the keep-alive timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerState {
    /// The peer has time left to answer.
    Awaited,
    /// The peer has not answered the last probe.
    Silent,
}

impl Default for KeepaliveTimer {
    fn default() -> Self {
        Self { at: Instant::NEVER, probes: 0, due: false }
    }
}

impl KeepaliveTimer {
    /// Returns the time of the next probe.
    pub(super) const fn deadline(&self) -> Instant {
        self.at
    }

    /// Returns whether a probe is due.
    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether a probe was due, and counts it as sent.
    pub(super) const fn take_due(&mut self) -> bool {
        core::mem::replace(&mut self.due, false)
    }

    /// Restarts the timer, because the peer has sent something.
    #[inline]
    pub(super) fn restart(&mut self, settings: Option<Keepalive>, now: Instant) {
        if let Some(keepalive) = settings {
            self.at = now + keepalive.idle;
            self.probes = 0;
        }
    }

    /// Stops the timer: no probe leaves until it is restarted.
    pub(super) const fn stop_timer(&mut self) {
        self.at = Instant::NEVER;
    }

    /// Processes the deadline. Makes a probe due, unless other segments already ask the peer for an answer
    /// (`asked`), or the last probe was the last that `settings` allow.
    pub(super) fn on_deadline(
        &mut self,
        settings: Option<Keepalive>,
        asked: bool,
        now: Instant,
    ) -> PeerState {
        self.at = Instant::NEVER;
        let Some(keepalive) = settings else { return PeerState::Awaited };
        if asked {
            self.restart(settings, now);
            return PeerState::Awaited;
        }
        if self.probes >= keepalive.probes_max {
            return PeerState::Silent;
        }
        self.probes += 1;
        self.at = now + keepalive.interval.max(Duration::from_millis(1));
        self.due = true;
        PeerState::Awaited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Option<Keepalive> =
        Some(Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(1), probes_max: 2 });
    const NOW: Instant = Instant::from_millis(3);

    #[test]
    fn a_peer_that_answers_no_probe_is_silent_after_the_last() {
        let mut timer = KeepaliveTimer::default();
        timer.restart(SETTINGS, NOW);
        assert_eq!(timer.deadline(), NOW + Duration::from_secs(10));
        for _ in 0..2 {
            assert_eq!(timer.on_deadline(SETTINGS, false, NOW), PeerState::Awaited);
            assert!(timer.take_due() && timer.deadline() == NOW + Duration::from_secs(1));
        }
        assert_eq!(timer.on_deadline(SETTINGS, false, NOW), PeerState::Silent);
    }

    #[test]
    fn no_probe_leaves_while_other_segments_ask_for_an_answer() {
        let mut timer = KeepaliveTimer::default();
        assert_eq!(timer.on_deadline(SETTINGS, true, NOW), PeerState::Awaited);
        assert!(!timer.is_due() && timer.deadline() == NOW + Duration::from_secs(10));
    }
}
