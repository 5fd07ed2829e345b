//! Fragments under the lazy architectures: later ones that come before the first wait in a channel of their
//! own.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Bench, Sink, Spinner, udp_fragments};
use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::Duration;

/// The receive call that takes the first fragment finds the others: no datagram waits for the clock, or for
/// the core to be idle.
#[test]
fn whoever_takes_the_first_fragment_finds_those_that_came_before_it() {
    let mut bench = Bench::new(Config::of(Architecture::SoftLrp));
    let (sink, seen) = Sink::new(7);
    bench.host.spawn("sink", 0, Box::new(sink));
    bench.settle();
    bench.host.spawn("spinner", 0, Box::new(Spinner));
    for id in 1..=20 {
        let mut fragments = udp_fragments(7, &[5; 64], 24, id);
        fragments.reverse();
        bench.send(&fragments);
        bench.run(Duration::from_micros(200));
        assert_eq!(seen.count(), u64::from(id));
    }
}
