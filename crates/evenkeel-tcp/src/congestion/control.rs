//! What an algorithm is told, and what it may change.

use core::fmt;

use crate::time::{Duration, Instant};

/// The congestion window and what belongs to it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Bytes that may be on their way.
    pub cwnd: u32,
    /// Slow start ends here. [`Window::UNKNOWN`] before the first loss.
    pub ssthresh: u32,
    /// The payload of a full segment: SMSS of RFC 5681.
    pub mss: u32,
}

impl Window {
    /// "Arbitrarily high" (RFC 5681, 3.1).
    pub const UNKNOWN: u32 = u32::MAX;

    /// The window grows exponentially.
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    pub(super) fn grow(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// `bytes`, but two segments at least (RFC 5681, equation 4; RFC 9438, 4.6).
    pub(super) fn at_least_two_segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).max(self.mss.saturating_mul(2))
    }
}

/// New data arrived at the receiver, and the window was in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// How many bytes.
    pub bytes: u32,
    /// The position up to which all is acknowledged. Positions count bytes and do not wrap.
    pub una: u64,
    /// The position of the next new byte.
    pub nxt: u64,
    /// The round-trip time of the last segment that arrived, if it is known for sure.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// When the acknowledgment came.
    pub now: Instant,
}

/// An algorithm of congestion control.
///
/// It changes `cwnd` in [`CongestionControl::on_arrival`] only. Elsewhere it sets `ssthresh`; its caller
/// brings the window there.
pub trait CongestionControl: fmt::Debug + Send {
    /// As Linux calls it.
    fn name(&self) -> &'static str;

    /// Data arrived while the window was the limit: it may grow.
    fn on_arrival(&mut self, window: &mut Window, arrival: &Arrival);

    /// A segment was lost, or a router marked one (RFC 3168), of a flight of so many bytes. Sets `ssthresh`.
    /// At most once for a window of data.
    fn on_congestion(&mut self, window: &mut Window, flight: u32);

    /// The retransmission timer expired: as [`CongestionControl::on_congestion`].
    fn on_timeout(&mut self, window: &mut Window, flight: u32) {
        self.on_congestion(window, flight);
    }

    /// The last congestion or timeout was none: `window` is again what it was before.
    fn on_undo(&mut self, window: &Window);

    /// From `since` up to `now` congestion was not what limited the connection: it had nothing to send, or
    /// less than the window.
    fn on_idle(&mut self, _since: Instant, _now: Instant) {}
}

/// Division that keeps what is left over for the next time, so that small steps add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Carry(u64);

impl Carry {
    /// `dividend / divisor`, together with what was left over before.
    pub(super) fn divide(&mut self, dividend: u64, divisor: u64) -> u64 {
        let divisor = divisor.max(1);
        // The divisor changes between calls, so the rest is at most one of today's.
        let dividend = dividend.saturating_add(self.0.min(divisor - 1));
        self.0 = dividend % divisor;
        dividend / divisor
    }
}
