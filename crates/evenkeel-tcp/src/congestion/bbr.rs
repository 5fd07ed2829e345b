//! BBR, version 3 (draft-ietf-ccwg-bbr): a model of the path, of how much it carries and how long that takes,
//! says how fast to send and how much may be on its way.
//!
//! Names and sections are those of the draft. Rates count payload, as the draft recommends for TCP. What is
//! not here: `BBR.offload_budget`, because segments leave one by one; and the send quantum, for the same
//! reason: [`RateClock`](crate::RateClock) spaces them.
//!
//! The draft leaves the response to ECN open, but demands that a mark count as congestion. A mark of classic
//! ECN (RFC 3168) comes once in a round trip and stands for a loss that was avoided, so it counts as a round
//! trip with too much loss: while probing it ends that, and else the short-term model shrinks to `Beta`.

use super::control::{Arrival, CongestionControl, Lost, Recovering, Sample, Window};
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// `Infinity` of a volume of data.
const INFINITY: u64 = u64::MAX;

/// The states of section 5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

/// The phase of acknowledgments relative to bandwidth probes, `BBR.ack_phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Section 2 of the draft.
#[derive(Debug, Clone)]
pub struct Bbr {
    state: State,
    model: Model,
}

#[derive(Debug, Clone)]
struct Model {
    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    idle_restart: bool,
    drain_start_round: u64,

    /// The maximum of the present ProbeBW cycle and of the one before.
    max_bw_filter: [Option<Rate>; 2],
    bw_shortterm: Rate,
    /// Set once something was sampled.
    pacing_rate: Option<Rate>,

    min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    probe_rtt_min_delay: Option<Duration>,
    probe_rtt_min_stamp: Instant,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<Instant>,
    probe_rtt_round_done: bool,

    inflight_longterm: u64,
    inflight_shortterm: u64,
    prior_cwnd: u32,
    recovering: Recovering,

    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// In how many ranges of the stream something was lost in this round trip, and where the last one ends.
    losses_in_round: u32,
    lost_until: u64,
    /// Since when there is recovery, in rounds.
    recovery_round: Option<u64>,
    bw_latest: Option<Rate>,
    inflight_latest: u64,

    extra_acked_interval_start: Instant,
    extra_acked_delivered: u64,
    /// Maxima of five rounds each: a filter of ten, more or less.
    extra_acked: [u64; 2],
    extra_acked_round: u64,

    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: Option<Rate>,
    full_bw_count: u32,

    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    bw_probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    bw_probe_wait: Duration,
    cycle_stamp: Instant,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,

    /// Whether the state before the present episode of losses, in the fields below, has been saved.
    is_saved: bool,
    undo_state: Option<State>,
    undo_bw_shortterm: Rate,
    undo_inflight_shortterm: u64,
    undo_inflight_longterm: u64,

    /// For the wait between probes, which is to differ from flow to flow.
    random: u64,
}

/// Section 2.5 and others: in per cent.
const STARTUP_PACING_GAIN: u32 = 277;
const DRAIN_PACING_GAIN: u32 = 50;
const DEFAULT_CWND_GAIN: u64 = 200;
const PROBE_UP_CWND_GAIN: u64 = 225;
const PROBE_RTT_CWND_GAIN: u64 = 50;
const PACING_MARGIN: u32 = 1;
const LOSS_THRESH: u64 = 2;
const BETA: u64 = 70;
const HEADROOM: u64 = 15;
const MIN_PIPE_SEGMENTS: u64 = 4;
const STARTUP_FULL_LOSSES: u32 = 6;
const STARTUP_FULL_BW_ROUNDS: u32 = 3;
const DRAIN_ROUNDS: u64 = 3;
const EXTRA_ACKED_ROUNDS: u64 = 5;
const INITIAL_SEGMENTS: u64 = 10;
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

impl Bbr {
    /// Creates the state for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Startup, model: Model::new() }
    }

    fn set(&mut self, state: State) {
        self.state = state;
    }

    const fn is_in_probe_bw(&self) -> bool {
        use State::{ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp};
        matches!(self.state, ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }

    const fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp)
    }

    const fn pacing_gain(&self) -> u32 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBwDown => 90,
            State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeRtt => 100,
            State::ProbeBwUp => 125,
        }
    }

    /// That of ProbeRTT is a bound of its own.
    const fn cwnd_gain(&self) -> u64 {
        if matches!(self.state, State::ProbeBwUp) { PROBE_UP_CWND_GAIN } else { DEFAULT_CWND_GAIN }
    }

    // --- 5.3.1, 5.3.2: Startup and Drain ---

    fn check_full_bw_reached(&mut self, sample: &Sample) {
        let model = &mut self.model;
        if model.full_bw_now || !model.round_start || sample.app_limited {
            return;
        }
        let Some(rate) = sample.rate else { return };
        if model.full_bw.is_none_or(|full| rate >= full.percent(125)) {
            model.reset_full_bw(Some(rate));
            return;
        }
        model.full_bw_count += 1;
        model.full_bw_now = model.full_bw_count >= STARTUP_FULL_BW_ROUNDS;
        model.full_bw_reached |= model.full_bw_now;
    }

    fn check_startup_done(&mut self, sample: &Sample) {
        if self.state != State::Startup {
            return;
        }
        if self.model.has_high_loss(sample) {
            self.model.undo_state = Some(State::Startup);
            self.model.full_bw_reached = true;
            self.model.inflight_longterm = self.model.bdp(100, sample.mss).max(self.model.inflight_latest);
        }
        if self.model.full_bw_reached {
            self.set(State::Drain);
            self.model.drain_start_round = self.model.round_count;
        }
    }

    fn check_drain_done(&mut self, sample: &Sample) {
        if self.state != State::Drain {
            return;
        }
        let drained = u64::from(sample.in_flight) <= self.inflight(100, sample.mss);
        if drained || self.model.round_count > self.model.drain_start_round + DRAIN_ROUNDS {
            self.start_down(sample.delivered, sample.now);
        }
    }

    // --- 5.3.3: ProbeBW ---

    fn start_down(&mut self, delivered: u64, now: Instant) {
        self.model.reset_congestion_signals();
        self.model.probe_up_acked_per_inc = INFINITY;
        self.model.pick_probe_wait();
        self.model.cycle_stamp = now;
        self.model.ack_phase = AckPhase::ProbeStopping;
        self.model.next_round_delivered = delivered;
        self.set(State::ProbeBwDown);
    }

    fn start_refill(&mut self, delivered: u64) {
        self.model.reset_shortterm();
        self.model.bw_probe_up_rounds = 0;
        self.model.bw_probe_up_acked = 0;
        self.model.prev_probe_precautionary = false;
        self.model.ack_phase = AckPhase::Refilling;
        self.model.next_round_delivered = delivered;
        self.set(State::ProbeBwRefill);
    }

    fn start_up(&mut self, window: &Window, sample: &Sample) {
        self.model.ack_phase = AckPhase::ProbeStarting;
        self.model.next_round_delivered = sample.delivered;
        self.model.reset_full_bw(sample.rate);
        self.set(State::ProbeBwUp);
        self.model.raise_slope(window);
    }

    fn update_probe_bw_cycle(&mut self, window: &Window, sample: &Sample) {
        if !self.model.full_bw_reached || self.adapt_longterm(window, sample) || !self.is_in_probe_bw() {
            return;
        }
        match self.state {
            State::ProbeBwDown => self.probe_or_cruise(window, sample),
            State::ProbeBwCruise => _ = self.probe_if_time(window, sample),
            State::ProbeBwRefill if self.model.round_start => {
                self.model.is_bw_probe_sample = true;
                self.start_up(window, sample);
            }
            State::ProbeBwUp => self.go_down_if_time(window, sample),
            _ => {}
        }
    }

    fn probe_or_cruise(&mut self, window: &Window, sample: &Sample) {
        if !self.probe_if_time(window, sample) && self.is_time_to_cruise(sample) {
            self.set(State::ProbeBwCruise);
        }
    }

    fn go_down_if_time(&mut self, window: &Window, sample: &Sample) {
        if self.is_time_to_go_down(window, sample) {
            self.model.prev_probe_too_high = false;
            self.start_down(sample.delivered, sample.now);
        }
    }

    /// `IsTimeToProbeBW`: after two or three seconds, or as many rounds as Reno would need to grow that far.
    fn probe_if_time(&mut self, window: &Window, sample: &Sample) -> bool {
        let elapsed = sample.now.since(self.model.cycle_stamp) > self.model.bw_probe_wait;
        // `IsRenoCoexistenceProbeTime`
        let segments = self.model.target_inflight(window) / u64::from(sample.mss.max(1));
        if elapsed || self.model.rounds_since_probe_up >= segments.min(63) {
            self.start_refill(sample.delivered);
            return true;
        }
        false
    }

    fn is_time_to_cruise(&self, sample: &Sample) -> bool {
        let in_flight = u64::from(sample.in_flight);
        in_flight <= self.model.inflight_with_headroom(sample.mss)
            && in_flight
                <= self.quantized(self.model.volume(self.model.max_bw(), 100, sample.mss), sample.mss)
    }

    fn is_time_to_go_down(&mut self, window: &Window, sample: &Sample) -> bool {
        let longterm = self.model.inflight_longterm;
        if self.model.prev_probe_too_high && u64::from(sample.in_flight) >= longterm {
            self.model.prev_probe_precautionary = true;
            return true;
        }
        if sample.cwnd_limited && u64::from(window.cwnd) >= longterm {
            self.model.reset_full_bw(sample.rate);
            return false;
        }
        self.model.full_bw_now
    }

    /// `AdaptLongTermModel`: returns whether it decided on a state.
    fn adapt_longterm(&mut self, window: &Window, sample: &Sample) -> bool {
        if self.model.ack_phase == AckPhase::ProbeStarting && self.model.round_start {
            self.model.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.model.ack_phase == AckPhase::ProbeStopping && self.model.round_start {
            self.model.is_bw_probe_sample = false;
            self.model.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() && !sample.app_limited {
                self.model.advance_max_bw_filter();
            }
            let cautious = self.model.prev_probe_precautionary && !self.model.prev_probe_too_high;
            if self.is_in_probe_bw() && cautious {
                self.start_refill(sample.delivered);
                return true;
            }
        }
        if is_too_high(sample.lost, sample.tx_in_flight, sample.selective) {
            return false;
        }
        if self.model.inflight_longterm == INFINITY {
            return false;
        }
        self.model.inflight_longterm = self.model.inflight_longterm.max(u64::from(sample.tx_in_flight));
        if self.state == State::ProbeBwUp {
            self.model.probe_longterm_upward(window, sample);
        }
        false
    }

    // --- 5.3.4: ProbeRTT ---

    fn check_probe_rtt(&mut self, window: &mut Window, sample: &Sample) {
        if self.state != State::ProbeRtt && self.model.probe_rtt_expired && !self.model.idle_restart {
            self.save_cwnd(window);
            self.set(State::ProbeRtt);
            self.model.probe_rtt_done_stamp = None;
            self.model.ack_phase = AckPhase::ProbeStopping;
            self.model.next_round_delivered = sample.delivered;
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(window, sample);
        }
        if sample.volume > 0 {
            self.model.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, window: &mut Window, sample: &Sample) {
        if self.model.probe_rtt_done_stamp.is_none() {
            if u64::from(sample.in_flight) <= self.probe_rtt_cwnd(sample.mss) {
                self.model.probe_rtt_done_stamp = Some(sample.now + PROBE_RTT_DURATION);
                self.model.probe_rtt_round_done = false;
                self.model.next_round_delivered = sample.delivered;
            }
            return;
        }
        self.model.probe_rtt_round_done |= self.model.round_start;
        if self.model.probe_rtt_round_done {
            self.check_probe_rtt_done(window, sample.delivered, sample.now);
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, delivered: u64, now: Instant) {
        if self.model.probe_rtt_done_stamp.is_none_or(|done| now <= done) {
            return;
        }
        self.model.probe_rtt_min_stamp = now;
        window.cwnd = window.cwnd.max(self.model.prior_cwnd);
        self.model.reset_shortterm();
        if self.model.full_bw_reached {
            self.start_down(delivered, now);
            self.set(State::ProbeBwCruise);
        } else {
            self.set(State::Startup);
        }
    }

    fn probe_rtt_cwnd(&self, mss: u32) -> u64 {
        self.model.bdp(PROBE_RTT_CWND_GAIN, mss).max(MIN_PIPE_SEGMENTS * u64::from(mss))
    }

    // --- 5.5.10: loss ---

    fn note_loss(&mut self, window: &Window, delivered: u64) {
        if !self.model.is_loss_in_round {
            self.model.loss_round_delivered = delivered;
            self.save_cwnd(window);
        }
        self.model.is_loss_in_round = true;
    }

    /// `SaveCwnd`: while it is reduced, the window is not the one to come back to.
    fn save_cwnd(&mut self, window: &Window) {
        let reduced = self.model.recovering != Recovering::No || self.state == State::ProbeRtt;
        let least = if reduced { self.model.prior_cwnd } else { 0 };
        self.model.prior_cwnd = least.max(window.cwnd);
    }

    fn handle_too_high(&mut self, tx_in_flight: u64, app_limited: bool, window: &Window, at: (u64, Instant)) {
        self.model.prev_probe_too_high = true;
        self.model.is_bw_probe_sample = false;
        if !app_limited {
            let target = self.model.target_inflight(window);
            self.model.inflight_longterm = tx_in_flight.max(target * BETA / 100);
        }
        if self.state == State::ProbeBwUp {
            self.model.undo_state = Some(State::ProbeBwUp);
            self.start_down(at.0, at.1);
        }
    }

    // --- 5.6: control parameters ---

    /// Returns the volume that is in flight at `gain` times the bandwidth-delay product, in bytes:
    /// `Inflight(gain)`.
    fn inflight(&self, gain: u64, mss: u32) -> u64 {
        self.quantized(self.model.bdp(gain, mss), mss)
    }

    /// Rounds a volume in bytes up to what a sender needs on its way: `QuantizationBudget`.
    fn quantized(&self, volume: u64, mss: u32) -> u64 {
        let least = volume.max(MIN_PIPE_SEGMENTS * u64::from(mss));
        if self.state == State::ProbeBwUp { least.saturating_add(2 * u64::from(mss)) } else { least }
    }

    fn set_pacing_rate(&mut self, gain: u32) {
        let Some(bw) = self.model.bw() else { return };
        let rate = bw.percent(gain).percent(100 - PACING_MARGIN);
        if self.model.full_bw_reached || self.model.pacing_rate.is_none_or(|old| rate > old) {
            self.model.pacing_rate = Some(rate);
        }
    }

    fn set_cwnd(&self, window: &mut Window, sample: &Sample) {
        let mss = sample.mss;
        let volume = self.model.bdp(self.cwnd_gain(), mss).saturating_add(self.model.extra_acked());
        let max_inflight = self.quantized(volume, mss);
        let grown = u64::from(window.cwnd) + u64::from(sample.acked);
        let mut cwnd = u64::from(window.cwnd);
        if self.model.full_bw_reached {
            cwnd = grown.min(max_inflight);
        } else if cwnd < max_inflight || sample.delivered < INITIAL_SEGMENTS * u64::from(mss) {
            cwnd = grown;
        }
        let least = MIN_PIPE_SEGMENTS * u64::from(mss);
        cwnd = cwnd.max(least);
        if self.state == State::ProbeRtt {
            cwnd = cwnd.min(self.probe_rtt_cwnd(mss));
        }
        let cap = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.model.inflight_longterm,
            State::ProbeRtt | State::ProbeBwCruise => self.model.inflight_with_headroom(mss),
            State::Startup | State::Drain => INFINITY,
        };
        let cap = cap.min(self.model.inflight_shortterm).max(least);
        window.cwnd = u32::try_from(cwnd.min(cap)).unwrap_or(u32::MAX);
    }
}

/// Returns whether the loss shows that too much was in flight: `IsInflightTooHigh`.
fn is_too_high(lost: u64, tx_in_flight: u32, selective: bool) -> bool {
    lost * 100 > u64::from(tx_in_flight) * LOSS_THRESH || lost > 0 && !selective
}

impl Default for Bbr {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    fn new() -> Self {
        Self {
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            idle_restart: false,
            drain_start_round: 0,
            max_bw_filter: [None; 2],
            bw_shortterm: Rate::UNLIMITED,
            pacing_rate: None,
            min_rtt: None,
            min_rtt_stamp: Instant::ZERO,
            probe_rtt_min_delay: None,
            probe_rtt_min_stamp: Instant::ZERO,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            inflight_longterm: INFINITY,
            inflight_shortterm: INFINITY,
            prior_cwnd: 0,
            recovering: Recovering::No,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            losses_in_round: 0,
            lost_until: 0,
            recovery_round: None,
            bw_latest: None,
            inflight_latest: 0,
            extra_acked_interval_start: Instant::ZERO,
            extra_acked_delivered: 0,
            extra_acked: [0; 2],
            extra_acked_round: 0,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: None,
            full_bw_count: 0,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITY,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            bw_probe_wait: Duration::ZERO,
            cycle_stamp: Instant::ZERO,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            is_saved: false,
            undo_state: None,
            undo_bw_shortterm: Rate::UNLIMITED,
            undo_inflight_shortterm: INFINITY,
            undo_inflight_longterm: INFINITY,
            random: 0,
        }
    }

    fn max_bw(&self) -> Option<Rate> {
        self.max_bw_filter[0].max(self.max_bw_filter[1])
    }

    /// Returns the lower of the maximum and the short-term bandwidth: `BBR.bw`.
    fn bw(&self) -> Option<Rate> {
        Some(self.max_bw()?.min(self.bw_shortterm))
    }

    /// Returns `gain` per cent of the bandwidth-delay product.
    fn bdp(&self, gain: u64, mss: u32) -> u64 {
        self.volume(self.bw(), gain, mss)
    }

    fn volume(&self, bw: Option<Rate>, gain: u64, mss: u32) -> u64 {
        match (bw, self.min_rtt) {
            (Some(bw), Some(rtt)) => bw.bytes_in(rtt).saturating_mul(gain) / 100,
            _ => INITIAL_SEGMENTS * u64::from(mss),
        }
    }

    /// Returns the target for the bytes in flight: what the path holds, unless congestion has cut the
    /// window. `TargetInflight`.
    fn target_inflight(&self, window: &Window) -> u64 {
        self.bdp(100, window.mss).min(u64::from(window.cwnd))
    }

    fn reset_full_bw(&mut self, baseline: Option<Rate>) {
        self.full_bw = baseline;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.losses_in_round = 0;
        self.bw_latest = None;
        self.inflight_latest = 0;
    }

    fn reset_shortterm(&mut self) {
        self.bw_shortterm = Rate::UNLIMITED;
        self.inflight_shortterm = INFINITY;
    }

    fn update_latest_signals(&mut self, sample: &Sample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.volume);
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = sample.delivered;
            self.loss_round_start = true;
        }
    }

    fn advance_latest_signals(&mut self, sample: &Sample) {
        if self.loss_round_start {
            self.bw_latest = sample.rate;
            self.inflight_latest = sample.volume;
            self.losses_in_round = 0;
        }
    }

    fn update_max_bw(&mut self, sample: &Sample) {
        self.round_start = sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = sample.delivered;
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
        if let Some(rate) = sample.rate
            && (!sample.app_limited || self.max_bw().is_none_or(|max| rate >= max))
        {
            self.max_bw_filter[0] = self.max_bw_filter[0].max(Some(rate));
        }
    }

    fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[0].is_some() {
            self.max_bw_filter = [None, self.max_bw_filter[0]];
        }
    }

    /// Updates the bandwidth estimates for a sample, and at the end of a round the limits for losses:
    /// `UpdateCongestionSignals`.
    fn update_congestion_signals(&mut self, probing: bool, window: &Window, sample: &Sample) {
        self.update_max_bw(sample);
        if !self.loss_round_start {
            return;
        }
        if self.is_loss_in_round && !probing {
            if self.bw_shortterm == Rate::UNLIMITED {
                self.bw_shortterm = self.max_bw().unwrap_or(Rate::UNLIMITED);
            }
            if self.inflight_shortterm == INFINITY {
                self.inflight_shortterm = u64::from(window.cwnd);
            }
            let lower = self.bw_shortterm.percent(70);
            self.bw_shortterm = self.bw_latest.map_or(lower, |latest| latest.max(lower));
            self.inflight_shortterm = self.inflight_latest.max(self.inflight_shortterm / 100 * BETA);
        }
        self.is_loss_in_round = false;
    }

    /// Returns whether congestion ends startup: an ECN mark, or too much loss in the round that ends
    /// (`CheckStartupHighLoss`).
    fn has_high_loss(&self, sample: &Sample) -> bool {
        if sample.marked {
            return true;
        }
        if sample.recovering == Recovering::No || !self.loss_round_start {
            return false;
        }
        if !sample.selective {
            return sample.lost > 0;
        }
        let long_enough = self.recovery_round.is_some_and(|since| self.round_count > since);
        long_enough
            && self.losses_in_round >= STARTUP_FULL_LOSSES
            && is_too_high(sample.lost, sample.tx_in_flight, true)
    }

    /// Saves the model, but not the window, before the first loss of an episode changes it:
    /// `SaveStateUponLoss`.
    fn save_state(&mut self) {
        if self.is_saved {
            return;
        }
        self.is_saved = true;
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// Counts the ranges lost in this round. A segment that adjoins the one lost before belongs to the same
    /// range.
    fn count_range(&mut self, lost: &Lost) {
        if self.losses_in_round == 0 || lost.start != self.lost_until {
            self.losses_in_round += 1;
        }
        self.lost_until = lost.start + u64::from(lost.len);
    }

    /// Updates the estimate of how much acknowledgments aggregate: `UpdateACKAggregation`.
    fn update_aggregation(&mut self, window: &Window, sample: &Sample) {
        let expected =
            |since: Instant, bw: Option<Rate>| bw.map_or(0, |bw| bw.bytes_in(sample.now.since(since)));
        let mut awaited = expected(self.extra_acked_interval_start, self.bw());
        if self.extra_acked_delivered <= awaited {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = sample.now;
            awaited = 0;
        }
        self.extra_acked_delivered += u64::from(sample.acked);
        let extra = self.extra_acked_delivered.saturating_sub(awaited).min(u64::from(window.cwnd));
        let length = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        if self.round_count >= self.extra_acked_round + length {
            self.extra_acked_round = self.round_count;
            self.extra_acked = [0, if self.full_bw_reached { self.extra_acked[0] } else { 0 }];
        }
        self.extra_acked[0] = self.extra_acked[0].max(extra);
    }

    fn extra_acked(&self) -> u64 {
        self.extra_acked[0].max(self.extra_acked[1])
    }

    fn inflight_with_headroom(&self, mss: u32) -> u64 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = (self.inflight_longterm / 100 * HEADROOM).max(u64::from(mss));
        self.inflight_longterm.saturating_sub(headroom).max(MIN_PIPE_SEGMENTS * u64::from(mss))
    }

    /// Raises the slope at which the long-term bound on data in flight grows: `RaiseInflightLongtermSlope`.
    fn raise_slope(&mut self, window: &Window) {
        let growth = 1u32 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = u64::from((window.cwnd / growth).max(window.mss).max(1));
    }

    /// Raises the long-term bound on data in flight during a probe: `ProbeInflightLongtermUpward`.
    fn probe_longterm_upward(&mut self, window: &Window, sample: &Sample) {
        if !sample.cwnd_limited || u64::from(window.cwnd) < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += u64::from(sample.acked);
        let delta = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
        self.bw_probe_up_acked %= self.probe_up_acked_per_inc;
        let more = delta.saturating_mul(u64::from(sample.mss));
        self.inflight_longterm = self.inflight_longterm.saturating_add(more);
        if self.round_start {
            self.raise_slope(window);
        }
    }

    /// Picks the time to the next probe, two to three seconds: `PickProbeWait`. Nothing here may be random:
    /// it is mixed from the times of the flow itself, which differ from flow to flow.
    fn pick_probe_wait(&mut self) {
        let mix = self.random ^ self.next_round_delivered ^ self.extra_acked_interval_start.as_nanos();
        self.random = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.rounds_since_probe_up = self.random & 1;
        self.bw_probe_wait = Duration::from_secs(2) + Duration::from_millis((self.random >> 32) % 1_000);
    }

    /// Updates the shortest round-trip time and its expiry: `UpdateMinRTT`.
    fn update_min_rtt(&mut self, sample: &Sample) {
        let now = sample.now;
        self.probe_rtt_expired =
            self.min_rtt.is_some() && now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = sample.rtt
            && (self.probe_rtt_min_delay.is_none_or(|least| rtt < least) || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = Some(rtt);
            self.probe_rtt_min_stamp = now;
        }
        let Some(delay) = self.probe_rtt_min_delay else { return };
        let expired = now > self.min_rtt_stamp + MIN_RTT_FILTER;
        if self.min_rtt.is_none_or(|least| delay < least) || expired {
            self.min_rtt = Some(delay);
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_arrival(&mut self, _window: &mut Window, _arrival: &Arrival) {}

    /// Updates the model and the controls for a sample: `UpdateOnACK`.
    fn on_sample(&mut self, window: &mut Window, sample: &Sample) {
        // Kept: a first sample of a user who has little to say is no reason to be slower.
        self.model.pacing_rate = self.model.pacing_rate.or_else(|| initial_pacing_rate(window, sample.rtt?));
        self.leave_recovery(window, sample);
        if sample.marked {
            self.note_loss(window, sample.delivered);
        }
        let probing = self.is_probing_bw();
        self.model.update_latest_signals(sample);
        self.model.update_congestion_signals(probing, window, sample);
        self.model.update_aggregation(window, sample);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        if sample.marked && self.model.is_bw_probe_sample {
            let at = (sample.delivered, sample.now);
            self.handle_too_high(u64::from(sample.tx_in_flight), sample.app_limited, window, at);
        }
        self.update_probe_bw_cycle(window, sample);
        self.model.update_min_rtt(sample);
        self.check_probe_rtt(window, sample);
        self.model.advance_latest_signals(sample);
        self.set_pacing_rate(self.pacing_gain());
        self.set_cwnd(window, sample);
    }

    /// Updates the model for a lost segment: `HandleLostPacket`.
    fn on_lost(&mut self, window: &Window, lost: &Lost) {
        self.note_loss(window, lost.delivered);
        self.model.save_state();
        self.model.count_range(lost);
        if !self.model.is_bw_probe_sample || !is_too_high(lost.since_sent, lost.tx_in_flight, lost.selective)
        {
            return;
        }
        // `InflightAtLoss`: how much of it was not too much yet.
        let size = u64::from(lost.len);
        let before = u64::from(lost.tx_in_flight).saturating_sub(size);
        let lost_before = lost.since_sent.saturating_sub(size);
        let prefix = (before * LOSS_THRESH / 100).saturating_sub(lost_before) * 100 / (100 - LOSS_THRESH);
        self.handle_too_high(before + prefix, lost.app_limited, window, (lost.delivered, lost.now));
    }

    /// `OnEnterFastRecovery`: the model has been told of each loss.
    fn on_congestion(&mut self, window: &mut Window, _flight: u32) {
        self.save_cwnd(window);
        self.model.save_state();
        self.model.recovery_round = Some(self.model.round_count);
        self.model.recovering = Recovering::Fast;
    }

    /// Saves the window and the state when the retransmission timer expires: `OnEnterRTO`.
    fn on_timeout(&mut self, window: &mut Window, _flight: u32) {
        self.save_cwnd(window);
        self.model.save_state();
        self.model.recovering = Recovering::Timeout;
    }

    /// Restores the bounds from before an episode whose losses were spurious:
    /// `HandleSpuriousLossDetection`.
    fn on_undo(&mut self, _window: &Window) {
        let model = &mut self.model;
        model.recovering = Recovering::No;
        model.is_saved = false;
        model.is_loss_in_round = false;
        model.reset_full_bw(None);
        model.bw_shortterm = model.bw_shortterm.max(model.undo_bw_shortterm);
        model.inflight_shortterm = model.inflight_shortterm.max(model.undo_inflight_shortterm);
        model.inflight_longterm = model.inflight_longterm.max(model.undo_inflight_longterm);
        let delivered = model.next_round_delivered;
        match model.undo_state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.model.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.set(State::Startup);
                }
            }
            Some(State::ProbeBwUp) if self.state != State::ProbeBwUp && self.state != State::ProbeRtt => {
                self.start_refill(delivered);
            }
            _ => {}
        }
    }

    /// `HandleRestartFromIdle`. Shorter pauses change nothing here.
    fn on_restart(&mut self, window: &mut Window, now: Instant) {
        self.model.idle_restart = true;
        self.model.extra_acked_interval_start = now;
        if self.is_in_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            // Nothing is on its way: what leaves now begins a round whatever is delivered by now.
            self.check_probe_rtt_done(window, self.model.next_round_delivered, now);
        }
    }

    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>) -> Option<Rate> {
        self.model.pacing_rate.or_else(|| initial_pacing_rate(window, srtt?))
    }

    fn limits_itself(&self) -> bool {
        self.state == State::ProbeRtt
    }
}

/// Returns the pacing rate of the initial window: `InitPacingRate`.
fn initial_pacing_rate(window: &Window, rtt: Duration) -> Option<Rate> {
    Some(Rate::of(window.cwnd.into(), rtt)?.percent(STARTUP_PACING_GAIN))
}

impl Bbr {
    /// `RestoreCwnd`, when recovery is over.
    fn leave_recovery(&mut self, window: &mut Window, sample: &Sample) {
        if self.model.recovering != Recovering::No && sample.recovering == Recovering::No {
            window.cwnd = window.cwnd.max(self.model.prior_cwnd);
            self.model.recovery_round = None;
        }
        self.model.is_saved &= sample.recovering != Recovering::No;
        self.model.recovering = sample.recovering;
    }
}

#[cfg(test)]
#[path = "bbr_tests.rs"]
mod tests;
