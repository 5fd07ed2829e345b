//! Network polling by a soft event: at an interval that adapts while the core is busy, and not at all while
//! it is idle.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use evenkeel_core::deadline::Deadline;
use evenkeel_core::host::{Config, Level};
use evenkeel_core::poll::NetworkPolling;
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::time::{Duration, Instant};

const QUOTAS: [u32; 5] = [1, 2, 5, 10, 15];

fn polls(architecture: Architecture, device_work: DeviceWork, quota: u32) -> Config {
    let config = Config { device_work, ..Config::of(architecture) };
    config.with_paper_policies(|a| a.network_polling = Some(NetworkPolling::new(quota)))
}

/// Returns every method by which the host takes frames from rings.
fn ways(quota: u32) -> [Config; 5] {
    [
        polls(Architecture::Eager, DeviceWork::Interrupt, quota),
        polls(Architecture::EarlyDemux, DeviceWork::Interrupt, quota),
        polls(Architecture::Polled, DeviceWork::Interrupt, quota),
        polls(Architecture::Polled, DeviceWork::Polled, quota),
        polls(Architecture::SoftLrp, DeviceWork::Polled, quota),
    ]
}

/// Creates a host with a sink and, if it is to be busy, a program that computes all the time.
fn bench(config: Config, busy: bool) -> (Bench, std::sync::Arc<Seen>) {
    let mut bench = Bench::new(config);
    let (sink, seen) = Sink::new(9);
    bench.host.spawn("sink", -20, Box::new(sink));
    bench.settle();
    bench.run(Duration::from_secs(30));
    bench.sent();
    if busy {
        bench.host.spawn("spinner", 0, Box::new(Spinner));
    }
    (bench, seen)
}

/// Sends a frame every so often. Returns how many of them an interrupt has found on average.
fn found_per_interrupt(bench: &mut Bench, every: Duration, frames: u64) -> f64 {
    let interrupts = bench.host.interrupts();
    for _ in 0..frames {
        bench.send(&[udp(9, b"in")]);
        bench.run(every);
    }
    frames as f64 / (bench.host.interrupts() - interrupts) as f64
}

#[test]
fn a_poll_of_a_busy_core_finds_the_quota_on_average_at_constant_and_at_stepped_load() {
    for quota in QUOTAS {
        for config in ways(quota) {
            let way = (config.architecture, config.device_work);
            let (mut bench, seen) = bench(config, true);
            let mut sent = 0;
            for every in [70, 40, 90].map(Duration::from_micros) {
                found_per_interrupt(&mut bench, every, 150);
                let found = found_per_interrupt(&mut bench, every, 300);
                sent += 450;
                let most = Duration::from_millis(1).as_secs_f64() / every.as_secs_f64();
                let expected = f64::from(quota).min(most);
                // A poll that finds nothing does not interrupt, and does not count here.
                let least = 0.8 * expected;
                assert!((least..1.35 * expected).contains(&found), "{way:?}, {quota} at {every:?}: {found}");
            }
            bench.run(Duration::from_millis(2));
            assert_eq!(seen.count(), sent, "{way:?}: nothing is lost");
        }
    }
}

#[test]
fn a_frame_waits_for_its_poll_no_longer_than_the_longest_interval() {
    for config in ways(15) {
        let way = (config.architecture, config.device_work);
        let (mut bench, seen) = bench(config, true);
        for n in 1..=50 {
            bench.send(&[udp(9, b"in")]);
            bench.run(Duration::from_millis(1) + UNIT * 60);
            assert_eq!(seen.count(), n, "{way:?}");
            bench.run(UNIT * (37 * n as u32));
        }
    }
}

#[test]
fn an_idle_core_interrupts_at_once_and_waits_for_no_poll() {
    for config in ways(15) {
        let way = (config.architecture, config.device_work);
        let (mut bench, seen) = bench(config, false);
        for n in 1..=20 {
            assert_eq!(bench.host.next_deadline(), Instant::NEVER, "{way:?}");
            let before = bench.now;
            bench.send(&[udp(9, b"in")]);
            assert_eq!(bench.host.peek(bench.now).map(|next| next.level), Some(Level::Interrupt), "{way:?}");
            bench.settle();
            assert_eq!(seen.count(), n, "{way:?}");
            // A few units, and no poll before that.
            assert!(bench.now.since(before) < Duration::from_micros(10), "{way:?}");
            assert!(!bench.host.deadlines().any(|(who, _, _)| who == Deadline::ClockedInterrupts));
        }
    }
}

/// A frame that arrives while the core is busy is found at once when the core becomes idle: the interrupt is
/// enabled again, and does not report frames that arrived before.
#[test]
fn what_has_come_since_the_last_poll_is_found_when_the_core_becomes_idle() {
    for config in ways(15) {
        let way = (config.architecture, config.device_work);
        let (mut bench, seen) = bench(config, false);
        bench.send(&[udp(9, b"one")]);
        while bench.host.in_rings() > 0 {
            assert!(bench.unit(), "{way:?}");
        }
        // The core is busy with that; the wire rings no bell, as nobody has armed it.
        bench.send(&[udp(9, b"two")]);
        let interrupts = bench.host.interrupts();
        let peeked = loop {
            let next = bench.host.peek(bench.now);
            if next.is_none_or(|next| next.level == Level::Interrupt) {
                break next;
            }
            bench.unit();
        };
        assert!(peeked.is_some(), "{way:?}: it must not halt");
        bench.settle();
        assert_eq!((seen.count(), bench.host.interrupts() - interrupts), (2, 1), "{way:?}");
    }
}

#[test]
fn a_core_that_halts_is_woken_for_what_comes_then() {
    for config in ways(5) {
        let (mut bench, seen) = bench(config, false);
        for n in 1..=5 {
            // Halting arms the rings: what comes rings the bell.
            assert!(bench.host.halt(bench.now));
            bench.send(&[udp(9, b"in")]);
            assert!(!bench.host.halt(bench.now), "it is seen");
            bench.settle();
            assert_eq!(seen.count(), n);
        }
    }
}
