//! The states one by one, as section 12 of the draft (example test cases) wants them tried. Over a network:
//! `evenkeel-sim/tests/tcp_theory`.

use super::params::PROBE_RTT_INTERVAL;
use super::*;
use proptest::prelude::*;

const MSS: u32 = 1_000;
const RTT: Duration = Duration::from_millis(100);
/// 100 segments in a round trip.
const CAPACITY: Rate = Rate::bits_per_s(8_000_000);

struct Flow {
    bbr: Bbr,
    window: Window,
    now: Instant,
    delivered: u64,
}

impl Flow {
    fn new() -> Self {
        let window = Window { cwnd: 10 * MSS, ssthresh: Window::UNKNOWN, mss: MSS };
        Self { bbr: Bbr::new(), window, now: Instant::from_millis(1_000), delivered: 0 }
    }

    fn sample(&self, rate: Rate) -> Sample {
        Sample {
            rate: Some(rate),
            volume: rate.bytes_in(RTT),
            delivered: self.delivered,
            prior_delivered: self.delivered,
            app_limited: false,
            acked: 0,
            lost: 0,
            tx_in_flight: 100 * MSS,
            in_flight: self.window.cwnd,
            cwnd_limited: false,
            selective: true,
            marked: false,
            recovering: Recovering::No,
            rtt: Some(RTT),
            mss: MSS,
            now: self.now,
        }
    }

    /// A round trip with one acknowledgment, of all that fits the rate.
    fn round(&mut self, rate: Rate, change: impl FnOnce(&mut Sample)) {
        self.now += RTT;
        let before = self.delivered;
        let acked = rate.bytes_in(RTT).min(u64::from(u32::MAX));
        self.delivered += acked;
        let mut sample = Sample { prior_delivered: before, acked: acked as u32, ..self.sample(rate) };
        sample.delivered = self.delivered;
        change(&mut sample);
        self.bbr.on_sample(&mut self.window, &sample);
    }

    /// Never two segments beside each other.
    fn lose(&mut self, len: u32, since_sent: u64, tx_in_flight: u32) {
        self.lose_at(2 * since_sent, len, since_sent, tx_in_flight);
    }

    fn lose_at(&mut self, start: u64, len: u32, since_sent: u64, tx_in_flight: u32) {
        let lost = Lost {
            start,
            len,
            tx_in_flight,
            since_sent,
            app_limited: false,
            delivered: self.delivered,
            selective: true,
            now: self.now,
        };
        self.bbr.on_lost(&self.window, &lost);
    }

    /// Returns a flow that has finished startup and draining.
    fn drained() -> Self {
        let mut flow = Self::new();
        for percent in [10, 20, 40, 80, 100, 100, 100, 100] {
            flow.round(CAPACITY.percent(percent), |_| {});
        }
        assert_eq!(flow.bbr.state, State::Drain);
        flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
        assert!(flow.bbr.state.is_in_probe_bw());
        flow
    }

    /// Returns a flow that is probing for bandwidth.
    fn probing() -> Self {
        let mut flow = Self::drained();
        for _ in 0..100 {
            if flow.bbr.state == State::ProbeBwUp {
                return flow;
            }
            flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
        }
        panic!("it never probes");
    }

    fn rate(&self) -> u64 {
        self.bbr.pacing_rate.unwrap().as_bits_per_s() / 1_000
    }
}

#[test]
fn startup_ends_when_three_rounds_bring_no_quarter_more() {
    let mut flow = Flow::new();
    for percent in [10, 20, 40, 80] {
        flow.round(CAPACITY.percent(percent), |_| {});
        assert_eq!(flow.bbr.state, State::Startup);
        // 2.77 times what arrives, less a hundredth; but not less than of the initial window.
        let arrives = 8_000 * u64::from(percent) * 277 / 10_000 * 99 / 100;
        assert_eq!(flow.rate(), arrives.max(800 * 277 / 100));
    }
    for _ in 0..2 {
        flow.round(CAPACITY.percent(90), |_| {});
        assert_eq!(flow.bbr.state, State::Startup);
    }
    flow.round(CAPACITY.percent(90), |_| {});
    assert_eq!(flow.bbr.state, State::Drain);
    assert_eq!(flow.rate(), 8_000 * 9 / 10 / 2 * 99 / 100);
}

#[test]
fn what_the_user_limits_does_not_end_startup() {
    let mut flow = Flow::new();
    (0..50).for_each(|_| flow.round(CAPACITY.percent(10), |sample| sample.app_limited = true));
    assert_eq!(flow.bbr.state, State::Startup);
}

#[test]
fn startup_ends_when_a_round_of_recovery_loses_more_than_two_per_cent_at_six_places() {
    let lossy = |losses: u64, apart: u64| {
        let mut flow = Flow::new();
        flow.round(CAPACITY.percent(10), |_| {});
        flow.bbr.on_congestion(&mut flow.window, 0);
        for grown in [20, 40] {
            for lost in (1..=losses).map(|n| n * u64::from(MSS)) {
                flow.lose_at(apart * lost, MSS, lost, 100 * MSS);
            }
            flow.round(CAPACITY.percent(grown), |sample| {
                sample.recovering = Recovering::Fast;
                (sample.lost, sample.tx_in_flight) = (losses * u64::from(MSS), 100 * MSS);
            });
        }
        flow
    };
    assert_eq!(lossy(5, 2).bbr.state, State::Startup);
    assert_eq!(lossy(20, 1).bbr.state, State::Startup, "at one place, however many");
    let flow = lossy(6, 2);
    // So little is on its way that nothing is to be drained.
    assert_eq!(flow.bbr.state, State::ProbeBwDown);
    assert_eq!(flow.bbr.path.longterm.inflight, 20 * u64::from(MSS));
}

#[test]
fn drain_ends_when_the_queue_is_gone_or_after_three_rounds() {
    let mut flow = Flow::new();
    for percent in [10, 20, 40, 80, 100, 100, 100, 100] {
        flow.round(CAPACITY.percent(percent), |_| {});
    }
    for _ in 0..3 {
        flow.round(CAPACITY, |sample| sample.in_flight = 101 * MSS);
        assert_eq!(flow.bbr.state, State::Drain);
    }
    flow.round(CAPACITY, |sample| sample.in_flight = 101 * MSS);
    assert_eq!(flow.bbr.state, State::ProbeBwDown);
    assert_eq!(Flow::drained().bbr.state, State::ProbeBwCruise);
}

#[test]
fn a_probe_is_a_quarter_faster_and_comes_every_two_or_three_seconds() {
    let mut flow = Flow::drained();
    let (mut since, mut waits) = (flow.now, Vec::new());
    for round in 0..300 {
        let state = flow.bbr.state;
        flow.round(CAPACITY, |sample| {
            sample.in_flight = 95 * MSS;
            // Always a little shorter, so that there is no need to probe that.
            sample.rtt = Some(RTT - Duration::from_nanos(round));
        });
        let rate = match flow.bbr.state {
            State::ProbeBwDown => 7_128,
            State::ProbeBwUp => 9_900,
            State::ProbeBwCruise | State::ProbeBwRefill => 7_920,
            other => panic!("{other:?}"),
        };
        assert_eq!(flow.rate(), rate);
        if flow.bbr.state == State::ProbeBwRefill && state != State::ProbeBwRefill {
            waits.push(flow.now - since);
        }
        if flow.bbr.state == State::ProbeBwDown && state == State::ProbeBwUp {
            since = flow.now;
        }
    }
    assert!(waits.len() >= 5, "{waits:?}");
    let usual = |wait: &&Duration| **wait >= RTT * 20 && **wait <= RTT * 31;
    assert!(waits.iter().filter(usual).count() >= waits.len() - 2, "{waits:?}");
}

#[test]
fn a_probe_that_loses_too_much_ends_and_sets_the_long_term_bound() {
    let mut flow = Flow::probing();
    flow.lose(MSS, 2 * u64::from(MSS), 120 * MSS);
    assert_eq!((flow.bbr.state, flow.bbr.path.longterm.inflight), (State::ProbeBwUp, INFINITY));
    // 3 of 120 are more than 2 %: (0.02 * 119 - 2) / 0.98 of the third were not yet.
    flow.lose(MSS, 3 * u64::from(MSS), 120 * MSS);
    assert_eq!(flow.bbr.state, State::ProbeBwDown);
    assert_eq!(flow.bbr.path.longterm.inflight, 119_387);
    // It is left 15 % below.
    flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
    assert_eq!(flow.bbr.state, State::ProbeBwCruise);
    assert!(u64::from(flow.window.cwnd) <= 119_387 * 85 / 100 + 100, "{}", flow.window.cwnd);
}

#[test]
fn a_round_with_losses_or_a_mark_shrinks_the_short_term_model_to_seven_tenths_or_to_what_arrives() {
    for marked in [false, true] {
        let mut flow = Flow::drained();
        flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
        assert_eq!(flow.bbr.state, State::ProbeBwCruise);
        // The first is answered by what arrived in the round trip before: as much as ever.
        for _ in 0..if marked { 3 } else { 2 } {
            assert_eq!(flow.bbr.path.bw().unwrap(), CAPACITY, "{marked}");
            if !marked {
                flow.lose(MSS, MSS.into(), 100 * MSS);
            }
            flow.round(CAPACITY.percent(10), |sample| sample.marked = marked);
        }
        flow.round(CAPACITY.percent(10), |_| {});
        assert_eq!(flow.bbr.path.bw().unwrap(), CAPACITY.percent(70), "{marked}");
        assert!(flow.window.cwnd < 200 * MSS, "{}", flow.window.cwnd);
    }
}

#[test]
fn an_undo_brings_back_what_a_loss_took() {
    // As recovery tells it: each loss, then the congestion, then samples and more losses, then the undo.
    for timeout in [false, true] {
        let mut flow = Flow::probing();
        flow.lose(MSS, 3 * u64::from(MSS), 120 * MSS);
        assert_eq!(flow.bbr.state, State::ProbeBwDown);
        assert_eq!(flow.bbr.path.longterm.inflight, 119_387);
        let flight = flow.window.cwnd;
        if timeout {
            flow.bbr.on_timeout(&mut flow.window, flight);
        } else {
            flow.bbr.on_congestion(&mut flow.window, flight);
        }
        for _ in 0..2 {
            flow.round(CAPACITY.percent(10), |sample| sample.recovering = Recovering::Fast);
            flow.lose(MSS, 4 * u64::from(MSS), 120 * MSS);
        }
        assert!(flow.bbr.path.shortterm.bw < Rate::UNLIMITED && flow.bbr.path.shortterm.inflight < INFINITY);
        flow.bbr.on_undo(&flow.window.clone());
        assert_eq!((flow.bbr.state, flow.bbr.path.longterm.inflight), (State::ProbeBwRefill, INFINITY));
        assert_eq!(flow.bbr.path.shortterm.bw, Rate::UNLIMITED);
        assert_eq!(flow.bbr.path.shortterm.inflight, INFINITY);
    }
}

#[test]
fn an_undo_brings_back_nothing_that_an_earlier_episode_took() {
    let mut flow = Flow::probing();
    for _ in 0..2 {
        flow.lose(MSS, 3 * u64::from(MSS), 120 * MSS);
        flow.bbr.on_congestion(&mut flow.window, 0);
        flow.round(CAPACITY, |sample| sample.recovering = Recovering::Fast);
        // It is over, and was for something.
        flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
    }
    flow.bbr.on_undo(&flow.window.clone());
    assert_eq!(flow.bbr.path.longterm.inflight, 119_387);
}

#[test]
fn an_undo_after_the_end_of_recovery_brings_back_what_a_loss_took() {
    // As the duplicate that shows that nothing was lost may come late.
    let mut flow = Flow::probing();
    flow.lose(MSS, 3 * u64::from(MSS), 120 * MSS);
    flow.bbr.on_congestion(&mut flow.window, 0);
    flow.round(CAPACITY, |sample| sample.recovering = Recovering::Fast);
    flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
    assert_eq!((flow.bbr.repair.is_on(), flow.bbr.path.longterm.inflight), (false, 119_387));
    flow.bbr.on_undo(&flow.window.clone());
    assert_eq!((flow.bbr.state, flow.bbr.path.longterm.inflight), (State::ProbeBwRefill, INFINITY));
}

#[test]
fn each_five_seconds_the_round_trip_is_probed_with_half_the_path_empty() {
    let mut flow = Flow::drained();
    let mut probes = 0;
    let (mut since, mut before) = (None, 0);
    for _ in 0..200 {
        let cwnd = flow.window.cwnd;
        // A queue: the shortest round trip is not seen again.
        flow.round(CAPACITY, |sample| {
            sample.rtt = Some(RTT + Duration::from_millis(10));
            sample.in_flight = sample.in_flight.min(95 * MSS);
        });
        match (flow.bbr.state, since) {
            (State::ProbeRtt, None) => (since, before, probes) = (Some(flow.now), cwnd, probes + 1),
            (State::ProbeRtt, Some(_)) => {
                assert!((50 * MSS..=56 * MSS).contains(&flow.window.cwnd), "{}", flow.window.cwnd);
                assert!(flow.bbr.limits_itself());
            }
            (_, Some(begin)) => {
                // 200 ms, and a round trip.
                assert!(flow.now - begin >= Duration::from_millis(300), "{:?}", flow.now - begin);
                assert!(flow.window.cwnd >= before, "the window is what it was");
                since = None;
            }
            (_, None) => {}
        }
    }
    assert!((3..=4).contains(&probes), "{probes} in twenty seconds");
    assert_eq!(
        flow.bbr.path.min_rtt.rtt,
        Some(RTT + Duration::from_millis(10)),
        "the shorter one is forgotten"
    );
}

#[test]
fn a_probe_comes_when_reno_would_have_grown_as_far() {
    for (rounds, state) in [(61, State::ProbeBwCruise), (62, State::ProbeBwRefill)] {
        let mut flow = Flow::drained();
        flow.bbr.cycle.rounds_since_up = rounds;
        flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
        assert_eq!(flow.bbr.state, state, "after {rounds} rounds and one");
    }
}

#[test]
fn a_probe_after_one_that_prev_too_high_ends_at_its_bound_and_another_follows_at_once() {
    let mut flow = Flow::probing();
    flow.bbr.cycle.prev_too_high = true;
    flow.bbr.path.longterm.inflight = 100 * u64::from(MSS);
    flow.round(CAPACITY, |sample| sample.in_flight = 100 * MSS);
    assert_eq!(flow.bbr.state, State::ProbeBwDown);
    // Nothing was lost of it.
    flow.round(CAPACITY, |sample| sample.in_flight = 100 * MSS);
    assert_eq!(flow.bbr.state, State::ProbeBwRefill);
}

#[test]
fn a_probe_that_loses_of_a_small_flight_keeps_seven_tenths_of_the_path() {
    let mut flow = Flow::probing();
    flow.lose(MSS, 3 * u64::from(MSS), 20 * MSS);
    assert_eq!(flow.bbr.path.longterm.inflight, 70 * u64::from(MSS));
}

#[test]
fn what_an_acknowledgment_brings_at_once_widens_the_window() {
    let mut flow = Flow::drained();
    (0..3).for_each(|_| flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS));
    // Twice what the path holds, and the hundred of each.
    assert_eq!(flow.window.cwnd, 300 * MSS);
}

/// It has just begun to look at the shortest round trip; and the window that it had before.
fn in_probe_rtt(recovering: Recovering) -> (Flow, u32) {
    let mut flow = Flow::drained();
    for _ in 0..100 {
        let before = flow.window.cwnd;
        flow.round(CAPACITY.percent(10), |sample| {
            sample.rtt = Some(RTT + Duration::from_millis(10));
            sample.in_flight = 95 * MSS;
            sample.app_limited = true;
            sample.recovering = recovering;
        });
        if flow.bbr.state == State::ProbeRtt {
            return (flow, before);
        }
    }
    panic!("it never looks");
}

/// `SaveCwnd` of the draft.
#[test]
fn a_window_that_is_reduced_is_not_the_one_to_come_back_to() {
    // A loss while the round trip is probed.
    let (mut flow, before) = in_probe_rtt(Recovering::No);
    assert!(flow.window.cwnd <= 56 * MSS && before > 150 * MSS, "{before}");
    flow.lose(MSS, MSS.into(), 50 * MSS);
    flow.bbr.on_congestion(&mut flow.window, 50 * MSS);
    assert_eq!(flow.bbr.repair.prior_cwnd, before);
    // The round trip is probed while losses are repaired.
    let mut flow = Flow::drained();
    let before = flow.window.cwnd;
    flow.bbr.on_timeout(&mut flow.window, before);
    flow.window.cwnd = MSS;
    flow.bbr.repair.recovering = Recovering::Timeout;
    flow.now += PROBE_RTT_INTERVAL;
    flow.round(CAPACITY.percent(1), |sample| sample.recovering = Recovering::Timeout);
    assert_eq!((flow.bbr.state, flow.bbr.repair.prior_cwnd), (State::ProbeRtt, before));
}

#[test]
fn a_pause_begins_at_the_rate_of_the_path_and_ends_the_probe_of_the_round_trip() {
    let mut flow = Flow::drained();
    assert_eq!(flow.bbr.state, State::ProbeBwCruise);
    flow.bbr.pacing_rate = Some(Rate::bits_per_s(8));
    flow.now += Duration::from_secs(1);
    flow.bbr.on_restart(&mut flow.window, flow.now);
    assert_eq!(flow.rate(), 7_920, "a hundredth less than the path carries");
    assert!(flow.bbr.idle_restart);
    assert_eq!(flow.bbr.path.aggregation.interval_start, flow.now);
    let (mut flow, before) = in_probe_rtt(Recovering::No);
    flow.round(CAPACITY.percent(10), |sample| sample.in_flight = 50 * MSS);
    let done = flow.bbr.probe_rtt.done_stamp.expect("so little is on its way");
    flow.bbr.on_restart(&mut flow.window, done);
    assert_eq!(flow.bbr.state, State::ProbeRtt, "200 ms are not over");
    flow.bbr.on_restart(&mut flow.window, done + Duration::from_nanos(1));
    assert_eq!(flow.bbr.state, State::ProbeBwCruise);
    assert!(flow.window.cwnd >= before, "{}", flow.window.cwnd);
}

#[test]
fn after_a_timeout_the_window_comes_back() {
    let mut flow = Flow::drained();
    flow.round(CAPACITY, |sample| sample.in_flight = 90 * MSS);
    let before = flow.window.cwnd;
    flow.bbr.on_timeout(&mut flow.window, before);
    flow.window.cwnd = MSS;
    flow.round(CAPACITY.percent(1), |sample| sample.recovering = Recovering::Timeout);
    assert!(flow.window.cwnd < before / 2);
    flow.round(CAPACITY, |_| {});
    assert!(flow.window.cwnd >= before, "{}", flow.window.cwnd);
}

proptest! {
    #[test]
    fn whatever_is_sampled_nothing_panics_and_four_segments_may_leave(
        mss in 1u32..=65_535,
        cwnd: u32,
        steps in prop::collection::vec((any::<[u32; 6]>(), any::<[bool; 6]>(), 0u64..1 << 40), 1..80),
    ) {
        let mut flow = Flow::new();
        (flow.window.mss, flow.window.cwnd) = (mss, cwnd.max(1));
        for (numbers, flags, wait) in steps {
            let [rate, acked, lost, tx, in_flight, rtt] = numbers;
            let [app, marked, limited, sack, loss, undo] = flags;
            flow.now += Duration::from_nanos(wait);
            flow.delivered += u64::from(acked);
            let sample = Sample {
                rate: (rate > 7).then(|| Rate::bytes_per_s(u64::from(rate) << (rate % 32))),
                volume: u64::from(acked),
                prior_delivered: flow.delivered.saturating_sub(u64::from(tx)),
                app_limited: app,
                acked,
                lost: u64::from(lost % 10_000),
                tx_in_flight: tx,
                in_flight,
                cwnd_limited: limited,
                selective: sack,
                marked,
                recovering: if loss { Recovering::Fast } else { Recovering::No },
                rtt: (rtt > 9).then(|| Duration::from_nanos(u64::from(rtt) << (rtt % 8))),
                mss,
                ..flow.sample(CAPACITY)
            };
            if loss {
                flow.lose(lost.min(tx), u64::from(lost), tx);
                flow.bbr.on_congestion(&mut flow.window, tx);
            }
            if undo {
                flow.bbr.on_undo(&flow.window.clone());
            }
            flow.bbr.on_sample(&mut flow.window, &sample);
            prop_assert!(flow.window.cwnd >= mss.saturating_mul(4));
            if app {
                flow.bbr.on_restart(&mut flow.window, flow.now);
            }
            let _ = flow.bbr.pacing_rate(&flow.window, sample.rtt);
        }
    }
}
