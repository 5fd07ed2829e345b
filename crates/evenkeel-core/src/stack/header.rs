//! IP headers of packets that we send.

use crate::tcp::{Checksum, Ecn};
use crate::wire::{IpAddress, IpProtocol, Ipv4Address, Ipv6Address, Ipv6Packet};

pub(super) const ETHERNET: usize = 14;
const IPV4: usize = 20;
pub(super) const IPV6: usize = 40;
/// Router alert: an IPv4 option (RFC 2113), or a whole IPv6 hop-by-hop header (RFC 2711) before its "next
/// header".
const ALERT_V4: u32 = 0x9404_0000;
const ALERT_V6: [u8; 7] = [0, 5, 2, 0, 0, 1, 0];
/// The fragment header of IPv6 (RFC 8200 4.5).
const FRAGMENT_V6: usize = 8;
/// No IP packet is longer.
pub(super) const PACKET_MAX: usize = 65_535;

/// The fields of the IP header of a packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    pub(super) protocol: IpProtocol,
    pub(super) hop_limit: u8,
    /// Whether the header asks routers to examine the packet (IGMP, MLD).
    pub(super) router_alert: bool,
    /// The differentiated services code point of the packet: the six bits of RFC 2474.
    pub(super) dscp: u8,
    /// The ECN field of the packet.
    pub(super) ecn: Ecn,
    /// Whether routers must report that the packet is too big instead of fragmenting it. For IPv4 only;
    /// routers never fragment IPv6 packets.
    pub(super) dont_fragment: bool,
}

/// Part of a packet, in the family's own terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) more: bool,
    pub(super) identification: u32,
    pub(super) fragmented: bool,
}

impl Header {
    /// Creates a header without router alert.
    pub(super) const fn new(
        source: IpAddress,
        destination: IpAddress,
        protocol: IpProtocol,
        hop_limit: u8,
    ) -> Self {
        Self {
            source,
            destination,
            protocol,
            hop_limit,
            router_alert: false,
            dscp: 0,
            ecn: Ecn::NotCapable,
            dont_fragment: false,
        }
    }

    pub(super) const fn len(&self) -> usize {
        match (&self.source, self.router_alert) {
            (IpAddress::Ipv4(_), false) => IPV4,
            (IpAddress::Ipv4(_), true) => IPV4 + size_of_val(&ALERT_V4),
            (IpAddress::Ipv6(_), false) => IPV6,
            (IpAddress::Ipv6(_), true) => IPV6 + 1 + ALERT_V6.len(),
        }
    }

    /// Returns the length of the headers in front of each fragment's payload, in bytes.
    pub(super) const fn fragment_len(&self) -> usize {
        match self.source {
            IpAddress::Ipv4(_) => self.len(),
            IpAddress::Ipv6(_) => self.len() + FRAGMENT_V6,
        }
    }

    /// Writes the header of `part` to the front of `bytes`, which is header and part long.
    pub(super) fn emit(&self, part: Part, bytes: &mut [u8]) {
        match (self.source, self.destination) {
            (IpAddress::Ipv4(source), IpAddress::Ipv4(destination)) => {
                self.emit_v4(source, destination, part, bytes)
            }
            (IpAddress::Ipv6(source), IpAddress::Ipv6(destination)) => {
                self.emit_v6(source, destination, part, bytes)
            }
            // A source is always chosen of the destination's family.
            _ => debug_assert!(false, "mixed address families"),
        }
    }

    fn emit_v4(&self, source: Ipv4Address, destination: Ipv4Address, part: Part, bytes: &mut [u8]) {
        let len = self.len();
        let service = self.dscp << 2 | self.ecn.to_bits();
        // The parts of a packet that was too big already may be cut further.
        let dont_fragment = u32::from(self.dont_fragment && !part.fragmented) << 14;
        let eights = part.offset as u32 / 8;
        let fragment = dont_fragment | u32::from(part.more) << 13 | eights;
        let mut words = [
            0x4000_0000
                | (len as u32 / 4) << 24
                | u32::from(service) << 16
                | (len + part.len) as u32 & 0xffff,
            part.identification << 16 | fragment,
            u32::from(self.hop_limit) << 24 | u32::from(u8::from(self.protocol)) << 16,
            source.to_bits(),
            destination.to_bits(),
        ];
        let options = if self.router_alert { ALERT_V4 } else { 0 };
        words[2] |= u32::from(Checksum::default().add_words(&words).add_words(&[options]).finish());
        let Some((fixed, rest)) = bytes.split_first_chunk_mut::<IPV4>() else { return };
        fixed.as_chunks_mut().0.iter_mut().zip(words).for_each(|(field, word)| *field = word.to_be_bytes());
        if self.router_alert
            && let Some(field) = rest.first_chunk_mut()
        {
            *field = options.to_be_bytes();
        }
    }

    fn emit_v6(&self, source: Ipv6Address, destination: Ipv6Address, part: Part, bytes: &mut [u8]) {
        let header_len = if part.fragmented { self.fragment_len() } else { self.len() };
        let mut packet = Ipv6Packet::new_unchecked(bytes);
        packet.set_version(6);
        packet.set_traffic_class(self.dscp << 2 | self.ecn.to_bits());
        packet.set_flow_label(0);
        packet.set_payload_len((header_len - IPV6 + part.len) as u16);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src_addr(source);
        packet.set_dst_addr(destination);
        let mut next = self.protocol;
        let payload = packet.payload_mut();
        if part.fragmented {
            let at = header_len - IPV6 - FRAGMENT_V6;
            let field = part.offset as u16 | u16::from(part.more);
            payload[at..at + 2].copy_from_slice(&[next.into(), 0]);
            payload[at + 2..at + 4].copy_from_slice(&field.to_be_bytes());
            payload[at + 4..at + 8].copy_from_slice(&part.identification.to_be_bytes());
            next = IpProtocol::Ipv6Frag;
        }
        if self.router_alert {
            payload[0] = next.into();
            payload[1..8].copy_from_slice(&ALERT_V6);
            next = IpProtocol::HopByHop;
        }
        packet.set_next_header(next);
    }
}
