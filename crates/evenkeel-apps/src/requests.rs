//! Request frames, created once and sent many times, for a load generator with little cost for each frame.

use evenkeel::raw::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpEndpoint, IpProtocol,
    Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket, UdpRepr,
};
use smoltcp::phy::ChecksumCapabilities;

use crate::dice::Dice;

const ETHERNET: usize = 14;
const HOP_LIMIT: u8 = 64;

/// The addresses, size and flows of the frames of a load generator.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Hardware addresses: source, destination.
    pub hardware: (EthernetAddress, EthernetAddress),
    /// The source of the first flow. Further flows count up from its port.
    pub from: IpEndpoint,
    /// The destination of all flows, of the family of `from`.
    pub to: IpEndpoint,
    /// Bytes of payload in each request.
    pub payload: usize,
    /// The number of flows, at least one. The frames of different flows differ by their source port.
    pub flows: u16,
    /// The seed of the payloads and of the order of flows.
    pub seed: u64,
}

/// An error: the two ends of a flow are of different families, or the source port is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Impossible;

/// Prepared frames, one for each flow, returned in turn.
#[derive(Debug)]
pub struct Requests {
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl Requests {
    /// Creates the frames.
    ///
    /// # Errors
    /// [`Impossible`] says what of `shape` cannot be.
    pub fn new(shape: &Shape) -> Result<Self, Impossible> {
        let mut dice = Dice::new(shape.seed);
        let flows = (0..shape.flows.max(1)).map(|flow| {
            let port = shape.from.port.checked_add(flow).ok_or(Impossible)?;
            let payload: Vec<u8> = (0..shape.payload).map(|_| dice.roll() as u8).collect();
            frame(shape, port, &payload)
        });
        let mut frames = flows.collect::<Result<Vec<_>, _>>()?;
        for last in (1..frames.len()).rev() {
            // This is the shuffle of Fisher and Yates.
            frames.swap(last, dice.below(last + 1));
        }
        Ok(Self { frames, next: 0 })
    }

    /// Creates frames of IP packets, which are returned in order.
    ///
    /// # Errors
    /// [`Impossible`] if there is none, or something else among them.
    pub fn of_packets(
        hardware: (EthernetAddress, EthernetAddress),
        packets: &[Vec<u8>],
    ) -> Result<Self, Impossible> {
        let frame = |packet: &Vec<u8>| {
            let ethertype = match packet.first().map(|first| first >> 4) {
                Some(4) => EthernetProtocol::Ipv4,
                Some(6) => EthernetProtocol::Ipv6,
                _ => return Err(Impossible),
            };
            let mut frame = ethernet(hardware, ethertype, ETHERNET + packet.len());
            frame[ETHERNET..][..packet.len()].copy_from_slice(packet);
            Ok(frame)
        };
        let frames = packets.iter().map(frame).collect::<Result<Vec<_>, _>>()?;
        if frames.is_empty() { Err(Impossible) } else { Ok(Self { frames, next: 0 }) }
    }

    /// Returns the next frame to send.
    #[expect(clippy::should_implement_trait, reason = "it lends, and never ends")]
    pub fn next(&mut self) -> &[u8] {
        let frame = &self.frames[self.next];
        self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
        frame
    }
}

fn frame(shape: &Shape, port: u16, payload: &[u8]) -> Result<Vec<u8>, Impossible> {
    let udp = UdpRepr { src_port: port, dst_port: shape.to.port };
    let udp_len = udp.header_len() + payload.len();
    match (shape.from.addr, shape.to.addr) {
        (IpAddress::Ipv4(src_addr), IpAddress::Ipv4(dst_addr)) => {
            let next_header = IpProtocol::Udp;
            let ip = Ipv4Repr { src_addr, dst_addr, next_header, payload_len: udp_len, hop_limit: HOP_LIMIT };
            let start = ETHERNET + ip.buffer_len();
            let mut frame = ethernet(shape.hardware, EthernetProtocol::Ipv4, start + udp_len);
            let mut packet = Ipv4Packet::new_unchecked(&mut frame[ETHERNET..]);
            ip.emit(&mut packet, &ChecksumCapabilities::default());
            emit_udp(shape, udp, payload, &mut frame[start..]);
            Ok(frame)
        }
        (IpAddress::Ipv6(src_addr), IpAddress::Ipv6(dst_addr)) => {
            let next_header = IpProtocol::Udp;
            let ip = Ipv6Repr { src_addr, dst_addr, next_header, payload_len: udp_len, hop_limit: HOP_LIMIT };
            let start = ETHERNET + ip.buffer_len();
            let mut frame = ethernet(shape.hardware, EthernetProtocol::Ipv6, start + udp_len);
            ip.emit(&mut Ipv6Packet::new_unchecked(&mut frame[ETHERNET..]));
            emit_udp(shape, udp, payload, &mut frame[start..]);
            Ok(frame)
        }
        _ => Err(Impossible),
    }
}

fn ethernet(
    (src_addr, dst_addr): (EthernetAddress, EthernetAddress),
    ethertype: EthernetProtocol,
    length: usize,
) -> Vec<u8> {
    // IEEE 802.3: at least 60 bytes without the FCS; the rest is padding.
    let mut frame = vec![0; length.max(60)];
    EthernetRepr { src_addr, dst_addr, ethertype }.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    frame
}

fn emit_udp(shape: &Shape, udp: UdpRepr, payload: &[u8], to: &mut [u8]) {
    let (from, at) = (shape.from.addr, shape.to.addr);
    let length = udp.header_len() + payload.len();
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut to[..length]),
        &from,
        &at,
        payload.len(),
        |bytes| bytes.copy_from_slice(payload),
        &ChecksumCapabilities::default(),
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel::raw::wire::{Ipv4Address, Ipv6Address};

    use super::*;

    fn shape(v6: bool, payload: usize) -> Shape {
        let [from, to] = if v6 {
            [1, 2].map(|n| IpAddress::Ipv6(Ipv6Address::new(0xfd77, 0, 0, 0, 0, 0, 0, n)))
        } else {
            [1, 2].map(|n| IpAddress::Ipv4(Ipv4Address::new(10, 77, 0, n)))
        };
        Shape {
            hardware: (EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 2])),
            from: IpEndpoint::new(from, 40_000),
            to: IpEndpoint::new(to, 9),
            payload,
            flows: 5,
            seed: 7,
        }
    }

    #[test]
    fn frames_are_well_formed() {
        for (v6, payload) in [(false, 0), (false, 18), (false, 1_452), (true, 0), (true, 1_452)] {
            let shape = shape(v6, payload);
            let mut requests = Requests::new(&shape).unwrap();
            let ethernet = EthernetFrame::new_checked(requests.next()).unwrap();
            assert_eq!((ethernet.src_addr(), ethernet.dst_addr()), shape.hardware);
            let udp = if v6 {
                Ipv6Packet::new_checked(ethernet.payload()).unwrap().payload()
            } else {
                let packet = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
                assert!(packet.verify_checksum());
                packet.payload()
            };
            let udp = UdpPacket::new_checked(udp).unwrap();
            assert!(udp.verify_checksum(&shape.from.addr, &shape.to.addr));
            assert_eq!((udp.dst_port(), udp.payload().len()), (9, payload));
        }
    }

    #[test]
    fn flows_take_turns_and_a_seed_gives_their_order() {
        let ports = |seed| {
            let mut requests = Requests::new(&Shape { seed, flows: 64, ..shape(false, 4) }).unwrap();
            (0..128)
                .map(|_| u16::from_be_bytes([requests.next()[34], requests.next()[35]]))
                .collect::<Vec<_>>()
        };
        assert_eq!(ports(1), ports(1));
        assert_ne!(ports(1), ports(2));
        let mut requests = Requests::new(&shape(false, 4)).unwrap();
        let five: BTreeSet<Vec<u8>> = (0..10).map(|_| requests.next().to_vec()).collect();
        assert_eq!(five.len(), 5);
    }

    #[test]
    fn packets_become_frames_in_their_order() {
        let hardware = shape(false, 0).hardware;
        let packets: Vec<_> =
            [false, true].map(|v6| Requests::new(&shape(v6, 40)).unwrap().next()[ETHERNET..].to_vec()).into();
        let mut requests = Requests::of_packets(hardware, &packets).unwrap();
        for packet in packets.iter().chain(&packets) {
            let frame = EthernetFrame::new_checked(requests.next()).unwrap();
            assert_eq!((frame.dst_addr(), frame.payload()), (hardware.1, &packet[..]));
        }
        for none in [vec![], vec![vec![0x10; 40]], vec![vec![]]] {
            assert!(Requests::of_packets(hardware, &none).is_err());
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mixed = Shape { to: shape(true, 0).to, ..shape(false, 0) };
        assert_eq!(Requests::new(&mixed).unwrap_err(), Impossible);
        let beyond = IpEndpoint { port: 65_534, ..shape(false, 0).from };
        assert!(Requests::new(&Shape { from: beyond, ..shape(false, 0) }).is_err());
    }
}
