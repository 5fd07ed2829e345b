//! Packets of both families, made and read byte by byte.

use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::tcp::{Checksum, Flags, Header, Segment};
use evenkeel_core::wire::{EthernetAddress, IpAddress, Ipv4Address, Ipv6Address};

pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;

/// The parsed contents of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) hardware: EthernetAddress,
    pub(crate) source: IpAddress,
    pub(crate) destination: IpAddress,
    pub(crate) protocol: u8,
    pub(crate) body: Vec<u8>,
}

/// Returns the IP packet in a frame, if it has one.
pub(crate) fn read(frame: &[u8]) -> Option<Found> {
    let hardware = EthernetAddress(frame[..6].try_into().unwrap());
    let packet = &frame[14..];
    let (source, destination, protocol, body) = match frame[12..14] {
        [0x08, 0x00] => {
            let address = |at: usize| {
                let bytes: [u8; 4] = packet[at..at + 4].try_into().unwrap();
                IpAddress::Ipv4(Ipv4Address::from(bytes))
            };
            (address(12), address(16), packet[9], &packet[20..])
        }
        [0x86, 0xdd] => {
            let address = |at: usize| {
                let bytes: [u8; 16] = packet[at..at + 16].try_into().unwrap();
                IpAddress::Ipv6(Ipv6Address::from(bytes))
            };
            (address(8), address(24), packet[6], &packet[40..])
        }
        _ => return None,
    };
    Some(Found { hardware, source, destination, protocol, body: body.to_vec() })
}

/// Returns a frame with a packet, whose hop limit is 255.
pub(crate) fn frame(
    hardware: EthernetAddress,
    source: IpAddress,
    destination: IpAddress,
    protocol: u8,
    body: &[u8],
) -> Vec<u8> {
    let len = body.len() as u16;
    let (kind, packet) = match (source, destination) {
        (IpAddress::Ipv4(source), IpAddress::Ipv4(destination)) => {
            let mut header = vec![0x45, 0];
            header.extend((20 + len).to_be_bytes());
            header.extend([0, 0, 0x40, 0, 255, protocol, 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let sum = Checksum::default().add(&header).finish();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            ([0x08, 0x00], [&header[..], body].concat())
        }
        (IpAddress::Ipv6(source), IpAddress::Ipv6(destination)) => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(len.to_be_bytes());
            header.extend([protocol, 255]);
            header.extend(source.octets());
            header.extend(destination.octets());
            ([0x86, 0xdd], [&header[..], body].concat())
        }
        _ => panic!("of one family"),
    };
    [&hardware.0[..], &[2, 0, 0, 0, 0, 0x99], &kind, &packet].concat()
}

/// Returns a frame with a datagram.
pub(crate) fn datagram(
    hardware: EthernetAddress,
    source: IpEndpoint,
    destination: IpEndpoint,
    payload: &[u8],
) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let mut body = [source.port, destination.port, len, 0].map(u16::to_be_bytes).concat();
    body.extend(payload);
    let pseudo = Checksum::pseudo(source.addr, destination.addr, UDP, body.len());
    let sum = pseudo.add(&body).finish();
    body[6..8].copy_from_slice(&sum.to_be_bytes());
    frame(hardware, source.addr, destination.addr, UDP, &body)
}

/// Returns a frame with a SYN.
pub(crate) fn syn(hardware: EthernetAddress, source: IpEndpoint, destination: IpEndpoint) -> Vec<u8> {
    let header =
        Header { source: source.port, destination: destination.port, flags: Flags::SYN, ..Header::default() };
    let segment = Segment { header, payload: [b"", b""] };
    let mut bytes = vec![0; segment.len()];
    segment.emit(&mut bytes, source.addr, destination.addr).unwrap();
    frame(hardware, source.addr, destination.addr, TCP, &bytes)
}

/// Returns a frame with a message of ICMP or ICMPv6, with its checksum.
pub(crate) fn icmp(
    hardware: EthernetAddress,
    source: IpAddress,
    destination: IpAddress,
    message: &[u8],
) -> Vec<u8> {
    let (protocol, start) = match source {
        IpAddress::Ipv4(_) => (ICMP, Checksum::default()),
        IpAddress::Ipv6(_) => (ICMPV6, Checksum::pseudo(source, destination, ICMPV6, message.len())),
    };
    let mut message = message.to_vec();
    let sum = start.add(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame(hardware, source, destination, protocol, &message)
}

/// Returns a broadcast ARP frame: a request (1) or a reply (2).
pub(crate) fn arp(
    operation: u8,
    hardware: EthernetAddress,
    sender: Ipv4Address,
    target: Ipv4Address,
) -> Vec<u8> {
    let head = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let fixed = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation];
    let nobody = [0; 6];
    [&head[..], &hardware.0, &fixed, &hardware.0, &sender.octets(), &nobody, &target.octets()].concat()
}
