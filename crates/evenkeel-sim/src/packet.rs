//! Frames: UDP datagrams, which traffic sources create once and then only renumber, TCP segments, and ARP
//! requests.

use evenkeel_core::tcp::{Flags, Header, Options, Segment, SeqNumber};
use evenkeel_core::wire::{
    ArpHardware, ArpOperation, ArpPacket, EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol,
    Ipv4Address, Ipv4Packet, UdpPacket,
};

use crate::rng::Rng;

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// The hardware address.
    pub hardware: EthernetAddress,
    /// The IPv4 address.
    pub address: Ipv4Address,
    /// The UDP or TCP port.
    pub port: u16,
}

/// Bytes in front of the payload: Ethernet, IPv4 without options, UDP.
pub const HEADERS_BYTES: usize = IP_HEADERS_BYTES + 8;
/// Bytes in front of a segment: Ethernet, IPv4 without options.
pub const IP_HEADERS_BYTES: usize = 14 + 20;
/// The shortest Ethernet frame, without frame check sequence.
pub(crate) const FRAME_BYTES_MIN: usize = 60;

/// Creates a frame with one UDP datagram from `from` to `to`, from the Ethernet header on.
#[must_use]
pub fn udp_frame(from: Station, to: Station, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ip_frame(from, to, IpProtocol::Udp, 8 + payload.len());
    if let Some(datagram) = bytes.get_mut(IP_HEADERS_BYTES..) {
        let mut udp = UdpPacket::new_unchecked(datagram);
        udp.set_src_port(from.port);
        udp.set_dst_port(to.port);
        udp.set_len((8 + payload.len()) as u16);
    }
    write_payload(&mut bytes, from.address, to.address, payload);
    bytes
}

/// Creates a frame with one TCP segment from `from` to `to`. The ports in `header` are ignored.
#[must_use]
pub fn segment_frame(from: Station, to: Station, header: Header, payload: &[u8]) -> Vec<u8> {
    let header = Header { source: from.port, destination: to.port, ..header };
    let (_, options_len) = header.options.emit();
    let mut bytes = ip_frame(from, to, IpProtocol::Tcp, 20 + options_len + payload.len());
    if let Some(room) = bytes.get_mut(IP_HEADERS_BYTES..) {
        let segment = Segment { header, payload: [payload, b""] };
        let _ = segment.emit(room, from.address, to.address);
    }
    bytes
}

/// Creates a SYN of a flood, with a random port of `from` and a random sequence number.
#[must_use]
pub fn flood_syn(from: Station, to: Station, rng: &mut Rng) -> Vec<u8> {
    let from = Station { port: rng.between(1_024, 65_535) as u16, ..from };
    let seq = SeqNumber::new(rng.next_u64() as u32);
    let options = Options { mss: Some(1_460), ..Options::default() };
    segment_frame(
        from,
        to,
        Header { seq, flags: Flags::SYN, window: 4_096, options, ..Header::default() },
        b"",
    )
}

/// Returns a random address of 172.16.0.0/16. No host has it, so none answers a SYN-ACK that goes there.
pub fn address_of_nobody(rng: &mut Rng) -> Ipv4Address {
    Ipv4Address::new(172, 16, rng.below(256) as u8, rng.between(1, 254) as u8)
}

/// Creates a broadcast frame that requests the hardware address of `to`. The host that has `to` records the
/// hardware address of `from` (RFC 826).
#[must_use]
pub fn arp_request(from: Station, to: Ipv4Address) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES_MIN];
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes[..]);
    ethernet.set_dst_addr(EthernetAddress::BROADCAST);
    ethernet.set_src_addr(from.hardware);
    ethernet.set_ethertype(EthernetProtocol::Arp);
    let mut arp = ArpPacket::new_unchecked(ethernet.payload_mut());
    arp.set_hardware_type(ArpHardware::Ethernet);
    arp.set_protocol_type(EthernetProtocol::Ipv4);
    arp.set_hardware_len(6);
    arp.set_protocol_len(4);
    arp.set_operation(ArpOperation::Request);
    arp.set_source_hardware_addr(from.hardware.as_bytes());
    arp.set_source_protocol_addr(&from.address.octets());
    arp.set_target_hardware_addr(&[0; 6]);
    arp.set_target_protocol_addr(&to.octets());
    bytes
}

/// Creates a frame with an IPv4 header, and room for `len` bytes behind it.
fn ip_frame(from: Station, to: Station, protocol: IpProtocol, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; (IP_HEADERS_BYTES + len).max(FRAME_BYTES_MIN)];
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes[..]);
    ethernet.set_dst_addr(to.hardware);
    ethernet.set_src_addr(from.hardware);
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.set_version(4);
    ip.set_header_len(20);
    ip.set_total_len((20 + len) as u16);
    ip.set_dont_frag(true);
    ip.set_hop_limit(64);
    ip.set_next_header(protocol);
    ip.set_src_addr(from.address);
    ip.set_dst_addr(to.address);
    ip.fill_checksum();
    bytes
}

/// Overwrites the start of the payload of a frame from [`udp_frame`], and updates the checksum.
pub fn write_payload(frame: &mut [u8], from: Ipv4Address, to: Ipv4Address, payload: &[u8]) {
    let Some(datagram) = frame.get_mut(HEADERS_BYTES - 8..) else { return };
    let mut udp = UdpPacket::new_unchecked(datagram);
    if let Some(place) = udp.payload_mut().get_mut(..payload.len()) {
        place.copy_from_slice(payload);
    }
    udp.fill_checksum(&from.into(), &to.into());
}

/// Returns the hardware address a frame is sent to, if it is long enough to have one.
#[must_use]
pub fn destination(frame: &[u8]) -> Option<EthernetAddress> {
    frame.first_chunk().copied().map(EthernetAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_read() {
        let station = |n: u8| Station {
            hardware: EthernetAddress([2, 0, 0, 0, 0, n]),
            address: Ipv4Address::new(10, 0, 0, n),
            port: 1000 + u16::from(n),
        };
        let frame = udp_frame(station(1), station(2), b"fourteen bytes");
        assert_eq!(frame.len(), 60);
        assert_eq!(destination(&frame), Some(station(2).hardware));
        assert!(Ipv4Packet::new_checked(&frame[14..]).unwrap().verify_checksum());
        let udp = UdpPacket::new_checked(&frame[34..]).unwrap();
        assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (1001, 1002, &b"fourteen bytes"[..]));
        assert!(udp.verify_checksum(&station(1).address.into(), &station(2).address.into()));
        assert_eq!(destination(&frame[..5]), None);
    }
}
