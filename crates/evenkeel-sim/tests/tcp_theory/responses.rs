//! The response of each algorithm to losses and marks, the use of the link, and the shares of flows.

use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::recovery::RecoveryState;
use evenkeel_core::time::Duration;
use evenkeel_sim::rng::Ratio;
use evenkeel_sim::tcp::Change;

use crate::flows::{Bottleneck, Flow, THERE};

const RTT: Duration = Duration::from_millis(100);

#[test]
fn bbr_fills_the_link_and_keeps_its_queue_short() {
    for rate_bps in [50_000_000, 100_000_000] {
        let path = Bottleneck::new(rate_bps, RTT);
        for loss in [0, 1] {
            let path = Bottleneck { queue: 2 * path.product(), loss: Ratio::percent(loss), ..path.clone() };
            let mut world = path.with(&[Flow::new(Algorithm::Bbr)], 1);
            world.run(Duration::from_secs(3));
            // One sample is taken each round trip, because in parts of a cycle more is sent than the path
            // carries.
            let (mut used, mut rtts) = (0.0, Vec::new());
            for _ in 0..200 {
                used += world.shares(RTT)[0] / 200.0;
                rtts.push(world.info(0).srtt.unwrap());
            }
            rtts.sort();
            let (mean, most) = (rtts.iter().sum::<Duration>() / 200, rtts[199]);
            let full = world.network.counters(THERE).overflowed;
            let rate = rate_bps / 1_000_000;
            println!("{rate} Mbit/s, {loss} %: {used:.3} used, {mean:?} in the mean, {most:?} at most");
            // The short-term model follows each round trip with a loss, and each loses 1 %: after the 25
            // round trips from probe to probe 0.78 are left, on average 0.88.
            assert!(used > if loss == 0 { 0.93 } else { 0.75 }, "{used}");
            assert!(mean < RTT * 5 / 4, "{mean:?}");
            assert!(most < RTT * 2, "{most:?}");
            assert_eq!(full, 0);
        }
    }
}

/// CUBIC fills the queue, but with 1 % of loss it has nearly nothing.
#[test]
fn bbr_uses_what_cubic_cannot_where_losses_are_no_congestion() {
    let path = Bottleneck { loss: Ratio::percent(1), ..Bottleneck::new(50_000_000, RTT) };
    let used = |algorithm| {
        let mut world = path.with(&[Flow::new(algorithm)], 1);
        world.run(Duration::from_secs(5));
        world.shares(Duration::from_secs(20))[0]
    };
    let (bbr, cubic) = (used(Algorithm::Bbr), used(Algorithm::Cubic));
    println!("of 50 Mbit/s with 1 % of loss: BBR {bbr:.3}, CUBIC {cubic:.3}");
    assert!(bbr > 10.0 * cubic, "{bbr} {cubic}");
}

#[test]
fn two_flows_of_bbr_have_equal_shares() {
    for queue in [100, 400] {
        let flows = [Flow::new(Algorithm::Bbr), Flow::new(Algorithm::Bbr).after(Duration::from_secs(3))];
        let path = Bottleneck { queue, ..Bottleneck::new(50_000_000, Duration::from_millis(40)) };
        let mut world = path.with(&flows, 1);
        world.run(Duration::from_secs(15));
        let shares = world.shares(Duration::from_secs(45));
        println!("queue of {queue}: {shares:.3?}");
        assert!(shares.iter().sum::<f64>() > 0.9, "{shares:?}");
        // This is Jain's index.
        let fairness = shares.iter().sum::<f64>().powi(2) / 2.0 / shares.iter().map(|s| s * s).sum::<f64>();
        assert!(fairness > 0.9, "{shares:?}: {fairness}");
    }
}

#[test]
fn beside_bbr_cubic_is_not_starved_and_beside_cubic_bbr_is_not() {
    for rtt_ms in [20, 40] {
        let mut path = Bottleneck::new(50_000_000, Duration::from_millis(rtt_ms));
        path.queue = path.product() * 3 / 2;
        let flows = [Flow::new(Algorithm::Bbr), Flow::new(Algorithm::Cubic)];
        let mut world = path.with(&flows, 1);
        world.run(Duration::from_secs(15));
        let shares = world.shares(Duration::from_secs(60));
        println!("{rtt_ms} ms: BBR {:.3}, CUBIC {:.3}", shares[0], shares[1]);
        assert!(shares.iter().all(|share| *share > 0.15), "{shares:?}");
        assert!(shares.iter().sum::<f64>() > 0.9, "{shares:?}");
    }
}

/// A congestion signal to a packet.
#[derive(Debug, Clone, Copy)]
enum Signal {
    /// A router marks the packet instead of dropping it (RFC 3168).
    Mark,
    Loss,
}

/// Returns the share of a window that is left after one or two packets were marked or lost and the loss was
/// repaired: the least window in some seconds, divided by the greatest until then.
fn response(algorithm: Algorithm, signal: Signal) -> f64 {
    let flow = Flow { ecn: true, ..Flow::new(algorithm) };
    let path =
        Bottleneck { queue: 2_000, ..Bottleneck::new(20_000_000, Duration::from_millis(40)) }.unbounded();
    let mut world = path.with(&[flow], 1);
    world.run(Duration::from_millis(1_500));
    let before = world.info(0);
    let (begin, end) = match signal {
        Signal::Mark => (Change::Mark(Ratio::new(1, 1)), Change::Mark(Ratio::ZERO)),
        Signal::Loss => (Change::Hole(true), Change::Hole(false)),
    };
    let now = world.network.now();
    world.network.change(now, THERE, begin);
    world.network.change(now + path.packet_time(), THERE, end);
    let (mut most, mut left) = (f64::from(before.cwnd), 1.0_f64);
    for _ in 0..250 {
        world.run(Duration::from_millis(10));
        let info = world.info(0);
        // While a loss is repaired, the window is what the repair needs (RFC 6937).
        if info.state != RecoveryState::Recovery {
            // It grows until the sender learns of the signal.
            most = most.max(info.cwnd.into());
            left = left.min(f64::from(info.cwnd) / most);
        }
    }
    let retransmitted = world.info(0).retransmitted_segments - before.retransmitted_segments;
    assert_eq!(retransmitted > 0, matches!(signal, Signal::Loss), "{algorithm:?}, {signal:?}: {before:?}");
    left
}

/// RFC 5681: 0.5; RFC 9438: 0.7. BBR's model has short-term bounds, which a round with any loss lowers to 0.7
/// while it does not probe (draft-ietf-ccwg-bbr, BBRLossLowerBounds). A mark has this effect here, too.
#[test]
fn a_loss_and_a_mark_reduce_by_what_each_algorithm_says() {
    for (algorithm, expected) in [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7), (Algorithm::Bbr, 0.7)] {
        for signal in [Signal::Loss, Signal::Mark] {
            let response = response(algorithm, signal);
            println!("{algorithm:?}: {response:.3} of the window after {signal:?}");
            assert!((response - expected).abs() < 0.06, "{algorithm:?} after {signal:?}: {response}");
        }
    }
}

/// Returns the packets of a window for losses or marks of rate p. Reno: Mathis et al., 1997. CUBIC: RFC 9438,
/// 5.1, or Reno's value if that is more (4.3).
fn window_in_theory(algorithm: Algorithm, p: f64, rtt: Duration) -> f64 {
    let reno = 1.22 / p.sqrt();
    match algorithm {
        Algorithm::Cubic => reno.max(1.054 * (rtt.as_secs_f64() / p).powf(0.75)),
        _ => reno,
    }
}

/// Returns the throughput of a flow, as a share of the theoretical one.
fn share_of_theory(algorithm: Algorithm, signal: Signal, rtt: Duration, every: u32) -> f64 {
    let mut path = Bottleneck::new(100_000_000, rtt);
    path.queue = 1_000;
    let rate = Ratio::new(1, every);
    if matches!(signal, Signal::Loss) {
        path.loss = rate;
    }
    let mut world = path.with(&[Flow { ecn: true, ..Flow::new(algorithm) }], 3);
    if matches!(signal, Signal::Mark) {
        world.network.change(world.network.now(), THERE, Change::Mark(rate));
    }
    world.run(Duration::from_secs(10));
    // There are some hundred of them.
    let window = window_in_theory(algorithm, 1.0 / f64::from(every), rtt);
    let time = rtt.mul_f64(200.0 * f64::from(every) / window);
    let got = world.shares(time)[0] * rtt.as_secs_f64() / path.packet_time().as_secs_f64();
    got / window
}

#[test]
fn windows_obey_their_laws_by_losses_and_by_marks() {
    for (algorithm, rtt_ms, every) in [
        (Algorithm::NewReno, 40, 100),
        (Algorithm::NewReno, 100, 1_000),
        // CUBIC behaves like Reno for the first, and not for the second.
        (Algorithm::Cubic, 40, 100),
        (Algorithm::Cubic, 200, 2_000),
    ] {
        for signal in [Signal::Loss, Signal::Mark] {
            let share = share_of_theory(algorithm, signal, Duration::from_millis(rtt_ms), every);
            println!("{algorithm:?}, {signal:?} of one in {every}, {rtt_ms} ms: {share:.2} of theory");
            assert!((0.7..1.4).contains(&share), "{algorithm:?}, {signal:?}, one in {every}: {share}");
        }
    }
}

#[test]
fn a_model_does_not_have_to_obey_them() {
    let share = share_of_theory(Algorithm::NewReno, Signal::Loss, Duration::from_millis(40), 100);
    let model = share_of_theory(Algorithm::Bbr, Signal::Loss, Duration::from_millis(40), 100);
    println!("BBR, one lost in 100: {model:.1} of Reno's theory, Reno {share:.2}");
    assert!(model > 10.0 * share);
}

/// Paced flows, with some packets far apart, lose a little to unpaced ones: a burst finds room or not
/// (Aggarwal, Savage and Anderson, "Understanding the performance of TCP pacing", 2000). They are not
/// starved.
#[test]
fn beside_flows_that_are_not_paced_those_that_are_have_their_share() {
    let mut paced = Flow::new(Algorithm::Cubic);
    paced.recovery.pacing = true;
    let path = Bottleneck::new(50_000_000, Duration::from_millis(20));
    let flows = [paced.clone(), Flow::new(Algorithm::Cubic), paced, Flow::new(Algorithm::Cubic)];
    let mut world = path.with(&flows, 1);
    world.run(Duration::from_secs(5));
    let shares = world.shares(Duration::from_secs(120));
    println!("paced {:.3} {:.3}, not {:.3} {:.3}", shares[0], shares[2], shares[1], shares[3]);
    assert!(shares.iter().sum::<f64>() > 0.95, "{shares:?}");
    let paced = (shares[0] + shares[2]) / shares.iter().sum::<f64>();
    assert!((0.25..0.6).contains(&paced), "{shares:?}");
}
