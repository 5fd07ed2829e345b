//! Probes of the path: whether the pipe is full, the cycle of ProbeBW, and that of the round trip.

use super::super::control::Sample;
use super::params::{PROBE_RTT_DURATION, STARTUP_FULL_BW_ROUNDS};
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// The estimate of whether the pipe is full: section 2.13.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPipe {
    /// Whether it has ever been since Startup: `BBR.full_bw_reached`.
    pub(super) is_reached: bool,
    /// `BBR.full_bw_now`.
    pub(super) is_now: bool,
    /// The rate to compare with: `BBR.full_bw`.
    baseline: Option<Rate>,
    /// The number of rounds without much growth: `BBR.full_bw_count`.
    rounds: u32,
}

impl FullPipe {
    /// Begins to compare with another rate: `ResetFullBW`.
    pub(super) fn reset(&mut self, baseline: Option<Rate>) {
        *self = Self { is_reached: self.is_reached, is_now: false, baseline, rounds: 0 };
    }

    /// Counts the rounds without growth by a quarter: `CheckFullBWReached`.
    pub(super) fn check(&mut self, is_round_start: bool, sample: &Sample) {
        if self.is_now || !is_round_start || sample.app_limited {
            return;
        }
        let Some(rate) = sample.rate else { return };
        if self.baseline.is_none_or(|full| rate >= full.percent(125)) {
            self.reset(Some(rate));
            return;
        }
        self.rounds += 1;
        self.is_now = self.rounds >= STARTUP_FULL_BW_ROUNDS;
        self.is_reached |= self.is_now;
    }
}

/// The phase of acknowledgments relative to bandwidth probes, `BBR.ack_phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The cycle of bandwidth probes: section 2.14.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    pub(super) ack_phase: AckPhase,
    /// Whether samples are of a probe: `BBR.is_bw_probe_sample`.
    pub(super) is_probe_sample: bool,
    /// `BBR.rounds_since_probe_up`.
    pub(super) rounds_since_up: u64,
    /// `BBR.bw_probe_wait`.
    wait: Duration,
    /// `BBR.cycle_stamp`.
    stamp: Instant,
    /// Whether the last probe put too much in flight: `BBR.prev_probe_too_high`.
    pub(super) prev_too_high: bool,
    /// Whether the last probe ended where the one before it had put too much in flight:
    /// `BBR.prev_probe_precautionary`.
    pub(super) prev_precautionary: bool,
    /// For the wait between probes, which is to differ from flow to flow.
    random: u64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            rounds_since_up: 0,
            wait: Duration::ZERO,
            stamp: Instant::ZERO,
            prev_too_high: false,
            prev_precautionary: false,
            random: 0,
        }
    }
}

impl Cycle {
    /// Begins a cycle, with the acknowledgments of the last probe still to come.
    pub(super) fn start(&mut self, now: Instant, mix: u64) {
        self.pick_wait(mix);
        self.stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
    }

    /// Picks the time to the next probe, two to three seconds: `PickProbeWait`. Nothing here may be random:
    /// it is mixed from the times of the flow itself, which differ from flow to flow.
    fn pick_wait(&mut self, mix: u64) {
        self.random = (self.random ^ mix).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.rounds_since_up = self.random & 1;
        self.wait = Duration::from_secs(2) + Duration::from_millis((self.random >> 32) % 1_000);
    }

    /// Returns whether the wait for the next probe is over. Reno would need `segments` rounds to grow as far
    /// (`IsRenoCoexistenceProbeTime`).
    pub(super) fn is_time_to_probe(&self, now: Instant, segments: u64) -> bool {
        now.since(self.stamp) > self.wait || self.rounds_since_up >= segments.min(63)
    }
}

/// The progress of a probe of the round trip: section 2.16.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeRtt {
    /// `BBR.probe_rtt_done_stamp`; [`None`] until little enough is in flight.
    pub(super) done_stamp: Option<Instant>,
    /// `BBR.probe_rtt_round_done`.
    round_done: bool,
}

impl ProbeRtt {
    /// Records that little enough is in flight: the probe takes its time from now on, and a round.
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Self { done_stamp: Some(now + PROBE_RTT_DURATION), round_done: false };
    }

    /// Returns whether a round has begun since the probe began.
    pub(super) fn is_round_done(&mut self, is_round_start: bool) -> bool {
        self.round_done |= is_round_start;
        self.round_done
    }

    /// Returns whether the probe's time is over.
    pub(super) fn is_done(&self, now: Instant) -> bool {
        self.done_stamp.is_some_and(|done| now > done)
    }
}
