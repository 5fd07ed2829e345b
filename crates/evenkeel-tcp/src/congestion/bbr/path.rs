//! The model of the path: its rate and delay, bounds for the data in flight, and how much acknowledgments
//! aggregate.

use super::super::control::{Sample, Window};
use super::params::{
    BETA, EXTRA_ACKED_ROUNDS, HEADROOM, INFINITY, INITIAL_SEGMENTS, MIN_PIPE_SEGMENTS, MIN_RTT_FILTER,
    PROBE_RTT_INTERVAL,
};
use super::round::Signals;
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// The parameters of the network path model: section 2.9.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    pub(super) max_bw: MaxBw,
    pub(super) min_rtt: MinRtt,
    pub(super) shortterm: ShortTerm,
    pub(super) longterm: LongTerm,
    pub(super) aggregation: Aggregation,
}

impl Path {
    /// Returns the lower of the maximum and the short-term bandwidth: `BBR.bw`.
    pub(super) fn bw(&self) -> Option<Rate> {
        Some(self.max_bw.get()?.min(self.shortterm.bw))
    }

    /// Returns `gain` per cent of the bandwidth-delay product.
    pub(super) fn bdp(&self, gain: u64, mss: u32) -> u64 {
        self.volume(self.bw(), gain, mss)
    }

    /// Returns `gain` per cent of what arrives within the shortest round trip at a rate.
    pub(super) fn volume(&self, bw: Option<Rate>, gain: u64, mss: u32) -> u64 {
        match (bw, self.min_rtt.rtt) {
            (Some(bw), Some(rtt)) => bw.bytes_in(rtt).saturating_mul(gain) / 100,
            _ => INITIAL_SEGMENTS * u64::from(mss),
        }
    }

    /// Returns the target for the bytes in flight: what the path holds, unless congestion has cut the
    /// window. `TargetInflight`.
    pub(super) fn target_inflight(&self, window: &Window) -> u64 {
        self.bdp(100, window.mss).min(u64::from(window.cwnd))
    }
}

/// The filter of the maximum bandwidth (section 2.11): the maximum of the present ProbeBW cycle and that of
/// the one before.
#[derive(Debug, Clone, Default)]
pub(super) struct MaxBw([Option<Rate>; 2]);

impl MaxBw {
    /// Returns the higher of both maxima: `BBR.max_bw`.
    pub(super) fn get(&self) -> Option<Rate> {
        self.0[0].max(self.0[1])
    }

    /// Raises the present maximum to a sample, unless the application limited it: `UpdateMaxBw`.
    pub(super) fn update(&mut self, sample: &Sample) {
        let counts = |rate: &Rate| !sample.app_limited || self.get().is_none_or(|max| *rate >= max);
        if let Some(rate) = sample.rate.filter(counts) {
            self.0[0] = self.0[0].max(Some(rate));
        }
    }

    /// Begins a cycle: `AdvanceMaxBwFilter`.
    pub(super) fn advance(&mut self) {
        if self.0[0].is_some() {
            self.0 = [None, self.0[0]];
        }
    }
}

/// The shortest round-trip time, and the shortest since it was probed: section 2.16.
#[derive(Debug, Clone)]
pub(super) struct MinRtt {
    /// `BBR.min_rtt`.
    pub(super) rtt: Option<Duration>,
    /// `BBR.min_rtt_stamp`.
    stamp: Instant,
    /// `BBR.probe_rtt_min_delay`.
    probed_delay: Option<Duration>,
    /// `BBR.probe_rtt_min_stamp`.
    probed_stamp: Instant,
    /// Whether it is time to probe: `BBR.probe_rtt_expired`.
    pub(super) is_expired: bool,
}

impl Default for MinRtt {
    fn default() -> Self {
        let (stamp, probed_stamp) = (Instant::ZERO, Instant::ZERO);
        Self { rtt: None, stamp, probed_delay: None, probed_stamp, is_expired: false }
    }
}

impl MinRtt {
    /// Updates the shortest round-trip time and its expiry: `UpdateMinRTT`.
    pub(super) fn update(&mut self, sample: &Sample) {
        let now = sample.now;
        self.is_expired = self.rtt.is_some() && now > self.probed_stamp + PROBE_RTT_INTERVAL;
        let counts = |rtt: &Duration| self.probed_delay.is_none_or(|least| *rtt < least) || self.is_expired;
        if let Some(rtt) = sample.rtt.filter(counts) {
            self.probed_delay = Some(rtt);
            self.probed_stamp = now;
        }
        let Some(delay) = self.probed_delay else { return };
        let expired = now > self.stamp + MIN_RTT_FILTER;
        if self.rtt.is_none_or(|least| delay < least) || expired {
            self.rtt = Some(delay);
            self.stamp = self.probed_stamp;
        }
    }

    /// Records the end of a probe of the round trip. The next one is due an interval later.
    pub(super) fn on_probed(&mut self, now: Instant) {
        self.probed_stamp = now;
    }
}

/// The short-term bounds, which losses lower and a probe for bandwidth lifts.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortTerm {
    /// `BBR.bw_shortterm`.
    pub(super) bw: Rate,
    /// `BBR.inflight_shortterm`.
    pub(super) inflight: u64,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self { bw: Rate::UNLIMITED, inflight: INFINITY }
    }
}

impl ShortTerm {
    /// Lifts both bounds: `ResetShortTermModel`.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Lowers the bounds to `Beta`, but not below what arrived in the latest round: `InitLowerBounds` and
    /// `LossLowerBounds`.
    pub(super) fn lower(&mut self, max_bw: Option<Rate>, window: &Window, latest: &Signals) {
        if self.bw == Rate::UNLIMITED {
            self.bw = max_bw.unwrap_or(Rate::UNLIMITED);
        }
        if self.inflight == INFINITY {
            self.inflight = u64::from(window.cwnd);
        }
        let lower = self.bw.percent(70);
        self.bw = latest.bw.map_or(lower, |latest| latest.max(lower));
        self.inflight = latest.inflight.max(self.inflight / 100 * BETA);
    }

    /// Lifts the bounds to those of an earlier state.
    pub(super) fn restore(&mut self, earlier: Self) {
        self.bw = self.bw.max(earlier.bw);
        self.inflight = self.inflight.max(earlier.inflight);
    }
}

/// The long-term bound on the data in flight, and the slope at which a probe raises it (section 2.14).
#[derive(Debug, Clone)]
pub(super) struct LongTerm {
    /// `BBR.inflight_longterm`.
    pub(super) inflight: u64,
    /// `BBR.bw_probe_up_acked`.
    acked: u64,
    /// `BBR.probe_up_acked_per_inc`.
    acked_per_inc: u64,
    /// `BBR.bw_probe_up_rounds`.
    rounds: u32,
}

impl Default for LongTerm {
    fn default() -> Self {
        Self { inflight: INFINITY, acked: 0, acked_per_inc: INFINITY, rounds: 0 }
    }
}

impl LongTerm {
    /// Returns the bound less what is left to other flows: `InflightWithHeadroom`.
    pub(super) fn with_headroom(&self, mss: u32) -> u64 {
        if self.inflight == INFINITY {
            return INFINITY;
        }
        let headroom = (self.inflight / 100 * HEADROOM).max(u64::from(mss));
        self.inflight.saturating_sub(headroom).max(MIN_PIPE_SEGMENTS * u64::from(mss))
    }

    /// Makes the bound constant, until the slope is raised.
    pub(super) fn end_slope(&mut self) {
        self.acked_per_inc = INFINITY;
    }

    /// Makes the next slope the gentlest one.
    pub(super) fn reset_slope(&mut self) {
        self.rounds = 0;
        self.acked = 0;
    }

    /// Raises the slope at which the bound grows: `RaiseInflightLongtermSlope`.
    pub(super) fn raise_slope(&mut self, window: &Window) {
        let growth = 1u32 << self.rounds;
        self.rounds = (self.rounds + 1).min(30);
        self.acked_per_inc = u64::from((window.cwnd / growth).max(window.mss).max(1));
    }

    /// Raises the bound during a probe: `ProbeInflightLongtermUpward`.
    pub(super) fn probe_upward(&mut self, window: &Window, sample: &Sample, is_round_start: bool) {
        if !sample.cwnd_limited || u64::from(window.cwnd) < self.inflight {
            return;
        }
        self.acked += u64::from(sample.acked);
        let delta = self.acked / self.acked_per_inc;
        self.acked %= self.acked_per_inc;
        self.inflight = self.inflight.saturating_add(delta.saturating_mul(u64::from(sample.mss)));
        if is_round_start {
            self.raise_slope(window);
        }
    }
}

/// The estimate of how much acknowledgments aggregate: section 2.12.
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    /// `BBR.extra_acked_interval_start`.
    pub(super) interval_start: Instant,
    /// `BBR.extra_acked_delivered`.
    delivered: u64,
    /// Maxima of five rounds each: a filter of ten, more or less.
    filter: [u64; 2],
    /// The round since which there is the first of these.
    filter_round: u64,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self { interval_start: Instant::ZERO, delivered: 0, filter: [0; 2], filter_round: 0 }
    }
}

impl Aggregation {
    /// Returns the higher of both maxima: `BBR.extra_acked`.
    pub(super) fn extra_acked(&self) -> u64 {
        self.filter[0].max(self.filter[1])
    }

    /// Updates the estimate: `UpdateACKAggregation`. Until the full bandwidth is reached, the filter is of
    /// one round.
    pub(super) fn update(
        &mut self,
        bw: Option<Rate>,
        (round, full_bw_reached): (u64, bool),
        window: &Window,
        sample: &Sample,
    ) {
        let mut awaited = bw.map_or(0, |bw| bw.bytes_in(sample.now.since(self.interval_start)));
        if self.delivered <= awaited {
            self.delivered = 0;
            self.interval_start = sample.now;
            awaited = 0;
        }
        self.delivered += u64::from(sample.acked);
        let extra = self.delivered.saturating_sub(awaited).min(u64::from(window.cwnd));
        let (length, before) = if full_bw_reached { (EXTRA_ACKED_ROUNDS, self.filter[0]) } else { (1, 0) };
        if round >= self.filter_round + length {
            self.filter_round = round;
            self.filter = [0, before];
        }
        self.filter[0] = self.filter[0].max(extra);
    }
}
