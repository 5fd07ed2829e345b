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

mod params;
mod path;
mod probe;
mod repair;
mod round;
mod state;

use super::control::{Arrival, CongestionControl, Lost, Recovering, Sample, Window};
use crate::rate::Rate;
use crate::time::{Duration, Instant};
use params::{
    BETA, DRAIN_ROUNDS, INFINITY, INITIAL_SEGMENTS, LOSS_THRESH, MIN_PIPE_SEGMENTS, PACING_MARGIN,
    PROBE_RTT_CWND_GAIN, STARTUP_FULL_LOSSES, STARTUP_PACING_GAIN,
};
use path::Path;
use probe::{AckPhase, Cycle, FullPipe, ProbeRtt};
use repair::{Repair, Undo};
use round::{Rounds, Signals};
use state::State;

/// BBR, version 3: section 2 of the draft.
#[derive(Debug, Clone)]
pub struct Bbr {
    state: State,
    rounds: Rounds,
    path: Path,
    signals: Signals,
    full_pipe: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    repair: Repair,
    /// The model to come back to if the last episode of losses was spurious.
    undo: Option<Undo>,
    /// `BBR.drain_start_round`.
    drain_start_round: u64,
    /// `BBR.idle_restart`.
    idle_restart: bool,
    /// Set once something was sampled.
    pacing_rate: Option<Rate>,
}

impl Bbr {
    /// Creates the state for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Startup,
            rounds: Rounds::default(),
            path: Path::default(),
            signals: Signals::default(),
            full_pipe: FullPipe::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            repair: Repair::default(),
            undo: None,
            drain_start_round: 0,
            idle_restart: false,
            pacing_rate: None,
        }
    }

    fn set(&mut self, state: State) {
        self.state = state;
    }

    // --- 5.3.1, 5.3.2: Startup and Drain ---

    fn check_startup_done(&mut self, sample: &Sample) {
        if self.state != State::Startup {
            return;
        }
        if self.has_high_loss(sample) {
            self.return_if_undone(State::Startup);
            self.full_pipe.is_reached = true;
            self.path.longterm.inflight = self.path.bdp(100, sample.mss).max(self.signals.inflight);
        }
        if self.full_pipe.is_reached {
            self.set(State::Drain);
            self.drain_start_round = self.rounds.count;
        }
    }

    /// Returns whether congestion ends startup: an ECN mark, or too much loss in the round that ends
    /// (`CheckStartupHighLoss`).
    fn has_high_loss(&self, sample: &Sample) -> bool {
        if sample.marked {
            return true;
        }
        if sample.recovering == Recovering::No || !self.signals.is_round_start {
            return false;
        }
        if !sample.selective {
            return sample.lost > 0;
        }
        let long_enough = self.repair.since_round.is_some_and(|since| self.rounds.count > since);
        long_enough
            && self.signals.lost_ranges >= STARTUP_FULL_LOSSES
            && is_too_high(sample.lost, sample.tx_in_flight, true)
    }

    fn check_drain_done(&mut self, sample: &Sample) {
        if self.state != State::Drain {
            return;
        }
        let drained = u64::from(sample.in_flight) <= self.inflight(100, sample.mss);
        if drained || self.rounds.count > self.drain_start_round + DRAIN_ROUNDS {
            self.start_down(sample.delivered, sample.now);
        }
    }

    // --- 5.3.3: ProbeBW ---

    fn start_down(&mut self, delivered: u64, now: Instant) {
        self.signals.reset();
        self.path.longterm.end_slope();
        self.cycle.start(now, self.rounds.next_delivered ^ self.path.aggregation.interval_start.as_nanos());
        self.rounds.start(delivered);
        self.set(State::ProbeBwDown);
    }

    fn start_refill(&mut self, delivered: u64) {
        self.path.shortterm.reset();
        self.path.longterm.reset_slope();
        self.cycle.prev_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.start(delivered);
        self.set(State::ProbeBwRefill);
    }

    fn start_up(&mut self, window: &Window, sample: &Sample) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.start(sample.delivered);
        self.full_pipe.reset(sample.rate);
        self.set(State::ProbeBwUp);
        self.path.longterm.raise_slope(window);
    }

    fn update_probe_bw_cycle(&mut self, window: &Window, sample: &Sample) {
        if !self.full_pipe.is_reached || self.adapt_longterm(window, sample) || !self.state.is_in_probe_bw() {
            return;
        }
        match self.state {
            State::ProbeBwDown => self.probe_or_cruise(window, sample),
            State::ProbeBwCruise => _ = self.probe_if_time(window, sample),
            State::ProbeBwRefill if self.rounds.is_start => {
                self.cycle.is_probe_sample = true;
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
            self.cycle.prev_too_high = false;
            self.start_down(sample.delivered, sample.now);
        }
    }

    /// `IsTimeToProbeBW`: after two or three seconds, or as many rounds as Reno would need to grow that far.
    fn probe_if_time(&mut self, window: &Window, sample: &Sample) -> bool {
        let segments = self.path.target_inflight(window) / u64::from(sample.mss.max(1));
        let is_time = self.cycle.is_time_to_probe(sample.now, segments);
        if is_time {
            self.start_refill(sample.delivered);
        }
        is_time
    }

    fn is_time_to_cruise(&self, sample: &Sample) -> bool {
        let (in_flight, mss) = (u64::from(sample.in_flight), sample.mss);
        in_flight <= self.path.longterm.with_headroom(mss)
            && in_flight <= self.state.quantized(self.path.volume(self.path.max_bw.get(), 100, mss), mss)
    }

    fn is_time_to_go_down(&mut self, window: &Window, sample: &Sample) -> bool {
        let longterm = self.path.longterm.inflight;
        if self.cycle.prev_too_high && u64::from(sample.in_flight) >= longterm {
            self.cycle.prev_precautionary = true;
            return true;
        }
        if sample.cwnd_limited && u64::from(window.cwnd) >= longterm {
            self.full_pipe.reset(sample.rate);
            return false;
        }
        self.full_pipe.is_now
    }

    /// `AdaptLongTermModel`: returns whether it decided on a state.
    fn adapt_longterm(&mut self, window: &Window, sample: &Sample) -> bool {
        if self.rounds.is_start && self.end_ack_phase(sample) {
            return true;
        }
        let longterm = &mut self.path.longterm;
        if is_too_high(sample.lost, sample.tx_in_flight, sample.selective) || longterm.inflight == INFINITY {
            return false;
        }
        longterm.inflight = longterm.inflight.max(u64::from(sample.tx_in_flight));
        if self.state == State::ProbeBwUp {
            longterm.probe_upward(window, sample, self.rounds.is_start);
        }
        false
    }

    /// Ends a phase of acknowledgments with its round. Returns whether another probe follows at once.
    fn end_ack_phase(&mut self, sample: &Sample) -> bool {
        match self.cycle.ack_phase {
            AckPhase::ProbeStarting => self.cycle.ack_phase = AckPhase::ProbeFeedback,
            AckPhase::ProbeStopping => {
                self.cycle.is_probe_sample = false;
                self.cycle.ack_phase = AckPhase::Init;
                if self.state.is_in_probe_bw() && !sample.app_limited {
                    self.path.max_bw.advance();
                }
                let cautious = self.cycle.prev_precautionary && !self.cycle.prev_too_high;
                if self.state.is_in_probe_bw() && cautious {
                    self.start_refill(sample.delivered);
                    return true;
                }
            }
            AckPhase::Init | AckPhase::Refilling | AckPhase::ProbeFeedback => {}
        }
        false
    }

    // --- 5.3.4: ProbeRTT ---

    fn check_probe_rtt(&mut self, window: &mut Window, sample: &Sample) {
        if self.state != State::ProbeRtt && self.path.min_rtt.is_expired && !self.idle_restart {
            self.save_cwnd(window);
            self.set(State::ProbeRtt);
            self.probe_rtt = ProbeRtt::default();
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.rounds.start(sample.delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(window, sample);
        }
        if sample.volume > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, window: &mut Window, sample: &Sample) {
        if self.probe_rtt.done_stamp.is_none() {
            if u64::from(sample.in_flight) <= self.probe_rtt_cwnd(sample.mss) {
                self.probe_rtt.begin(sample.now);
                self.rounds.start(sample.delivered);
            }
        } else if self.probe_rtt.is_round_done(self.rounds.is_start) {
            self.check_probe_rtt_done(window, sample.delivered, sample.now);
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, delivered: u64, now: Instant) {
        if !self.probe_rtt.is_done(now) {
            return;
        }
        self.path.min_rtt.on_probed(now);
        self.repair.restore_cwnd(window);
        self.path.shortterm.reset();
        if self.full_pipe.is_reached {
            self.start_down(delivered, now);
            self.set(State::ProbeBwCruise);
        } else {
            self.set(State::Startup);
        }
    }

    fn probe_rtt_cwnd(&self, mss: u32) -> u64 {
        self.path.bdp(PROBE_RTT_CWND_GAIN, mss).max(MIN_PIPE_SEGMENTS * u64::from(mss))
    }

    // --- 5.5.10: loss ---

    fn note_loss(&mut self, window: &Window, delivered: u64) {
        if self.signals.on_loss(delivered) {
            self.save_cwnd(window);
        }
    }

    fn save_cwnd(&mut self, window: &Window) {
        self.repair.save_cwnd(window, self.state == State::ProbeRtt);
    }

    /// Saves the model before the first loss of an episode changes it: `SaveStateUponLoss`.
    fn save_state(&mut self) {
        if !self.undo.as_ref().is_some_and(|undo| undo.is_open) {
            self.undo = Some(Undo::save(&self.path));
        }
    }

    /// Records a state that congestion ends, to come back to.
    fn return_if_undone(&mut self, state: State) {
        if let Some(undo) = &mut self.undo {
            undo.state = Some(state);
        }
    }

    /// Restores the window when recovery is over.
    fn leave_recovery(&mut self, window: &mut Window, sample: &Sample) {
        let is_over = sample.recovering == Recovering::No;
        if self.repair.is_on() && is_over {
            self.repair.restore_cwnd(window);
            self.repair.since_round = None;
        }
        if let Some(undo) = &mut self.undo {
            undo.is_open &= !is_over;
        }
        self.repair.recovering = sample.recovering;
    }

    /// Updates the bandwidth estimates for a sample, and at the end of a round the bounds for losses:
    /// `UpdateCongestionSignals`.
    fn update_congestion_signals(&mut self, window: &Window, sample: &Sample) {
        self.rounds.update(sample);
        self.cycle.rounds_since_up += u64::from(self.rounds.is_start);
        self.path.max_bw.update(sample);
        if !self.signals.is_round_start {
            return;
        }
        if self.signals.is_loss_in_round && !self.state.is_probing_bw() {
            self.path.shortterm.lower(self.path.max_bw.get(), window, &self.signals);
        }
        self.signals.is_loss_in_round = false;
    }

    fn handle_too_high(&mut self, tx_in_flight: u64, app_limited: bool, window: &Window, at: (u64, Instant)) {
        self.cycle.prev_too_high = true;
        self.cycle.is_probe_sample = false;
        if !app_limited {
            let target = self.path.target_inflight(window);
            self.path.longterm.inflight = tx_in_flight.max(target * BETA / 100);
        }
        if self.state == State::ProbeBwUp {
            self.return_if_undone(State::ProbeBwUp);
            self.start_down(at.0, at.1);
        }
    }

    // --- 5.6: control parameters ---

    /// Returns the volume that is in flight at `gain` times the bandwidth-delay product, in bytes:
    /// `Inflight(gain)`.
    fn inflight(&self, gain: u64, mss: u32) -> u64 {
        self.state.quantized(self.path.bdp(gain, mss), mss)
    }

    fn set_pacing_rate(&mut self, gain: u32) {
        let Some(bw) = self.path.bw() else { return };
        let rate = bw.percent(gain).percent(100 - PACING_MARGIN);
        if self.full_pipe.is_reached || self.pacing_rate.is_none_or(|old| rate > old) {
            self.pacing_rate = Some(rate);
        }
    }

    fn set_cwnd(&self, window: &mut Window, sample: &Sample) {
        let mss = sample.mss;
        let volume =
            self.path.bdp(self.state.cwnd_gain(), mss).saturating_add(self.path.aggregation.extra_acked());
        let max_inflight = self.state.quantized(volume, mss);
        let grown = u64::from(window.cwnd) + u64::from(sample.acked);
        let mut cwnd = u64::from(window.cwnd);
        if self.full_pipe.is_reached {
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
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.path.longterm.inflight,
            State::ProbeRtt | State::ProbeBwCruise => self.path.longterm.with_headroom(mss),
            State::Startup | State::Drain => INFINITY,
        };
        let cap = cap.min(self.path.shortterm.inflight).max(least);
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

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn is_model_based(&self) -> bool {
        true
    }

    fn on_arrival(&mut self, _window: &mut Window, _arrival: &Arrival) {}

    /// Updates the model and the controls for a sample: `UpdateOnACK`.
    fn on_sample(&mut self, window: &mut Window, sample: &Sample) {
        // Kept: a first sample of a user who has little to say is no reason to be slower.
        self.pacing_rate = self.pacing_rate.or_else(|| initial_pacing_rate(window, sample.rtt?));
        self.leave_recovery(window, sample);
        if sample.marked {
            self.note_loss(window, sample.delivered);
        }
        self.signals.update(sample);
        self.update_congestion_signals(window, sample);
        let rounds = (self.rounds.count, self.full_pipe.is_reached);
        self.path.aggregation.update(self.path.bw(), rounds, window, sample);
        self.full_pipe.check(self.rounds.is_start, sample);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        if sample.marked && self.cycle.is_probe_sample {
            let at = (sample.delivered, sample.now);
            self.handle_too_high(u64::from(sample.tx_in_flight), sample.app_limited, window, at);
        }
        self.update_probe_bw_cycle(window, sample);
        self.path.min_rtt.update(sample);
        self.check_probe_rtt(window, sample);
        self.signals.advance(sample);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(window, sample);
    }

    /// Updates the model for a lost segment: `HandleLostPacket`.
    fn on_lost(&mut self, window: &Window, lost: &Lost) {
        self.note_loss(window, lost.delivered);
        self.save_state();
        self.signals.count_range(lost);
        if !self.cycle.is_probe_sample || !is_too_high(lost.since_sent, lost.tx_in_flight, lost.selective) {
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
        self.save_state();
        self.repair.since_round = Some(self.rounds.count);
        self.repair.recovering = Recovering::Fast;
    }

    /// Saves the window and the state when the retransmission timer expires: `OnEnterRTO`.
    fn on_timeout(&mut self, window: &mut Window, _flight: u32) {
        self.save_cwnd(window);
        self.save_state();
        self.repair.recovering = Recovering::Timeout;
    }

    /// Restores the bounds from before an episode whose losses were spurious:
    /// `HandleSpuriousLossDetection`.
    fn on_undo(&mut self, _window: &Window) {
        self.repair.recovering = Recovering::No;
        self.signals.is_loss_in_round = false;
        self.full_pipe.reset(None);
        let Some(undo) = self.undo.take() else { return };
        undo.restore(&mut self.path);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.is_reached = false;
                if self.state != State::ProbeRtt {
                    self.set(State::Startup);
                }
            }
            Some(State::ProbeBwUp) if self.state != State::ProbeBwUp && self.state != State::ProbeRtt => {
                self.start_refill(self.rounds.next_delivered);
            }
            _ => {}
        }
    }

    /// `HandleRestartFromIdle`. Shorter pauses change nothing here.
    fn on_restart(&mut self, window: &mut Window, now: Instant) {
        self.idle_restart = true;
        self.path.aggregation.interval_start = now;
        if self.state.is_in_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            // Nothing is on its way: what leaves now begins a round whatever is delivered by now.
            self.check_probe_rtt_done(window, self.rounds.next_delivered, now);
        }
    }

    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>) -> Option<Rate> {
        self.pacing_rate.or_else(|| initial_pacing_rate(window, srtt?))
    }

    fn limits_itself(&self) -> bool {
        self.state == State::ProbeRtt
    }
}

/// Returns the pacing rate of the initial window: `InitPacingRate`.
fn initial_pacing_rate(window: &Window, rtt: Duration) -> Option<Rate> {
    Some(Rate::of(window.cwnd.into(), rtt)?.percent(STARTUP_PACING_GAIN))
}

#[cfg(test)]
mod tests;
