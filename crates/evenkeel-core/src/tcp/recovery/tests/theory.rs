//! Rates against theory: the response functions of CUBIC and Reno, a full link, equal shares.

use super::link::{Ends, Fortune, MSS, Packet, Path, World};
use crate::tcp::congestion::Algorithm;
use crate::tcp::recovery::RecoveryConfig;
use crate::time::{Duration, Instant};

fn ends(algorithm: Algorithm) -> Ends {
    Ends { config: RecoveryConfig { algorithm, ..RecoveryConfig::default() }, ..Ends::default() }
}

/// The average window in segments when every `period`th packet is lost, over so many losses, from what was acknowledged.
fn average_window(algorithm: Algorithm, rtt: Duration, period: u64, losses: u64) -> f64 {
    // Frequent losses end slow start, so that the window comes from below.
    let beginning = 2_000;
    let fortune = move |packet| match packet {
        Packet::Data { number, .. } if number % (if number < beginning { 100 } else { period }) == 0 => {
            Fortune::Lost
        }
        _ => Fortune::Arrives,
    };
    let path = Path { rtt, segment_time: Duration::ZERO, queue: 0 };
    let run = |losses: u64| {
        let mut world = World::new(path.clone(), ends(algorithm), 1, beginning + period * losses, fortune);
        assert!(world.run(Instant::from_millis(100_000_000)));
        assert_eq!(world.flows[0].recovery.info().timeouts, 0);
        world.now
    };
    let (skipped, whole) = (run(losses / 4), run(losses));
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let segments = (period * (losses - losses / 4)) as f64;
    segments * rtt.as_secs_f64() / whole.since(skipped).as_secs_f64()
}

/// RFC 9438, 5.1: with C = 0.4 and beta = 0.7 the average window is 1.054 (RTT / p)^(3/4). The formula leaves fast convergence out, which costs a lone flow
/// some tenth: a window that is a little smaller than at the last loss is taken for one that gives way.
#[test]
fn cubic_follows_its_response_function() {
    for (rtt_ms, period, losses) in [(100, 10_000, 20), (200, 3_000, 40), (400, 1_000, 60)] {
        let rtt = Duration::from_millis(rtt_ms);
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let expected = 1.054 * (rtt.as_secs_f64() * period as f64).powf(0.75);
        let window = average_window(Algorithm::Cubic, rtt, period, losses);
        let ratio = window / expected;
        assert!(
            (0.8..0.95).contains(&ratio),
            "{window} is {ratio} of {expected} with {rtt_ms} ms and 1/{period}"
        );
    }
}

/// RFC 9438, 5.1: AIMD(1, 0.5) has 1.22 / sqrt(p), and AIMD(9/17, 0.7) the same.
#[test]
fn reno_follows_its_response_function_and_cubic_the_same_on_short_paths() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        for (period, losses) in [(100, 200), (1_000, 60), (3_000, 32)] {
            #[expect(clippy::cast_precision_loss, reason = "thousands")]
            let expected = 1.22 * (period as f64).sqrt();
            let window = average_window(algorithm, Duration::from_millis(5), period, losses);
            assert!(
                (window / expected - 1.0).abs() < 0.15,
                "{algorithm:?}: {window} instead of {expected} with 1/{period}"
            );
        }
    }
}

/// 20 Mbit/s, 40 ms, a queue of one bandwidth-delay product: 400 us for a segment, 100 segments.
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
