//! A router whose interfaces forward by themselves what it has decided about.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::{Arc, Mutex};

use common::offloading::{Forwards, Shared};
use common::router::*;
use common::*;
use evenkeel_core::host::{Config, System};
use evenkeel_core::offload::{Depth, Flow, FlowHits, FlowScope, FlowVerdict, OffloadHop};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::screen::Verdict;
use evenkeel_core::stack::{self, Multipath, NeighborState, NextHop, Route, Via};
use evenkeel_core::system::Screen;
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

    /// Returns the flows of which the LAN interface knows a verdict.
    fn verdicts(&self) -> Vec<(Flow, FlowVerdict)> {
        self.with(|forwards| forwards.verdicts.iter().map(|(flow, verdict)| (*flow, *verdict)).collect())
    }

    fn state_of_far(&self) -> NeighborState {
        let mut neighbors = self.bench.host.neighbors(self.bench.now);
        neighbors.find(|neighbor| neighbor.address == FAR.into()).unwrap().state
    }
}

/// The opinion of a screening process.
#[derive(Debug, Clone, Copy)]
struct Opinion {
    verdict: Verdict,
    /// The account of verdicts that hold for flows; `None` if they hold for packets.
    account: Option<u16>,
    /// The scope that the process announces next.
    scope: Option<FlowScope>,
    ends: bool,
}

/// A screening process, whose opinion the test may change.
#[derive(Debug)]
struct Judge {
    queue: Option<Screen>,
    opinion: Arc<Mutex<Opinion>>,
}

impl Program for Judge {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let queue = *self.queue.get_or_insert_with(|| Screen::open(system, 32).unwrap());
        let mut opinion = self.opinion.lock().unwrap();
        if opinion.ends {
            return Step::Exit;
        }
        if let Some(scope) = opinion.scope.take() {
            queue.set_scope(system, scope).unwrap();
        }
        let judged = queue.decide_with(system, |screened| {
            if let Some(account) = opinion.account.filter(|_| screened.is_due()) {
                screened.settle(account);
            }
            opinion.verdict
        });
        if judged.is_ok() { Step::Again } else { Step::Wait(queue.fd()) }
    }
}

/// All fields of flows.
const EVERYTHING: FlowScope =
    FlowScope { source: Depth::WHOLE, destination: Depth::WHOLE, source_port: true, destination_port: true };

/// Returns a router that screens, and the opinion of its process.
fn screening(verdict: Verdict, scope: FlowScope) -> (Router, Arc<Mutex<Opinion>>) {
    let mut router = Router::new(Config::of(Architecture::SoftLrp));
    let opinion = Opinion { verdict, account: Some(7), scope: Some(scope), ends: false };
    let opinion = Arc::new(Mutex::new(opinion));
    let judge = Judge { queue: None, opinion: Arc::clone(&opinion) };
    router.bench.host.spawn("judge", 0, Box::new(judge));
    router.bench.settle();
    (router, opinion)
}

/// The flow of the packets that tests send.
const FLOW: Flow = Flow {
    source: IpAddress::Ipv4(PEER),
    destination: IpAddress::Ipv4(FAR),
    protocol: 17,
    source_port: 4321,
    destination_port: 7,
};

#[test]
fn verdicts_about_flows_are_handed_over_and_destinations_of_those_that_pass() {
    for (verdict, passes) in [(Verdict::Pass, true), (Verdict::Drop, false)] {
        let (mut router, _) = screening(verdict, EVERYTHING);
        router.forward(PACKETS - 1);
        assert_eq!((router.verdicts(), router.destinations()), (vec![], vec![]));
        router.forward(1);
        assert_eq!(router.verdicts(), [(FLOW, FlowVerdict { passes, account: 7 })]);
        router.forward(PACKETS);
        assert_eq!(router.destinations().len(), usize::from(passes), "{verdict:?}");
    }
}

/// Packets that the process does not distinguish are of one flow, also if each has a port of its own.
#[test]
fn flows_leave_out_what_the_process_does_not_distinguish() {
    let scope = FlowScope { source: Depth { v4: 8, v6: 0 }, destination_port: true, ..FlowScope::default() };
    let (mut router, _) = screening(Verdict::Drop, scope);
    for n in 0..PACKETS as u8 {
        let from = Ipv4Address::new(PEER.octets()[0], n, n, n);
        let to = Ipv4Address::new(198, 51, 100, 10 + n);
        router.bench.send(&[udp_between(from, HOST_MAC, to, 7, b"")]);
        router.bench.settle();
    }
    let source = Ipv4Address::new(PEER.octets()[0], 0, 0, 0).into();
    let flow = Flow { source, destination: Ipv4Address::UNSPECIFIED.into(), source_port: 0, ..FLOW };
    assert_eq!(router.verdicts(), [(flow, FlowVerdict { passes: false, account: 7 })]);
}

#[test]
fn verdicts_about_packets_stay_with_the_host() {
    let stays = |verdict, change: fn(&mut Opinion), what: &str| {
        let (mut router, opinion) = screening(verdict, EVERYTHING);
        change(&mut opinion.lock().unwrap());
        router.forward(3 * PACKETS);
        assert_eq!((router.verdicts(), router.destinations()), (vec![], vec![]), "{what}");
    };
    stays(Verdict::Pass, |opinion| opinion.account = None, "the process says so");
    for verdict in [Verdict::Reject, Verdict::Unreachable(3), Verdict::Reset] {
        stays(verdict, |_| {}, "senders are notified");
    }
    let mut fragment = outwards(0);
    fragment[20] = 0x20;
    let mut other = outwards(0);
    other[23] = 99;
    let cut_off = udp_between(PEER, HOST_MAC, FAR, 7, b"");
    for (mut frame, what) in [(fragment, "a fragment"), (other, "no ports"), (cut_off, "no whole header")] {
        if what == "no whole header" {
            frame[23] = 6;
        }
        evenkeel_core::wire::Ipv4Packet::new_unchecked(&mut frame[14..]).fill_checksum();
        let (mut router, _) = screening(Verdict::Drop, EVERYTHING);
        let before = router.bench.host.ledger().input_drops(evenkeel_core::drop::IpDrop::Refused);
        for _ in 0..2 * PACKETS {
            router.bench.send(&[frame.clone()]);
            router.bench.settle();
        }
        let refused = router.bench.host.ledger().input_drops(evenkeel_core::drop::IpDrop::Refused) - before;
        assert_eq!((refused, router.verdicts()), (u64::from(2 * PACKETS), vec![]), "{what}");
    }
}

/// Whatever a verdict depends on takes it back, before the host sleeps.
#[test]
fn every_change_takes_verdicts_back() {
    for verdict in [Verdict::Pass, Verdict::Drop] {
        for (name, change) in changes().into_iter().filter(|(name, _)| *name != "screening") {
            let (mut router, _) = screening(verdict, EVERYTHING);
            router.forward(2 * PACKETS);
            assert_eq!(router.verdicts().len(), 1);
            change(&mut router.bench);
            assert!(router.bench.host.next_deadline() <= router.bench.now, "{name}: the host has work");
            router.bench.settle();
            assert_eq!((router.verdicts(), router.destinations()), (vec![], vec![]), "{name}");
        }
        let of_process: [fn(&mut Opinion); 2] =
            [|opinion| opinion.scope = Some(EVERYTHING), |opinion| opinion.ends = true];
        for change in of_process {
            let (mut router, opinion) = screening(verdict, EVERYTHING);
            router.forward(2 * PACKETS);
            change(&mut opinion.lock().unwrap());
            let judge = router.bench.process("judge");
            router.bench.host.wake_process(judge, router.bench.now);
            router.bench.settle();
            assert_eq!((router.verdicts(), router.destinations()), (vec![], vec![]));
        }
    }
}

#[test]
fn packets_that_interfaces_refuse_are_counted_once() {
    let (mut router, _) = screening(Verdict::Drop, EVERYTHING);
    let hits = FlowHits { packets: 3, bytes: 99 };
    router.with(|lan| {
        lan.refused = 3;
        lan.hits = vec![(7, hits)];
    });
    assert_eq!(router.bench.host.untaken(LAN).refused, 3);
    let mut taken = Vec::new();
    (0..2).for_each(|_| router.bench.host.take_flow_hits(&mut |account, hits| taken.push((account, hits))));
    assert_eq!(taken, [(7, hits)]);
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

fn changes() -> [(&'static str, Change); 6] {
    [
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
    ]
}

/// Whatever a decision depends on takes it back when it changes, before the host sleeps.
#[test]
fn every_change_takes_it_back() {
    for (name, change) in changes() {
        let mut router = Router::new(Config::of(Architecture::SoftLrp));
        router.hand_over();
        change(&mut router.bench);
        assert!(router.bench.host.next_deadline() <= router.bench.now, "{name}: the host has work");
        router.bench.settle();
        assert_eq!(router.destinations(), [], "{name}");
        assert_eq!(router.with(|lan| lan.clears), 1, "{name}");
    }
}

/// Whatever the architecture, the interface knows the host's addresses before it forwards.
#[test]
fn the_interface_knows_the_addresses_of_the_host() {
    for architecture in Architecture::ALL {
        let mut router = Router::new(Config::of(architecture));
        let other = Ipv4Address::new(203, 0, 113, 1);
        for added in [None, Some(other)] {
            if let Some(address) = added {
                router.bench.host.add_address(LAN, IpCidr::new(address.into(), 24), router.bench.now);
            }
            router.hand_over();
            let known = router.with(|lan| lan.addresses.clone());
            for (address, is_known) in [
                (HOST, true),
                (WAN_HOST, true),
                (Ipv4Address::new(198, 51, 100, 255), true),
                (other, added.is_some()),
                (FAR, false),
            ] {
                assert_eq!(known.contains(&address.into()), is_known, "{architecture}: {address}");
            }
        }
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
