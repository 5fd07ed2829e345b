//! Frames to the hardware address of the tests.

use super::*;

pub(super) fn v4(n: u8) -> Ipv4Address {
    Ipv4Address::new(10, 0, 0, n)
}

pub(super) fn v6(n: u16) -> Ipv6Address {
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, n)
}

pub(super) fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&OURS.0[..], &[2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), packet].concat()
}

/// Returns a question for the hardware address of `target`.
pub(super) fn arp(target: Ipv4Address) -> Vec<u8> {
    let formats = [0, 1, 8, 0, 6, 4, 0, 1];
    let sender = [&[2, 0, 0, 0, 0, 1], &v4(1).octets()[..]].concat();
    ethernet(0x0806, &[&formats[..], &sender, &[0; 6], &target.octets()].concat())
}

/// Returns an IPv4 packet with this field of flags and offset.
pub(super) fn ipv4(
    from: Ipv4Address,
    to: Ipv4Address,
    protocol: u8,
    id: u16,
    field: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([id.to_be_bytes(), field.to_be_bytes()].concat());
    packet.extend([64, protocol, 0, 0]);
    packet.extend([from.octets(), to.octets()].concat());
    packet.extend(payload);
    ethernet(0x0800, &packet)
}

pub(super) fn ipv6(from: Ipv6Address, to: Ipv6Address, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([from.octets(), to.octets()].concat());
    packet.extend(payload);
    ethernet(0x86dd, &packet)
}

/// Returns a UDP header, and some payload.
pub(super) fn udp(from: u16, to: u16) -> Vec<u8> {
    [&from.to_be_bytes(), &to.to_be_bytes()[..], &[0, 12, 0, 0, 1, 2, 3, 4]].concat()
}

pub(super) fn tcp(from: u16, to: u16, flags: u8) -> Vec<u8> {
    let mut header = [from.to_be_bytes(), to.to_be_bytes()].concat();
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    header
}

/// Returns an extension header with `units` further units of eight bytes, and its next header.
pub(super) fn extension(next: u8, units: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; (usize::from(units) + 1) * 8];
    [header[0], header[1]] = [next, units];
    [header, rest.to_vec()].concat()
}

/// Returns a fragment header with this field of offset and flags, and the bytes after it.
pub(super) fn fragment_header(next: u8, field: u16, id: u32, rest: &[u8]) -> Vec<u8> {
    [&[next, 0], &field.to_be_bytes()[..], &id.to_be_bytes(), rest].concat()
}
