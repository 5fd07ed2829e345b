//! Rates against theory: the response functions of CUBIC and Reno, a full link, equal shares.

use super::link::{Ends, Fortune, MSS, Packet, Path, World};
use crate::congestion::Algorithm;
use crate::random::Random;
use crate::recovery::RecoveryConfig;
use crate::time::{Duration, Instant};

fn ends(algorithm: Algorithm) -> Ends {
    Ends { config: RecoveryConfig { algorithm, ..RecoveryConfig::default() }, ..Ends::default() }
}

/// Returns ends with the settings that RFC 9438, 4.7 wants for a flow that is alone.
fn alone(algorithm: Algorithm) -> Ends {
    let config =
        RecoveryConfig { algorithm, hystart: false, fast_convergence: false, ..RecoveryConfig::default() };
    Ends { config, ..Ends::default() }
}

/// Returns the average window in segments, from the data acknowledged after the first quarter. `is_lost` says
/// whether the packet of that number is.
fn average_window(
    ends: &Ends,
    rtt: Duration,
    segments: u64,
    is_lost: impl Fn() -> Box<dyn FnMut(u64) -> bool>,
) -> f64 {
    let path = Path { rtt, segment_time: Duration::ZERO, queue: 0 };
    let run = |segments: u64| {
        let mut is_lost = is_lost();
        let fortune = move |packet| match packet {
            Packet::Data { number, .. } if is_lost(number) => Fortune::Lost,
            _ => Fortune::Arrives,
        };
        let mut world = World::new(path.clone(), ends.clone(), 1, segments, fortune);
        assert!(world.run(Instant::from_millis(100_000_000)));
        assert_eq!(world.flows[0].recovery.info().timeouts, 0);
        world.now
    };
    let (skipped, whole) = (run(segments / 4), run(segments));
    float(segments - segments / 4) * rtt.as_secs_f64() / whole.since(skipped).as_secs_f64()
}

/// Returns a function that loses each packet with a probability of 1 in `period`, independently of others.
fn one_of(period: u64) -> Box<dyn FnMut(u64) -> bool> {
    let mut random = Random::new(7);
    Box::new(move |_| random.next().is_multiple_of(period))
}

#[expect(clippy::cast_precision_loss, reason = "millions")]
fn float(count: u64) -> f64 {
    count as f64
}

fn assert_near(what: &str, window: f64, expected: f64, tolerance: f64) {
    let ratio = window / expected;
    println!("{what}: {window:.1} segments, {ratio:.3} of {expected:.1}");
    assert!((ratio - 1.0).abs() < tolerance, "{what}: {window} is {ratio} of {expected}");
}

/// RFC 9438, 5: "with a deterministic loss model where the number of packets between two successive packet
/// losses is always 1/p", C = 0.4 and beta = 0.7, the average window is 1.054 (RTT / p)^(3/4).
///
/// That is where the window is the same at every loss. A flow that is elsewhere takes very long to get there:
/// around its last maximum the cubic function is flat, so that one whose windows are a fifth too large loses
/// 0.24 % of that with each loss, and one whose windows are too small gains as slowly. So it begins there.
/// And it stays there without fast convergence only, which takes a window that is a byte smaller for one
/// that shrinks, and goes down to 85 %.
#[test]
fn cubic_follows_its_response_function() {
    for (rtt_ms, period, losses) in [(100, 10_000, 12), (200, 3_000, 30), (400, 1_000, 60)] {
        let rtt = Duration::from_millis(rtt_ms);
        let expected = 1.054 * (rtt.as_secs_f64() * float(period)).powf(0.75);
        // The average is 1 - 0.3 / 4 of the largest; in slow start the window is ten segments more than were
        // sent before the lost one.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "hundreds")]
        let first = (expected / 0.925) as u64 - 10;
        let is_lost = move |number: u64| number >= first && (number - first).is_multiple_of(period);
        let window = average_window(&alone(Algorithm::Cubic), rtt, period * losses, || Box::new(is_lost));
        assert_near(&format!("CUBIC, {rtt_ms} ms, every {period}th"), window, expected, 0.1);
    }
}

/// Random losses bring it there from anywhere: 1.3004 (RTT / p)^(3/4) (Poojary and Sharma, "Analysis of
/// multiple flows using different high speed TCP protocols on a general network", 2016). Fast convergence
/// takes a window that is smaller by chance for one that shrinks: of the same equations without packets, with
/// and without it, the averages are as 1.18 to 1.28.
#[test]
fn cubic_follows_its_response_function_when_losses_are_random() {
    for (rtt_ms, period, losses) in [(100, 5_000, 150), (200, 2_000, 300), (400, 1_000, 400)] {
        let rtt = Duration::from_millis(rtt_ms);
        let expected = 1.3004 * (rtt.as_secs_f64() * float(period)).powf(0.75);
        let is_lost = || one_of(period);
        for (ends, factor) in [(alone(Algorithm::Cubic), 1.0), (ends(Algorithm::Cubic), 1.18 / 1.28)] {
            let window = average_window(&ends, rtt, period * losses, is_lost);
            let what = format!("CUBIC, {rtt_ms} ms, one of {period}, {}", ends.config.fast_convergence);
            assert_near(&what, window, expected * factor, 0.1);
        }
    }
}

/// Mathis et al., 1997: AIMD(1, 0.5) has 1.22 / sqrt(p); RFC 9438, 5.1: AIMD(9/17, 0.7) the same. The formula
/// knows no round trip of recovery and no windows between two segments, and so is too high by one or two
/// segments.
#[test]
fn reno_follows_its_response_function_and_cubic_the_same_on_short_paths() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        for (period, losses) in [(100, 200), (1_000, 60), (3_000, 32), (10_000, 12)] {
            let expected = 1.22 * float(period).sqrt();
            // Frequent losses end slow start, so that the window comes from below.
            let is_lost = move |number: u64| number.is_multiple_of(if number < 2_000 { 100 } else { period });
            let (rtt, ends) = (Duration::from_millis(2), alone(algorithm));
            let window = average_window(&ends, rtt, 2_000 + period * losses, || Box::new(is_lost));
            assert_near(&format!("{algorithm:?}, every {period}th"), window, expected, 2.0 / expected);
        }
    }
}

/// Ott, Kemperman and Mathis, 1996: with random losses the average over time is 1.31 / sqrt(p).
#[test]
fn reno_follows_its_response_function_when_losses_are_random() {
    for (period, losses) in [(400, 600), (3_000, 300)] {
        let is_lost = || one_of(period);
        let (rtt, ends) = (Duration::from_millis(20), alone(Algorithm::NewReno));
        let window = average_window(&ends, rtt, period * losses, is_lost);
        assert_near(&format!("Reno, one of {period}"), window, 1.31 * float(period).sqrt(), 0.1);
    }
}

/// Returns a path of 20 Mbit/s and 40 ms with a queue of one bandwidth-delay product: 400 µs for a
/// segment, 100 segments.
fn bottleneck() -> Path {
    Path { rtt: Duration::from_millis(40), segment_time: Duration::from_micros(400), queue: 100 }
}

#[test]
fn one_flow_fills_the_link() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut world = World::new(bottleneck(), ends(algorithm), 1, 1_000_000, |_| Fortune::Arrives);
        world.run(Instant::from_millis(30_000));
        let capacity = 30_000_000 / 400 * u64::from(MSS);
        let acked = world.acked()[0];
        assert!(acked > capacity * 95 / 100, "{algorithm:?}: {acked} of {capacity}");
        assert_eq!(world.flows[0].recovery.info().timeouts, 0);
        assert!(world.overflows > 0, "the queue was full now and then");
    }
}

#[test]
fn equal_flows_have_equal_shares() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut world = World::new(bottleneck(), ends(algorithm), 4, 1_000_000, |_| Fortune::Arrives);
        world.run(Instant::from_millis(60_000));
        let before = world.acked();
        world.run(Instant::from_millis(400_000));
        let shares: Vec<u64> =
            world.acked().iter().zip(before).map(|(after, before)| after - before).collect();
        let mean = shares.iter().sum::<u64>() / 4;
        assert!(shares.iter().all(|share| share.abs_diff(mean) * 10 < mean), "{algorithm:?}: {shares:?}");
    }
}
