//! The interface of congestion control algorithms: their inputs, and the window that they may change.

use core::fmt;

use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// The congestion window and what belongs to it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The bytes that may be in flight.
    pub cwnd: u32,
    /// The window at which slow start ends; [`Window::UNKNOWN`] before the first loss.
    pub ssthresh: u32,
    /// The payload of a full segment: SMSS of RFC 5681.
    pub mss: u32,
}

impl Window {
    /// The threshold before the first loss: "arbitrarily high" (RFC 5681, 3.1).
    pub const UNKNOWN: u32 = u32::MAX;

    /// Returns whether the window grows exponentially.
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    pub(super) fn grow(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Returns `bytes`, but at least two segments (RFC 5681, equation 4; RFC 9438, 4.6).
    pub(crate) fn at_least_two_segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).max(self.mss.saturating_mul(2))
    }
}

/// An acknowledgment of new data, which arrived while the window was in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The number of bytes that were acknowledged.
    pub bytes: u32,
    /// The position up to which all is acknowledged. Positions count bytes and do not wrap.
    pub una: u64,
    /// The position of the next new byte.
    pub nxt: u64,
    /// The round-trip time of the last segment that arrived, if it is known for sure.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// The time at which the acknowledgment arrived.
    pub now: Instant,
}

/// The state of the path at an acknowledgment, for algorithms that have a model of it: the rate sample `RS`
/// of draft-ietf-ccwg-bbr, 2.3, and the state of the connection, 2.2. Volumes are bytes of payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// `RS.delivery_rate`; [`None`] if it is not reliable.
    pub rate: Option<Rate>,
    /// `RS.delivered`: what arrived since the segment left that arrived last.
    pub volume: u64,
    /// `C.delivered`, and what it was when that segment left.
    pub delivered: u64,
    /// `RS.prior_delivered`.
    pub prior_delivered: u64,
    /// `RS.is_app_limited`: there was less to send than could have been.
    pub app_limited: bool,
    /// `RS.newly_acked`.
    pub acked: u32,
    /// `RS.lost`: what was lost since that segment left.
    pub lost: u64,
    /// `RS.tx_in_flight`: what was on its way when it left, itself included.
    pub tx_in_flight: u32,
    /// `C.inflight`.
    pub in_flight: u32,
    /// `C.is_cwnd_limited`: the window was full in this round trip.
    pub cwnd_limited: bool,
    /// `C.has_selective_acks`.
    pub selective: bool,
    /// Whether a router has marked a packet (RFC 3168), for the first time in a window of data.
    pub marked: bool,
    /// The kind of loss recovery that is in progress.
    pub recovering: Recovering,
    /// `RS.rtt`: the round trip of the segment that left last.
    pub rtt: Option<Duration>,
    /// `C.SMSS`.
    pub mss: u32,
    /// The time at which the acknowledgment arrived.
    pub now: Instant,
}

/// The kind of loss recovery that is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovering {
    /// No recovery.
    No,
    /// Fast recovery.
    Fast,
    /// Recovery after a timeout.
    Timeout,
}

/// A segment that was lost, with the state of the connection when it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The position of the segment's first byte. Positions count bytes and do not wrap.
    pub start: u64,
    /// Its bytes.
    pub len: u32,
    /// The bytes in flight when the segment left, its own included.
    pub tx_in_flight: u32,
    /// The bytes lost since the segment left, its own included.
    pub since_sent: u64,
    /// Whether the application had less to send than was allowed when the segment left.
    pub app_limited: bool,
    /// The bytes that have arrived up to now.
    pub delivered: u64,
    /// `C.has_selective_acks`.
    pub selective: bool,
    /// The time at which the loss was detected.
    pub now: Instant,
}

/// An algorithm of congestion control, with its state for one connection.
///
/// The algorithm changes `cwnd` in [`CongestionControl::on_arrival`] only. Elsewhere it sets `ssthresh`, and
/// loss recovery brings the window there.
///
/// An algorithm [with a model](CongestionControl::is_model_based) of the path receives each acknowledgment
/// through [`CongestionControl::on_sample`] instead, where it sets `cwnd` freely. Loss recovery then reduces
/// the window after a timeout only. [`CongestionControl::pacing_rate`] returns the rate at which segments
/// leave.
///
/// An example of an algorithm is at [`Custom`](super::Custom).
pub trait CongestionControl: fmt::Debug + Send {
    /// Returns the name of the algorithm in Linux.
    fn name(&self) -> &'static str;

    /// Returns whether the algorithm has a model of the path. Such an algorithm needs samples, its segments
    /// are paced, and it alone decides how large the window is. The answer must not change.
    fn is_model_based(&self) -> bool {
        false
    }

    /// Grows the window. It is called if data arrived while the window was the limit.
    fn on_arrival(&mut self, window: &mut Window, arrival: &Arrival);

    /// Sets `ssthresh`, after a segment of a flight of `flight` bytes was lost, or a router marked one (RFC
    /// 3168). It is called at most once for a window of data.
    fn on_congestion(&mut self, window: &mut Window, flight: u32);

    /// Reduces the window after the retransmission timer expired, as [`CongestionControl::on_congestion`]
    /// does.
    fn on_timeout(&mut self, window: &mut Window, flight: u32) {
        self.on_congestion(window, flight);
    }

    /// Restores `window` to its value before the last congestion or timeout, which was spurious.
    fn on_undo(&mut self, window: &Window);

    /// Records that from `since` up to `now` congestion did not limit the connection: it had nothing to
    /// send, or less than the window.
    fn on_idle(&mut self, _since: Instant, _now: Instant) {}

    /// Adapts to a pause longer than a retransmission timeout that has ended. It is called for algorithms
    /// with a model only.
    fn on_restart(&mut self, _window: &mut Window, _now: Instant) {}

    /// Updates the window for a rate sample.
    fn on_sample(&mut self, _window: &mut Window, _sample: &Sample) {}

    /// Records that a segment was lost. Called before the sample of the acknowledgment that showed the
    /// loss, and before [`CongestionControl::on_congestion`].
    fn on_lost(&mut self, _window: &Window, _lost: &Lost) {}

    /// Returns the rate at which segments are to leave; [`None`] if the window alone determines it.
    fn pacing_rate(&self, _window: &Window, _srtt: Option<Duration>) -> Option<Rate> {
        None
    }

    /// Returns whether the algorithm sends less than it could as a test. Samples then do not show the
    /// path's rate.
    fn limits_itself(&self) -> bool {
        false
    }
}

/// Division that keeps what is left over for the next time, so that small steps add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Carry(u64);

impl Carry {
    /// Returns `dividend / divisor`, together with the remainder of the division before.
    pub(super) fn divide(&mut self, dividend: u64, divisor: u64) -> u64 {
        let divisor = divisor.max(1);
        // The divisor changes between calls, so the rest is at most one of today's.
        let dividend = dividend.saturating_add(self.0.min(divisor - 1));
        self.0 = dividend % divisor;
        dividend / divisor
    }
}
