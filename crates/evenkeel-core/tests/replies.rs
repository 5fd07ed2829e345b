//! An answer takes its addresses from its request: the address, the interface, and an address of that
//! interface if the request was for several hosts.
//!
//! ```text
//!             +---------------- the host ----------------+
//!   wire 0 ---+ 10.0.0.2, .5, .6/24; fd00::5, ::6/64     |
//!   wire 1 ---+ 10.0.0.7/24, 10.0.0.129/25; fd00::7/64   |
//!             +------------------------------------------+
//! ```
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::packets::{self, Found, ICMP, ICMPV6, TCP, UDP, datagram, icmp, read};
use common::{Bench, HOST_MAC, PEER_MAC, UNIT};
use evenkeel_core::cable::{Options, pair};
use evenkeel_core::host::{Config, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Fault, SendError};
use evenkeel_core::stack::{InterfaceId, IpEndpoint, Origin, Route, Via};
use evenkeel_core::system::{TcpListener, UdpSocket};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};

const PORT: u16 = 9;
const WIRES: [InterfaceId; 2] = [InterfaceId(0), InterfaceId(1)];
const SECOND_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 4]);
const OURS: [EthernetAddress; 2] = [HOST_MAC, SECOND_MAC];

const fn v4(last: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, last)
}

const fn v6(last: u8) -> IpAddress {
    IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last as u16)
}

/// A peer that is on both wires, and a link-local one.
const PEERS: [IpAddress; 3] = [v4(130), v6(130), IpAddress::v6(0xfe80, 0, 0, 0, 0, 0, 0, 1)];

/// Ours, by wire: those of its hardware addresses (RFC 4291 appendix A).
const LINK_LOCAL: [IpAddress; 2] =
    [IpAddress::v6(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2), IpAddress::v6(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 4)];

fn bench(architecture: Architecture) -> Bench {
    let mut bench = Bench::new(Config::of(architecture));
    let demultiplexes = architecture == Architecture::NiLrp;
    let (mut wan, end) = pair(
        Options { ring_pkts: 64, ..Options::new("wan", 3) },
        Options { demultiplexes, ring_pkts: 64, ..Options::new("host", 4) },
    );
    let now = Instant::ZERO;
    let second = [IpCidr::new(v4(7), 24), IpCidr::new(v4(129), 25), IpCidr::new(v6(7), 64)];
    bench.host.add_interface(Box::new(end), &second, now).unwrap();
    for address in
        [IpCidr::new(v4(5), 24), IpCidr::new(v4(6), 24), IpCidr::new(v6(5), 64), IpCidr::new(v6(6), 64)]
    {
        bench.host.add_address(WIRES[0], address, now);
    }
    for wire in WIRES {
        for peer in PEERS {
            bench.host.set_neighbor(wire, peer, PEER_MAC, now).unwrap();
        }
    }
    wan.attach(&mut bench.pool).unwrap();
    bench.wan = Some(wan);
    bench.run(Duration::from_secs(20));
    both(&mut bench);
    bench
}

/// Returns the packets that have left on each wire.
fn both(bench: &mut Bench) -> [Vec<Found>; 2] {
    let second = bench.sent_wan();
    [bench.sent(), second].map(|frames| frames.iter().filter_map(|frame| read(frame)).collect())
}

fn send(bench: &mut Bench, wire: usize, frame: Vec<u8>) {
    let taken = if wire == 0 { bench.send(&[frame]) } else { bench.send_wan(&[frame]) };
    assert_eq!(taken, 1);
    bench.run(UNIT * 100);
}

/// Returns the only answer of a protocol, which has left on `wire`.
fn answer(bench: &mut Bench, wire: usize, protocol: u8, what: &str) -> Found {
    let mut left = both(bench);
    left.iter_mut().for_each(|found| found.retain(|found| found.protocol == protocol));
    assert_eq!(left[1 - wire], [], "{what}: by the other wire");
    assert_eq!(left[wire].len(), 1, "{what}: one answer by wire {wire}");
    left[wire].remove(0)
}

/// A program that answers each datagram.
#[derive(Debug, Default)]
struct Echo(Option<UdpSocket>);

const GROUPS: [IpAddress; 2] = [IpAddress::v4(239, 1, 2, 3), IpAddress::v6(0xff02, 0, 0, 0, 0, 0, 0, 0x33)];

impl Program for Echo {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.0 else {
            let socket = UdpSocket::bind(system, None, PORT).unwrap();
            GROUPS.iter().for_each(|&group| socket.join(system, group).unwrap());
            self.0 = Some(socket);
            return Step::Again;
        };
        let Ok(request) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        socket.reply(system, &request, request.as_slice().unwrap()).unwrap();
        system.recycle(request);
        Step::Again
    }
}

/// A host that answers: by a program of its own, or by a thread outside.
enum By {
    Program,
    Thread(ProcessId, UdpSocket),
}

impl By {
    fn both(bench: &mut Bench, thread: bool) -> Self {
        if !thread {
            bench.host.spawn("echo", 0, Box::new(Echo::default()));
            bench.run(UNIT * 100);
            both(bench);
            return Self::Program;
        }
        let me = bench.host.attach("echo", 0, bench.now);
        let opens = |system: &mut System<'_>| {
            let socket = UdpSocket::bind(system, None, PORT).unwrap();
            GROUPS.iter().for_each(|&group| socket.join(system, group).unwrap());
            socket
        };
        let socket = bench.host.enter(me, bench.now, opens).unwrap();
        bench.run(UNIT * 100);
        both(bench);
        Self::Thread(me, socket)
    }

    fn answer(&self, bench: &mut Bench) {
        if let &Self::Thread(me, socket) = self {
            let answers = |system: &mut System<'_>| {
                let request = socket.receive(system).unwrap();
                socket.reply(system, &request, request.as_slice().unwrap()).unwrap();
                system.recycle(request);
            };
            bench.host.enter(me, bench.now, answers).unwrap();
        }
    }
}

/// Returns the unicast addresses that a peer on a wire may send to.
fn unicast(wire: usize, peer: IpAddress) -> Vec<IpAddress> {
    match peer {
        IpAddress::Ipv4(_) => [2, 5, 6, 7, 129].map(v4).to_vec(),
        peer if peer == PEERS[2] => vec![LINK_LOCAL[wire], v6(5)],
        IpAddress::Ipv6(_) => [5, 6, 7].map(v6).to_vec(),
    }
}

#[test]
fn an_answer_comes_from_where_its_request_went_and_by_the_way_it_came() {
    for architecture in Architecture::ALL {
        for thread in [false, true] {
            let mut bench = bench(architecture);
            let by = By::both(&mut bench, thread);
            for (wire, peer) in [0, 1].into_iter().flat_map(|wire| PEERS.map(|peer| (wire, peer))) {
                for to in unicast(wire, peer) {
                    let what = format!("{architecture}, {peer} to {to} by wire {wire}");
                    let [from, to] = [IpEndpoint::new(peer, 4_321), IpEndpoint::new(to, PORT)];
                    send(&mut bench, wire, datagram(OURS[wire], from, to, b"payload"));
                    by.answer(&mut bench);
                    let found = answer(&mut bench, wire, UDP, &what);
                    assert_eq!((found.source, found.destination), (to.addr, peer), "{what}");
                    assert_eq!(found.body[..4], [0, 9, 0x10, 0xe1], "{what}: ports");
                }
            }
        }
    }
}

/// RFC 1122 4.1.3.5, 3.2.1.3: an address of the interface by which it came.
#[test]
fn what_was_sent_to_several_is_answered_from_an_address_of_its_interface() {
    for architecture in Architecture::ALL {
        for thread in [false, true] {
            let mut bench = bench(architecture);
            let by = By::both(&mut bench, thread);
            let broadcast = EthernetAddress::BROADCAST;
            let groups = [
                (PEERS[0], IpAddress::v4(255, 255, 255, 255), broadcast),
                (PEERS[0], v4(255), broadcast),
                (PEERS[0], GROUPS[0], EthernetAddress([1, 0, 0x5e, 1, 2, 3])),
                (PEERS[1], GROUPS[1], EthernetAddress([0x33, 0x33, 0, 0, 0, 0x33])),
                (PEERS[2], GROUPS[1], EthernetAddress([0x33, 0x33, 0, 0, 0, 0x33])),
            ];
            for (wire, (peer, group, hardware)) in [0, 1].into_iter().flat_map(|w| groups.map(|g| (w, g))) {
                let what = format!("{architecture}, {peer} to {group} by wire {wire}");
                let [from, to] = [IpEndpoint::new(peer, 4_321), IpEndpoint::new(group, PORT)];
                send(&mut bench, wire, datagram(hardware, from, to, b"payload"));
                by.answer(&mut bench);
                let found = answer(&mut bench, wire, UDP, &what);
                let own = match (wire, peer) {
                    (wire, peer) if peer == PEERS[2] => vec![LINK_LOCAL[wire]],
                    (0, IpAddress::Ipv4(_)) => [2, 5, 6].map(v4).to_vec(),
                    (_, IpAddress::Ipv4(_)) => [7, 129].map(v4).to_vec(),
                    (0, _) => [5, 6].map(v6).to_vec(),
                    _ => vec![v6(7)],
                };
                assert!(own.contains(&found.source), "{what}: from {}", found.source);
                assert_eq!(found.destination, peer, "{what}");
            }
        }
    }
}

#[test]
fn pings_errors_and_connections_are_answered_by_the_way_they_came() {
    for architecture in Architecture::ALL {
        let mut bench = bench(architecture);
        let me = bench.host.attach("me", 0, bench.now);
        let listens =
            |system: &mut System<'_>| TcpListener::listen(system, None, PORT, &ListenerConfig::default());
        bench.host.enter(me, bench.now, listens).unwrap().unwrap();
        let mut port = 2_000;
        for (wire, peer) in [0, 1].into_iter().flat_map(|wire| PEERS.map(|peer| (wire, peer))) {
            for to in unicast(wire, peer) {
                let what = format!("{architecture}, {peer} to {to} by wire {wire}");
                let (kind, protocol) =
                    if matches!(peer, IpAddress::Ipv4(_)) { (8, ICMP) } else { (128, ICMPV6) };
                send(&mut bench, wire, icmp(OURS[wire], peer, to, &[kind, 0, 0, 0, 0, 7, 0, 1]));
                let found = answer(&mut bench, wire, protocol, &what);
                assert_eq!((found.source, found.destination), (to, peer), "{what}: ping");
                port += 1;
                bench.now += Duration::from_secs(1);
                let [from, closed] = [IpEndpoint::new(peer, port), IpEndpoint::new(to, 99)];
                send(&mut bench, wire, datagram(OURS[wire], from, closed, b"?"));
                let found = answer(&mut bench, wire, protocol, &what);
                assert_eq!((found.source, found.destination), (to, peer), "{what}: error");
                // TCP knows a connection by its addresses alone: a peer that two wires have is looked for
                // behind the one that has our address.
                let is_of_wire = [[2, 5, 6].map(v4).contains(&to), [7, 129].map(v4).contains(&to)][wire]
                    || to == LINK_LOCAL[wire]
                    || [[v6(5), v6(6)].contains(&to), to == v6(7)][wire] && peer != PEERS[2];
                if is_of_wire {
                    let open = IpEndpoint::new(to, PORT);
                    send(&mut bench, wire, packets::syn(OURS[wire], from, open));
                    let found = answer(&mut bench, wire, TCP, &what);
                    assert_eq!((found.source, found.destination), (to, peer), "{what}: SYN-ACK");
                }
            }
        }
    }
}

/// An answer takes any way if its request came by one that does not lead back, and none that is forbidden.
#[test]
fn an_answer_goes_as_the_routes_say_if_its_way_leads_nowhere() {
    let far = IpAddress::v4(192, 0, 2, 1);
    let forbidden = IpAddress::v4(10, 0, 0, 77);
    for architecture in Architecture::ALL {
        let mut bench = bench(architecture);
        let me = bench.host.attach("me", 0, bench.now);
        let socket =
            bench.host.enter(me, bench.now, |system| UdpSocket::bind(system, None, PORT)).unwrap().unwrap();
        bench.host.add_route(IpCidr::new(far, 24), v4(130), WIRES[1]).unwrap();
        let blackhole = Route { to: IpCidr::new(forbidden, 32), via: Via::Blackhole, metric: 0 };
        bench.host.set_route(blackhole).unwrap();
        for (peer, sent) in [(far, Ok(())), (forbidden, Err(SendError::NoRoute))] {
            let [from, to] = [IpEndpoint::new(peer, 4_321), IpEndpoint::new(v4(5), PORT)];
            send(&mut bench, 0, datagram(HOST_MAC, from, to, b"?"));
            let answers = |system: &mut System<'_>| {
                let request = socket.receive(system).unwrap();
                let sent = socket.reply(system, &request, b"!");
                system.recycle(request);
                sent
            };
            assert_eq!(bench.host.enter(me, bench.now, answers).unwrap(), sent, "{architecture}");
            if sent.is_ok() {
                let found = answer(&mut bench, 1, UDP, "by the only way");
                assert_eq!((found.source, found.destination), (v4(5), far), "{architecture}");
            }
        }
        assert_eq!(both(&mut bench).map(|left| left.len()), [0, 0]);
    }
}

#[test]
fn a_source_that_is_not_ours_is_refused_and_says_so() {
    let mut bench = bench(Architecture::SoftLrp);
    let me = bench.host.attach("me", 0, bench.now);
    let to = IpEndpoint::new(PEERS[0], 4_321);
    let now = bench.now;
    let mut refused = |bound: Option<IpAddress>, address: IpAddress, interface: Option<InterfaceId>| {
        let from = Origin { address: Some(address), interface };
        let sends = |system: &mut System<'_>| {
            let socket = UdpSocket::bind(system, bound, 0).unwrap();
            let sent = socket.send_from(system, from, to, b"");
            system.close(socket);
            sent
        };
        bench.host.enter(me, now, sends).unwrap()
    };
    for interface in [None, Some(WIRES[0]), Some(WIRES[1])] {
        for address in [v4(99), v4(255), IpAddress::v4(255, 255, 255, 255), GROUPS[0], v4(0)] {
            assert_eq!(refused(None, address, interface), Err(SendError::NotLocal), "{address}");
        }
        assert_eq!(refused(None, v4(6), interface), Ok(()));
        assert_eq!(refused(Some(v4(6)), v4(6), interface), Ok(()));
        assert_eq!(
            refused(Some(v4(6)), v4(5), interface),
            Err(SendError::NotLocal),
            "it is bound to another"
        );
        assert_eq!(refused(None, v6(5), interface), Err(SendError::NoAddress), "of the other family");
    }
    assert_eq!(refused(None, v4(6), Some(InterfaceId(9))), Err(SendError::NoRoute), "no such interface");
    assert_eq!(SendError::NotLocal.fault(), Fault::Misuse);
    assert!(SendError::NotLocal.to_string().contains("none of this host"));
}

/// A socket that is bound to one of several interfaces' addresses sends by that one, if the routes leave a
/// choice.
#[test]
fn a_bound_socket_sends_by_the_interface_that_has_its_address() {
    let mut bench = bench(Architecture::SoftLrp);
    let me = bench.host.attach("me", 0, bench.now);
    let cases =
        [(v4(5), PEERS[0], 0), (v4(7), PEERS[0], 1), (v6(6), PEERS[1], 0), (v6(7), PEERS[1], 1)].into_iter();
    let own = [0, 1].map(|wire| (LINK_LOCAL[wire], PEERS[2], wire));
    for (bound, peer, wire) in cases.chain(own) {
        let sends = |system: &mut System<'_>| {
            let socket = UdpSocket::bind(system, Some(bound), PORT).unwrap();
            socket.send(system, IpEndpoint::new(peer, 1), b"").unwrap();
            system.close(socket);
        };
        bench.host.enter(me, bench.now, sends).unwrap();
        let what = format!("from {bound} to {peer}");
        assert_eq!(answer(&mut bench, wire, UDP, &what).source, bound);
    }
    // A route of a host's own decides before the prefixes of links do.
    bench
        .host
        .set_route(Route { to: IpCidr::new(PEERS[0], 32), via: Via::Link(WIRES[1]), metric: 0 })
        .unwrap();
    let sends = |system: &mut System<'_>| {
        let socket = UdpSocket::bind(system, Some(v4(5)), PORT).unwrap();
        socket.send(system, IpEndpoint::new(PEERS[0], 1), b"").unwrap();
    };
    bench.host.enter(me, bench.now, sends).unwrap();
    assert_eq!(answer(&mut bench, 1, UDP, "by its own route").source, v4(5));
}
