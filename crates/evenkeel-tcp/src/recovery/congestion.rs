//! The congestion window, the algorithm that changes it, and how much of it is in use.

use alloc::boxed::Box;

use super::config::RecoveryConfig;
use super::scoreboard::Position;
use crate::congestion::{Arrival, CongestionControl, Sample, Window};
use crate::time::Instant;

/// The state of congestion control.
#[derive(Debug)]
pub(super) struct Congestion {
    pub(super) window: Window,
    pub(super) control: Box<dyn CongestionControl>,
    /// The largest flight of this round trip, which ends with the acknowledgment of `round_end`: was the
    /// window in use?
    flight_max: u32,
    round_end: Position,
    /// The time of which the algorithm was last notified.
    notified_at: Instant,
}

impl Congestion {
    pub(super) fn new(config: &RecoveryConfig, mss: u32, una: Position) -> Self {
        let cwnd = initial_window(config, mss);
        Self {
            window: Window { cwnd, ssthresh: Window::UNKNOWN, mss },
            control: config.algorithm.start(config.hystart, config.segments_per_ack, config.fast_convergence),
            flight_max: 0,
            round_end: una,
            notified_at: Instant::ZERO,
        }
    }

    /// Sets the payload of segments. The window keeps its bytes, unless it is the initial one.
    pub(super) fn set_mss(&mut self, config: &RecoveryConfig, mss: u32) {
        if self.window.cwnd == initial_window(config, self.window.mss) {
            self.window.cwnd = initial_window(config, mss);
        }
        self.window.mss = mss;
        self.window.cwnd = self.window.cwnd.max(mss);
    }

    /// Records that a segment left, with which `in_flight` bytes are on their way.
    #[inline]
    pub(super) fn on_sent(&mut self, in_flight: u32) {
        self.flight_max = self.flight_max.max(in_flight);
    }

    /// Notifies the algorithm that nothing was sent, or that not all of the window was in use, until `now`.
    pub(super) fn on_idle(&mut self, now: Instant) {
        self.control.on_idle(self.notified_at, now);
        self.notified_at = now;
    }

    /// Grows the window for data that has arrived by `now`, if it was in use.
    #[inline]
    pub(super) fn grow(&mut self, now: Instant, arrival: impl FnOnce() -> Arrival) {
        if self.is_in_use() {
            self.control.on_arrival(&mut self.window, &arrival());
            self.notified_at = now;
        } else {
            // The user, or the peer's window, was the limit.
            self.on_idle(now);
        }
    }

    /// Passes a sample to an algorithm with a model.
    pub(super) fn on_sample(&mut self, sample: &Sample) {
        self.control.on_sample(&mut self.window, sample);
        self.notified_at = sample.now;
    }

    /// Ends the round trip if it is over. `in_flight` was on its way before the acknowledgment.
    #[inline]
    pub(super) fn end_round(&mut self, una: Position, nxt: Position, in_flight: u32) {
        if una >= self.round_end {
            self.round_end = nxt;
            self.flight_max = in_flight;
        }
    }

    /// Reduces the window to `ssthresh`: the reduction is over.
    pub(super) const fn reach_ssthresh(&mut self) {
        self.window.cwnd = self.window.ssthresh;
    }

    /// Takes a reduction back: `before` was the window.
    pub(super) fn undo(&mut self, before: &Window) {
        self.window.cwnd = self.window.cwnd.max(before.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(before.ssthresh);
        self.control.on_undo(&self.window);
    }

    /// Returns whether the window was full in this round trip.
    pub(super) const fn was_full(&self) -> bool {
        self.flight_max.saturating_add(self.window.mss) > self.window.cwnd
    }

    /// Returns whether the window was in use. A window that was not filled has not been tried, and must not
    /// grow (RFC 7661; RFC 9438, 5.8). In slow start half is enough, because it doubles.
    const fn is_in_use(&self) -> bool {
        if self.window.in_slow_start() {
            self.window.cwnd < self.flight_max.saturating_mul(2)
        } else {
            self.was_full()
        }
    }
}

/// Returns the initial window (IW of RFC 6928): the configured number of segments, but at most as many
/// bytes as that number of common segments (1460 bytes) has, or two segments if those are more.
pub(super) fn initial_window(config: &RecoveryConfig, mss: u32) -> u32 {
    const COMMON: u32 = 1460;
    let segments = config.initial_window_segments.max(1);
    segments.saturating_mul(mss).min(segments.saturating_mul(COMMON).max(mss.saturating_mul(2)))
}
