//! Windows of NewReno and CUBIC: the bottleneck is never idle, flows share it, and a loss costs a round trip.

use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::recovery::RecoveryInfo;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::tcp::Change;

use crate::flows::{Bottleneck, Flow, PAYLOAD, THERE};

fn algorithms() -> [Algorithm; 2] {
    [Algorithm::NewReno, Algorithm::Cubic]
}

#[test]
fn the_bottleneck_is_never_idle() {
    let path = Bottleneck::new(20_000_000, Duration::from_millis(50));
    for algorithm in algorithms() {
        for flows in [1, 2, 4, 16] {
            let mut world = path.with(&Flow::new(algorithm).times(flows, Duration::from_millis(200)), 1);
            // Slow start is over by then.
            world.run(Duration::from_secs(5));
            let used: f64 = world.shares(Duration::from_secs(20)).iter().sum();
            let full = world.network.counters(THERE).overflowed;
            println!("{algorithm:?}, {flows} flows: {used:.3} of the bottleneck, {full} dropped");
            assert!(used > 0.95, "{algorithm:?}, {flows} flows use {used}");
            assert!(full > 0, "the queue was full now and then");
        }
    }
}

/// Slow start doubles the window with every round trip, and the receiver's window has to stay ahead of it:
/// ten segments are 500 after six of them.
#[test]
fn a_long_path_is_full_after_a_dozen_round_trips() {
    for (rate_bps, rtt_ms) in [(100_000_000, 60), (40_000_000, 200)] {
        let path = Bottleneck::new(rate_bps, Duration::from_millis(rtt_ms));
        let mut world = path.with(&[Flow::new(Algorithm::Cubic)], 1);
        world.run(path.rtt * 12);
        let used = world.shares(Duration::from_secs(3))[0];
        println!("{} segments, {rtt_ms} ms: {used:.3} of the path", path.product());
        assert!(used > 0.9, "{used}");
    }
}

/// Returns the worst share of a flow. A full queue drops a segment or two, so one flow or two reduce their
/// windows at random. The time until that evens out depends on the number of reductions. A flow with its
/// share reduces its window once in w / 2 round trips (Reno). Here w is 2 B / n for n flows that share B, the
/// bandwidth-delay product, and the round trip is twice that without a queue. In a model without packets the
/// worst of 16 shares is 14 % off after 200 reductions of each flow, and 8 % after 600. If four flows share
/// 166 segments at 50 ms, that is 340 s (6 %); here 1000 reductions take less than two minutes.
fn worst_share(flow: &Flow, flows: u32) -> f64 {
    let path = Bottleneck::new(6_000_000 * u64::from(flows), Duration::from_millis(10));
    let reduction = path.rtt * 2 * path.product() as u32 / flows;
    let time = reduction * 1_000;
    let mut world = path.with(&flow.times(flows, Duration::from_millis(100)), 1);
    world.run(Duration::from_secs(3));
    let got = world.shares(time);
    let fair = got.iter().sum::<f64>() / f64::from(flows);
    got.iter().map(|share| (share / fair - 1.0).abs()).fold(0.0, f64::max)
}

/// More flows take longer: most of the time is for the largest number.
fn flows_share_equally(flow: &Flow, numbers: &[u32]) {
    let paced = if flow.recovery.pacing { "paced " } else { "" };
    for &flows in numbers {
        let worst = worst_share(flow, flows);
        assert!(worst < 0.1, "{:?}, {flows} {paced}flows: {worst}", flow.recovery.algorithm);
    }
}

#[test]
fn equal_flows_of_new_reno_have_equal_shares() {
    flows_share_equally(&Flow::new(Algorithm::NewReno), &[2, 4]);
}

#[test]
fn equal_flows_of_cubic_have_equal_shares() {
    flows_share_equally(&Flow::new(Algorithm::Cubic), &[2, 4]);
}

#[test]
fn equal_flows_that_are_paced_have_equal_shares() {
    for algorithm in algorithms() {
        let mut flow = Flow::new(algorithm);
        flow.recovery.pacing = true;
        flows_share_equally(&flow, &[2, 4]);
    }
}

#[test]
fn many_equal_flows_have_equal_shares() {
    if evenkeel_skip::is_long_or_skip("many_equal_flows_have_equal_shares") {
        for algorithm in algorithms() {
            let mut flow = Flow::new(algorithm);
            flows_share_equally(&flow, &[8, 16]);
            flow.recovery.pacing = true;
            flows_share_equally(&flow, &[8]);
        }
    }
}

/// Runs one flow and drops everything for `hole`, from `after` on. Returns the longest time in which the
/// receiver could read nothing, and the sender's information.
fn longest_pause(rtt: Duration, hole: Duration, after: Duration) -> (Duration, RecoveryInfo) {
    let mut path = Bottleneck::new(100_000_000, rtt);
    // The receiver's window nearly fills the path, so no other segment is lost.
    path.window[1] = path.product() * PAYLOAD as usize * 9 / 10;
    let mut world = path.with(&[Flow::new(Algorithm::Cubic)], 1);
    let at = Instant::from_millis(1_600) + after;
    world.network.change(at, THERE, Change::Hole(true));
    world.network.change(at + hole, THERE, Change::Hole(false));
    let (mut longest, mut since) = (Duration::ZERO, at);
    let mut read = None;
    while world.network.now() < at + rtt * 8 {
        world.run(Duration::from_micros(200));
        if read.replace(world.flows.read.clone()) != Some(world.flows.read.clone()) {
            let until = world.network.now();
            longest = longest.max(until.since(since.max(at)));
            since = until;
        }
    }
    (longest, world.info(0))
}

/// A lost segment is retransmitted as soon as three later ones have arrived (RFC 8985, 6.2, step 4: nothing
/// was ever out of order). So the user reads the data one round trip later. This holds for one lost segment,
/// for some, and for half a window.
#[test]
fn what_is_lost_comes_a_round_trip_later() {
    for rtt_ms in [20, 60] {
        let rtt = Duration::from_millis(rtt_ms);
        for (hole, least, most) in [(Duration::from_micros(300), 1, 6), (rtt / 20, 5, 60), (rtt / 3, 20, 400)]
        {
            // The short one may find no segment to destroy.
            let mut tries = (0..10).map(|n| longest_pause(rtt, hole, rtt * n / 10));
            let found = tries.find(|(_, recovery)| recovery.retransmitted_segments > 0);
            let (pause, recovery) = found.expect("something is lost");
            let again = recovery.retransmitted_segments;
            println!(
                "{rtt_ms} ms, {again} segments lost: {:.3} round trips",
                pause.as_secs_f64() / rtt.as_secs_f64()
            );
            assert!((least..=most).contains(&again), "{recovery:?}");
            assert_eq!(
                (recovery.timeouts, recovery.probes, recovery.fast_recoveries),
                (0, 0, 1),
                "{recovery:?}"
            );
            assert!(
                pause > rtt && pause < hole + rtt * 11 / 10 + Duration::from_millis(3),
                "{pause:?}, {recovery:?}"
            );
        }
    }
}
