//! Tests that interrupt-driven input livelocks (sections 4 and 6.3).

use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;

use crate::rig::{of, output};

#[test]
fn output_falls_until_nothing_is_left() {
    let out: Vec<u64> =
        [4_000, 7_000, 10_000, 13_000].map(|rate| output(&of(Architecture::Eager), false, rate).out).into();
    assert!(out.windows(2).skip(1).all(|w| w[1] + 500 < w[0]), "{out:?}");
    assert!(out[0] > 3_800, "{out:?}");
    // A packet costs 72 us before it can be dropped.
    assert!(output(&of(Architecture::Eager), false, 16_000).out < 20);
}

#[test]
fn what_interrupts_cannot_process_dies_in_the_ip_queue() {
    let m = output(&of(Architecture::Eager), false, 10_000);
    assert!(m.ip_queue > 6_000 && m.ring == 0 && m.output == 0, "{m:?}");
    let saturated = output(&of(Architecture::Eager), false, 20_000);
    assert!(saturated.ring > 4_000, "until the device stage itself is saturated: {saturated:?}");
}

#[test]
fn with_screening_it_dies_in_the_screening_queue() {
    let m = output(&of(Architecture::Eager), true, 4_000);
    assert!(m.screen > 1_500 && m.ring == 0 && m.ip_queue == 0, "{m:?}");
}

#[test]
fn batching_moves_the_livelock_point_and_does_not_remove_it() {
    let one = of(Architecture::Eager);
    let many = Config { batch_pkts: 16, ..one.clone() };
    let out = |config, rate| output(config, false, rate).out;
    let (one_by_one, in_batches) = (out(&one, 14_000), out(&many, 14_000));
    assert!(in_batches > one_by_one + 300, "{in_batches} against {one_by_one}");
    assert!(out(&many, 30_000) < 20);
}
