//! A peer that takes no datagrams: ICMP errors about datagrams of connected sockets, true and forged ones.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::packets::{self, ICMP, ICMPV6, TCP, UDP, datagram, icmp, read};
use common::{Bench, HOST_MAC, PEER_MAC, UNIT};
use evenkeel_core::host::{Config, System};
use evenkeel_core::id::InterfaceId;
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Kinds, PeerError, PollEntry, ReceiveError, SendError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::wire::{IpAddress, IpCidr};
use proptest::prelude::*;

const LAN: InterfaceId = InterfaceId(0);
/// The port of the socket that is connected and has sent, and those of one that has sent nothing, of one that
/// has sent without being connected, and of the peer.
const OURS: u16 = 5_000;
const SILENT: u16 = 5_001;
const OPEN: u16 = 5_002;
const PEERS: u16 = 7;
/// The last part of another address of the host, which suits the peer less.
const OTHER: u8 = 130;

fn address(v6: bool, last: u8) -> IpAddress {
    if v6 { IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last.into()) } else { IpAddress::v4(10, 0, 0, last) }
}

fn peer(v6: bool) -> IpEndpoint {
    IpEndpoint::new(address(v6, 1), PEERS)
}

/// A host with a socket that is connected to the peer.
struct World {
    bench: Bench,
    me: ProcessId,
    v6: bool,
    connected: UdpSocket,
    silent: UdpSocket,
    open: UdpSocket,
}

impl World {
    fn new(architecture: Architecture, v6: bool) -> Self {
        let mut bench = Bench::new(Config::of(architecture));
        let now = bench.now;
        for last in [2, OTHER] {
            let length = if v6 { 64 } else { 24 };
            bench.host.add_address(LAN, IpCidr::new(address(v6, last), length), now);
        }
        bench.host.set_neighbor(LAN, peer(v6).addr, PEER_MAC, now).unwrap();
        let me = bench.host.attach("me", 0, now);
        let bind = |port| move |system: &mut System<'_>| UdpSocket::bind(system, None, port).unwrap();
        let [connected, silent, open] =
            [OURS, SILENT, OPEN].map(|port| bench.host.enter(me, now, bind(port)).unwrap());
        let mut world = Self { bench, me, v6, connected, silent, open };
        world.call(|system| {
            connected.connect(system, peer(v6)).unwrap();
            silent.connect(system, peer(v6)).unwrap();
            connected.send(system, peer(v6), b"question").unwrap();
            open.send(system, peer(v6), b"question").unwrap();
        });
        world.settle();
        world
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut System<'_>) -> T) -> T {
        self.bench.host.enter(self.me, self.bench.now, call).unwrap()
    }

    fn settle(&mut self) {
        self.bench.run(UNIT * 1_000);
    }

    fn send(&mut self, frame: Vec<u8>) {
        assert_eq!(self.bench.send(&[frame]), 1);
        self.settle();
    }

    /// Returns the last datagram that left from `port`, without its Ethernet header.
    fn sent_from(&mut self, port: u16) -> Vec<u8> {
        let frames = self.bench.sent();
        let is_from = |frame: &&Vec<u8>| {
            read(frame).is_some_and(|found| found.protocol == UDP && found.body[..2] == port.to_be_bytes())
        };
        frames.iter().rfind(is_from).unwrap()[14..].to_vec()
    }

    /// Returns a frame with the ICMP error that says that the port of a packet of this host is closed.
    fn port_closed(&self, quoted: &[u8]) -> Vec<u8> {
        let head: [u8; 8] = if self.v6 { [1, 4, 0, 0, 0, 0, 0, 0] } else { [3, 3, 0, 0, 0, 0, 0, 0] };
        self.error(&head, quoted)
    }

    fn error(&self, head: &[u8; 8], quoted: &[u8]) -> Vec<u8> {
        let [from, to] = [1, 2].map(|last| address(self.v6, last));
        icmp(HOST_MAC, from, to, &[&head[..], quoted].concat())
    }

    fn take_error(&mut self, socket: UdpSocket) -> Option<PeerError> {
        self.call(|system| socket.take_error(system)).unwrap()
    }
}

/// Runs a test under each architecture, over each family.
fn everywhere(test: impl Fn(World)) {
    for architecture in Architecture::ALL {
        [false, true].into_iter().for_each(|v6| test(World::new(architecture, v6)));
    }
}

#[test]
fn a_closed_port_is_reported_once_to_the_next_call() {
    everywhere(|mut world| {
        let (socket, to) = (world.connected, peer(world.v6));
        let quoted = world.sent_from(OURS);
        let consumed = world.bench.host.ledger().consumed;
        let ready = |world: &mut World| {
            let entry = PollEntry { fd: socket.fd().0, events: Kinds::READABLE, ready: Kinds::NONE };
            world.call(|system| {
                let mut entries = [entry];
                system.poll(&mut entries);
                entries[0].ready
            })
        };
        assert_eq!(ready(&mut world), Kinds::NONE);
        world.send(world.port_closed(&quoted));
        assert_eq!(world.bench.host.ledger().consumed, consumed + 1);
        assert_eq!(ready(&mut world), Kinds::READABLE.union(Kinds::ERROR));
        let refused = PeerError::Refused;
        let receive = |system: &mut System<'_>| socket.receive(system).map(|_| ());
        assert_eq!(world.call(receive), Err(ReceiveError::Failed(refused)));
        assert_eq!(world.call(receive), Err(ReceiveError::WouldBlock));
        assert_eq!(ready(&mut world), Kinds::NONE);
        world.send(world.port_closed(&quoted));
        let send = |system: &mut System<'_>| socket.send(system, to, b"x");
        assert_eq!(world.call(send), Err(SendError::Failed(refused)));
        assert_eq!(world.call(send), Ok(()));
        world.send(world.port_closed(&quoted));
        assert_eq!(world.take_error(socket), Some(refused));
        assert_eq!(world.take_error(socket), None);
    });
}

#[test]
fn an_error_comes_before_what_waits_and_loses_none_of_it() {
    everywhere(|mut world| {
        let quoted = world.sent_from(OURS);
        let ours = IpEndpoint::new(address(world.v6, 2), OURS);
        world.send(datagram(HOST_MAC, peer(world.v6), ours, b"answer"));
        world.send(world.port_closed(&quoted));
        let socket = world.connected;
        world.call(|system| {
            assert_eq!(socket.receive(system).err(), Some(ReceiveError::Failed(PeerError::Refused)));
            assert_eq!(socket.receive(system).unwrap().as_slice(), Some(&b"answer"[..]));
        });
    });
}

#[test]
fn a_prohibited_peer_is_unreachable_and_soft_errors_are_nothing() {
    everywhere(|mut world| {
        let quoted = world.sent_from(OURS);
        let codes: &[(u8, u8, bool)] = if world.v6 {
            &[(1, 0, false), (1, 1, true), (1, 3, false), (2, 0, false), (3, 0, false)]
        } else {
            &[(3, 0, false), (3, 1, false), (3, 4, false), (3, 13, true), (11, 0, false), (4, 0, false)]
        };
        for &(kind, code, is_hard) in codes {
            // A path MTU that is the link's own.
            world.send(world.error(&[kind, code, 0, 0, 0, 0, 5, 220], &quoted));
            let expected = is_hard.then_some(PeerError::Unreachable);
            assert_eq!(world.take_error(world.connected), expected, "{kind}/{code}");
        }
    });
}

#[test]
fn a_connected_socket_takes_datagrams_of_its_peer_and_refuses_others() {
    everywhere(|mut world| {
        world.bench.sent();
        let v6 = world.v6;
        let ours = IpEndpoint::new(address(v6, 2), OURS);
        let stranger = IpEndpoint { port: PEERS + 1, ..peer(v6) };
        world.send(datagram(HOST_MAC, stranger, ours, b"stranger"));
        // Its owner need not read the socket.
        let answers: Vec<_> = world.bench.sent().iter().filter_map(|frame| read(frame)).collect();
        let [answer] = &answers[..] else { panic!("{answers:?}") };
        let refusal = if v6 { (ICMPV6, [1, 4]) } else { (ICMP, [3, 3]) };
        assert_eq!((answer.protocol, [answer.body[0], answer.body[1]]), refusal);
        world.send(datagram(HOST_MAC, peer(v6), ours, b"answer"));
        let socket = world.connected;
        world.call(|system| {
            assert_eq!(socket.receive(system).unwrap().as_slice(), Some(&b"answer"[..]));
            assert_eq!(socket.receive(system).err(), Some(ReceiveError::WouldBlock));
            // Now the stranger is the peer.
            socket.connect(system, stranger).unwrap();
            assert_eq!(socket.peer(system), Ok(Some(stranger)));
        });
        world.send(datagram(HOST_MAC, stranger, ours, b"friend"));
        world.send(datagram(HOST_MAC, peer(v6), ours, b"nobody"));
        world.call(|system| {
            assert_eq!(socket.receive(system).unwrap().as_slice(), Some(&b"friend"[..]));
            assert_eq!(socket.receive(system).err(), Some(ReceiveError::WouldBlock));
        });
    });
}

#[test]
fn connecting_chooses_the_address_that_datagrams_leave_from() {
    everywhere(|mut world| {
        let (socket, v6) = (world.connected, world.v6);
        world.call(|system| {
            assert_eq!(socket.source(system), Ok(Some(address(v6, 2))));
            let other_family = IpEndpoint::new(address(!v6, 1), PEERS);
            let bound = UdpSocket::bind(system, Some(address(v6, OTHER)), 0).unwrap();
            assert_eq!(bound.connect(system, other_family), Err(SendError::Family));
            bound.connect(system, peer(v6)).unwrap();
            assert_eq!(bound.source(system), Ok(Some(address(v6, OTHER))));
            let nowhere = IpEndpoint::new(IpAddress::v4(192, 0, 2, 1), PEERS);
            assert_eq!(socket.connect(system, nowhere), Err(SendError::NoRoute));
            assert_eq!(socket.peer(system), Ok(Some(peer(v6))), "as before");
        });
    });
}

/// The parts of an ICMP error that an enemy has to guess, or may get wrong.
#[derive(Debug, Clone)]
struct Forged {
    v6: bool,
    architecture: Architecture,
    /// The sender of the error, which may be any router.
    from: u8,
    code: u8,
    protocol: u8,
    source: u8,
    destination: u8,
    ports: (u16, u16),
    /// The field of flags and offset, in IPv4.
    field: u16,
    /// Bytes that are quoted.
    len: usize,
}

/// Mostly `right`, else something else.
fn mostly<T: std::fmt::Debug + Clone + 'static>(
    right: T,
    others: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![6 => Just(right), 1 => others]
}

fn forged() -> impl Strategy<Value = Forged> {
    let ports = (
        mostly(OURS, prop_oneof![Just(SILENT), Just(OPEN), Just(PEERS), any::<u16>()]),
        mostly(PEERS, prop_oneof![Just(OURS), any::<u16>()]),
    );
    let quote = (
        mostly(UDP, prop_oneof![Just(TCP), any::<u8>()]),
        mostly(2, prop_oneof![1..5_u8, Just(OTHER)]),
        mostly(1, 1..5_u8),
        ports,
        mostly(0x4000, prop_oneof![Just(0), Just(0x2000), Just(1)]),
        mostly(28, 0..28_usize),
    );
    let whole =
        (any::<bool>(), proptest::sample::select(&Architecture::ALL[..]), 1..5_u8, mostly(3, 0..16_u8));
    (whole, quote).prop_map(|((v6, architecture, from, code), quote)| {
        let (protocol, source, destination, ports, field, len) = quote;
        // The host sends no errors to itself.
        let from = if from == 1 || from == 4 { from } else { 1 };
        Forged { v6, architecture, from, code, protocol, source, destination, ports, field, len }
    })
}

impl Forged {
    /// Returns whether the error is about a datagram that the socket has sent.
    fn is_right(&self) -> bool {
        let whole = self.len >= 24 && (self.v6 || self.field & 0x1fff == 0);
        let addresses = (self.source, self.destination, self.ports, self.protocol);
        whole && addresses == (2, 1, (OURS, PEERS), UDP)
    }

    fn error(&self) -> Option<PeerError> {
        let hard: &[u8] = if self.v6 { &[1, 4, 5, 6] } else { &[2, 3, 9, 10, 13] };
        let refusal = if self.v6 { 4 } else { 3 };
        let error = if self.code() == refusal { PeerError::Refused } else { PeerError::Unreachable };
        (self.is_right() && hard.contains(&self.code())).then_some(error)
    }

    fn code(&self) -> u8 {
        if self.v6 && self.code == 3 { 4 } else { self.code }
    }

    fn frame(&self) -> Vec<u8> {
        let [source, destination] = [self.source, self.destination].map(|last| address(self.v6, last));
        let transport = [self.ports.0, self.ports.1, 16, 0].map(u16::to_be_bytes).concat();
        let mut quoted =
            packets::frame(PEER_MAC, source, destination, self.protocol, &transport)[14..].to_vec();
        let header = quoted.len() - transport.len();
        if !self.v6 {
            quoted[6..8].copy_from_slice(&self.field.to_be_bytes());
        }
        // The length counts from the end of the fixed part that both families have.
        quoted.truncate(header + 8 - (28 - self.len).min(header + 8));
        let kind = if self.v6 { 1 } else { 3 };
        let head = [kind, self.code(), 0, 0, 0, 0, 5, 220];
        icmp(HOST_MAC, address(self.v6, self.from), address(self.v6, 2), &[&head[..], &quoted].concat())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// An error counts if it quotes what the socket has sent, whoever sends it. Nothing else does anything.
    #[test]
    fn only_errors_about_what_a_socket_has_sent_are_its_own(forged in forged()) {
        let mut world = World::new(forged.architecture, forged.v6);
        let before = world.bench.host.ledger().clone();
        world.send(forged.frame());
        let after = world.bench.host.ledger();
        prop_assert_eq!(after.consumed, before.consumed + 1);
        prop_assert_eq!(world.take_error(world.connected), forged.error());
        prop_assert_eq!([world.silent, world.open].map(|other| world.take_error(other)), [None; 2]);
    }
}
