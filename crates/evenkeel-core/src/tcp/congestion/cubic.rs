//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion, and no smaller than Reno's would be.
//!
//! Integers throughout, so that a run can be repeated anywhere: windows in octets, times in microseconds.

use super::slow_start::SlowStart;
use super::{Arrival, Carry, CongestionControl, Window};
use crate::time::{Duration, Instant};

/// The state of section 4.1.2.
#[derive(Debug, Clone)]
pub struct Cubic {
    slow_start: SlowStart,
    /// `W_max`, in octets: where the window was when it had to be reduced last.
    w_max: u64,
    /// `cwnd_prior`.
    cwnd_prior: u64,
    epoch: Option<Epoch>,
    /// What [`CongestionControl::on_undo`] goes back to.
    before: Option<Before>,
}

#[derive(Debug, Clone, Copy)]
struct Before {
    w_max: u64,
    cwnd_prior: u64,
    epoch: Option<Epoch>,
}

/// A stage of congestion avoidance.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// `t_epoch`, later by the time during which the connection had nothing to send.
    start: Instant,
    /// `K`, in microseconds: how long until the window is at `origin`.
    k: u64,
    /// `W_max`, or the window at the start if that is larger.
    origin: u64,
    /// `W_est`, in octets.
    w_est: u64,
    carry: Carry,
    carry_est: Carry,
}

impl Cubic {
    /// `beta_cubic` = 0.7 (section 4.6).
    const BETA: [u64; 2] = [7, 10];
    /// `C` = 0.4 segments a second cubed (section 5).
    const C: [u64; 2] = [2, 5];
    /// `alpha_cubic` = 3 (1 - beta) / (1 + beta) = 9/17 (section 4.3).
    const ALPHA: [u64; 2] = [9, 17];
    /// Microseconds of a second, cubed.
    const SECOND_CUBED: u128 = 1_000_000_000_000_000_000;

    /// For a new connection; with or without HyStart++.
    #[must_use]
    pub fn new(hystart: bool) -> Self {
        Self { slow_start: SlowStart::new(hystart), w_max: 0, cwnd_prior: 0, epoch: None, before: None }
    }

    /// Congestion avoidance begins, with the window as it is.
    fn begin_epoch(&self, window: &Window, now: Instant) -> Epoch {
        let cwnd = u64::from(window.cwnd);
        let origin = self.w_max.max(cwnd);
        Epoch {
            start: now,
            k: Self::time_to_grow(origin - cwnd, window.mss),
            origin,
            w_est: cwnd,
            carry: Carry::default(),
            carry_est: Carry::default(),
        }
    }

    /// `K` of section 4.2 in microseconds, for a window that is so many octets below `W_max`.
    fn time_to_grow(octets: u64, mss: u32) -> u64 {
        let [c, per_c] = Self::C;
        let segments_by_c = u128::from(octets) * u128::from(per_c) * Self::SECOND_CUBED
            / (u128::from(c) * u128::from(mss.max(1)));
        cube_root(segments_by_c)
    }

    /// `W_cubic(t)` of section 4.2, in octets.
    fn w_cubic(epoch: &Epoch, t: Duration, mss: u32) -> u64 {
        let [c, per_c] = Self::C;
        let t = u64::try_from(t.as_micros()).unwrap_or(u64::MAX);
        // Beyond some hours the exact size of an astronomic window does not matter; the cube must fit.
        let away = u128::from(t.abs_diff(epoch.k).min(Self::HOURS));
        let octets =
            away * away * away / Self::SECOND_CUBED * u128::from(c) * u128::from(mss) / u128::from(per_c);
        let rest = away * away * away % Self::SECOND_CUBED * u128::from(c) * u128::from(mss)
            / (u128::from(per_c) * Self::SECOND_CUBED);
        let octets = u64::try_from(octets + rest).unwrap_or(u64::MAX);
        if t < epoch.k { epoch.origin.saturating_sub(octets) } else { epoch.origin.saturating_add(octets) }
    }

    /// Ten hours.
    const HOURS: u64 = 36_000_000_000;

    fn avoid_congestion(&mut self, window: &mut Window, arrival: &Arrival) {
        let cwnd_prior = self.cwnd_prior;
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(window, arrival.now),
        };
        let cwnd = u64::from(window.cwnd);
        let octets = u64::from(arrival.octets);

        // Section 4.3: what Reno would have reached. With cwnd_prior reached, it grows as Reno does.
        let [alpha, per_alpha] = if epoch.w_est < cwnd_prior { Self::ALPHA } else { [1, 1] };
        epoch.w_est += epoch.carry_est.divide(alpha * octets * u64::from(window.mss), per_alpha * cwnd);

        let t = arrival.now.since(epoch.start);
        if Self::w_cubic(&epoch, t, window.mss) < epoch.w_est {
            window.grow(epoch.w_est.saturating_sub(cwnd));
        } else {
            // Sections 4.4 and 4.5: towards the window of one round trip later, in the proportion of what arrived to the window.
            let target = Self::w_cubic(&epoch, t + arrival.srtt.unwrap_or_default(), window.mss);
            let target = target.clamp(cwnd, cwnd + cwnd / 2);
            window.grow(epoch.carry.divide((target - cwnd) * octets, cwnd));
        }
        self.epoch = Some(epoch);
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_arrival(&mut self, window: &mut Window, arrival: &Arrival) {
        if window.in_slow_start() {
            self.slow_start.on_arrival(window, arrival);
        } else {
            self.avoid_congestion(window, arrival);
        }
    }

    fn on_congestion(&mut self, window: &mut Window, flight: u32) {
        self.before = Some(Before { w_max: self.w_max, cwnd_prior: self.cwnd_prior, epoch: self.epoch });
        self.slow_start.over();
        self.epoch = None;
        let [beta, per_beta] = Self::BETA;
        let cwnd = u64::from(window.cwnd.min(flight));
        // Section 4.7, fast convergence: a flow whose share shrinks leaves more to those that are new.
        self.w_max = if cwnd < self.w_max { cwnd * (per_beta + beta) / (2 * per_beta) } else { cwnd };
        self.cwnd_prior = cwnd;
        // Section 4.6
        window.ssthresh = window.at_least_two_segments(cwnd * beta / per_beta);
    }

    /// Section 4.8: the next stage starts with K = 0, from the window that slow start has reached then.
    fn on_timeout(&mut self, window: &mut Window, flight: u32) {
        self.on_congestion(window, flight);
        self.w_max = 0;
    }

    /// Section 4.9.
    fn on_undo(&mut self, _window: &Window) {
        if let Some(before) = self.before.take() {
            self.w_max = before.w_max;
            self.cwnd_prior = before.cwnd_prior;
            self.epoch = before.epoch;
        }
    }

    /// Section 4.2: `t` does not count the time in which the application, not the network, was the limit.
    fn on_idle(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }
}

/// The largest integer whose cube is not greater.
fn cube_root(value: u128) -> u64 {
    // Newton's method from above, where it falls until it is there.
    let bits = 128 - value.leading_zeros();
    let mut root = 1u128 << bits.div_ceil(3);
    loop {
        let next = (2 * root + value / (root * root)) / 3;
        if next >= root {
            return u64::try_from(root).unwrap_or(u64::MAX);
        }
        root = next;
    }
}
