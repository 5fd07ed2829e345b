//! IP headers of packets that we send.

use crate::tcp::Ecn;
use crate::wire::{IpAddress, IpProtocol, Ipv4Address, Ipv4Packet, Ipv6Address, Ipv6Packet};

pub(super) const ETHERNET: usize = 14;
const IPV4: usize = 20;
pub(super) const IPV6: usize = 40;
/// Router alert: an IPv4 option (RFC 2113), or a whole IPv6 hop-by-hop header (RFC 2711) before its "next
/// header".
const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];
const ALERT_V6: [u8; 7] = [0, 5, 2, 0, 0, 1, 0];
/// The fragment header of IPv6 (RFC 8200 4.5).
const FRAGMENT_V6: usize = 8;
/// No IP packet is longer.
pub(super) const PACKET_MAX: usize = 65_535;

/// What is to stand in the IP header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    pub(super) protocol: IpProtocol,
    pub(super) hop_limit: u8,
    /// Asks routers to look at it (IGMP, MLD).
    pub(super) router_alert: bool,
    /// How it is to be treated on the way: the six bits of RFC 2474.
    pub(super) dscp: u8,
    /// What it says about congestion.
    pub(super) ecn: Ecn,
    /// Routers are to say that it is too big rather than fragment it. Of IPv4; IPv6 packets never are
    /// fragmented by routers.
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
    /// An ordinary header.
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
            (IpAddress::Ipv4(_), true) => IPV4 + ALERT_V4.len(),
            (IpAddress::Ipv6(_), false) => IPV6,
            (IpAddress::Ipv6(_), true) => IPV6 + 1 + ALERT_V6.len(),
        }
    }

    /// Bytes of header in front of each fragment.
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
        if let Some(options) = bytes.get_mut(IPV4..self.len()) {
            options.copy_from_slice(&ALERT_V4[..options.len()]);
        }
        let mut packet = Ipv4Packet::new_unchecked(bytes);
        packet.set_version(4);
        packet.set_header_len(self.len() as u8);
        packet.set_dscp(self.dscp);
        packet.set_ecn(self.ecn.to_bits());
        packet.set_total_len((self.len() + part.len) as u16);
        packet.set_ident(part.identification as u16);
        packet.clear_flags();
        // The parts of a packet that was too big already may be cut further.
        packet.set_dont_frag(self.dont_fragment && !part.fragmented);
        packet.set_more_frags(part.more);
        packet.set_frag_offset(part.offset as u16);
        packet.set_hop_limit(self.hop_limit);
        packet.set_next_header(self.protocol);
        packet.set_src_addr(source);
        packet.set_dst_addr(destination);
        packet.fill_checksum();
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
