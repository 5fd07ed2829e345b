//! Tests that the examples work as described.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_soft_timers::{Options, SoftClock};

#[path = "../examples/paced_udp.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod paced_udp;

#[test]
fn paced_datagrams_are_never_closer_than_half_the_interval() {
    const INTERVAL: u64 = 20_000;
    let clock = SoftClock::start(Options::default()).unwrap();
    let (times, _) = paced_udp::paced(&clock, INTERVAL, 200).unwrap();
    assert_eq!(times.len(), 200);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] > INTERVAL / 2), "{times:?}");
}
