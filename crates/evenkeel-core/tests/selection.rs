//! The work item that runs next does not depend on the number of calls of [`Host::peek`].
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::id::InterfaceId;
use evenkeel_core::interface::Interface;
use evenkeel_core::poll::CycleLimit;
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address};

const FRAMES: usize = 40;

/// Creates a host with two interfaces, each with a full ring, and two programs that compute.
fn flooded(config: Config) -> (Host, Vec<End>) {
    let mut host = Host::new(Config { batch_pkts: 1, ..config }).unwrap();
    let mut wires = Vec::new();
    for number in 0..2 {
        let demultiplexes = host.config().architecture == Architecture::NiLrp;
        let (mut wire, end) = pair(
            Options::new("wire", 1),
            Options { ring_pkts: 64, demultiplexes, ..Options::new("host", 2) },
        );
        let address = IpAddress::Ipv4(Ipv4Address::new(10, 0, number, 2));
        host.add_interface(Box::new(end), &[IpCidr::new(address, 24)], Instant::ZERO).unwrap();
        wire.attach(&mut Pool::with_limit(1024)).unwrap();
        wires.push(wire);
    }
    for (number, wire) in (0..).zip(&mut wires) {
        let frame = udp_to(HOST_MAC, Ipv4Address::new(10, 0, number, 2), 7, b"x");
        assert_eq!((0..FRAMES).filter(|_| wire.send(&frame)).count(), FRAMES);
        wire.flush();
    }
    for name in ["one", "other"] {
        host.spawn(name, 0, Box::new(Spinner));
    }
    (host, wires)
}

/// A record of the work items that ran: the process, and the frames taken from each interface until then.
type Run = Vec<(Option<ProcessId>, [u64; 2])>;

/// Runs a host for a number of work items, with `looks` calls of [`Host::peek`] before each.
fn run(config: Config, looks: usize) -> Run {
    let (mut host, _wires) = flooded(config);
    let mut now = Instant::ZERO;
    let mut runs = Vec::new();
    for _ in 0..400 {
        for _ in 0..looks {
            let _ = host.peek(now);
        }
        let Some(ran) = host.turn(now) else {
            host.halt(now);
            now = host.next_deadline().min(now + Duration::from_millis(1));
            continue;
        };
        now += UNIT + host.work().compute * 1_000;
        host.charge(&ran, UNIT);
        host.finish(&ran, now);
        let received = [0, 1].map(|number| host.traffic(InterfaceId(number)).unwrap().received);
        runs.push((ran.process, received));
    }
    runs
}

#[test]
fn interfaces_take_turns_however_often_one_looks() {
    for looks in [0, 1, 3] {
        let runs = run(Config::of(Architecture::Eager), looks);
        let mut order = Vec::new();
        let mut before = [0, 0];
        for (_, received) in runs {
            let from = |n: usize| received[n] > before[n];
            order.extend((0..2).filter(|&n| from(n)));
            before = received;
        }
        assert_eq!(order.len(), 2 * FRAMES, "looks: {looks}");
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]), "looks: {looks}, order: {order:?}");
    }
}

#[test]
fn nothing_that_runs_depends_on_how_often_one_looks() {
    let plain = Architecture::ALL.map(Config::of);
    let limit = CycleLimit { percent: 25, period: Duration::from_millis(1) };
    let clocked = |architecture| {
        let period = Some(Duration::from_micros(30));
        Config::of(architecture).with_paper_policies(|a| a.clocked_interrupts = period)
    };
    let more = [
        clocked(Architecture::Eager),
        clocked(Architecture::SoftLrp),
        Config { cycle_limit: Some(limit), ..Config::of(Architecture::Polled) },
        Config { cycle_limit: Some(limit), ..Config::of(Architecture::Eager) }
            .with_paper_policies(|a| a.limit_interrupts = true),
        Config { scheduler: evenkeel_core::Scheduling::DecayUsage, ..Config::of(Architecture::SoftLrp) },
    ];
    for config in plain.into_iter().chain(more) {
        let once = run(config.clone(), 0);
        assert!(once.len() > 50);
        assert_eq!(once, run(config.clone(), 1), "{config:?}");
        assert_eq!(once, run(config.clone(), 7), "{config:?}");
    }
}
