//! Forwarding: a packet leaves unchanged except for its hop limit and fragmentation; the counters add up, no
//! buffer leaks, every bound holds.

use std::collections::VecDeque;

use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::internals::{Io, Received, Reply, Stack};
use evenkeel_core::ledger::Ledger;
use evenkeel_core::stack::{Config, InterfaceId, Multipath, NextHop, Route, Transit, Via};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};

use super::Script;
use super::frames::{FROM_V4, FROM_V6, HOST, HOST_MAC, HOST_V6, TO_V4, TO_V6, frame, noise, seal_v4_header};

const LAN: InterfaceId = InterfaceId(0);
const WAN: InterfaceId = InterfaceId(1);
const WAN_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 1, 2]);
const POOL_PKTS: usize = 64;
/// The most bytes of a packet, so that it fits a buffer.
const PACKET_MAX: usize = 1900;

const WAN_V4: Ipv4Address = Ipv4Address::new(198, 51, 100, 2);
const WAN_V6: Ipv6Address = Ipv6Address::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
/// The addresses of packets in transit: beyond the WAN, on it, on the LAN, and in a prefix whose route the
/// script sets.
const PLACES_V4: [Ipv4Address; 6] = [
    Ipv4Address::new(203, 0, 113, 9),
    Ipv4Address::new(198, 51, 100, 1),
    Ipv4Address::new(10, 0, 0, 1),
    Ipv4Address::new(192, 0, 2, 1),
    Ipv4Address::new(198, 51, 100, 255),
    Ipv4Address::new(169, 254, 3, 4),
];
const PLACES_V6: [Ipv6Address; 6] = [
    Ipv6Address::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9),
    Ipv6Address::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xfc00, 0, 0, 0, 0, 0, 0, 9),
];

/// Returns limits so low that scripts of a few frames reach them.
fn config(choice: u8) -> Config {
    Config {
        forwarding: true,
        reverse_path: choice & 1 != 0,
        redirects: choice & 2 == 0,
        neighbors: 4,
        pending_per_neighbor_pkts: 3,
        pending_pkts: 5,
        reassembly_packets: 2,
        fragment_pkts: 4,
        icmp_error_burst: 3,
        routes: 12,
        ..Config::default()
    }
}

struct Router {
    stack: Stack,
    pool: Pool,
    ledger: Ledger,
    out: VecDeque<(InterfaceId, Frame)>,
    /// Packets that wait to be screened.
    screened: VecDeque<Transit>,
    mtu: [usize; 2],
    now: Instant,
}

/// Runs the script; returns the counters, which show how far it got.
pub fn run(input: &[u8]) -> Ledger {
    let mut script = Script(input);
    let mut router = Router::new(script.byte());
    while !script.is_over() {
        router.act(&mut script);
        router.transmit();
        router.check();
    }
    router.end();
    router.ledger
}

impl Router {
    fn new(choice: u8) -> Self {
        let mut router = Self {
            stack: Stack::new(config(choice), 1),
            pool: Pool::new(POOL_PKTS),
            ledger: Ledger::default(),
            out: VecDeque::new(),
            screened: VecDeque::new(),
            mtu: [1500; 2],
            now: Instant::ZERO,
        };
        for (mac, v4, v6) in [(HOST_MAC, HOST, HOST_V6), (WAN_MAC, WAN_V4, WAN_V6)] {
            let interface = router.stack.add_interface(mac, 1500);
            for cidr in [IpCidr::new(v4.into(), 24), IpCidr::new(v6.into(), 64)] {
                router.with(|stack, io| stack.add_address(interface, cidr, io));
            }
        }
        for (to, gateway) in [
            (IpCidr::new(PLACES_V4[0].into(), 24), PLACES_V4[1].into()),
            (IpCidr::new(PLACES_V6[0].into(), 48), PLACES_V6[1].into()),
        ] {
            router.stack.add_route(to, gateway, WAN).expect("the table has room");
            let hardware = EthernetAddress([2, 0, 0, 0, 1, 1]);
            router
                .with(|stack, io| stack.set_neighbor(WAN, gateway, hardware, io))
                .expect("a unicast neighbour");
        }
        router.transmit();
        router
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Stack, &mut Io<'_>) -> T) -> T {
        let mut io = Io { now: self.now, pool: &mut self.pool, ledger: &mut self.ledger, out: &mut self.out };
        work(&mut self.stack, &mut io)
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.byte() % 12 {
            0..=4 => {
                let mut bytes = frame(script).bytes;
                let interface = reroute(&mut bytes, script);
                self.receive(interface, &bytes, script.byte());
            }
            5 => {
                let bytes = noise(script);
                self.receive(LAN, &bytes, 0);
            }
            6 => {
                self.now += script.pick(&[1, 1_000, 5_000, 40_000].map(Duration::from_millis));
                self.tick();
            }
            7 => {
                let route = route(script);
                // A full table refuses, and a gateway of the other family is invalid.
                let _ = self.stack.set_route(route);
            }
            8 => {
                let route = route(script);
                self.stack.remove_route(&route);
            }
            9 => {
                let (interface, address) = (script.pick(&[LAN, WAN]), place(script));
                if script.flag() {
                    self.with(|stack, io| stack.remove_neighbor(interface, address, io));
                } else {
                    let hardware = EthernetAddress([2, 0, 0, 0, 0, script.byte()]);
                    let _ = self.with(|stack, io| stack.set_neighbor(interface, address, hardware, io));
                }
            }
            10 => {
                let (interface, mtu) = (script.pick(&[LAN, WAN]), script.pick(&[576, 1280, 1500, 600]));
                self.stack.set_mtu(interface, mtu);
                self.mtu[usize::from(interface.0)] = mtu;
            }
            _ => {
                for _ in 0..script.byte() % 4 {
                    let Some(transit) = self.screened.pop_front() else { break };
                    self.forward(transit);
                    self.transmit();
                }
            }
        }
    }

    fn receive(&mut self, interface: InterfaceId, bytes: &[u8], fate: u8) {
        let Some(frame) = self.pool.take_copy(bytes) else { return };
        self.ledger.received += 1;
        match self.with(|stack, io| stack.input(interface, frame, io)) {
            Some(Received::Transit(transit)) => {
                assert_eq!(transit.interface(), interface);
                assert!(bytes[14..].starts_with(transit.packet()), "padding at most is cut off");
                match fate % 5 {
                    0 | 1 => self.forward(transit),
                    2 => self.with(|stack, io| stack.refuse_transit(transit, Reply::Prohibited, io)),
                    3 if fate >= 128 => {
                        self.with(|stack, io| stack.refuse_transit(transit, Reply::Reset, io))
                    }
                    3 => self.with(|stack, io| stack.refuse_transit(transit, Reply::Silence, io)),
                    _ => self.screened.push_back(transit),
                }
            }
            Some(Received::Datagram(datagram)) => {
                self.ledger.delivered += datagram.frames();
                datagram.recycle(&mut self.pool);
            }
            Some(Received::Segment(packet)) => packet.consume(&mut self.ledger, &mut self.pool),
            Some(Received::IcmpError(_) | Received::Control) | None => {}
        }
    }

    /// Forwards a packet, and compares the outgoing packets with it.
    fn forward(&mut self, transit: Transit) {
        let packet = transit.packet().to_vec();
        assert!(!self.stack.is_local(&destination(&packet)));
        let (forwarded, originated) = (self.ledger.forwarded, self.ledger.originated);
        self.with(|stack, io| stack.forward(transit, io));
        if self.ledger.forwarded == forwarded {
            assert!(left(&self.out, &packet).is_empty(), "what is not forwarded does not leave");
            return;
        }
        assert_eq!(self.ledger.forwarded, forwarded + 1);
        assert!(hop_limit(&packet) > 1);
        let left = left(&self.out, &packet);
        if left.is_empty() {
            assert!(self.stack.held() > 0, "it waits for its neighbour");
            return;
        }
        assert!(self.ledger.originated >= originated + left.len() as u64 - 1);
        for (interface, bytes) in &left {
            assert!(bytes.len() <= self.mtu[usize::from(interface.0)], "it fits the link");
            assert_eq!(hop_limit(bytes), hop_limit(&packet) - 1);
        }
        if packet[0] >> 4 == 6 {
            assert_eq!((&left[0].1[..7], &left[0].1[8..], left.len()), (&packet[..7], &packet[8..], 1));
        } else {
            check_fragments(&packet, &left);
        }
    }

    fn tick(&mut self) {
        if self.now >= self.stack.next_deadline() {
            self.with(|stack, io| stack.tick(io));
            assert!(self.stack.next_deadline() > self.now, "what was due has been done");
        }
    }

    fn transmit(&mut self) {
        while let Some((_, frame)) = self.out.pop_front() {
            check_sent(frame.bytes());
            self.ledger.transmitted += 1;
            self.pool.recycle(frame);
        }
    }

    fn check(&self) {
        let (reassembling, held) = (self.stack.reassembling(), self.stack.held());
        let screened = self.screened.len() as u64;
        self.ledger.check(reassembling + screened, held).expect("the counters add up");
        let in_use = (reassembling + held + screened) as usize + self.out.len();
        assert_eq!(self.pool.available() + in_use, self.pool.capacity(), "no buffer leaks");
        assert!(reassembling <= 4 && held <= 5, "{reassembling} fragments, {held} waiting");
        assert!(self.stack.routes().count() <= 12, "as many routes as may be");
    }

    /// Checks that the stack, left alone, drops everything that it holds.
    fn end(&mut self) {
        while let Some(transit) = self.screened.pop_front() {
            self.with(|stack, io| stack.refuse_transit(transit, Reply::Silence, io));
        }
        for _ in 0..20 {
            self.now += Duration::from_secs(10);
            self.tick();
            self.transmit();
        }
        self.check();
        assert_eq!((self.stack.reassembling(), self.stack.held()), (0, 0), "nothing is held for ever");
    }
}

/// Gives an IP packet other ends, another hop limit and more bytes, as the script says. Returns the interface
/// that it arrives on.
fn reroute(bytes: &mut Vec<u8>, script: &mut Script<'_>) -> InterfaceId {
    let (from, to) = (script.byte(), script.byte());
    let (hop_limit, more, flags) = (script.byte(), usize::from(script.byte()) * 8, script.byte());
    let is_v4 = bytes.get(12..14) == Some(&[8, 0]);
    let room = (PACKET_MAX + 14).saturating_sub(bytes.len().max(54));
    if bytes.len() >= 54 {
        let more = more.min(room);
        bytes.extend((0..more).map(|n| n as u8));
        let len = if is_v4 { &mut bytes[16..18] } else { &mut bytes[18..20] };
        let grown = u16::from_be_bytes([len[0], len[1]]).saturating_add(more as u16);
        len.copy_from_slice(&grown.to_be_bytes());
        if is_v4 {
            bytes[22] = hop_limit;
            place_bytes(&mut bytes[26..30], &pick_v4(from, &FROM_V4).octets(), from);
            place_bytes(&mut bytes[30..34], &pick_v4(to, &TO_V4).octets(), to);
            // "Don't fragment" is set as it was and inverted.
            bytes[20] ^= (flags & 2) << 5;
            seal_v4_header(bytes);
        } else {
            bytes[21] = hop_limit;
            place_bytes(&mut bytes[22..38], &pick_v6(from, &FROM_V6).octets(), from);
            place_bytes(&mut bytes[38..54], &pick_v6(to, &TO_V6).octets(), to);
        }
    }
    if flags & 4 != 0 {
        // The sender takes us for its neighbour, by another's address.
        return LAN;
    }
    let (interface, mac) = if flags & 1 == 0 { (LAN, HOST_MAC) } else { (WAN, WAN_MAC) };
    if let Some(destination) = bytes.get_mut(..6) {
        destination.copy_from_slice(&mac.0);
    }
    interface
}

/// Leaves the address as it is if the script says 255.
fn place_bytes(place: &mut [u8], bytes: &[u8], choice: u8) {
    if choice != 255 {
        place.copy_from_slice(bytes);
    }
}

fn pick_v4(choice: u8, others: &[Ipv4Address; 8]) -> Ipv4Address {
    let place = usize::from(choice) % 14;
    PLACES_V4.get(place).copied().unwrap_or_else(|| others[place - PLACES_V4.len()])
}

fn pick_v6(choice: u8, others: &[Ipv6Address; 8]) -> Ipv6Address {
    let place = usize::from(choice) % 14;
    PLACES_V6.get(place).copied().unwrap_or_else(|| others[place - PLACES_V6.len()])
}

fn place(script: &mut Script<'_>) -> IpAddress {
    if script.flag() { script.pick(&PLACES_V4).into() } else { script.pick(&PLACES_V6).into() }
}

fn route(script: &mut Script<'_>) -> Route {
    let (to, length) = (place(script), script.pick(&[24, 0, 8, 32, 31]));
    let interface = script.pick(&[LAN, WAN]);
    let hop = |script: &mut Script<'_>| NextHop {
        interface: script.pick(&[LAN, WAN]),
        gateway: script.flag().then(|| place(script)),
        weight: script.byte().into(),
    };
    let via = match script.byte() % 7 {
        6 => {
            let hops: Vec<_> = (0..1 + script.byte() % 4).map(|_| hop(script)).collect();
            Multipath::new(&hops).map_or(Via::Blackhole, Via::Multipath)
        }
        0 | 1 => Via::Gateway(interface, place(script)),
        2 => Via::Link(interface),
        3 => Via::Blackhole,
        4 => Via::Unreachable,
        _ => Via::Prohibit,
    };
    Route { to: IpCidr::new(to, length), via, metric: u32::from(script.byte() % 3) }
}

// --- What left ---

fn addresses(packet: &[u8]) -> &[u8] {
    if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] }
}

fn destination(packet: &[u8]) -> IpAddress {
    if packet[0] >> 4 == 4 {
        return IpAddress::v4(packet[16], packet[17], packet[18], packet[19]);
    }
    let bytes: [u8; 16] = packet[24..40].try_into().expect("sixteen bytes");
    IpAddress::Ipv6(Ipv6Address::from(bytes))
}

fn hop_limit(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[8] } else { packet[7] }
}

/// Returns the packets ready to leave that have the ends of `packet`. None of our own has, because its source
/// is never ours.
fn left(out: &VecDeque<(InterfaceId, Frame)>, packet: &[u8]) -> Vec<(InterfaceId, Vec<u8>)> {
    let same_kind =
        |bytes: &[u8]| bytes.len() >= 34 && bytes[14] >> 4 == packet[0] >> 4 && bytes[12..14] != [8, 6];
    out.iter()
        .filter(|(_, frame)| same_kind(frame.bytes()) && addresses(&frame.bytes()[14..]) == addresses(packet))
        .map(|(interface, frame)| (*interface, frame.bytes()[14..].to_vec()))
        .collect()
}

/// Checks that the packets make up `packet`, each with a right header.
fn check_fragments(packet: &[u8], left: &[(InterfaceId, Vec<u8>)]) {
    let header_len = |packet: &[u8]| usize::from(packet[0] & 0xf) * 4;
    let field = |packet: &[u8]| u16::from_be_bytes([packet[6], packet[7]]);
    let mut payload = Vec::<u8>::new();
    for (place, (_, bytes)) in left.iter().enumerate() {
        assert_eq!(
            usize::from(field(bytes) & 0x1fff),
            usize::from(field(packet) & 0x1fff) + payload.len() / 8
        );
        let more = field(packet) & 0x2000 != 0 || place + 1 < left.len();
        assert_eq!((field(bytes) & 0x2000 != 0, field(bytes) & 0xc000), (more, field(packet) & 0xc000));
        assert_eq!((bytes[1], &bytes[4..6], bytes[9]), (packet[1], &packet[4..6], packet[9]));
        payload.extend(&bytes[header_len(bytes)..]);
    }
    assert_eq!(
        left[0].1[20..header_len(packet)],
        packet[20..header_len(packet)],
        "the first has all options"
    );
    assert_eq!(payload, packet[header_len(packet)..]);
    assert!(left.len() == 1 || field(packet) & 0x4000 == 0, "it may be cut");
}

/// Checks that an IP packet that leaves has a right length, a right header checksum and hops left, and has a
/// receiver.
fn check_sent(bytes: &[u8]) {
    let packet = &bytes[14..];
    if bytes[12..14] == [8, 6] {
        return;
    }
    let (len, expected) = match packet[0] >> 4 {
        4 => {
            let header = &packet[..usize::from(packet[0] & 0xf) * 4];
            let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "IPv4 header checksum");
            (usize::from(u16::from_be_bytes([packet[2], packet[3]])), 0x0800)
        }
        _ => (usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40, 0x86dd),
    };
    assert_eq!((packet.len(), u16::from_be_bytes([bytes[12], bytes[13]])), (len, expected));
    assert!(hop_limit(packet) > 0 && !destination(packet).is_unspecified());
}
