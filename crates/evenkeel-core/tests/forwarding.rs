//! A host that forwards: what goes in on one side comes out on the other, under every receive architecture.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::router::*;
use common::*;
use evenkeel_core::host::{Config, Level};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::time::Duration;

#[test]
fn every_architecture_forwards_both_ways_unchanged_but_for_the_hop() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        bench.sent();
        bench.sent_wan();
        for n in 0..50 {
            bench.send(&[outwards(n)]);
            bench.send_wan(&[inwards(n)]);
            bench.settle();
            assert_eq!(bench.sent_wan(), [passed_on(&outwards(n), WAN_MAC, FAR_MAC)], "{architecture}");
            assert_eq!(bench.sent(), [passed_on(&inwards(n), HOST_MAC, PEER_MAC)], "{architecture}");
        }
        assert_eq!(bench.host.ledger().forwarded, 100, "{architecture}");
        assert_eq!((bench.host.queued(), bench.host.waiting_to_leave()), (0, 0), "{architecture}");
    }
}

#[test]
fn a_burst_keeps_its_order() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        let frames: Vec<_> = (0..60).map(outwards).collect();
        assert_eq!(bench.send(&frames), 60, "{architecture}");
        bench.settle();
        assert_eq!(bench.numbers_wan(), (0..60).collect::<Vec<_>>(), "{architecture}");
    }
}

#[test]
fn forwarding_happens_at_the_level_that_the_architecture_says() {
    let level = |architecture, device_work| {
        let mut bench = Bench::router(Config { device_work, ..Config::of(architecture) });
        bench.settle();
        bench.units = [0; 5];
        bench.send(&[outwards(0)]);
        bench.settle();
        assert_eq!(bench.numbers_wan(), [0]);
        // The lowest level that ran.
        *Level::ALL.iter().rev().find(|&&l| bench.at(l) > 0).unwrap()
    };
    for device_work in [DeviceWork::Polled, DeviceWork::Interrupt] {
        assert_eq!(level(Architecture::Eager, device_work), Level::SoftInterrupt);
        assert_eq!(level(Architecture::EarlyDemux, device_work), Level::SoftInterrupt);
        assert_eq!(level(Architecture::SoftLrp, device_work), Level::Process);
        assert_eq!(level(Architecture::NiLrp, device_work), Level::Process);
    }
    assert_eq!(level(Architecture::Polled, DeviceWork::Polled), Level::PollingThread);
    assert_eq!(level(Architecture::Polled, DeviceWork::Interrupt), Level::Interrupt);
}

/// Floods one side or the other with a frame a microsecond, and gives what the other way forwarded of one packet every 20 us.
fn beside_a_flood(legacy: [bool; 2], flooded: usize) -> usize {
    let config = Config { batch_pkts: 1, ..Config::of(Architecture::Polled) };
    let mut bench = Setup { legacy, ..Setup::new(config) }.bench();
    bench.settle();
    let mut forwarded = 0;
    for n in 0..500 {
        if flooded == 0 {
            bench.send(&vec![outwards(n); 20]);
            bench.send_wan(&[inwards(n)]);
        } else {
            bench.send_wan(&vec![inwards(n); 20]);
            bench.send(&[outwards(n)]);
        }
        bench.run(Duration::from_micros(20));
        let (lan, wan) = (bench.sent(), bench.sent_wan());
        forwarded += if flooded == 0 { numbers(&lan).len() } else { numbers(&wan).len() };
    }
    forwarded
}

#[test]
fn a_legacy_driver_beside_a_polled_one_forwards_and_can_still_livelock_it() {
    let mut bench = Setup { legacy: [true, false], ..Setup::new(Config::of(Architecture::Polled)) }.bench();
    bench.settle();
    for n in 0..20 {
        bench.send(&[outwards(n)]);
        bench.send_wan(&[inwards(n)]);
        bench.settle();
        bench.sent();
        assert_eq!(bench.numbers_wan(), [n]);
    }
    assert_eq!(bench.host.ledger().forwarded, 40);
    assert!(bench.at(Level::SoftInterrupt) >= 20 && bench.at(Level::PollingThread) >= 20);

    let (polled, legacy) = (beside_a_flood([false, false], 0), beside_a_flood([true, false], 0));
    assert!(polled > 450, "a flooded polled interface leaves the other its turn: {polled}");
    assert!(legacy < 10, "a flooded legacy interface leaves nothing: {legacy}");
    let other = beside_a_flood([true, false], 1);
    assert!(other > 450, "and is not hurt by one that is polled: {other}");
}

/// A transit flood beside a program that computes: the shares of the core that the daemon and the program get, and packets forwarded.
fn transit_flood(architecture: Architecture, forward_nice: i8) -> (f64, f64, u64) {
    let mut bench = Bench::router(Config { forward_nice, batch_pkts: 1, ..Config::of(architecture) });
    let spinner = bench.host.spawn("spinner", 0, Box::new(Spinner));
    bench.settle_some();
    let (daemon, start) = (bench.process("forwardd"), bench.now);
    for n in 0..2_000 {
        bench.send(&vec![outwards(n); 50]);
        bench.run(Duration::from_micros(50));
        bench.sent_wan();
    }
    let share = |process| bench.host.bill(process).unwrap().used.div_duration_f64(bench.now.since(start));
    (share(daemon), share(spinner), bench.host.ledger().forwarded)
}

#[test]
fn a_transit_flood_takes_no_more_than_the_share_of_the_forwarding_daemon() {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        let (daemon, spinner, even) = transit_flood(architecture, 0);
        assert!((daemon - spinner).abs() < 0.05, "{architecture}: {daemon} and {spinner}");
        let (_, _, favoured) = transit_flood(architecture, -10);
        let (_, spared, slighted) = transit_flood(architecture, 10);
        assert!(favoured > even * 5 / 4 && slighted < even * 4 / 5, "{favoured}, {even}, {slighted}");
        assert!(spared > spinner, "{spared} against {spinner}");
    }
}

#[test]
fn forwarded_frames_leave_no_buffer_behind() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        let free = bench.host.pool();
        for n in 0..200 {
            bench.send(&[outwards(n), outwards(n)]);
            bench.send_wan(&[inwards(n)]);
            bench.settle();
            bench.sent();
            bench.sent_wan();
        }
        let (available, capacity) = bench.host.pool();
        // Rings get their buffers back in batches of a quarter of their length.
        assert!(
            capacity == free.1 && free.0.abs_diff(available) <= 3 * 32,
            "{architecture}: {available} of {free:?}"
        );
    }
}
