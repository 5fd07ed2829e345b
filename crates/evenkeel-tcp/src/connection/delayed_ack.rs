//! Delayed acknowledgments (RFC 9293, 3.8.6.3; RFC 5681, 4.2).

use super::super::seq::SeqNumber;
use super::config::Config;
use crate::time::{Duration, Instant};

/// The lower limit in bytes of the estimate of a peer's full segment: it may have sent only small ones so
/// far.
const FULL_SEGMENT_MIN: u16 = 536;

/// The acknowledgment that is due now, or a little later: another segment may carry it until then.
#[derive(Debug)]
pub(super) struct DelayedAck {
    /// The time at which the acknowledgment no longer waits; [`Instant::NEVER`] if none waits.
    at: Instant,
    /// Last.ACK.sent (RFC 7323, 4.3): the last acknowledgment number that left.
    last_sent: SeqNumber,
    /// The largest payload that has come, in bytes: the estimate of a full segment of the peer's.
    full_segment: u16,
    /// Whether an acknowledgment is due now.
    due: bool,
}

impl Default for DelayedAck {
    fn default() -> Self {
        Self { at: Instant::NEVER, last_sent: SeqNumber::default(), full_segment: 0, due: false }
    }
}

impl DelayedAck {
    /// Returns whether an acknowledgment is due now.
    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    /// Returns the time at which an acknowledgment that waits is due.
    pub(super) const fn deadline(&self) -> Instant {
        self.at
    }

    /// Returns Last.ACK.sent, the last acknowledgment number that left.
    pub(super) const fn last_sent(&self) -> SeqNumber {
        self.last_sent
    }

    /// Makes an acknowledgment due now.
    pub(super) const fn send_now(&mut self) {
        self.due = true;
    }

    /// Makes an acknowledgment due now if `condition` holds.
    pub(super) const fn send_now_if(&mut self, condition: bool) {
        self.due |= condition;
    }

    /// Updates the estimate of a peer's full segment from one with `len` bytes of payload; `mss` is the
    /// limit that the peer was given.
    #[inline]
    pub(super) fn on_segment(&mut self, len: u32, mss: u16) {
        self.full_segment = self.full_segment.max(u16::try_from(len).unwrap_or(u16::MAX).min(mss));
    }

    /// Schedules the acknowledgment of received data up to `nxt`, RCV.NXT: at once after every second full
    /// segment, else `delay` later.
    #[inline]
    pub(super) fn on_text(&mut self, nxt: SeqNumber, mss: u16, delay: Duration, now: Instant) {
        let full = u32::from(self.full_segment.max(FULL_SEGMENT_MIN.min(mss)));
        if nxt.since(self.last_sent) >= full.saturating_mul(2) || delay.is_zero() {
            self.due = true;
        } else if nxt != self.last_sent {
            self.at = self.at.min(now + delay.min(Config::ACK_DELAY_MAX));
        }
    }

    /// Processes the deadline: the acknowledgment has found no other segment to leave with.
    pub(super) const fn on_deadline(&mut self) {
        self.at = Instant::NEVER;
        self.due = true;
    }

    /// Records that a segment leaves that acknowledges all data up to `nxt`, RCV.NXT.
    pub(super) const fn on_sent(&mut self, nxt: SeqNumber) {
        *self = Self { at: Instant::NEVER, last_sent: nxt, due: false, ..*self };
    }

    /// Records the peer's SYN: nothing up to `nxt` needs an acknowledgment of its own.
    pub(super) const fn start(&mut self, nxt: SeqNumber) {
        self.last_sent = nxt;
    }

    /// Stops the timer. An acknowledgment that is due now stays due.
    pub(super) const fn stop_timer(&mut self) {
        self.at = Instant::NEVER;
    }

    /// Cancels the acknowledgment: the connection is over.
    pub(super) const fn cancel(&mut self) {
        self.at = Instant::NEVER;
        self.due = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u16 = 1_000;
    const DELAY: Duration = Duration::from_millis(40);
    const NOW: Instant = Instant::from_millis(7);

    /// Returns the state after `segments` full segments since the last acknowledgment.
    fn after(segments: u32) -> DelayedAck {
        let mut ack = DelayedAck::default();
        for n in 1..=segments {
            ack.on_segment(MSS.into(), MSS);
            ack.on_text(SeqNumber::new(n * u32::from(MSS)), MSS, DELAY, NOW);
        }
        ack
    }

    #[test]
    fn one_full_segment_waits_and_the_second_is_acknowledged_at_once() {
        let (one, two) = (after(1), after(2));
        assert_eq!((one.is_due(), one.deadline()), (false, NOW + DELAY));
        assert!(two.is_due());
    }

    #[test]
    fn a_segment_that_leaves_takes_the_acknowledgment_along() {
        let mut ack = after(1);
        ack.on_sent(SeqNumber::new(1_000));
        assert_eq!(
            (ack.is_due(), ack.deadline(), ack.last_sent().since(SeqNumber::new(0))),
            (false, Instant::NEVER, 1_000)
        );
    }

    #[test]
    fn no_acknowledgment_is_delayed_longer_than_the_standard_allows_and_none_without_a_delay() {
        let mut ack = DelayedAck::default();
        ack.on_text(SeqNumber::new(1), MSS, Duration::from_secs(9), NOW);
        assert_eq!(ack.deadline(), NOW + Config::ACK_DELAY_MAX);
        ack.on_text(SeqNumber::new(2), MSS, Duration::ZERO, NOW);
        assert!(ack.is_due());
    }
}
