//! A router whose interfaces forward by themselves what it has decided about.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::offloading::{Forwards, Shared};
use common::router::*;
use common::*;
use evenkeel_core::host::Config;
use evenkeel_core::offload::OffloadHop;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::{self, Multipath, NeighborState, NextHop, Route, Via};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};

/// Packets after which a destination is handed over.
const PACKETS: u32 = 8;

/// A router, and what its LAN interface forwards.
struct Router {
    bench: Bench,
    lan: Shared,
}

impl Router {
    fn new(config: Config) -> Self {
        let (bench, [lan, _]) = Setup::new(config).offloading_bench();
        let mut router = Self { bench, lan };
        router.bench.settle();
        router
    }

    /// Lets the host forward so many packets to the WAN.
    fn forward(&mut self, packets: u32) {
        for n in 0..packets {
            self.bench.send(&[outwards(n)]);
            self.bench.settle();
        }
        self.bench.sent_wan();
    }

    /// Lets the host forward until the interface does.
    fn hand_over(&mut self) {
        self.forward(PACKETS);
        assert_eq!(self.destinations(), [FAR.into()]);
    }

    fn destinations(&self) -> Vec<IpAddress> {
        self.with(|forwards| forwards.destinations.keys().copied().collect())
    }

    fn with<T>(&self, f: impl FnOnce(&mut Forwards) -> T) -> T {
        f(&mut self.lan.lock().unwrap())
    }

    fn state_of_far(&self) -> NeighborState {
        let mut neighbors = self.bench.host.neighbors(self.bench.now);
        neighbors.find(|neighbor| neighbor.address == FAR.into()).unwrap().state
    }
}

#[test]
fn the_interface_forwards_after_a_few_packets_as_the_host_did() {
    for architecture in Architecture::ALL {
        let mut router = Router::new(Config::of(architecture));
        router.forward(PACKETS - 1);
        assert_eq!(router.destinations(), [], "{architecture}");
        router.forward(1);
        let hop = OffloadHop { number: 0, device: 101, mtu: 1500, to: FAR_MAC, from: WAN_MAC };
        assert_eq!(
            router.with(|lan| lan.destinations.get(&FAR.into()).copied()),
            Some(hop),
            "{architecture}"
        );
        assert_eq!(router.bench.host.ledger().forwarded, u64::from(PACKETS), "{architecture}");
    }
}

/// A change of the router under test.
type Change = fn(&mut Bench);

/// Whatever a decision depends on takes it back when it changes, before the host sleeps.
#[test]
fn every_change_takes_it_back() {
    let changes: [(&str, Change); 6] = [
        ("route", |bench| {
            let elsewhere = IpCidr::new(Ipv4Address::new(203, 0, 113, 0).into(), 24);
            let route = Route { to: elsewhere, via: Via::Link(LAN), metric: 0 };
            bench.host.set_route(route).unwrap();
        }),
        ("address", |bench| {
            let address = IpCidr::new(Ipv4Address::new(203, 0, 113, 1).into(), 24);
            bench.host.add_address(LAN, address, bench.now);
        }),
        ("mtu", |bench| bench.host.set_mtu(WAN, 1000)),
        ("neighbour", |bench| {
            let other = EthernetAddress([2, 0, 0, 0, 0, 77]);
            bench.host.set_neighbor(WAN, FAR.into(), other, bench.now).unwrap();
        }),
        ("no neighbour", |bench| assert!(bench.host.remove_neighbor(WAN, FAR.into(), bench.now))),
        ("screening", |bench| bench.host.require_screening()),
    ];
    for (name, change) in changes {
        let mut router = Router::new(Config::of(Architecture::SoftLrp));
        router.hand_over();
        change(&mut router.bench);
        assert!(router.bench.host.next_deadline() <= router.bench.now, "{name}: the host has work");
        router.bench.settle();
        assert_eq!(router.destinations(), [], "{name}");
        assert_eq!(router.with(|lan| lan.clears), 1, "{name}");
    }
}

/// Neighbours that come, or do not answer a first question, are no reason: a scan would make the host forward
/// everything.
#[test]
fn new_neighbours_take_nothing_back() {
    let mut router = Router::new(Config::of(Architecture::SoftLrp));
    router.hand_over();
    for host in 10..20 {
        let frame = udp_between(PEER, HOST_MAC, Ipv4Address::new(198, 51, 100, host), 7, b"scan");
        router.bench.send(&[frame]);
        router.bench.settle();
    }
    router.bench.send_wan(&[packets::arp(2, FAR_MAC, Ipv4Address::new(198, 51, 100, 10), WAN_HOST)]);
    router.bench.run(Duration::from_secs(10));
    assert_eq!(router.destinations(), [FAR.into()]);
}

#[test]
fn after_a_change_the_host_decides_anew() {
    let mut router = Router::new(Config::of(Architecture::SoftLrp));
    router.hand_over();
    let other = EthernetAddress([2, 0, 0, 0, 0, 77]);
    router.bench.host.set_neighbor(WAN, FAR.into(), other, router.bench.now).unwrap();
    router.bench.settle();
    router.hand_over();
    assert_eq!(router.with(|lan| lan.destinations[&FAR.into()].to), other);
}

#[test]
fn what_depends_on_more_than_the_destination_stays_with_the_host() {
    let strict = stack::Config { reverse_path: true, ..stack::Config::default() };
    let mut router = Router::new(Config { stack: strict, ..Config::of(Architecture::SoftLrp) });
    router.forward(3 * PACKETS);
    assert_eq!(router.destinations(), [], "the source counts");

    let mut router = Router::new(Config::of(Architecture::SoftLrp));
    let hops = [2, 3].map(|n| NextHop {
        interface: WAN,
        gateway: Some(Ipv4Address::new(198, 51, 100, n + 10).into()),
        weight: 1,
    });
    let via = Via::Multipath(Multipath::new(&hops).unwrap());
    let route = Route { to: IpCidr::new(FAR.into(), 32), via, metric: 0 };
    router.bench.host.set_route(route).unwrap();
    router.forward(3 * PACKETS);
    assert_eq!(router.destinations(), [], "the flow counts");

    let mut router = Router::new(Config::of(Architecture::SoftLrp));
    router.bench.host.require_screening();
    router.forward(3 * PACKETS);
    assert_eq!(router.destinations(), [], "each packet is screened");
}

/// A neighbour that only the interface sends to is probed nevertheless, and its new address is found.
#[test]
fn neighbours_are_probed_while_the_interface_sends_to_them() {
    let mut router = Router::new(Config::of(Architecture::SoftLrp));
    assert!(router.bench.host.remove_neighbor(WAN, FAR.into(), router.bench.now));
    let answer = |router: &mut Router| {
        let asked = router.bench.sent_wan().iter().any(|frame| frame[12..14] == [8, 6]);
        if asked {
            router.bench.send_wan(&[packets::arp(2, FAR_MAC, FAR, WAN_HOST)]);
            router.bench.settle();
        }
        asked
    };
    router.bench.send(&[outwards(0)]);
    router.bench.settle();
    assert!(answer(&mut router), "asked at first");
    router.hand_over();
    let mut probes = 0;
    for _ in 0..120 {
        router.with(|lan| lan.packets = (lan.packets.0 + 5, lan.packets.1 + 5));
        router.bench.run(Duration::from_secs(1));
        probes += usize::from(answer(&mut router));
    }
    assert!(probes >= 2, "{probes} probes in two minutes");
    assert_eq!(router.destinations(), [FAR.into()], "answers that confirm change nothing");
    assert_eq!(router.bench.host.untaken(LAN).forwarded, 600);
    // Unused, it is left alone.
    for _ in 0..120 {
        router.bench.run(Duration::from_secs(1));
        router.bench.sent_wan();
    }
    assert_eq!(router.state_of_far(), NeighborState::Stale);
    // It does not answer any more: it is forgotten, and so is the decision.
    router.with(|lan| lan.packets = (1, lan.packets.1 + 1));
    for _ in 0..20 {
        router.bench.run(Duration::from_secs(1));
    }
    assert_eq!(router.destinations(), []);
}
