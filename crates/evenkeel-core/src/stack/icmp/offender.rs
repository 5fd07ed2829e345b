//! Packets about which an error may be sent.

use crate::stack::extension::upper_of;
use crate::wire::{Icmpv6Message, IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

/// Bytes of the offending packet quoted over IPv4: the message stays within 576 bytes (RFC 1812 4.3.2.3).
const QUOTE_V4: usize = 576 - 20 - 8;
/// Over IPv6: within the minimum MTU (RFC 4443 2.4 c).
const QUOTE_V6: usize = 1280 - 40 - 8;

/// A packet about which an error may be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offender<'a> {
    pub(crate) source: IpAddress,
    pub(crate) destination: IpAddress,
    /// The part of it that an error may quote.
    pub(crate) quote: &'a [u8],
}

/// Returns the IPv4 address at an offset of a packet.
pub(crate) fn address_v4(packet: &[u8], at: usize) -> Option<IpAddress> {
    let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
    Some(IpAddress::Ipv4(Ipv4Address::from(bytes)))
}

/// Returns the IPv6 address at an offset of a packet.
pub(crate) fn address_v6(packet: &[u8], at: usize) -> Option<IpAddress> {
    let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
    Some(IpAddress::Ipv6(Ipv6Address::from(bytes)))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Returns the parts of a packet that an error about it needs, if its kind allows an error (RFC 1122 3.2.2,
/// RFC 4443 2.4 e).
pub(crate) fn offender(packet: &[u8], even_to_group: bool) -> Option<Offender<'_>> {
    match packet.first()? >> 4 {
        4 => offender_v4(packet),
        6 => offender_v6(packet, even_to_group),
        _ => None,
    }
}

fn offender_v4(packet: &[u8]) -> Option<Offender<'_>> {
    const REPORTABLE: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];
    let header_len = usize::from(*packet.first()? & 0xf) * 4;
    let (source, destination) = (address_v4(packet, 12)?, address_v4(packet, 16)?);
    let first_fragment = be16(packet, 6)? & 0x1fff == 0;
    let is_icmp = *packet.get(9)? == u8::from(IpProtocol::Icmp);
    let is_error = is_icmp && !packet.get(header_len).is_some_and(|kind| REPORTABLE.contains(kind));
    if !first_fragment || is_error || !source.is_unicast() || !destination.is_unicast() {
        return None;
    }
    let len = usize::from(be16(packet, 2)?).min(QUOTE_V4);
    Some(Offender { source, destination, quote: packet.get(..len)? })
}

fn offender_v6(packet: &[u8], even_to_group: bool) -> Option<Offender<'_>> {
    const INFORMATIONAL: u8 = 128;
    let (source, destination) = (address_v6(packet, 8)?, address_v6(packet, 24)?);
    // A packet that cannot be followed to its upper layer is no error message that this host recognises.
    let is_error = match upper_of(packet) {
        Some((protocol, at)) if protocol == u8::from(IpProtocol::Icmpv6) => {
            // A fragment may end before the type. It is then no error message that a host could read.
            let kind = packet.get(at).copied();
            kind.is_some_and(|kind| kind < INFORMATIONAL || kind == u8::from(Icmpv6Message::Redirect))
        }
        _ => false,
    };
    if is_error || !source.is_unicast() || !(destination.is_unicast() || even_to_group) {
        return None;
    }
    let len = (usize::from(be16(packet, 4)?) + 40).min(QUOTE_V6);
    Some(Offender { source, destination, quote: packet.get(..len)? })
}
