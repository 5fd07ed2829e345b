//! Packets that change how to send and arrive right before a packet that is answered: a neighbour has moved,
//! or a path has become narrower.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::packets::{self, Found, TCP, UDP, datagram, icmp, read};
use common::{Bench, HOST_MAC, UNIT};
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::Datagrams;
use evenkeel_core::stack::{InterfaceId, IpEndpoint};
use evenkeel_core::system::{TcpListener, UdpSocket};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};

const LAN: InterfaceId = InterfaceId(0);
const PORT: u16 = 9;
const TEN: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const SIX: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn v4(last: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, last)
}

fn v6(last: u8) -> IpAddress {
    IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last.into())
}

/// Returns the hardware address number `n`, which no host had before.
fn nth_mac(n: u16) -> EthernetAddress {
    let [a, b] = n.to_be_bytes();
    EthernetAddress([2, 0, 1, a, b, 1])
}

/// Answers each datagram to a port with so many bytes; takes them one by one, or several at a time.
#[derive(Debug)]
struct Answers {
    socket: Option<UdpSocket>,
    burst: Option<Datagrams>,
    bytes: usize,
}

impl Answers {
    fn spawn(bench: &mut Bench, burst: usize, bytes: usize) {
        let burst = (burst > 1).then(|| Datagrams::new(burst));
        // Its daemons are not to run before it.
        bench.host.spawn("answers", -20, Box::new(Self { socket: None, burst, bytes }));
        bench.settle();
    }
}

impl Program for Answers {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(UdpSocket::bind(system, None, PORT).unwrap());
            return Step::Again;
        };
        let answer = vec![7; self.bytes];
        if let Some(burst) = &mut self.burst {
            let Ok(()) = socket.receive_burst(system, burst) else { return Step::Wait(socket.fd()) };
            burst.iter().for_each(|request| socket.reply(system, request, &answer).unwrap());
        } else {
            let Ok(request) = socket.receive(system) else { return Step::Wait(socket.fd()) };
            socket.reply(system, &request, &answer).unwrap();
            system.recycle(request);
        }
        Step::Again
    }
}

/// Creates a host whose neighbours have announced themselves.
fn bench(architecture: Architecture) -> Bench {
    let mut bench = Bench::new(Config::of(architecture));
    bench.host.add_address(LAN, IpCidr::new(SIX.into(), 64), Instant::ZERO);
    bench.run(Duration::from_secs(20));
    bench.send(&[Says::ArpRequest.frame(nth_mac(9_999)), Says::Solicitation.frame(nth_mac(9_999))]);
    bench.run(UNIT * 100);
    bench.sent();
    bench
}

/// A packet by which a neighbour announces its hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    GratuitousArp,
    ArpRequest,
    Advertisement,
    Solicitation,
}

impl Says {
    const ALL: [Self; 4] = [Self::GratuitousArp, Self::ArpRequest, Self::Advertisement, Self::Solicitation];

    fn ends(self) -> (IpAddress, IpAddress) {
        match self {
            Self::GratuitousArp | Self::ArpRequest => (v4(1), TEN.into()),
            Self::Advertisement | Self::Solicitation => (v6(1), SIX.into()),
        }
    }

    fn frame(self, hardware: EthernetAddress) -> Vec<u8> {
        let IpAddress::Ipv4(peer) = v4(1) else { panic!() };
        let option = |kind| [&[kind, 1], &hardware.0[..]].concat();
        let nodes = IpAddress::v6(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let group = EthernetAddress([0x33, 0x33, 0, 0, 0, 1]);
        match self {
            Self::GratuitousArp => packets::arp(1, hardware, peer, peer),
            Self::ArpRequest => packets::arp(1, hardware, peer, TEN),
            Self::Advertisement => {
                let IpAddress::Ipv6(target) = v6(1) else { panic!() };
                let head = [136, 0, 0, 0, 0x20, 0, 0, 0];
                let message = [&head[..], &target.octets(), &option(2)].concat();
                icmp(group, v6(1), nodes, &message)
            }
            Self::Solicitation => {
                let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &SIX.octets(), &option(1)].concat();
                icmp(HOST_MAC, v6(1), SIX.into(), &message)
            }
        }
    }
}

fn request((peer, host): (IpAddress, IpAddress)) -> Vec<u8> {
    datagram(HOST_MAC, IpEndpoint::new(peer, 4_321), IpEndpoint::new(host, PORT), b"?")
}

/// Returns the packets of a protocol that the host has sent to the peer.
fn answers(bench: &mut Bench, protocol: u8) -> Vec<Found> {
    let sent = bench.sent();
    sent.iter().filter_map(|frame| read(frame)).filter(|found| found.protocol == protocol).collect()
}

#[test]
fn an_answer_goes_to_where_its_neighbour_has_just_moved() {
    for architecture in Architecture::ALL {
        for (says, burst) in Says::ALL.into_iter().zip([1, 16, 16, 1]) {
            let mut bench = bench(architecture);
            Answers::spawn(&mut bench, burst, 1);
            let ends = says.ends();
            let mut outdated = 0;
            for n in 0..250 {
                let mac = nth_mac(n);
                bench.send(&[says.frame(mac), request(ends)]);
                bench.settle();
                let got = answers(&mut bench, UDP);
                assert_eq!(got.len(), 1, "{architecture}, {says:?}, {n}");
                outdated += u32::from(got[0].hardware != mac);
            }
            assert_eq!(outdated, 0, "of 250 answers, {architecture}, {says:?}");
        }
    }
}

/// A thread of its own comes in between any two units, as an event loop lets it.
#[test]
fn a_thread_outside_answers_to_where_its_neighbour_has_just_moved() {
    for architecture in Architecture::ALL {
        for says in Says::ALL {
            let mut bench = bench(architecture);
            let me = bench.host.attach("me", 0, bench.now);
            let socket = bench
                .host
                .enter(me, bench.now, |system| UdpSocket::bind(system, None, PORT))
                .unwrap()
                .unwrap();
            let ends = says.ends();
            for n in 0..50 {
                let mac = nth_mac(n);
                bench.send(&[says.frame(mac), request(ends)]);
                let mut got = Vec::new();
                for _ in 0..100 {
                    let now = bench.now;
                    bench
                        .host
                        .enter(me, now, |system| {
                            while let Ok(request) = socket.receive(system) {
                                socket.reply(system, &request, b"!").unwrap();
                                system.recycle(request);
                            }
                        })
                        .unwrap();
                    got.extend(answers(&mut bench, UDP));
                    if !got.is_empty() {
                        break;
                    }
                    let _ = bench.unit() || bench.host.halt(bench.now);
                }
                assert_eq!(got.len(), 1, "{architecture}, {says:?}");
                assert_eq!(got[0].hardware, mac, "{architecture}, {says:?}, {n}");
                bench.settle();
                bench.sent();
            }
        }
    }
}

/// The daemon for control traffic answers pings, and a process's protocol processing a SYN.
#[test]
fn pings_and_connections_are_answered_to_where_their_neighbour_has_just_moved() {
    for architecture in Architecture::ALL {
        for says in Says::ALL {
            let mut bench = bench(architecture);
            let me = bench.host.attach("me", 0, bench.now);
            let listens =
                |system: &mut System<'_>| TcpListener::listen(system, None, PORT, &ListenerConfig::default());
            bench.host.enter(me, bench.now, listens).unwrap().unwrap();
            let (peer, host) = says.ends();
            let (kind, protocol) = if peer.version() == v4(1).version() { (8, 1) } else { (128, 58) };
            for n in 0..100 {
                let mac = nth_mac(n);
                let ping = icmp(HOST_MAC, peer, host, &[kind, 0, 0, 0, 0, 7, 0, 1]);
                let syn =
                    packets::syn(HOST_MAC, IpEndpoint::new(peer, 2_000 + n), IpEndpoint::new(host, PORT));
                let (frame, answered) = if n % 2 == 0 { (ping, protocol) } else { (syn, TCP) };
                bench.send(&[says.frame(mac), frame]);
                bench.run(UNIT * 200);
                let got = answers(&mut bench, answered);
                let is_reply = |found: &&Found| answered == TCP || matches!(found.body[0], 0 | 129);
                let got: Vec<_> = got.iter().filter(is_reply).collect();
                assert_eq!(got.len(), 1, "{architecture}, {says:?}, {n}");
                assert_eq!(got[0].hardware, mac, "{architecture}, {says:?}, {n}");
            }
        }
    }
}

/// Returns a router's report about the path to `peer`, whose MTU is `mtu` bytes.
fn too_big((peer, host): (IpAddress, IpAddress), mtu: u16) -> Vec<u8> {
    let [a, b] = mtu.to_be_bytes();
    let quoted = datagram(HOST_MAC, IpEndpoint::new(host, PORT), IpEndpoint::new(peer, 4_321), &[7; 100]);
    let (head, router) = match peer {
        IpAddress::Ipv4(_) => ([3, 4, 0, 0, 0, 0, a, b], v4(200)),
        IpAddress::Ipv6(_) => ([2, 0, 0, 0, 0, 0, a, b], v6(200)),
    };
    icmp(HOST_MAC, router, host, &[&head[..], &quoted[14..]].concat())
}

#[test]
fn an_answer_is_as_large_as_a_report_right_before_it_allows() {
    for architecture in Architecture::ALL {
        let mut bench = bench(architecture);
        Answers::spawn(&mut bench, 1, 1_400);
        for n in 10..60 {
            for ends in [(v4(n), TEN.into()), (v6(n), SIX.into())] {
                let now = bench.now;
                bench.host.set_neighbor(LAN, ends.0, nth_mac(n.into()), now).unwrap();
                bench.send(&[too_big(ends, 1_300), request(ends)]);
                bench.settle();
                let sent = bench.sent();
                assert_eq!(sent.len(), 2, "two fragments: {architecture}, {}", ends.0);
                assert!(sent.iter().all(|frame| frame.len() <= 14 + 1_300), "{architecture}, {}", ends.0);
            }
        }
    }
}

/// The first announcement of a neighbour does not replace its last one.
#[test]
fn the_last_word_of_a_neighbour_counts() {
    for architecture in Architecture::ALL {
        let mut bench = bench(architecture);
        Answers::spawn(&mut bench, 1, 1);
        let says = Says::GratuitousArp;
        for n in 0..50 {
            let words = [n, n + 500, n + 1_000, n + 2_000].map(|n| says.frame(nth_mac(n)));
            bench.send(&[&words[..], &[request(says.ends()), request(says.ends())]].concat());
            bench.settle();
            bench.send(&[request(says.ends())]);
            bench.settle();
            let got = answers(&mut bench, UDP);
            assert_eq!(got.len(), 3, "{architecture}");
            assert!(got.iter().all(|found| found.hardware == nth_mac(n + 2_000)), "{architecture}, {n}");
        }
    }
}

/// Of many more than are processed ahead, and with frames of all kinds: its receivers pay for a bounded
/// number.
#[test]
fn a_flood_of_what_neighbours_say_is_processed_ahead_within_a_bound_and_hurts_no_socket() {
    const ROUNDS: u64 = 500;
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        let mut bench = bench(architecture);
        let (sink, seen) = common::Sink::new(PORT);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        let (begin, before) = (bench.now, bench.host.ahead_counters());
        for n in 0..ROUNDS as u16 {
            let said = Says::ALL.map(|says| says.frame(nth_mac(n)));
            let flood: Vec<_> = said.iter().cycle().take(40).cloned().collect();
            bench.send(&flood);
            bench.send(&[request((v4(1), TEN.into()))]);
            bench.run(UNIT * 20);
            bench.sent();
        }
        bench.run(Duration::from_millis(5));
        let elapsed = bench.now.since(begin).as_millis() as u64;
        let counters = bench.host.ahead_counters();
        let processed = counters.processed - before.processed;
        assert_eq!(seen.count(), ROUNDS, "{architecture}: every datagram arrives");
        // A burst; one a frame that is taken up, and one for each look that finds nothing; one a millisecond.
        let bound = 64 + 4 * ROUNDS + elapsed;
        assert!(processed > 64 && processed <= bound, "{architecture}: {processed}, at most {bound}");
        assert!(counters.overtook > before.overtook, "{architecture}: the others wait for their daemon");
    }
}
