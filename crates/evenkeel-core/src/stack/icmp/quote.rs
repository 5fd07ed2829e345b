//! Segments and datagrams of this host that are quoted: by ICMP errors, or by itself when it gives them up.

use std::net::IpAddr;

use crate::id::InterfaceId;
use crate::stack::address::interfaces::Interfaces;
use crate::stack::extension::upper_of;
use crate::tcp::FourTuple;
use crate::tcp::endpoint::Quote;
use crate::wire::{IpProtocol, Ipv4Address, Ipv6Address};

/// An ICMP error about a segment or a datagram of this host. The connection or the socket of what it quotes
/// decides whether to trust it (RFC 5927 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// The segment or the datagram that it quotes.
    pub quote: Quoted,
    /// The kind of the error.
    pub kind: IcmpErrorKind,
}

/// The beginning of a packet of this host, as an ICMP error quotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoted {
    /// A segment of TCP.
    Segment(Quote),
    /// A datagram of UDP, from the local address and port to the remote ones.
    Datagram(FourTuple),
}

/// The kind of an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// The packet was too big for a link that takes packets of so many bytes.
    TooBig {
        /// Bytes, IP header included.
        mtu: usize,
    },
    /// Nothing receives at the port of the destination.
    PortClosed,
    /// The packet did not arrive. `hard` says that others will not arrive either (RFC 1122 4.2.3.9).
    Unreachable {
        /// Protocol unreachable, or prohibited.
        hard: bool,
    },
}

impl IcmpErrorKind {
    /// Returns whether an error of this kind ends more than the packet that it is about.
    const fn is_hard(self) -> bool {
        matches!(self, Self::PortClosed | Self::Unreachable { hard: true })
    }
}

impl IcmpError {
    /// Returns the error about a segment or a datagram of this host that an ICMP `message` reports, if it
    /// reports one. A datagram that was too big or that is lost otherwise concerns no socket.
    pub(crate) fn parse_v4(message: &[u8], interfaces: &Interfaces) -> Option<Self> {
        let (&[kind, code, _, _, _, _, high, low], quoted) = message.split_first_chunk()?;
        let kind = match (kind, code) {
            (3, 4) => IcmpErrorKind::TooBig { mtu: usize::from(u16::from_be_bytes([high, low])) },
            (3, 3) => IcmpErrorKind::PortClosed,
            (3, 2 | 9 | 10 | 13) => IcmpErrorKind::Unreachable { hard: true },
            (3 | 11 | 12, _) => IcmpErrorKind::Unreachable { hard: false },
            _ => return None,
        };
        let error = Self { quote: quoted_v4(quoted)?, kind };
        let IpAddr::V4(source) = error.quote.tuple().local.addr else { return None };
        (error.concerns_transport() && interfaces.owns_v4(source)).then_some(error)
    }

    /// Returns the error about a segment or a datagram of this host that an ICMPv6 `message` reports, if it
    /// reports one. A datagram that was too big or that is lost otherwise concerns no socket.
    pub(crate) fn parse_v6(message: &[u8], interfaces: &Interfaces, interface: InterfaceId) -> Option<Self> {
        let (&[kind, code, _, _, a, b, c, d], quoted) = message.split_first_chunk()?;
        let kind = match (kind, code) {
            (2, _) => {
                let mtu = u32::from_be_bytes([a, b, c, d]);
                IcmpErrorKind::TooBig { mtu: usize::try_from(mtu).unwrap_or(usize::MAX) }
            }
            (1, 4) => IcmpErrorKind::PortClosed,
            (1, 1 | 5 | 6) | (4, 1) => IcmpErrorKind::Unreachable { hard: true },
            (1 | 3 | 4, _) => IcmpErrorKind::Unreachable { hard: false },
            _ => return None,
        };
        let error = Self { quote: quoted_v6(quoted)?, kind };
        let IpAddr::V6(source) = error.quote.tuple().local.addr else { return None };
        (error.concerns_transport() && interfaces.owns_v6(source, interface)).then_some(error)
    }

    /// Returns whether the error is one for TCP or for a socket of UDP. IP alone learns path MTUs from errors
    /// about datagrams.
    const fn concerns_transport(&self) -> bool {
        matches!(self.quote, Quoted::Segment(_)) || self.kind.is_hard()
    }
}

impl Quoted {
    /// Returns what a protocol's header, and the bytes behind it, say of a packet of this host.
    fn parse(protocol: u8, bytes: &[u8], source: IpAddr, destination: IpAddr) -> Option<Self> {
        match IpProtocol::from(protocol) {
            IpProtocol::Tcp => Quote::parse(bytes, source, destination).map(Self::Segment),
            IpProtocol::Udp => {
                let &[a, b, c, d] = bytes.first_chunk()?;
                let [local, remote] = [[a, b], [c, d]].map(u16::from_be_bytes);
                Some(Self::Datagram(FourTuple::new((source, local), (destination, remote))))
            }
            _ => None,
        }
    }

    /// Returns the addresses and ports of the packet.
    const fn tuple(&self) -> &FourTuple {
        match self {
            Self::Segment(quote) => &quote.tuple,
            Self::Datagram(tuple) => tuple,
        }
    }
}

/// Returns the segment of a packet, of either family.
pub(crate) fn quote(packet: &[u8]) -> Option<Quote> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    match if is_v4 { quoted_v4(packet) } else { quoted_v6(packet) } {
        Some(Quoted::Segment(quote)) => Some(quote),
        _ => None,
    }
}

/// Returns the segment or the datagram of an IPv4 packet, if the packet is the first part of one.
fn quoted_v4(packet: &[u8]) -> Option<Quoted> {
    let header = packet.first_chunk::<20>()?;
    let address = |at: usize| Ipv4Address::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    if header[0] >> 4 != 4 || !whole {
        return None;
    }
    let bytes = packet.get(usize::from(header[0] & 0xf) * 4..)?;
    Quoted::parse(header[9], bytes, address(12).into(), address(16).into())
}

/// Returns the segment or the datagram of an IPv6 packet.
fn quoted_v6(packet: &[u8]) -> Option<Quoted> {
    let address = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Address::from_octets(bytes))
    };
    let (source, destination) = (address(8)?, address(24)?);
    let (protocol, at) = upper_of(packet)?;
    if packet[0] >> 4 != 6 {
        return None;
    }
    Quoted::parse(protocol, packet.get(at..)?, source.into(), destination.into())
}
