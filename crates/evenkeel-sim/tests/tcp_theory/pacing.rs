//! Rate-based clocking: times of transfers at known capacity, after a pause, and shaped.

use std::collections::BTreeMap;

use evenkeel_core::tcp::Rate;
use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::recovery::{RecoveryConfig, Restart, Start};
use evenkeel_core::time::Duration;

use crate::flows::{Bottleneck, Flow, PAYLOAD, THERE};

const RTT: Duration = Duration::from_millis(100);

/// Returns a long path with room for `queue` packets.
fn room(rate_bps: u64, queue: usize) -> Bottleneck {
    Bottleneck { queue, ..Bottleneck::new(rate_bps, RTT) }.unbounded()
}

/// Measures the time to send `segments` segments over a path of `rate_bps`, until the last is read. As in the
/// paper, the connection is open, and has carried a little data before: the window of a SYN-ACK is not
/// scaled, so it would limit the data to 64 KiB.
fn time_of(flow: Flow, rate_bps: u64, segments: u64) -> Duration {
    let mut world = room(rate_bps, 2_000).with(&[flow.bytes(100)], 1);
    world.run(RTT * 3);
    let since = world.network.now();
    world.write_more(0, segments * PAYLOAD);
    world.transfer(0, since)
}

/// Aron and Druschel, 5.7 (Tables X and XI): response = RTT + N x packet time at known capacity; here without
/// the half round trip of the request. Slow start takes up to 89 % longer for 100 packets, and hardly longer
/// for very large transfers.
#[test]
fn with_known_capacity_a_transfer_takes_a_way_and_its_packets() {
    for rate_bps in [50_000_000, 100_000_000] {
        let packet = Bottleneck::new(rate_bps, RTT).packet_time();
        for segments in [5, 10, 20, 50, 100, 200, 1_000, 2_000, 10_000] {
            let ideal = RTT / 2 + packet * segments as u32;
            let rate = Rate::bits_per_s(rate_bps);
            let clocked = time_of(Flow::start(Start::At(rate)), rate_bps, segments);
            let slow_start = time_of(Flow::new(Algorithm::Cubic), rate_bps, segments);
            println!(
                "{} Mbit/s, {segments} packets: ideal {:.1} ms, clocked {:.1}, slow start {:.1}: \
                 {:.0} % less",
                rate_bps / 1_000_000,
                ideal.as_secs_f64() * 1e3,
                clocked.as_secs_f64() * 1e3,
                slow_start.as_secs_f64() * 1e3,
                100.0 * (1.0 - clocked.as_secs_f64() / slow_start.as_secs_f64()),
            );
            let off = clocked.as_secs_f64() / ideal.as_secs_f64();
            assert!((0.99..1.02).contains(&off), "{segments} packets: {clocked:?} instead of {ideal:?}");
            assert!(segments <= 10 || slow_start > clocked);
        }
    }
}

/// 5 to 100 packets at known capacity leave at the target interval, and never closer together than the
/// minimum.
#[test]
fn with_known_capacity_packets_leave_as_far_apart_as_they_take() {
    let rate = Rate::bits_per_s(50_000_000);
    let flow = Flow::start(Start::At(rate)).bytes(100);
    let mut world = room(50_000_000, 100).with(&[flow], 1);
    world.run(RTT * 3);
    world.flows.left = Some(BTreeMap::new());
    world.write_more(0, 100 * PAYLOAD);
    world.run(Duration::from_secs(1));
    let left = &world.flows.left.as_ref().unwrap()[&1_000];
    let target = Duration::from_micros(240);
    assert_eq!(left.len(), 100);
    assert!(left.windows(2).all(|pair| pair[1] - pair[0] >= target), "{left:?}");
    assert!(left[99] - left[0] <= target * 100);
}

/// A shaped flow keeps its rate with any window, and its neighbour has the rest.
#[test]
fn a_shaped_flow_leaves_the_rest_to_others() {
    let path = Bottleneck { queue: 100, ..Bottleneck::new(50_000_000, Duration::from_millis(20)) };
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let mut shaped = Flow::new(algorithm);
        shaped.recovery.rate_max = Some(Rate::bits_per_s(10_000_000));
        let flows = [shaped, Flow::new(Algorithm::Cubic)];
        let mut world = path.with(&flows, 1);
        world.run(Duration::from_secs(5));
        let shares = world.shares(Duration::from_secs(20));
        println!("{algorithm:?}, shaped to 0.2: {:.3}; the other {:.3}", shares[0], shares[1]);
        assert!(shares[0] <= 0.201, "{shares:?}");
        assert!(shares.iter().sum::<f64>() > 0.95, "{shares:?}");
    }
}

/// After ten seconds of silence a window leaves neither as a burst nor in slow start.
#[test]
fn a_paced_connection_goes_on_after_a_pause_where_it_was() {
    let time = |restart| {
        let recovery = RecoveryConfig { pacing: true, restart, ..RecoveryConfig::default() };
        let first = 4_000 * PAYLOAD;
        let flow = Flow { recovery, ..Flow::new(Algorithm::Cubic) }.bytes(first);
        let mut world = room(50_000_000, 800).with(&[flow], 1);
        world.run(Duration::from_secs(10));
        assert_eq!(world.flows.read[&1_000], first);
        let (since, before) = (world.network.now(), world.network.counters(THERE).overflowed);
        world.write_more(0, 400 * PAYLOAD);
        let time = world.transfer(0, since);
        (time, world.network.counters(THERE).overflowed - before)
    };
    let ((slow, _), (paced, dropped)) = (time(Restart::SlowStart), time(Restart::LastRate));
    // This is 50 ms, and 400 times 240 us.
    println!("400 packets after a pause: {slow:?} by slow start, {paced:?} at the last rate");
    assert!(paced < Duration::from_millis(190) && slow > Duration::from_millis(450), "{slow:?} {paced:?}");
    assert_eq!(dropped, 0);
}

/// A capacity stays known while the connection is silent, unless a segment was lost at that rate.
#[test]
fn with_known_capacity_a_transfer_after_a_pause_takes_a_way_and_its_packets() {
    let after_pause = |start: u64, queue| {
        let known = Flow::start(Start::At(Rate::bits_per_s(start))).bytes(2_000 * PAYLOAD);
        let mut world = room(50_000_000, queue).with(&[known], 1);
        world.run(Duration::from_secs(60));
        let (since, lost) = (world.network.now(), world.info(0).lost_bytes);
        world.write_more(0, 100 * PAYLOAD);
        (world.transfer(0, since), lost)
    };
    let (time, lost) = after_pause(50_000_000, 1_000);
    println!("100 packets after a pause at known capacity: {time:?}");
    assert!(lost == 0 && (74..75).contains(&time.as_millis()), "{time:?}");
    let (time, lost) = after_pause(100_000_000, 50);
    println!("the same after losses, as less was there than was known: {time:?}");
    assert!(lost > 0 && time > RTT * 2, "{time:?}");
}

/// The estimate is half of the rate of the first flight's acknowledgments, and slow start continues from
/// there.
#[test]
fn an_estimate_of_the_first_flight_saves_round_trips() {
    let slow_start = time_of(Flow::new(Algorithm::Cubic), 50_000_000, 500);
    let estimated = time_of(Flow::start(Start::Estimated), 50_000_000, 500);
    println!("500 packets: {slow_start:?} by slow start, {estimated:?} by an estimate");
    assert!(estimated + RTT < slow_start, "{slow_start:?} {estimated:?}");
}
