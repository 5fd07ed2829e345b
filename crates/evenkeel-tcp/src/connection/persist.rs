//! The persist timer: probes of a window that is closed or too small (zero-window probes, RFC 9293,
//! 3.8.6.1).

use crate::time::{Duration, Instant};

/// The persist timer, and the probes that have not opened the window.
#[derive(Debug)]
pub(super) struct Persist {
    /// The time of the next probe; [`Instant::NEVER`] if the timer does not run.
    at: Instant,
    /// The number of times that the interval has doubled.
    backoff: u8,
    /// Whether one segment may leave regardless of the peer's window.
    due: bool,
}

impl Default for Persist {
    fn default() -> Self {
        Self { at: Instant::NEVER, backoff: 0, due: false }
    }
}

impl Persist {
    /// Returns the time of the next probe.
    pub(super) const fn deadline(&self) -> Instant {
        self.at
    }

    /// Returns whether the timer runs.
    pub(super) fn is_running(&self) -> bool {
        self.at != Instant::NEVER
    }

    /// Returns whether a probe is due.
    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether a probe was due, and counts it as sent.
    pub(super) const fn take_due(&mut self) -> bool {
        core::mem::replace(&mut self.due, false)
    }

    /// Returns the number of times that the interval has doubled.
    pub(super) const fn backoff(&self) -> u8 {
        self.backoff
    }

    /// Starts the timer for the next probe after one that has left at an interval of `backoff` doublings.
    pub(super) const fn resume(&mut self, backoff: u8) {
        self.backoff = backoff;
    }

    /// Starts the timer: the next probe leaves after `rto`, doubled with each probe, and at most `longest`.
    pub(super) fn start(&mut self, rto: Duration, longest: Duration, now: Instant) {
        let factor = 1u32.checked_shl(u32::from(self.backoff)).unwrap_or(u32::MAX);
        self.at = now + rto.saturating_mul(factor).min(longest);
    }

    /// Processes the deadline: makes a probe due.
    pub(super) const fn on_deadline(&mut self) {
        self.at = Instant::NEVER;
        self.backoff = self.backoff.saturating_add(1);
        self.due = true;
    }

    /// Makes a probe due, the `probes`th in a row, because the retransmission timer has expired while the
    /// window is closed.
    pub(super) const fn on_timeout(&mut self, probes: u8) {
        self.backoff = probes;
        self.due = true;
    }

    /// Brings the next probe forward to at most `rto` from now: the peer's window is open, or has moved.
    ///
    /// A timer that runs is never postponed: a peer whose window moves by a few bytes at a time, and never
    /// far enough, would put off the override of silly-window avoidance for ever (RFC 9293, 3.8.6.2.1).
    pub(super) fn ease(&mut self, rto: Duration, now: Instant) {
        self.backoff = 0;
        self.at = self.at.min(now + rto);
    }

    /// Stops the timer, and cancels a probe that is due.
    pub(super) const fn stop(&mut self) {
        *self = Self { at: Instant::NEVER, backoff: 0, due: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(5);
    const NOW: Instant = Instant::from_millis(9);

    #[test]
    fn the_interval_doubles_with_each_probe_up_to_the_longest() {
        let mut persist = Persist::default();
        for seconds in [1, 2, 4, 5, 5] {
            persist.start(RTO, LONGEST, NOW);
            assert_eq!(persist.deadline(), NOW + Duration::from_secs(seconds));
            persist.on_deadline();
            assert!(persist.take_due() && !persist.is_running());
        }
    }

    #[test]
    fn a_window_that_moves_brings_the_probe_forward_and_never_postpones_it() {
        let mut persist = Persist::default();
        persist.resume(4);
        persist.start(RTO, LONGEST, NOW);
        persist.ease(RTO, NOW);
        assert_eq!((persist.deadline(), persist.backoff()), (NOW + RTO, 0));
        persist.ease(RTO, NOW + RTO / 2);
        assert_eq!(persist.deadline(), NOW + RTO);
    }
}
