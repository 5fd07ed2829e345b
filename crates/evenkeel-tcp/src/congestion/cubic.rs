//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion, and no smaller
//! than Reno's would be.
//!
//! Integers throughout, so that a run can be repeated anywhere: windows in bytes, times in microseconds.

use alloc::boxed::Box;

use super::control::{Arrival, Carry, CongestionControl, Window};
use super::slow_start::SlowStart;
use crate::time::{Duration, Instant};

/// The state of section 4.1.2.
#[derive(Debug, Clone)]
pub struct Cubic {
    slow_start: SlowStart,
    fast_convergence: bool,
    segments_per_ack: u8,
    /// `W_max`, in bytes: where the window was when it had to be reduced last.
    w_max: u64,
    /// `cwnd_prior`.
    cwnd_prior: u64,
    epoch: Option<Box<Epoch>>,
    /// The state that [`CongestionControl::on_undo`] restores.
    before: Option<Box<Before>>,
}

#[derive(Debug, Clone)]
struct Before {
    w_max: u64,
    cwnd_prior: u64,
    epoch: Option<Box<Epoch>>,
}

/// A stage of congestion avoidance.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// `t_epoch`, later by the time in which the window was not in use.
    start: Instant,
    /// `K`, in microseconds: how long until the window is at `origin`.
    k: u64,
    /// `W_max`, or the window at the start if that is larger.
    origin: u64,
    /// `W_est`, in bytes.
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

    /// Creates the state for a new connection; with or without HyStart++, with or without fast convergence
    /// (section 4.7).
    #[must_use]
    pub fn new(hystart: bool, fast_convergence: bool) -> Self {
        let slow_start = SlowStart::new(hystart);
        let segments_per_ack = SlowStart::SEGMENTS_PER_ACK;
        let (epoch, before) = (None, None);
        Self { slow_start, fast_convergence, segments_per_ack, w_max: 0, cwnd_prior: 0, epoch, before }
    }

    /// Sets the number of segments for which an acknowledgment counts at most in slow start (`L` of
    /// RFC 3465).
    #[must_use]
    pub const fn with_segments_per_ack(mut self, segments: u8) -> Self {
        self.segments_per_ack = segments;
        self
    }

    /// Begins congestion avoidance with the window as it is.
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

    /// Returns `K` of section 4.2 in microseconds, for a window `bytes` below `W_max`.
    fn time_to_grow(bytes: u64, mss: u32) -> u64 {
        let [c, per_c] = Self::C;
        let segments_by_c = u128::from(bytes) * u128::from(per_c) * Self::SECOND_CUBED
            / (u128::from(c) * u128::from(mss.max(1)));
        cube_root(segments_by_c)
    }

    /// Returns `W_cubic(t)` of section 4.2, in bytes.
    fn w_cubic(epoch: &Epoch, t: Duration, mss: u32) -> u64 {
        let [c, per_c] = Self::C;
        let t = u64::try_from(t.as_micros()).unwrap_or(u64::MAX);
        // Beyond some hours the exact size of an astronomic window does not matter; the cube must fit.
        let away = u128::from(t.abs_diff(epoch.k).min(Self::HOURS));
        let bytes =
            away * away * away / Self::SECOND_CUBED * u128::from(c) * u128::from(mss) / u128::from(per_c);
        let rest = away * away * away % Self::SECOND_CUBED * u128::from(c) * u128::from(mss)
            / (u128::from(per_c) * Self::SECOND_CUBED);
        let bytes = u64::try_from(bytes + rest).unwrap_or(u64::MAX);
        if t < epoch.k { epoch.origin.saturating_sub(bytes) } else { epoch.origin.saturating_add(bytes) }
    }

    /// Ten hours in nanoseconds.
    const HOURS: u64 = 36_000_000_000;

    fn avoid_congestion(&mut self, window: &mut Window, arrival: &Arrival) {
        let cwnd_prior = self.cwnd_prior;
        let mut epoch = self.epoch.take().unwrap_or_else(|| Box::new(self.begin_epoch(window, arrival.now)));
        let cwnd = u64::from(window.cwnd);
        let bytes = u64::from(arrival.bytes);

        // Section 4.3: what Reno would have reached. With cwnd_prior reached, it grows as Reno does.
        let [alpha, per_alpha] = if epoch.w_est < cwnd_prior { Self::ALPHA } else { [1, 1] };
        epoch.w_est += epoch.carry_est.divide(alpha * bytes * u64::from(window.mss), per_alpha * cwnd);

        let t = arrival.now.since(epoch.start);
        if Self::w_cubic(&epoch, t, window.mss) < epoch.w_est {
            window.grow(epoch.w_est.saturating_sub(cwnd));
        } else {
            // Sections 4.4 and 4.5: towards the window of one round trip later, in the proportion of what
            // arrived to the window.
            let target = Self::w_cubic(&epoch, t + arrival.srtt.unwrap_or_default(), window.mss);
            let target = target.clamp(cwnd, cwnd + cwnd / 2);
            window.grow(epoch.carry.divide((target - cwnd) * bytes, cwnd));
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
            self.slow_start.on_arrival(window, arrival, self.segments_per_ack);
        } else {
            self.avoid_congestion(window, arrival);
        }
    }

    fn on_congestion(&mut self, window: &mut Window, flight: u32) {
        self.before = Some(Box::new(Before {
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
            epoch: self.epoch.take(),
        }));
        self.slow_start.over();
        let [beta, per_beta] = Self::BETA;
        let cwnd = u64::from(window.cwnd.min(flight));
        // Section 4.7, fast convergence: a flow whose share shrinks leaves more to those that are new.
        let gives_way = self.fast_convergence && cwnd < self.w_max;
        self.w_max = if gives_way { cwnd * (per_beta + beta) / (2 * per_beta) } else { cwnd };
        self.cwnd_prior = cwnd;
        // Section 4.6
        window.ssthresh = window.at_least_two_segments(cwnd * beta / per_beta);
    }

    /// Section 4.8: the next stage starts with K = 0, from the window that slow start has reached then.
    fn on_timeout(&mut self, window: &mut Window, flight: u32) {
        self.on_congestion(window, flight);
        self.w_max = 0;
    }

    /// Restores the state from before a spurious reduction (section 4.9).
    fn on_undo(&mut self, _window: &Window) {
        if let Some(before) = self.before.take() {
            self.w_max = before.w_max;
            self.cwnd_prior = before.cwnd_prior;
            self.epoch = before.epoch;
        }
    }

    /// Section 4.2: `t` MUST NOT count the time in which the application, not the network, was the limit.
    fn on_idle(&mut self, since: Instant, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += now.since(since);
        }
    }
}

/// Returns the largest integer whose cube is not greater.
fn cube_root(value: u128) -> u64 {
    if value == 0 {
        return 0;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1000;

    fn arrival(bytes: u32, now: Instant) -> Arrival {
        Arrival { bytes, una: 0, nxt: 0, rtt: None, srtt: Some(Duration::from_millis(100)), now }
    }

    /// Rounds of 100 ms, each of one acknowledgment for each segment; the window after each.
    fn rounds(cubic: &mut Cubic, window: &mut Window, from: Instant, count: u32) -> Vec<u32> {
        let mut now = from;
        let round = |_| {
            now += Duration::from_millis(100);
            (0..window.cwnd / MSS).for_each(|_| cubic.on_arrival(window, &arrival(MSS, now)));
            window.cwnd
        };
        (0..count).map(round).collect()
    }

    #[test]
    fn a_loss_leaves_seven_tenths() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 100 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_congestion(&mut window, 100 * MSS);
        assert_eq!((window.ssthresh, cubic.w_max), (70 * MSS, 100 * u64::from(MSS)));
    }

    #[test]
    fn a_flow_that_lost_ground_gives_way() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 100 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_congestion(&mut window, 100 * MSS);
        window.cwnd = 80 * MSS;
        cubic.on_congestion(&mut window, 80 * MSS);
        // Fast convergence: 80 * (1 + 0.7) / 2.
        assert_eq!((window.ssthresh, cubic.w_max), (56 * MSS, 68 * u64::from(MSS)));
    }

    #[test]
    fn two_segments_are_left_at_least() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 2 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_congestion(&mut window, MSS);
        assert_eq!(window.ssthresh, 2 * MSS);
    }

    /// Section 4.2: with 1000 segments lost at, K = cbrt(1000 * 0.3 / 0.4) = 9.0856 s.
    #[test]
    fn the_window_is_back_after_k_seconds_and_flat_there() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 1000 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_congestion(&mut window, 1000 * MSS);
        window.cwnd = window.ssthresh;
        let windows = rounds(&mut cubic, &mut window, Instant::from_millis(1000), 180);
        let epoch = cubic.epoch.unwrap();
        assert!((9_085_602..=9_085_604).contains(&epoch.k), "{}", epoch.k);
        // W_cubic(t) = 0.4 (t - K)^3 + 1000 segments; the window is where it will be one round trip later.
        for (round, cwnd) in windows.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a hundred rounds")]
            let t = (round + 1) as f64 * 0.1;
            let expected = 0.4 * (t - 9.0856).powi(3) + 1000.0;
            let cwnd = f64::from(*cwnd) / f64::from(MSS);
            assert!((cwnd - expected).abs() < 10.0, "after {t} s {cwnd} instead of {expected}");
        }
    }

    #[test]
    fn on_a_short_path_it_grows_as_reno_would() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 20 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_congestion(&mut window, 20 * MSS);
        window.cwnd = window.ssthresh;
        let mut now = Instant::from_millis(1000);
        let mut cwnd = Vec::new();
        for _ in 0..12 {
            now += Duration::from_millis(1);
            let segments = window.cwnd / MSS;
            (0..segments).for_each(|_| {
                cubic.on_arrival(
                    &mut window,
                    &Arrival { srtt: Some(Duration::from_millis(1)), ..arrival(MSS, now) },
                );
            });
            cwnd.push(window.cwnd);
        }
        // 14 segments and 9/17 of one with every round trip, until 20 are reached in the twelfth.
        let expected = 14.0 + 12.0 * 9.0 / 17.0;
        assert!((f64::from(cwnd[11]) / f64::from(MSS) - expected).abs() < 0.3, "{cwnd:?}");
        let before = window.cwnd;
        rounds(&mut cubic, &mut window, now, 1);
        assert!(window.cwnd - before > 9 * MSS / 10, "from there on by one segment, as Reno does");
    }

    #[test]
    fn time_without_data_does_not_count() {
        let (mut cubic, mut other) = (Cubic::new(false, true), Cubic::new(false, true));
        let start = Window { cwnd: 1000 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        let (mut window, mut other_window) = (start, start);
        for (cubic, window) in [(&mut cubic, &mut window), (&mut other, &mut other_window)] {
            cubic.on_congestion(window, 1000 * MSS);
            window.cwnd = window.ssthresh;
            rounds(cubic, window, Instant::from_millis(1000), 10);
        }
        cubic.on_idle(Instant::from_millis(2_000), Instant::from_millis(62_000));
        let after_idle = rounds(&mut cubic, &mut window, Instant::from_millis(62_000), 10);
        assert_eq!(after_idle, rounds(&mut other, &mut other_window, Instant::from_millis(2000), 10));
    }

    #[test]
    fn after_a_timeout_the_function_starts_flat() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 1000 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_timeout(&mut window, 1000 * MSS);
        window.cwnd = window.ssthresh;
        cubic.on_arrival(&mut window, &arrival(MSS, Instant::from_millis(1000)));
        let epoch = cubic.epoch.unwrap();
        assert_eq!((epoch.k, epoch.origin), (0, 700 * u64::from(MSS)));
    }

    #[test]
    fn undone_it_is_where_it_was() {
        let mut cubic = Cubic::new(false, true);
        let mut window = Window { cwnd: 1000 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        cubic.on_congestion(&mut window, 1000 * MSS);
        window.cwnd = window.ssthresh;
        rounds(&mut cubic, &mut window, Instant::from_millis(1000), 10);
        let (before, epoch) = (window, cubic.epoch.clone().unwrap());
        cubic.on_congestion(&mut window, before.cwnd);
        cubic.on_undo(&before);
        assert_eq!((cubic.w_max, cubic.epoch.unwrap().k), (1_000_000, epoch.k));
    }

    proptest! {
        #[test]
        fn the_cube_root_is_the_largest_integer_below(value: u128) {
            let value = value >> (value % 128);
            let root = u128::from(cube_root(value));
            prop_assert!(root.pow(3) <= value);
            prop_assert!((root + 1).checked_pow(3).is_none_or(|cube| cube > value));
        }

        #[test]
        fn whatever_arrives_whenever_the_window_neither_shrinks_nor_panics(
            cwnd in 1000u32..=u32::MAX,
            ssthresh: u32,
            mss in 1u32..=65_535,
            steps in prop::collection::vec((any::<u32>(), 0u64..1 << 50, any::<bool>()), 1..50),
        ) {
            let mut cubic = Cubic::new(true, true);
            let mut window = Window { cwnd: cwnd.max(mss), ssthresh, mss };
            let mut now = Instant::ZERO;
            for (bytes, wait, loss) in steps {
                now += Duration::from_nanos(wait);
                let before = window.cwnd;
                if loss {
                    let flight = bytes.min(window.cwnd);
                    cubic.on_congestion(&mut window, flight);
                    prop_assert!(window.ssthresh >= 2 * mss);
                    window.cwnd = window.ssthresh.min(window.cwnd);
                } else {
                    let arrival = Arrival { bytes, una: 0, nxt: 0, rtt: None, srtt: None, now };
                    cubic.on_arrival(&mut window, &arrival);
                    prop_assert!(window.cwnd >= before);
                }
            }
        }
    }
}
