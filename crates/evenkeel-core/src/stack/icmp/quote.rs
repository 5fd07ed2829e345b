//! Segments of this host that are quoted: by ICMP errors, or by itself when it gives them up.

use std::net::IpAddr;

use crate::id::InterfaceId;
use crate::stack::address::interfaces::Interfaces;
use crate::stack::extension::upper_of;
use crate::tcp::endpoint::Quote;
use crate::wire::{IpProtocol, Ipv4Address, Ipv6Address};

/// An ICMP error about a segment of this host. The segment's connection decides whether to trust it (RFC
/// 5927 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// The segment that it quotes.
    pub quote: Quote,
    /// The kind of the error.
    pub kind: IcmpErrorKind,
}

/// The kind of an ICMP error about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// It was too big for a link that takes packets of so many bytes.
    TooBig {
        /// Bytes, IP header included.
        mtu: usize,
    },
    /// The segment did not arrive. `hard` says that others will not arrive either (RFC 1122 4.2.3.9).
    Unreachable {
        /// Port or protocol unreachable, or prohibited.
        hard: bool,
    },
}

impl IcmpError {
    /// Returns the error about a segment of this host that an ICMP `message` reports, if it reports one.
    pub(crate) fn parse_v4(message: &[u8], interfaces: &Interfaces) -> Option<Self> {
        let (&[kind, code, _, _, _, _, high, low], quoted) = message.split_first_chunk()?;
        let kind = match (kind, code) {
            (3, 4) => IcmpErrorKind::TooBig { mtu: usize::from(u16::from_be_bytes([high, low])) },
            (3, 2 | 3 | 9 | 10 | 13) => IcmpErrorKind::Unreachable { hard: true },
            (3 | 11 | 12, _) => IcmpErrorKind::Unreachable { hard: false },
            _ => return None,
        };
        let quote = quote_v4(quoted)?;
        let IpAddr::V4(source) = quote.tuple.local.addr else { return None };
        interfaces.owns_v4(source).then_some(Self { quote, kind })
    }

    /// Returns the error about a segment of this host that an ICMPv6 `message` reports, if it reports one.
    pub(crate) fn parse_v6(message: &[u8], interfaces: &Interfaces, interface: InterfaceId) -> Option<Self> {
        let (&[kind, code, _, _, a, b, c, d], quoted) = message.split_first_chunk()?;
        let kind = match (kind, code) {
            (2, _) => {
                let mtu = u32::from_be_bytes([a, b, c, d]);
                IcmpErrorKind::TooBig { mtu: usize::try_from(mtu).unwrap_or(usize::MAX) }
            }
            (1, 1 | 4 | 5 | 6) | (4, 1) => IcmpErrorKind::Unreachable { hard: true },
            (1 | 3 | 4, _) => IcmpErrorKind::Unreachable { hard: false },
            _ => return None,
        };
        let quote = quote_v6(quoted)?;
        let IpAddr::V6(source) = quote.tuple.local.addr else { return None };
        interfaces.owns_v6(source, interface).then_some(Self { quote, kind })
    }
}

/// Returns the segment of a packet, of either family.
pub(crate) fn quote(packet: &[u8]) -> Option<Quote> {
    if packet.first().is_some_and(|first| first >> 4 == 4) { quote_v4(packet) } else { quote_v6(packet) }
}

/// Returns the segment of an IPv4 packet, if the packet is the first part of one.
fn quote_v4(packet: &[u8]) -> Option<Quote> {
    let header = packet.first_chunk::<20>()?;
    let address = |at: usize| Ipv4Address::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    if header[0] >> 4 != 4 || !whole || header[9] != u8::from(IpProtocol::Tcp) {
        return None;
    }
    let bytes = packet.get(usize::from(header[0] & 0xf) * 4..)?;
    Quote::parse(bytes, address(12).into(), address(16).into())
}

/// Returns the segment of an IPv6 packet.
fn quote_v6(packet: &[u8]) -> Option<Quote> {
    let address = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Address::from_octets(bytes))
    };
    let (source, destination) = (address(8)?, address(24)?);
    let (protocol, at) = upper_of(packet)?;
    if packet[0] >> 4 != 6 || protocol != u8::from(IpProtocol::Tcp) {
        return None;
    }
    Quote::parse(packet.get(at..)?, source.into(), destination.into())
}
