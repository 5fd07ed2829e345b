//! Stacks on a wire: what the tests of every concern share. Every exchange ends with the counters add upd.

mod claims;
mod echo;
mod forward;
mod fragments;
mod groups;
mod hostile;
mod neighbor_update;
mod neighbors;
mod routes;
mod screened;
mod shared;
mod tcp;
mod udp;

use std::collections::VecDeque;

use super::*;
use crate::drop::Reason;
use crate::frame::{Frame, Pool};
use crate::ledger::Ledger;
use crate::tcp::Ecn;
use crate::time::Instant;
use crate::wire::{EthernetAddress, EthernetFrame, IpAddress, IpCidr, Ipv4Address};

/// A stack with everything a host would put around it.
pub(in crate::stack) struct Node {
    pub(in crate::stack) stack: Stack,
    pub(in crate::stack) pool: Pool,
    pub(in crate::stack) ledger: Ledger,
    pub(in crate::stack) out: VecDeque<(InterfaceId, Frame)>,
    pub(in crate::stack) now: Instant,
}

pub(in crate::stack) const LAN: InterfaceId = InterfaceId(0);
const POOL: usize = 1024;

pub(in crate::stack) fn mac(n: u8) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, n])
}

pub(in crate::stack) fn v4(n: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, n)
}

pub(in crate::stack) fn v6(n: u8) -> IpAddress {
    IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, n.into())
}

impl Node {
    pub(in crate::stack) fn new(n: u8, config: Config) -> Self {
        let mut node = Self {
            stack: Stack::new(config, n.into()),
            pool: Pool::new(POOL),
            ledger: Ledger::default(),
            out: VecDeque::new(),
            now: Instant::ZERO,
        };
        node.stack.add_interface(mac(n), 1500);
        node.with(|stack, io| {
            stack.add_address(LAN, IpCidr::new(v4(n), 24), io);
            stack.add_address(LAN, IpCidr::new(v6(n), 64), io);
        });
        node
    }

    /// Creates a node after its membership reports and other announcements.
    pub(in crate::stack) fn quiet(n: u8) -> Self {
        let mut node = Self::new(n, Config { report_groups: false, ..Config::default() });
        assert_eq!(node.sent().len(), 0);
        node
    }

    pub(in crate::stack) fn with<T>(&mut self, work: impl FnOnce(&mut Stack, &mut Io<'_>) -> T) -> T {
        let mut io = Io { now: self.now, pool: &mut self.pool, ledger: &mut self.ledger, out: &mut self.out };
        work(&mut self.stack, &mut io)
    }

    /// Receives a frame of these bytes.
    pub(in crate::stack) fn receive(&mut self, bytes: &[u8]) -> Option<Datagram> {
        let frame = self.pool.take_copy(bytes).expect("a test's pool is large enough");
        self.ledger.received += 1;
        match self.with(|stack, io| stack.input(LAN, frame, io))? {
            Received::Datagram(datagram) => Some(datagram),
            Received::Segment(packet) => {
                packet.consume(&mut self.ledger, &mut self.pool);
                None
            }
            Received::IcmpError(_) | Received::Control => None,
            Received::Transit(transit) => panic!("a host forwards nothing: {transit:?}"),
        }
    }

    /// Receives a frame that may complete a segment; what is said of congestion with it.
    pub(in crate::stack) fn receive_ecn(&mut self, bytes: &[u8]) -> Option<Ecn> {
        let frame = self.pool.take_copy(bytes).expect("a test's pool is large enough");
        self.ledger.received += 1;
        let Received::Segment(packet) = self.with(|stack, io| stack.input(LAN, frame, io))? else {
            panic!("neither a segment nor part of one");
        };
        let ecn = packet.ecn;
        packet.consume(&mut self.ledger, &mut self.pool);
        Some(ecn)
    }

    /// Receives a frame that gives a datagram; ends it as delivered.
    pub(in crate::stack) fn receive_udp(
        &mut self,
        bytes: &[u8],
    ) -> Option<(IpEndpoint, IpEndpoint, Vec<u8>)> {
        let datagram = self.receive(bytes)?;
        let payload: Vec<u8> = datagram.chunks().flatten().copied().collect();
        assert_eq!(payload.len(), datagram.len());
        self.ledger.delivered += datagram.frames();
        let ends = (datagram.source(), datagram.destination());
        datagram.recycle(&mut self.pool);
        Some((ends.0, ends.1, payload))
    }

    /// Takes what has been sent.
    pub(in crate::stack) fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        while let Some((_, frame)) = self.out.pop_front() {
            self.ledger.transmitted += 1;
            sent.push(frame.bytes().to_vec());
            self.pool.recycle(frame);
        }
        sent
    }

    pub(in crate::stack) fn tick_at(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.now = now;
        self.with(|stack, io| stack.tick(io));
        self.sent()
    }

    pub(in crate::stack) fn send(&mut self, to: IpAddress, payload: &[u8]) -> Result<(), OutputError> {
        let source = Source { port: 1000, ..Source::default() };
        self.with(|stack, io| {
            stack.send_udp(source, IpEndpoint::new(to, 2000), payload, &mut RouteHandle::default(), io)
        })
    }

    /// Checks that no frame is lost or counted twice, and that every buffer is in its place.
    pub(in crate::stack) fn check(&self) {
        let (queued, held) = (self.stack.reassembling(), self.stack.held() + self.out.len() as u64);
        self.ledger.check(queued, held).expect("the counters add up");
        assert_eq!(self.pool.available() + queued as usize + held as usize, POOL, "buffers");
        self.stack.check_invariants();
    }
}

/// Carries frames between two nodes until neither has any; gives the datagrams that `b` and `a` received.
pub(in crate::stack) fn exchange(a: &mut Node, b: &mut Node) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    for _ in 0..1000 {
        let (from_a, from_b) = (a.sent(), b.sent());
        if from_a.is_empty() && from_b.is_empty() {
            break;
        }
        got.extend(from_a.iter().filter_map(|bytes| b.receive_udp(bytes)).map(|(_, _, payload)| payload));
        got.extend(from_b.iter().filter_map(|bytes| a.receive_udp(bytes)).map(|(_, _, payload)| payload));
    }
    a.check();
    b.check();
    got
}

pub(in crate::stack) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Returns an Ethernet frame around an IP packet.
pub(in crate::stack) fn ethernet(
    to: EthernetAddress,
    from: EthernetAddress,
    kind: u16,
    packet: &[u8],
) -> Vec<u8> {
    [&to.0[..], &from.0, &kind.to_be_bytes(), packet].concat()
}

/// Returns an IPv4 packet in a frame from node 1 to node 2; `fragment` is the field of flags and offset.
pub(in crate::stack) fn packet_v4(
    protocol: u8,
    id: u16,
    fragment: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(((header_len + payload.len()) as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(options);
    packet.extend(payload);
    sum_v4(&mut packet);
    ethernet(mac(2), mac(1), 0x0800, &packet)
}

/// Fills the header checksum of an IPv4 packet.
pub(in crate::stack) fn sum_v4(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 0xf) * 4;
    let sum = crate::tcp::Checksum::default().add(&packet[..header.min(packet.len())]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Changes the IPv4 packet in a frame and makes its header checksum right again.
pub(in crate::stack) fn edit_v4(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    change(&mut frame[14..]);
    sum_v4(&mut frame[14..]);
    frame
}

/// Returns an IPv6 packet in a frame from node 1 to node 2.
pub(in crate::stack) fn packet_v6(next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let bytes = |address: IpAddress| match address {
        IpAddress::Ipv6(address) => address.octets(),
        IpAddress::Ipv4(_) => unreachable!("an IPv6 address"),
    };
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, hop_limit]);
    packet.extend(bytes(v6(1)));
    packet.extend(bytes(v6(2)));
    packet.extend(payload);
    ethernet(mac(2), mac(1), 0x86dd, &packet)
}

/// Returns a UDP datagram from port 7 to port 9 with a right checksum.
pub(in crate::stack) fn udp_bytes(from: IpAddress, to: IpAddress, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len();
    let mut bytes = vec![0, 7, 0, 9];
    bytes.extend((len as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    let sum = crate::tcp::Checksum::pseudo(from, to, 17, len).add(&bytes).finish();
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Returns an ICMP message with a right checksum; over IPv6 from node 1 to `to`.
pub(in crate::stack) fn icmp_bytes(to: Option<IpAddress>, from: IpAddress, mut bytes: Vec<u8>) -> Vec<u8> {
    let start = to.map_or(crate::tcp::Checksum::default(), |to| {
        crate::tcp::Checksum::pseudo(from, to, 58, bytes.len())
    });
    bytes[2..4].fill(0);
    let sum = start.add(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Lets a node receive frames of which none may give a datagram; then the only drops are `expected`.
pub(in crate::stack) fn assert_drops(node: &mut Node, frames: &[Vec<u8>], expected: &[(Reason, u64)]) {
    for frame in frames {
        assert!(node.receive(frame).is_none(), "{frame:02x?}");
        node.check();
    }
    let drops: Vec<_> =
        node.ledger.drops().map(|(reason, input, _)| (reason, input)).filter(|d| d.1 > 0).collect();
    assert_eq!(drops, expected);
}

/// Makes two nodes know each other over both families, beyond doubt.
pub(in crate::stack) fn introduce(a: &mut Node, b: &mut Node) {
    for address in [v4, v6] {
        a.send(address(2), b"hello").unwrap();
        assert_eq!(exchange(a, b), [b"hello"]);
    }
    while let Some(due) =
        Some(a.stack.next_deadline().min(b.stack.next_deadline())).filter(|d| *d != Instant::NEVER)
    {
        for node in [&mut *a, &mut *b] {
            node.now = due;
            node.with(|stack, io| stack.tick(io));
        }
        exchange(a, b);
    }
}
