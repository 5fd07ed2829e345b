//! Tests of the growth of the window, and of the window of an idle connection.

use super::script::{MSS, Script, ms};
use crate::SeqNumber;
use std::sync::Arc;

use crate::congestion::{Algorithm, Arrival, CongestionControl, Custom, Sample, Window};
use crate::rate::Rate;
use crate::recovery::{Recovery, RecoveryConfig, Restart, Start};
use crate::time::{Duration, Instant};

#[test]
fn the_initial_window_of_large_segments_has_fewer() {
    let window = |mss| Recovery::new(&Arc::default(), SeqNumber::new(1), mss).info().cwnd;
    assert_eq!([536, 1460, 8960].map(window), [5360, 14_600, 17_920]);
}

#[test]
fn the_initial_window_follows_the_segment_size_that_was_agreed_on() {
    let mut recovery = Recovery::new(&Arc::default(), SeqNumber::new(1), 536);
    recovery.set_mss(1448);
    assert_eq!(recovery.info().cwnd, 14_480);
}

#[test]
fn a_window_that_is_not_filled_does_not_grow() {
    let mut script = Script::new();
    for _ in 0..20 {
        let next = script.next();
        script.write(3);
        script.after(ms(100));
        script.ack(next + 3);
    }
    assert_eq!(script.cwnd(), 10);
    script.write(8);
    script.after(ms(100));
    (61..=68).for_each(|upto| {
        script.ack(upto);
    });
    assert_eq!(
        script.cwnd(),
        16,
        "in slow start more than half of it is use enough: until it is twice as large as what was on its way"
    );
}

/// A window of as many segments as it says, with a model if so.
#[derive(Debug)]
struct Fixed(u32, bool);

impl CongestionControl for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn is_model_based(&self) -> bool {
        self.1
    }
    fn on_arrival(&mut self, window: &mut Window, _: &Arrival) {
        window.cwnd = self.0 * window.mss;
    }
    fn on_sample(&mut self, window: &mut Window, _: &Sample) {
        window.cwnd = 2 * self.0 * window.mss;
    }
    fn on_congestion(&mut self, _: &mut Window, _: u32) {}
    fn on_undo(&mut self, _: &Window) {}
}

#[test]
fn an_algorithm_of_the_caller_sets_the_window_on_arrivals_or_with_a_model_on_samples() {
    let algorithms = [Custom::new(|| Box::new(Fixed(17, false))), Custom::new(|| Box::new(Fixed(17, true)))];
    for (algorithm, cwnd) in algorithms.into_iter().zip([17, 34]) {
        let algorithm = Algorithm::Custom(algorithm);
        let mut script = Script::with(&RecoveryConfig { algorithm, ..RecoveryConfig::default() }, true);
        assert_eq!((script.recovery.info().algorithm, script.cwnd()), ("fixed", 10));
        script.write(10);
        script.after(ms(100));
        (1..=10).for_each(|upto| _ = script.ack(upto));
        assert_eq!(script.cwnd(), cwnd);
    }
    assert_ne!(algorithms[0], algorithms[1]);
    assert_eq!(algorithms[0], algorithms[0]);
}

#[test]
fn in_slow_start_a_full_window_doubles() {
    let mut script = Script::new();
    let mut upto = 0;
    for window in [10, 20, 40, 80] {
        assert_eq!(script.write(window).split(' ').count(), window as usize);
        script.after(ms(100));
        (0..window).for_each(|_| {
            upto += 1;
            script.ack(upto);
        });
    }
    assert_eq!(script.cwnd(), 160);
}

#[test]
fn after_a_pause_longer_than_the_timeout_the_window_is_the_initial_one() {
    let mut script = Script::new();
    script.grow_to(40);
    script.after(Duration::from_millis(200));
    script.write(1);
    assert!(script.cwnd() >= 40);
    script.ack(script.next());
    script.after(Duration::from_secs(2));
    script.write(1);
    assert_eq!(script.cwnd(), 10);
}

#[test]
fn pauses_between_windows_do_not_make_the_window_grow_faster() {
    let run = |pause: u64, heard: bool| {
        let mut script = in_congestion_avoidance();
        for _ in 0..60 {
            script.write(script.cwnd());
            script.after(ms(100));
            script.ack(script.next());
            script.after(ms(pause / 2));
            if heard {
                // The peer sends us something meanwhile.
                script.ack(script.next());
            }
            script.after(ms(pause / 2));
        }
        assert_eq!(script.recovery.info().timeouts, 0);
        script.recovery.info().cwnd
    };
    assert_eq!(run(0, false), run(190, false), "CUBIC's clock stands still while there is nothing to send");
    assert_eq!(run(0, false), run(190, true), "whatever is received");
}

/// RFC 9438, 4.2: "the elapsed time t MUST NOT include periods during which cwnd has not been updated due to
/// application-limited behavior".
#[test]
fn time_in_which_the_user_was_the_limit_does_not_make_the_window_grow_faster() {
    let run = |full: u32, small: u32| {
        let mut script = in_congestion_avoidance();
        for round in 0..full {
            script.write(script.cwnd());
            script.after(ms(100));
            script.ack(script.next());
            for _ in 0..if round == 20 { small } else { 0 } {
                script.write(1);
                script.after(ms(100));
                script.ack(script.next());
            }
        }
        script.recovery.info().cwnd
    };
    // The use of a window is known a round trip later.
    assert!(run(60, 600) <= run(63, 0), "{} {}", run(60, 600), run(63, 0));
}

/// The window was reduced once; ten segments were acknowledged.
fn in_congestion_avoidance() -> Script {
    let mut script = Script::new();
    script.write(10);
    script.after(ms(100));
    script.ack_with_ece(1);
    script.ack(10);
    script
}

#[test]
fn smaller_segments_send_again_what_is_too_large_without_a_reduction() {
    let mut script = Script::new();
    script.write(3);
    script.recovery.set_mss(400);
    assert_eq!((script.in_flight(), script.recovery.info().cwnd), (0, 10 * 400));
    let mut sizes = Vec::new();
    while let Some(range) = script.recovery.next_retransmission(400) {
        sizes.push(range.len());
        script.recovery.on_sent(range, true, script.now);
    }
    assert_eq!(sizes, [400, 400, 200].repeat(3));
    assert_eq!((script.in_flight(), script.recovery.info().state), (3, crate::recovery::RecoveryState::Open));
    script.at(200);
    script.ack(3);
    assert!(script.recovery.is_empty());
}

#[test]
fn with_pacing_a_window_leaves_over_the_round_trip() {
    let config = RecoveryConfig { pacing: true, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    let left = paced(&mut script, 10);
    // In slow start twice the rate: ten segments in 50 ms, but for the time of the last.
    assert_eq!(left[9], Instant::from_millis(145));
    assert!(left.windows(2).all(|pair| pair[1] - pair[0] == ms(5)), "{left:?}");
}

/// Sends so many segments, each as soon as it may leave; says when they left.
fn paced(script: &mut Script, segments: u32) -> Vec<Instant> {
    script.available += segments;
    let mut left = Vec::new();
    for _ in 0..segments {
        if let Some(at) = script.recovery.release_time(script.now) {
            script.now = at;
        }
        script.send_new();
        left.push(script.now);
    }
    left
}

fn is_even(left: &[Instant], interval: Duration) -> bool {
    left.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(interval) <= Duration::from_micros(1))
}

/// 1000 bytes and no headers here: 8 Mbit/s are one segment a millisecond.
const EIGHT_MBIT: Rate = Rate::bits_per_s(8_000_000);

#[test]
fn where_the_capacity_is_known_the_first_round_trip_is_at_that_rate() {
    let config = RecoveryConfig { start: Start::At(EIGHT_MBIT), ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    // Twice a round trip of it, and two segments.
    assert_eq!((script.cwnd(), script.recovery.info().ssthresh), (202, 202 * MSS));
    let left = paced(&mut script, 100);
    assert!(is_even(&left, ms(1)), "{left:?}");
    // It never gets faster than that, though the window would let it.
    script.ack(100);
    assert!(is_even(&paced(&mut script, 150), ms(1)));
}

#[test]
fn a_known_rate_is_kept_over_a_pause_unless_something_was_lost_at_it() {
    let config = RecoveryConfig { start: Start::At(EIGHT_MBIT), ..RecoveryConfig::default() };
    let after_pause = |lost: bool| {
        let mut script = Script::with(&config, true);
        paced(&mut script, 100);
        script.after(ms(100));
        if lost {
            script.sack(1, &[(2, 100)]);
            script.pump();
            script.after(ms(100));
        }
        script.ack(100);
        script.after(ms(5_000));
        script.write(1);
        script.cwnd()
    };
    assert_eq!([after_pause(false), after_pause(true)], [202, 10]);
}

#[test]
fn what_a_timer_was_late_is_made_up_for_within_an_eighth_of_the_round_trip() {
    let config = RecoveryConfig { start: Start::At(EIGHT_MBIT), ..RecoveryConfig::default() };
    for (late, lost) in [(10, 0), (12, 0), (40, 27)] {
        let mut script = Script::with(&config, true);
        let first = script.now;
        paced(&mut script, 20);
        assert!(script.recovery.release_time(script.now).is_some(), "the next one waits");
        script.after(ms(1 + late));
        let left = paced(&mut script, 80);
        // A hundred at a millisecond each, and what is not made up for.
        let took = (left[79] - first).as_millis();
        assert!((99 + lost..=101 + lost).contains(&took), "{late} ms late: {took} ms");
        assert!(left.windows(2).all(|pair| pair[1] - pair[0] >= ms(1) / 4), "{left:?}");
    }
}

#[test]
fn who_remembers_nothing_is_in_slow_start_and_does_not_pace() {
    let config = RecoveryConfig { start: Start::Remembered, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    let left = paced(&mut script, 10);
    assert_eq!(left[9], left[0], "{left:?}");
    let config = RecoveryConfig { pacing: true, ..config };
    let left = paced(&mut Script::with(&config, true), 10);
    assert!(is_even(&left, ms(5)), "unless that was asked for: {left:?}");
}

#[test]
fn bbr_is_not_slowed_down_by_a_user_who_had_little_to_say() {
    let config = RecoveryConfig { algorithm: Algorithm::Bbr, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    let before = script.recovery.info().pacing_rate.unwrap();
    script.write(1);
    script.recovery.on_nothing_to_send();
    script.after(ms(100));
    script.ack(1);
    assert!(script.recovery.info().pacing_rate.unwrap() >= before.percent(98));
}

#[test]
fn a_loss_makes_a_known_rate_slower() {
    let config = RecoveryConfig { start: Start::At(EIGHT_MBIT), ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    paced(&mut script, 100);
    script.after(ms(100));
    script.sack(1, &[(2, 100)]);
    script.pump();
    script.after(ms(100));
    script.ack(100);
    // 100 on their way, times 0.7; with the gain of congestion avoidance 84 in a round trip.
    assert_eq!(script.cwnd(), 70);
    let left = paced(&mut script, 20);
    assert!(left[19] - left[0] > ms(22), "{left:?}");
}

#[test]
fn shaping_is_not_exceeded_and_opens_no_window() {
    let (rate_max, restart) = (Some(EIGHT_MBIT), Restart::LastRate);
    let config = RecoveryConfig { rate_max, restart, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    assert_eq!(script.cwnd(), 10);
    // At 400 segments in 100 ms.
    script.grow_to(400);
    let left = paced(&mut script, 150);
    assert!(is_even(&left, ms(1)), "{left:?}");
    script.recovery.set_rate_max(None);
    script.after(ms(5));
    let left = paced(&mut script, 100);
    assert!(left[99] - left[0] < ms(40), "{left:?}");
}

#[test]
fn that_there_is_no_bound_makes_nobody_pace() {
    let mut script = Script::new();
    script.recovery.set_rate_max(None);
    let left = paced(&mut script, 10);
    assert_eq!(left[9], left[0], "{left:?}");
    script.recovery.set_rate_max(Some(EIGHT_MBIT));
    let left = paced(&mut script, 10);
    assert!(is_even(&left, ms(5)), "with a bound it does: {left:?}");
}

#[test]
fn the_first_flight_of_an_estimate_is_shaped_too() {
    let (rate_max, start) = (Some(EIGHT_MBIT), Start::Estimated);
    let config = RecoveryConfig { rate_max, start, hystart: false, ..RecoveryConfig::default() };
    let left = paced(&mut Script::with(&config, true), 10);
    assert!(is_even(&left, ms(1)), "{left:?}");
}

#[test]
fn headers_count_where_a_rate_was_said() {
    let config = RecoveryConfig { start: Start::At(EIGHT_MBIT), ..RecoveryConfig::default() };
    let mut script = Script::before_handshake(&config);
    script.recovery.set_overhead(250);
    script.recovery.on_sent(script.syn(), false, script.now);
    script.at(100);
    script.ack(0);
    assert_eq!(script.cwnd(), 162);
    assert!(is_even(&paced(&mut script, 50), Duration::from_micros(1_250)));
}

#[test]
fn a_remembered_rate_is_halved_to_start_with_and_another_path_s_is_not_used() {
    let config = RecoveryConfig { start: Start::Remembered, hystart: false, ..RecoveryConfig::default() };
    let start = |rtt| {
        let mut script = Script::before_handshake(&config);
        script.recovery.remember(EIGHT_MBIT, rtt);
        script.recovery.on_sent(script.syn(), false, script.now);
        script.at(100);
        script.ack(0);
        script
    };
    assert_eq!(start(ms(250)).cwnd(), 10, "the round trip was more than twice as long");
    assert_eq!(start(ms(9)).cwnd(), 10, "or less than a tenth");
    assert_eq!(start(ms(150)).cwnd(), 50, "of the shorter round trip there is half a window");
    assert_eq!(start(ms(60)).cwnd(), 30, "whichever that is");
    let slow = || {
        let mut script = Script::before_handshake(&config);
        script.recovery.remember(Rate::bytes_per_s(10), ms(100));
        script.recovery.on_sent(script.syn(), false, script.now);
        script.at(100);
        script.ack(0);
        script
    };
    let left = paced(&mut slow(), 10);
    assert_eq!(left[9], left[0], "whoever had little to say is no slower than slow start");
    let mut script = start(ms(100));
    assert_eq!((script.cwnd(), script.recovery.info().ssthresh), (50, u32::MAX));
    let left = paced(&mut script, 50);
    assert!(is_even(&left, ms(2)), "{left:?}");
    // Nothing is lost: slow start goes on.
    script.after(ms(100));
    (1..=50).for_each(|upto| _ = script.ack(upto));
    assert_eq!(script.cwnd(), 100);
}

#[test]
fn what_is_lost_of_a_remembered_window_halves_it_whatever_the_algorithm() {
    let config = RecoveryConfig { start: Start::Remembered, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::before_handshake(&config);
    script.recovery.set_sack_permitted(true);
    script.recovery.remember(EIGHT_MBIT, ms(100));
    script.recovery.on_sent(script.syn(), false, script.now);
    script.at(100);
    script.ack(0);
    paced(&mut script, 50);
    script.after(ms(60));
    script.sack(1, &[(2, 50)]);
    // CUBIC would have left 0.7 of 50.
    assert_eq!(script.recovery.info().ssthresh, 25 * MSS);
}

#[test]
fn what_is_lost_two_round_trips_after_a_remembered_start_is_reduced_as_ever() {
    let mut script = remembered(false);
    paced(&mut script, 50);
    script.after(ms(100));
    (1..=50).for_each(|upto| _ = script.ack(upto));
    script.at(310);
    (0..20).for_each(|_| _ = script.send_new());
    script.at(410);
    script.sack(50, &[(51, 70)]);
    assert_eq!(script.recovery.info().ssthresh, 14 * MSS, "0.7 of 20");
}

/// At half of 8 Mbit/s.
fn remembered(pacing: bool) -> Script {
    let start = Start::Remembered;
    let config = RecoveryConfig { start, pacing, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::before_handshake(&config);
    script.recovery.set_sack_permitted(true);
    script.recovery.remember(EIGHT_MBIT, ms(100));
    script.recovery.on_sent(script.syn(), false, script.now);
    script.at(100);
    script.ack(0);
    script
}

#[test]
fn a_remembered_rate_is_no_reason_to_be_faster_than_the_window() {
    let mut script = remembered(false);
    assert!(is_even(&paced(&mut script, 5), ms(2)));
    script.recovery.parts.congestion.window.cwnd = 20 * MSS;
    script.recovery.parts.congestion.window.ssthresh = 20 * MSS;
    // 24 in 100 ms.
    assert!(is_even(&paced(&mut script, 5)[1..], ms(100) / 24));
}

#[test]
fn pacing_is_twice_as_fast_as_the_window_until_that_is_half_of_where_slow_start_ends() {
    let config = RecoveryConfig { pacing: true, hystart: false, ..RecoveryConfig::default() };
    for (ssthresh, in_round_trip) in [(21, 20), (19, 12)] {
        let mut script = Script::with(&config, true);
        script.recovery.parts.congestion.window.ssthresh = ssthresh * MSS;
        assert!(is_even(&paced(&mut script, 10), ms(100) / in_round_trip), "{ssthresh}");
    }
}

#[test]
fn segments_are_ten_microseconds_apart_at_least_or_leave_together_for_a_millisecond() {
    for (target, minimum, at_once) in [(24, 10, 1), (10, 0, 101)] {
        let rate = Rate::of(1_000, Duration::from_micros(target)).unwrap();
        let config = RecoveryConfig { start: Start::At(rate), ..RecoveryConfig::default() };
        let mut script = Script::with(&config, true);
        paced(&mut script, 10);
        assert!(script.recovery.release_time(script.now).is_some(), "the next one waits");
        script.after(ms(12));
        let left = paced(&mut script, 200);
        let together = left.iter().take_while(|at| **at == left[0]).count();
        assert_eq!(together, at_once, "{target} us");
        let intervals = left.windows(2).map(|pair| pair[1] - pair[0]);
        assert_eq!(intervals.min(), Some(Duration::from_micros(minimum)), "{target} us");
    }
}

#[test]
fn the_first_flight_tells_how_fast_the_second_may_be() {
    let config = RecoveryConfig { start: Start::Estimated, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    // The first flight leaves in no time, and comes out of the bottleneck a segment each 500 us.
    script.write(10);
    script.after(ms(100));
    for upto in 1..=10 {
        script.ack(upto);
        script.after(Duration::from_micros(500));
    }
    // 16 Mbit/s are 200 segments in 100 ms; a half of that, where slow start has 20.
    let cwnd = script.cwnd();
    assert!((100..=103).contains(&cwnd), "{cwnd}");
    let left = paced(&mut script, 90);
    assert!(left[89] - left[0] >= ms(85), "{left:?}");
}

/// Whoever handles acknowledgments late sees them come at once, and so do the victims of receivers that mean
/// harm: that is not to be believed without bound.
#[test]
fn however_close_its_acknowledgments_come_a_flight_tells_no_more_than_seven_doublings() {
    for start in [Start::Estimated, Start::Remembered] {
        let config = RecoveryConfig { start, hystart: false, ..RecoveryConfig::default() };
        let mut script = Script::before_handshake(&config);
        script.recovery.remember(Rate::bytes_per_s(13_000_000_000), ms(100));
        script.recovery.on_sent(script.syn(), false, script.now);
        script.at(100);
        script.ack(0);
        if start == Start::Estimated {
            script.write(10);
            script.after(ms(100));
            for upto in 1..=10 {
                script.ack(upto);
                script.after(Duration::from_micros(1));
            }
        }
        // Twelve hundred and eighty segments, which slow start has after seven round trips.
        assert!((1_279..=1_290).contains(&script.cwnd()), "{start:?}: {}", script.cwnd());
        let left = paced(&mut script, 1_200);
        let took = left[1_199] - left[0];
        assert!(took >= ms(93) && took <= ms(94), "{start:?}: over the round trip, not {took:?}");
    }
}

#[test]
fn with_a_model_too_a_remembered_rate_is_not_exceeded_in_the_first_round_trip() {
    let (start, algorithm) = (Start::Remembered, Algorithm::Bbr);
    let config = RecoveryConfig { start, algorithm, ..RecoveryConfig::default() };
    let mut script = Script::before_handshake(&config);
    script.recovery.remember(EIGHT_MBIT, ms(100));
    script.recovery.on_sent(script.syn(), false, script.now);
    script.at(100);
    script.ack(0);
    assert_eq!(script.cwnd(), 50);
    let left = paced(&mut script, 50);
    assert!(is_even(&left, ms(2)), "{left:?}");
    // And then the model says how fast: 2.77 times a window in a round trip.
    let left = paced(&mut script, 50);
    assert!(is_even(&left[2..], ms(200) / 277), "{left:?}");
}

#[test]
fn a_first_flight_that_is_too_small_tells_nothing() {
    let config = RecoveryConfig { start: Start::Estimated, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    script.write(3);
    script.after(ms(100));
    (1..=3).for_each(|upto| _ = script.ack(upto));
    assert_eq!(script.cwnd(), 10);
    // The next may.
    let left = paced(&mut script, 10);
    assert_eq!(left[9], left[0]);
    script.after(ms(100));
    for upto in 4..=13 {
        script.ack(upto);
        script.after(Duration::from_micros(500));
    }
    assert!((100..=103).contains(&script.cwnd()), "{}", script.cwnd());
}

#[test]
fn after_a_pause_a_paced_connection_goes_on_at_the_last_rate() {
    let config =
        |restart| RecoveryConfig { pacing: true, restart, hystart: false, ..RecoveryConfig::default() };
    let after_pause = |restart, pause| {
        let mut script = Script::with(&config(restart), true);
        script.grow_to(100);
        script.after(pause);
        let left = paced(&mut script, 8);
        (script, left)
    };
    let (script, _) = after_pause(Restart::SlowStart, ms(2_000));
    assert_eq!(script.cwnd(), 10);
    let (script, left) = after_pause(Restart::LastRate, ms(2_000));
    assert_eq!(script.cwnd(), 160);
    // At the rate of the last round trip, which brought 80; not at twice that of the window, as in slow
    // start.
    assert!(is_even(&left, ms(100) / 80), "{left:?}");
    // Somebody who had little to say before the pause has shown no rate.
    let mut script = Script::with(&config(Restart::LastRate), true);
    for _ in 0..5 {
        script.after(ms(2_000));
        script.write(1);
        script.recovery.on_nothing_to_send();
        script.after(ms(100));
        script.ack(script.next());
    }
    script.after(ms(2_000));
    let left = paced(&mut script, 10);
    assert!(left[9] - left[0] <= ms(100), "{left:?}");
    // RFC 7661, 4.4.3: each five minutes halve it.
    let (script, _) = after_pause(Restart::LastRate, Duration::from_secs(301));
    assert_eq!((script.cwnd(), script.recovery.info().ssthresh), (80, u32::MAX));
    // Slow start goes up to three quarters of what it was, or to where it would have gone anyway.
    for (before, after) in [(100, 120), (150, 150)] {
        let mut script = Script::with(&config(Restart::LastRate), true);
        script.grow_to(100);
        script.recovery.parts.congestion.window.ssthresh = before * MSS;
        script.after(Duration::from_secs(301));
        script.write(1);
        assert_eq!((script.cwnd(), script.recovery.info().ssthresh), (80, after * MSS));
    }
    let (script, _) = after_pause(Restart::LastRate, Duration::from_secs(86_400));
    assert_eq!(script.cwnd(), 10);
}

#[test]
fn who_chooses_how_to_go_on_after_a_pause_paces() {
    let config = RecoveryConfig { restart: Restart::LastRate, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    script.grow_to(100);
    script.after(ms(2_000));
    let left = paced(&mut script, 8);
    assert_eq!(script.cwnd(), 160);
    assert!(is_even(&left, ms(100) / 80), "{left:?}");
}

/// Section 4.1 of the paper: receivers that are slow, or acknowledgments that are held up, acknowledge many
/// segments at once. What they let out leaves at the average rate, not at once.
#[test]
fn an_acknowledgment_of_many_segments_lets_out_no_burst() {
    let config = RecoveryConfig { pacing: true, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    paced(&mut script, 10);
    script.after(ms(100));
    script.ack(10);
    let (cwnd, srtt) = (script.cwnd(), script.recovery.srtt().unwrap());
    assert_eq!(cwnd, 18);
    let left = paced(&mut script, cwnd);
    assert!(is_even(&left, srtt / (2 * cwnd)), "{left:?}");
}

#[test]
fn an_idle_connection_keeps_little_memory() {
    let bytes = size_of::<Recovery>();
    assert!(bytes <= 512, "{bytes}");
    let control: usize = [Algorithm::Cubic, Algorithm::NewReno]
        .map(|algorithm| size_of_val(&*algorithm.start(true, 8, true)))
        .into_iter()
        .max()
        .unwrap();
    assert!(control <= 104, "{control}");
    let mut script = Script::new();
    script.grow_to(200);
    let info = allocation_counter::measure(|| {
        drop(core::mem::replace(
            &mut script.recovery,
            Recovery::new(&Arc::default(), SeqNumber::new(0), 1000),
        ))
    });
    // The new one has HyStart++ still; nothing else differs.
    assert!(info.bytes_current >= 0, "{info:?}");
}

#[test]
fn an_acknowledgment_allocates_nothing() {
    let mut script = Script::new();
    script.grow_to(50);
    script.write(40);
    script.after(ms(100));
    let upto = script.next();
    let info = allocation_counter::measure(|| {
        (1..40).for_each(|arrived| {
            script.recovery.on_ack(&crate::recovery::AckInfo {
                ack: script.segments(upto - 40 + arrived, upto).start,
                sack: &[],
                window_update: false,
                payload: false,
                rtt_echo: None,
                ece: false,
                unsent: false,
                now: script.now,
            });
        });
    });
    assert_eq!(info.count_total, 0);
}
