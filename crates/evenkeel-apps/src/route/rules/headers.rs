//! The header fields of a packet that rules compare. They are read once, from any bytes that arrive.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::address::{Address, Family};
use super::names::{ICMP, ICMPV6, TCP, UDP};

/// The most extension headers passed over in one packet. Honest packets have two or three.
const EXTENSIONS_MAX: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// The headers of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) family: Family,
    /// Bytes of the whole packet, according to its header.
    pub(super) length: u16,
    pub(super) source: Address,
    pub(super) destination: Address,
    pub(super) protocol: u8,
    pub(super) fragment: bool,
    /// The type of service, or the traffic class.
    pub(super) tos: u8,
    /// The offset of the transport header, if there is one.
    pub(super) transport_at: usize,
    /// The transport header; `None` for a fragment that does not begin with one.
    pub(super) transport: Option<Transport>,
}

/// The beginning of the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Ports { source: u16, destination: u16, flags: u8 },
    Icmp { kind: u8, code: u8 },
    Other,
}

/// The headers are inconsistent, or cut off before a field that a rule may compare. Such packets would evade
/// rules that are meant for them (RFC 1858), so they are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl Headers {
    /// Reads a packet from its IP header on.
    pub(super) fn read(packet: &[u8]) -> Result<Self, Malformed> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Self::read_v4(packet),
            Some(6) => Self::read_v6(packet),
            _ => Err(Malformed),
        }
    }

    fn read_v4(packet: &[u8]) -> Result<Self, Malformed> {
        let header_len = usize::from(byte(packet, 0)? & 15) * 4;
        let length = half(packet, 2)?;
        if header_len < IPV4_HEADER || usize::from(length) < header_len {
            return Err(Malformed);
        }
        let packet = packet.get(..usize::from(length)).ok_or(Malformed)?;
        let (place, protocol) = (half(packet, 6)?, byte(packet, 9)?);
        let (offset, more) = (place & 0x1fff, place & 0x2000 != 0);
        let payload = packet.get(header_len..).ok_or(Malformed)?;
        let address = |at| Ok(Ipv4Addr::from(array::<4>(packet, at)?));
        Ok(Self {
            family: Family::V4,
            length,
            source: address_of(address(12)?),
            destination: address_of(address(16)?),
            protocol,
            fragment: offset != 0 || more,
            tos: byte(packet, 1)?,
            transport_at: header_len,
            transport: transport(protocol, offset, payload)?,
        })
    }

    fn read_v6(packet: &[u8]) -> Result<Self, Malformed> {
        let payload_len = half(packet, 4)?;
        let length = u16::try_from(IPV6_HEADER)
            .ok()
            .and_then(|header| payload_len.checked_add(header))
            .ok_or(Malformed)?;
        let packet = packet.get(..usize::from(length)).ok_or(Malformed)?;
        let address = |at| Ok(Ipv6Addr::from(array::<16>(packet, at)?));
        let (source, destination) = (address(8)?, address(24)?);
        let above = Above::find(packet, byte(packet, 6)?)?;
        Ok(Self {
            family: Family::V6,
            length,
            source: v6(source),
            destination: v6(destination),
            protocol: above.protocol,
            fragment: above.fragment,
            tos: (half(packet, 0)? >> 4) as u8,
            transport_at: packet.len() - above.payload.len(),
            transport: transport(above.protocol, above.offset, above.payload)?,
        })
    }
}

fn address_of(address: Ipv4Addr) -> Address {
    core::net::IpAddr::V4(address).into()
}

fn v6(address: Ipv6Addr) -> Address {
    core::net::IpAddr::V6(address).into()
}

/// The upper layer of an IPv6 packet, after the extension headers (RFC 8200 4).
struct Above<'a> {
    protocol: u8,
    fragment: bool,
    /// The offset in units of eight bytes.
    offset: u16,
    payload: &'a [u8],
}

impl<'a> Above<'a> {
    fn find(packet: &'a [u8], first: u8) -> Result<Self, Malformed> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const AUTHENTICATION: u8 = 51;
        const DESTINATION: u8 = 60;
        let (mut protocol, mut at, mut fragment) = (first, IPV6_HEADER, false);
        for _ in 0..=EXTENSIONS_MAX {
            let payload = packet.get(at..).ok_or(Malformed)?;
            let len = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(byte(payload, 1)?) + 1) * 8,
                // The length is in units of four bytes, less two (RFC 4302 2.2).
                AUTHENTICATION => (usize::from(byte(payload, 1)?) + 2) * 4,
                FRAGMENT => {
                    let place = half(payload, 2)?;
                    fragment |= place & !6 != 0;
                    if place >> 3 != 0 {
                        let rest = payload.get(8..).ok_or(Malformed)?;
                        return Ok(Self {
                            protocol: byte(payload, 0)?,
                            fragment,
                            offset: place >> 3,
                            payload: rest,
                        });
                    }
                    8
                }
                _ => return Ok(Self { protocol, fragment, offset: 0, payload }),
            };
            protocol = byte(payload, 0)?;
            at += len;
        }
        Err(Malformed)
    }
}

fn transport(protocol: u8, offset: u16, payload: &[u8]) -> Result<Option<Transport>, Malformed> {
    match (offset, protocol) {
        // The fragment would overwrite the flags of the first fragment (RFC 3128 3).
        (1, TCP) => Err(Malformed),
        (1.., _) => Ok(None),
        (0, TCP) => {
            // The header must extend to the flags and the urgent pointer: a shorter first fragment would hide
            // them from us (RFC 1858 3.2).
            let flags = byte(payload.get(..20).ok_or(Malformed)?, 13)?;
            Ok(Some(Transport::Ports { source: half(payload, 0)?, destination: half(payload, 2)?, flags }))
        }
        (0, UDP) => {
            let header = payload.get(..8).ok_or(Malformed)?;
            Ok(Some(Transport::Ports { source: half(header, 0)?, destination: half(header, 2)?, flags: 0 }))
        }
        (0, ICMP | ICMPV6) => Ok(Some(Transport::Icmp { kind: byte(payload, 0)?, code: byte(payload, 1)? })),
        (0, _) => Ok(Some(Transport::Other)),
    }
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, Malformed> {
    bytes.get(at).copied().ok_or(Malformed)
}

fn half(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Malformed)
}
