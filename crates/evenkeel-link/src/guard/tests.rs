//! The program by test runs of the kernel: random frames to sockets in known states, next to a model.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod groups;
mod on_way;
mod sequences;
mod strays;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use aya::maps::PerCpuArray;
use aya::programs::{TestRun, TestRunOptions, TestRunResult, Xdp};
use evenkeel_skip::Lack;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::*;

const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;

const V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);
const PEER_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 7);
const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 7);
const PEER_PORT: u16 = 5_000;
const BACKLOG: i32 = 8;
/// The largest segment that both headers leave room for in the MTU of the loopback device, where frames of
/// test runs come from.
const MSS: [u16; 2] = [65_496, 65_476];

/// A port of UDP by what is there.
const ROOMY: u16 = 1_000;
const FULL: u16 = 1_001;
/// A full socket that is connected to the peer, and one with room for all others.
const CONNECTED: u16 = 1_002;
/// A full socket of both families.
const DUAL: u16 = 1_003;
/// A port of TCP by what is there.
const IDLE: u16 = 2_000;
const UNACCEPTED: u16 = 2_001;
const FLOODED: u16 = 2_002;
const NOBODY: u16 = 3_000;
const PORTS: [u16; 8] = [ROOMY, FULL, CONNECTED, DUAL, IDLE, UNACCEPTED, FLOODED, NOBODY];

fn run(command: &str) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Runs a test on a thread in its own network namespace, which has the addresses.
fn with_addresses(test: impl FnOnce() + Send + 'static) {
    let test = || {
        if let Err(error) = crate::enter_new_network() {
            return evenkeel_skip::skip(thread::current().name().unwrap(), &Lack::Root(&error.to_string()));
        }
        run("ip link set lo up");
        run("ip link add gt0 type veth peer name gt1");
        run("ip link set gt1 up");
        run("ip link set gt0 up");
        run(&format!("ip addr add {V4}/24 dev gt0"));
        run(&format!("ip addr add {PEER_V4}/24 dev lo"));
        run(&format!("ip addr add {V6}/64 dev gt0 nodad"));
        run(&format!("ip addr add {PEER_V6}/64 dev lo nodad"));
        // Whoever floods is here, and never answers.
        run("ip route add 198.51.100.0/24 dev lo");
        run("sysctl -qw net.ipv4.tcp_synack_retries=8");
        test();
    };
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::Builder::new().name(name).spawn(test).unwrap().join().unwrap();
}

/// The sockets of the test, for as long as it runs.
struct Sockets {
    _datagrams: Vec<UdpSocket>,
    _listeners: Vec<TcpListener>,
    _connections: Vec<TcpStream>,
}

/// Opens a socket that may share its port, and connects it if it has a peer.
fn bind(at: SocketAddr, peer: Option<SocketAddr>) -> UdpSocket {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, at.port() != DUAL).unwrap();
    }
    rustix::net::bind(&socket, &at).unwrap();
    let socket = UdpSocket::from(socket);
    peer.into_iter().for_each(|peer| socket.connect(peer).unwrap());
    socket
}

fn listen(at: SocketAddr) -> TcpListener {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true).unwrap();
    }
    rustix::net::bind(&socket, &at).unwrap();
    rustix::net::listen(&socket, BACKLOG).unwrap();
    socket.into()
}

impl Sockets {
    fn open() -> Self {
        let (mut datagrams, mut listeners, mut connections) = (Vec::new(), Vec::new(), Vec::new());
        let families: [(IpAddr, IpAddr); 2] = [(V4.into(), PEER_V4.into()), (V6.into(), PEER_V6.into())];
        for (ours, peer) in families {
            let peer = SocketAddr::new(peer, PEER_PORT);
            let at = |port| SocketAddr::new(ours, port);
            datagrams.push(bind(at(ROOMY), None));
            datagrams.push(bind(at(FULL), None));
            datagrams.push(bind(at(CONNECTED), None));
            datagrams.push(bind(at(CONNECTED), Some(peer)));
            listeners.extend([IDLE, UNACCEPTED, FLOODED].map(|port| listen(at(port))));
            let from = UdpSocket::bind(peer).unwrap();
            for port in [FULL, CONNECTED] {
                (0..1_000).for_each(|_| _ = from.send_to(&[0; 10], at(port)).unwrap());
            }
            connections.extend((0..=BACKLOG).map(|_| TcpStream::connect(at(UNACCEPTED)).unwrap()));
        }
        datagrams.push(bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DUAL), None));
        let from = UdpSocket::bind((PEER_V4, 0)).unwrap();
        (0..1_000).for_each(|_| _ = from.send_to(&[0; 10], (V4, DUAL)).unwrap());
        Self { _datagrams: datagrams, _listeners: listeners, _connections: connections }
    }

    /// Fills the queue of SYNs of the flooded listener of IPv4. That of IPv6 stays empty.
    fn flood() {
        for number in 0..4 * BACKLOG as u16 {
            let source = Ipv4Addr::new(198, 51, 100, 1 + number as u8).into();
            send(Recipe { source, port: FLOODED, source_port: 7_000 + number, ..Recipe::syn() });
        }
    }
}

/// Has the kernel receive a segment, with the right checksum.
fn send(recipe: Recipe) {
    let mut packet = packet(&recipe);
    let (family, header, addresses) = match recipe.destination {
        IpAddr::V4(_) => (AddressFamily::INET, 20, 12),
        IpAddr::V6(_) => (AddressFamily::INET6, 40, 8),
    };
    let sum = transport_sum(&packet[addresses..header], &packet[header..]);
    packet[header + 16..header + 18].copy_from_slice(&sum.to_be_bytes());
    let raw = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::empty(), Some(ipproto::RAW));
    let to = SocketAddr::new(recipe.destination, 0);
    rustix::net::sendto(raw.unwrap(), &packet, rustix::net::SendFlags::empty(), &to).unwrap();
}

/// The parts that a frame is made of.
#[derive(Debug, Clone)]
struct Recipe {
    to_group: bool,
    tags: usize,
    source: IpAddr,
    destination: IpAddr,
    version: u8,
    /// The second byte of flags and offset in IPv4.
    fragment: [u8; 2],
    protocol: u8,
    source_port: u16,
    port: u16,
    flags: u8,
    /// The length of the header of TCP in words.
    words: u8,
    payload: usize,
    /// Where the frame is cut, and a byte that is changed in it.
    cut: Option<usize>,
    changed: Option<(usize, u8)>,
}

impl Recipe {
    fn syn() -> Self {
        Self {
            to_group: false,
            tags: 0,
            source: PEER_V4.into(),
            destination: V4.into(),
            version: 4,
            fragment: [0x40, 0],
            protocol: 6,
            source_port: PEER_PORT,
            port: IDLE,
            flags: 2,
            words: 6,
            payload: 0,
            cut: None,
            changed: None,
        }
    }
}

impl Recipe {
    /// Returns the recipe of an ACK of no connection.
    fn stray(is_v6: bool, port: u16) -> Self {
        let (source, destination, version) = match is_v6 {
            false => (PEER_V4.into(), V4.into(), 4),
            true => (PEER_V6.into(), V6.into(), 6),
        };
        Self { source, destination, version, port, flags: 16, words: 5, ..Self::syn() }
    }

    fn datagram(port: u16) -> Self {
        Self { protocol: 17, port, payload: 20, ..Self::syn() }
    }
}

/// The place of a backlog is learnt when the kernel works on it, as it does for what the loopback device
/// sends.
#[test]
fn the_backlogs_of_processors_are_found() {
    with_addresses(|| {
        let (mut object, _guard) = Guard::load(&GuardOptions::default()).unwrap();
        // The addresses of up to 64 processors, and how many there are.
        let known: Array<MapData, [u64; 65]> = take_map(&mut object, "backlogs").unwrap();
        assert_eq!(known.get(&0, 0).unwrap(), [0; 65]);
        let learning = learn(&mut object, BACKLOGS).unwrap();
        let to = UdpSocket::bind((V4, ROOMY)).unwrap();
        for cpu in crate::cpus() {
            crate::pin_to_cpu(cpu).unwrap();
            // The kernel may be about to say that it has worked.
            let learnt = (0..1_000).find_map(|_| {
                to.send_to(&[0; 10], (V4, ROOMY)).unwrap();
                to.recv(&mut [0; 10]).unwrap();
                let known = known.get(&0, 0).unwrap();
                (cpu >= 64 || known[cpu] > 0).then_some(known)
            });
            let learnt = learnt.unwrap();
            let Some(&softnet) = learnt[..64].get(cpu) else { continue };
            assert!(softnet > u64::MAX / 2 && learnt[64] > cpu as u64, "{softnet:x}, {}", learnt[64]);
            assert_eq!(learnt[..64].iter().filter(|other| **other == softnet).count(), 1);
        }
        drop(learning);
    });
}

/// Once all backlogs are known, nothing runs any more whenever a device is polled.
#[test]
fn what_has_been_learnt_is_learnt_no_more() {
    with_addresses(|| {
        let attached = Guard::attach(&["gt0".to_owned()], &GuardOptions::default());
        let mut guard = match attached {
            Err(why @ LinkError::Privilege { .. }) => {
                let lack = Lack::Other(&why.to_string());
                return evenkeel_skip::skip(thread::current().name().unwrap(), &lack);
            }
            attached => attached.unwrap(),
        };
        // The kernel may be about to say that it has worked.
        let is_over = (0..1_000).any(|_| {
            guard.follow().unwrap();
            thread::yield_now();
            crate::Clock::start().spin(evenkeel_core::time::Duration::from_millis(1));
            guard.backlogs.as_ref().unwrap().is_over()
        });
        assert!(is_over);
    });
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = [PEER_V4, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, V4]
        .into_iter()
        .chain([Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::BROADCAST]);
    let v6 = [PEER_V6, Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, V6]
        .into_iter()
        .chain([Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)]);
    let to_v4 = prop_oneof![5 => Just(V4), 1 => select(v4.clone().collect::<Vec<_>>())];
    let to_v6 = prop_oneof![5 => Just(V6), 1 => select(v6.clone().collect::<Vec<_>>())];
    let from_v4 = prop_oneof![2 => Just(PEER_V4), 1 => select(v4.collect::<Vec<_>>())];
    let from_v6 = prop_oneof![2 => Just(PEER_V6), 1 => select(v6.collect::<Vec<_>>())];
    prop_oneof![
        (from_v4, to_v4).prop_map(|(from, to)| (from.into(), to.into())),
        (from_v6, to_v6).prop_map(|(from, to)| (from.into(), to.into())),
    ]
}

fn recipes() -> impl Strategy<Value = Recipe> {
    // Among them the first and the last fragment, and one with the bit that is reserved.
    let parts = select(&[[0, 0], [0x20, 0], [0, 1], [0x1f, 0xff], [0x80, 0]][..]);
    let fragment = prop_oneof![8 => Just([0x40, 0]), 2 => parts];
    let protocol =
        prop_oneof![5 => Just(6_u8), 5 => Just(17), 1 => select(&[1_u8, 58][..]), 1 => any::<u8>()];
    let flags = prop_oneof![4 => Just(2_u8), 1 => Just(0xc2), 2 => any::<u8>()];
    let source_port = prop_oneof![1 => Just(PEER_PORT), 1 => any::<u16>()];
    let words = prop_oneof![3 => Just(5_u8), 3 => Just(10), 1 => 0..16_u8];
    let parts = (addresses(), fragment, protocol, source_port, select(&PORTS[..]), flags, words);
    let cut = prop_oneof![6 => Just(None), 1 => (14..120_usize).prop_map(Some)];
    let changed = prop_oneof![3 => Just(None), 1 => (0..80_usize, any::<u8>()).prop_map(Some)];
    let rest = (prop::bool::weighted(0.05), 0..4_usize, 0..30_usize, cut, changed);
    (parts, rest).prop_map(|(parts, (to_group, tags, payload, cut, changed))| {
        let ((source, destination), fragment, protocol, source_port, port, flags, words) = parts;
        let version = if source.is_ipv4() { 4 } else { 6 };
        Recipe {
            to_group,
            tags,
            source,
            destination,
            version,
            fragment,
            protocol,
            source_port,
            port,
            flags,
            words,
            payload,
            cut,
            changed,
        }
    })
}

/// Returns the packet of a recipe, from the header of IP on.
fn packet(recipe: &Recipe) -> Vec<u8> {
    let mut body = [recipe.source_port.to_be_bytes(), recipe.port.to_be_bytes()].concat();
    if recipe.protocol == 6 {
        body.extend([1, 2, 3, 4, 0, 0, 0, 0, recipe.words << 4, recipe.flags, 0xff, 0xff, 0, 0, 0, 0]);
        body.extend(vec![1; usize::from(recipe.words).saturating_sub(5) * 4]);
    } else {
        body.extend([0, 8, 0, 0]);
    }
    // Kinds of ICMP: half of them want an echo.
    if let (1 | 58, 8..) = (recipe.protocol, recipe.flags) {
        body[0] = if recipe.protocol == 1 { 8 } else { 128 };
    }
    body.extend(vec![0; recipe.payload]);
    let header = match (recipe.source, recipe.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let len = (20 + body.len() as u16).to_be_bytes();
            let [flags, offset] = recipe.fragment;
            let fixed = [0x45, 0, len[0], len[1], 0, 0, flags, offset, 64, recipe.protocol, 0, 0];
            [&fixed[..], &source.octets(), &destination.octets()].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let len = (body.len() as u16).to_be_bytes();
            let fixed = [0x60, 0, 0, 0, len[0], len[1], recipe.protocol, 64];
            [&fixed[..], &source.octets(), &destination.octets()].concat()
        }
        _ => unreachable!("of one family"),
    };
    [header, body].concat()
}

fn frame(recipe: &Recipe) -> Vec<u8> {
    let mut frame = vec![if recipe.to_group { 0x33 } else { 2 }, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in 0..recipe.tags {
        frame.extend([if tag == 0 { [0x81, 0] } else { [0x88, 0xa8] }, [0, 7]].concat());
    }
    frame.extend(if recipe.version == 4 { [8, 0] } else { [0x86, 0xdd] });
    frame.extend(packet(recipe));
    frame.truncate(recipe.cut.unwrap_or(usize::MAX));
    if let Some((at, byte)) = recipe.changed {
        frame.get_mut(at).into_iter().for_each(|old| *old = byte);
    }
    frame
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0))).sum()
}

fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Returns the checksum for a segment of TCP whose own is zero.
fn transport_sum(addresses: &[u8], segment: &[u8]) -> u16 {
    !folded(sum(addresses) + 6 + segment.len() as u32 + sum(segment))
}

/// The fate of a packet that the guard judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passes,
    IsDropped,
    IsAnswered,
}

/// The parts of a packet that the model has understood.
struct Understood<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    transport: &'a [u8],
}

/// Returns the packet in a frame, if that is whole, plain, and for one host.
fn understand(frame: &[u8]) -> Option<Understood<'_>> {
    if frame[0] & 1 == 1 {
        return None;
    }
    let mut rest = &frame[12..];
    for _ in 0..2 {
        if matches!(rest.get(..2)?, [0x81, 0] | [0x88, 0xa8]) {
            rest = rest.get(4..)?;
        }
    }
    let (kind, packet) = rest.split_at_checked(2)?;
    match kind {
        [8, 0] => {
            let (header, transport) = packet.split_at_checked(20)?;
            let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&header[at..at + 4]).unwrap());
            let is_fragment = header[6] & 0x3f != 0 || header[7] != 0;
            let plain = header[0] == 0x45 && !is_fragment && header[16] < 224;
            let (source, destination) = (address(12).into(), address(16).into());
            plain.then_some(Understood { source, destination, protocol: header[9], transport })
        }
        [0x86, 0xdd] => {
            let (header, transport) = packet.split_at_checked(40)?;
            let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&header[at..at + 16]).unwrap());
            let plain = header[0] >> 4 == 6 && header[24] != 0xff;
            let (source, destination) = (address(8).into(), address(24).into());
            plain.then_some(Understood { source, destination, protocol: header[6], transport })
        }
        _ => None,
    }
}

/// Returns what a frame is counted as, and its fate, if the guard judges it.
fn expected(frame: &[u8]) -> Option<(Judged, Fate)> {
    let Understood { source, destination, protocol, transport } = understand(frame)?;
    let ours: [IpAddr; 4] = [V4.into(), V6.into(), PEER_V4.into(), PEER_V6.into()];
    let local = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if !ours.iter().chain(&local).any(|address| *address == destination) || transport.len() < 8 {
        return None;
    }
    let is_bound = destination == IpAddr::from(V4) || destination == IpAddr::from(V6);
    let number = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let (from, port) = (number(0), number(2));
    match (protocol, destination) {
        (17, _) => {
            let is_peer = (source == IpAddr::from(PEER_V4) || source == IpAddr::from(PEER_V6))
                && from == PEER_PORT
                && source.is_ipv4() == destination.is_ipv4();
            let fate = match port {
                DUAL => Fate::IsDropped,
                FULL if is_bound => Fate::IsDropped,
                CONNECTED if is_bound && is_peer => Fate::IsDropped,
                ROOMY | CONNECTED if is_bound => Fate::Passes,
                _ => return Some((Judged::Closed(Transport::Udp), of_closed(is_bound, port))),
            };
            Some((Judged::Port(Transport::Udp, port), fate))
        }
        (6, _) if transport.len() >= 20 => match transport[13] & 0b1_0111 {
            2 => of_syn(source, is_bound, port, transport),
            // The kernel has refused segments there, and there is no connection.
            _ if is_bound && [NOBODY, IDLE].contains(&port) => Some((Judged::Strays, Fate::IsDropped)),
            _ => None,
        },
        (1, IpAddr::V4(_)) if transport[0] == 8 => Some((Judged::Echoes, Fate::IsDropped)),
        (58, IpAddr::V6(_)) if transport[0] == 128 => Some((Judged::Echoes, Fate::IsDropped)),
        _ => None,
    }
}

fn of_syn(source: IpAddr, is_bound: bool, port: u16, segment: &[u8]) -> Option<(Judged, Fate)> {
    let is_host = match source {
        IpAddr::V4(source) => !matches!(source.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(source) => !source.is_unspecified() && !source.is_loopback() && !source.is_multicast(),
    };
    if !is_host {
        return None;
    }
    let header = usize::from(segment[12] >> 4) * 4;
    let is_whole = header >= 20 && header <= segment.len();
    let fate = match port {
        FLOODED if is_bound && source.is_ipv4() && is_whole => Fate::IsAnswered,
        IDLE | FLOODED if is_bound => Fate::Passes,
        UNACCEPTED if is_bound => Fate::IsDropped,
        _ => return Some((Judged::Closed(Transport::Tcp), of_closed(is_bound, port))),
    };
    Some((Judged::Port(Transport::Tcp, port), fate))
}

/// Returns the fate of a packet for a port without a socket, when refusals are spent. The kernel has refused
/// some at one of them.
fn of_closed(is_bound: bool, port: u16) -> Fate {
    if is_bound && port == NOBODY { Fate::IsDropped } else { Fate::Passes }
}

/// Spends all that is limited, for all processors.
fn spend_limits(object: &mut Ebpf) {
    let mut limits: PerCpuArray<MapData, u64> = take_map(object, "spent").unwrap();
    let spent = vec![u64::MAX / 2; aya::util::nr_cpus().unwrap()];
    for kind in 0..4 {
        limits.set(kind, spent.clone().try_into().unwrap(), 0).unwrap();
    }
    let mut reserved: PerCpuArray<MapData, u64> = take_map(object, "reserved").unwrap();
    for senders in 0..reserved.len() {
        reserved.set(senders, spent.clone().try_into().unwrap(), 0).unwrap();
    }
}

/// Programs that learn what the kernel refuses, and the right to be the only test that has them.
type Alone = (MutexGuard<'static, ()>, Vec<FdLink>);

/// Lets the program learn what the kernel refuses. It sees what any test is refused, and many refusals would
/// be a flood to another test, too.
fn learn_refusals_alone(object: &mut Ebpf) -> Alone {
    static REFUSALS: Mutex<()> = Mutex::new(());
    // A test that fails leaves nothing behind.
    let alone = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
    (alone, learn_refusals(object).unwrap())
}

/// Has the program think that there is a flood of strays for as long as the test runs.
fn flood_by_strays(object: &mut Ebpf) {
    let mut flood: Array<MapData, [u64; 3]> = take_map(object, "stray_flood").unwrap();
    flood.set(0, [u64::MAX, 0, u64::MAX], 0).unwrap();
}

/// Has the kernel refuse a packet of each protocol and family.
fn be_refused() {
    for to in [SocketAddr::new(V4.into(), NOBODY), SocketAddr::new(V6.into(), NOBODY)] {
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        UdpSocket::bind(SocketAddr::new(any, 0)).unwrap().send_to(&[0; 10], to).unwrap();
        assert_eq!(TcpStream::connect(to).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
    [false, true].into_iter().for_each(|is_v6| send(Recipe::stray(is_v6, IDLE)));
}

/// Asserts that a frame answers another, and acknowledges it.
fn assert_answers(answer: &[u8], asked: &[u8]) {
    // Behind the addresses and the tags.
    let ip = (12..).step_by(4).find(|at| asked[*at..][..2] == [8, 0]).unwrap() + 2;
    assert_eq!((&answer[..6], &answer[6..12], &answer[12..ip]), (&asked[6..12], &asked[..6], &asked[12..ip]));
    let (asked, answer) = (&asked[ip..], &answer[ip..]);
    assert_eq!((answer.len(), answer[0], answer[9]), (44, 0x45, 6));
    assert_eq!(usize::from(u16::from_be_bytes([answer[2], answer[3]])), answer.len());
    assert_eq!((&answer[12..16], &answer[16..20]), (&asked[16..20], &asked[12..16]));
    assert_eq!(folded(sum(&answer[..20])), 0xffff);
    let (asked, segment) = (&asked[20..], &answer[20..]);
    assert_eq!((&segment[..2], &segment[2..4]), (&asked[2..4], &asked[..2]));
    let number = |at: &[u8]| u32::from_be_bytes(at.try_into().unwrap());
    assert_eq!(number(&segment[8..12]), number(&asked[4..8]).wrapping_add(1));
    assert_eq!((segment[12], segment[13]), (0x60, 0x12));
    assert_eq!(&segment[20..], [&[2, 4], &MSS[0].to_be_bytes()[..]].concat());
    assert_eq!(transport_sum(&answer[12..20], segment), 0, "the sum with a good checksum is zero");
}

/// Loads a guard; returns `None` if the test is skipped, because that is not allowed.
fn guard_of_test() -> Option<(Ebpf, Guard)> {
    match Guard::load(&GuardOptions::default()) {
        Err(why @ LinkError::Privilege { .. }) => {
            evenkeel_skip::skip(thread::current().name().unwrap(), &Lack::Other(&why.to_string()));
            None
        }
        loaded => Some(loaded.unwrap()),
    }
}

/// The verdict of a program on a frame, and the frame afterwards; `None` if the kernel did not run it.
type Verdict = Option<(Option<Fate>, Vec<u8>)>;

fn test_run<P>(program: &P, frame: &[u8]) -> (u32, Vec<u8>)
where
    P: for<'a> TestRun<Opts<'a> = TestRunOptions<'a>, Result = TestRunResult>,
{
    let mut out = vec![0; frame.len() + 100];
    let options = TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
    let result = program.test_run(options).unwrap();
    out.truncate(result.data_size_out as usize);
    (result.return_value, out)
}

fn in_xdp(object: &Ebpf, frame: &[u8]) -> Verdict {
    let program: &Xdp = object.program(PROGRAM).unwrap().try_into().unwrap();
    let (verdict, out) = test_run(program, frame);
    let fates = [(PASS, Fate::Passes), (DROP, Fate::IsDropped), (TX, Fate::IsAnswered)];
    Some((fates.into_iter().find(|(of, _)| *of == verdict).map(|(_, fate)| fate), out))
}

fn behind_xdp(object: &Ebpf, frame: &[u8]) -> Verdict {
    // In its test runs the kernel makes no packet of a frame that is too short for a header of IP.
    if frame.len() < 14 + 40 {
        return None;
    }
    let program: &SchedClassifier = object.program(BEHIND).unwrap().try_into().unwrap();
    let (verdict, out) = test_run(program, frame);
    let fates = [(u32::MAX, Fate::Passes), (2, Fate::IsDropped)];
    Some((fates.into_iter().find(|(of, _)| *of == verdict).map(|(_, fate)| fate), out))
}

/// Each frame has the fate that the state of its socket gives it, and each port the sum of those.
#[test]
fn random_frames_have_the_fate_that_the_model_says_and_are_counted() {
    assert_random_frames_are_judged(in_xdp, Fate::IsAnswered);
}

/// Behind another program all SYNs that could be answered are the kernel's.
#[test]
fn random_frames_have_that_fate_behind_another_program() {
    assert_random_frames_are_judged(behind_xdp, Fate::Passes);
}

/// Asserts the fates of random frames. Those of SYNs that could be answered is `answerable`.
fn assert_random_frames_are_judged(judge: fn(&Ebpf, &[u8]) -> Verdict, answerable: Fate) {
    with_addresses(move || {
        let Some((mut object, guard)) = guard_of_test() else { return };
        let _learning = learn_refusals_alone(&mut object);
        spend_limits(&mut object);
        flood_by_strays(&mut object);
        let _sockets = Sockets::open();
        let mut counted: BTreeMap<Judged, [u64; 3]> = BTreeMap::new();
        let mut seen = [0_usize; 4];
        let config = Config { cases: 4_000, failure_persistence: None, ..Config::default() };
        let state = std::cell::RefCell::new((&object, &mut counted, &mut seen));
        TestRunner::new(config)
            .run(&recipes(), |recipe| {
                be_refused();
                let (object, counted, seen) = &mut *state.borrow_mut();
                // The kernel gives up SYNs of a full queue after seconds.
                if seen.iter().sum::<usize>() % 64 == 0 {
                    Sockets::flood();
                }
                let frame = frame(&recipe);
                let Some((fate, out)) = judge(object, &frame) else { return Ok(()) };
                let of_model = expected(&frame).map(|(of, fate)| match fate {
                    Fate::IsAnswered => (of, answerable),
                    fate => (of, fate),
                });
                prop_assert_eq!(fate, Some(of_model.map_or(Fate::Passes, |(_, fate)| fate)));
                match of_model {
                    None => seen[3] += 1,
                    Some((of, fate)) => {
                        counted.entry(of).or_default()[fate as usize] += 1;
                        seen[fate as usize] += 1;
                    }
                }
                if fate == Some(Fate::IsAnswered) {
                    assert_answers(&out, &frame);
                } else {
                    prop_assert_eq!(&out, &frame);
                }
                Ok(())
            })
            .unwrap();
        let accounts: BTreeMap<_, _> = guard
            .accounts()
            .unwrap()
            .iter()
            .map(|it| (it.of, [it.passed, it.dropped, it.answered]))
            .collect();
        assert_eq!(accounts, counted);
        assert!([Judged::Strays, Judged::Echoes].iter().all(|of| counted[of][1] > 5), "{counted:?}");
        let fates = [Fate::Passes as usize, Fate::IsDropped as usize, answerable as usize, 3];
        assert!(fates.iter().all(|at| seen[*at] > 5), "{seen:?}");
    });
}

/// Returns whether an attempt succeeds within about a second.
fn succeeds_soon(mut attempt: impl FnMut() -> bool) -> bool {
    (0..1_000).any(|_| {
        let succeeds = attempt();
        if !succeeds {
            thread::park_timeout(core::time::Duration::from_millis(1));
        }
        succeeds
    })
}

/// A packet that there is no room to count is the kernel's.
#[test]
fn nothing_is_dropped_that_cannot_be_counted() {
    with_addresses(|| {
        let Some((object, mut guard)) = guard_of_test() else { return };
        let _sockets = Sockets::open();
        let dropped =
            [Recipe::datagram(FULL), Recipe { port: UNACCEPTED, ..Recipe::syn() }].map(|it| frame(&it));
        let none = || vec![[0; 3]; aya::util::nr_cpus().unwrap()].try_into().unwrap();
        // Keys of no packet. The kernel may be short of memory for the map for a moment.
        for key in u32::MAX / 2..u32::MAX / 2 + 131_072 {
            assert!(succeeds_soon(|| guard.accounts.insert(key, none(), 0).is_ok()));
        }
        assert!(guard.accounts.insert(u32::MAX / 2 - 1, none(), 0).is_err());
        let judged = |judge: fn(&Ebpf, &[u8]) -> Verdict| {
            dropped.each_ref().map(|frame| judge(&object, frame).unwrap().0.unwrap())
        };
        assert_eq!([judged(in_xdp), judged(behind_xdp)], [[Fate::Passes; 2]; 2]);
        for key in u32::MAX / 2..u32::MAX / 2 + 2 {
            guard.accounts.remove(&key).unwrap();
        }
        assert_eq!([judged(in_xdp), judged(behind_xdp)], [[Fate::IsDropped; 2]; 2]);
    });
}

/// A sender of echoes has some left when another one has spent those for all.
#[test]
fn who_floods_by_echoes_leaves_some_to_others() {
    with_addresses(|| {
        let Some((mut object, _guard)) = guard_of_test() else { return };
        let mut spent: PerCpuArray<MapData, u64> = take_map(&mut object, "spent").unwrap();
        let of_all = vec![u64::MAX / 2; aya::util::nr_cpus().unwrap()];
        // The kind of echoes.
        spent.set(3, of_all.try_into().unwrap(), 0).unwrap();
        let echo = Recipe { protocol: 1, flags: 8, payload: 20, ..Recipe::syn() };
        let (flood, other) = (frame(&echo), frame(&Recipe { source: [192, 0, 2, 1].into(), ..echo }));
        crate::pin_to_cpu(crate::cpus()[0]).unwrap();
        for judge in [in_xdp, behind_xdp] {
            let answered = |frame: &[u8], requests: u32| {
                (0..requests).filter(|_| judge(&object, frame).unwrap().0 == Some(Fate::Passes)).count()
            };
            let of_flood = answered(&flood, 2_000);
            assert!(of_flood < 500, "{of_flood}");
            assert_eq!(answered(&other, 5), 5);
        }
    });
}
