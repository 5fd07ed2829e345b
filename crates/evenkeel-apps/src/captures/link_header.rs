//! Link-layer headers: sender, destination, and the start of the packet.

use evenkeel::raw::frame::LinkType;
use evenkeel::raw::wire::{EthernetAddress, EthernetFrame};

use super::address::{Address, IPV4, IPV6, Protocol};

/// The link-layer header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkHeader<'a> {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) protocol: Protocol,
    /// The bytes behind the header; empty if they are encrypted.
    pub(super) payload: &'a [u8],
}

const TAGS: [u16; 2] = [0x8100, 0x88a8];

impl<'a> LinkHeader<'a> {
    /// Reads the header of a frame. `None` if the link type is not known, or the header is cut off or makes
    /// no sense.
    pub(super) fn of(link_type: LinkType, frame: &'a [u8]) -> Option<Self> {
        match link_type.0 {
            1 => Self::ethernet(frame),
            // BSD's loopback has a header of four bytes, in either byte order.
            0 | 108 => Self::family(frame),
            // The first four are `DLT_RAW` of Linux and of OpenBSD and its numbers in files; the others are
            // IPv4 and IPv6.
            12 | 14 | 101 | 228 | 229 => Self::ip(frame),
            9 | 50 => Self::ppp(frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame)),
            // A session of PPPoE.
            51 => Self::ppp(frame.get(6..)?),
            104 => Some(Self::anonymous(Protocol::Ethernet(half(frame, 2)?), frame.get(4..)?)),
            105 => Self::wlan(frame),
            113 => Self::cooked(half(frame, 14)?, half(frame, 4)?, frame.get(6..14)?, frame.get(16..)?),
            127 => Self::wlan(frame.get(usize::from(half(frame, 2)?.swap_bytes())..)?),
            276 => {
                let address_len = u16::from(*frame.get(11)?);
                Self::cooked(half(frame, 0)?, address_len, frame.get(12..20)?, frame.get(20..)?)
            }
            _ => None,
        }
    }

    fn ethernet(frame: &'a [u8]) -> Option<Self> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let (from, to) = (Address::Ethernet(ethernet.src_addr()), Address::Ethernet(ethernet.dst_addr()));
        let (mut kind, mut payload) = (u16::from(ethernet.ethertype()), frame.get(14..)?);
        // At most two VLAN tags (IEEE 802.1ad).
        for _ in 0..2 {
            let Some(inner) = half(payload, 2).filter(|_| TAGS.contains(&kind)) else { break };
            (kind, payload) = (inner, payload.get(4..)?);
        }
        Some(Self { from, to, protocol: Protocol::Ethernet(kind), payload })
    }

    /// Returns a header without addresses.
    const fn anonymous(protocol: Protocol, payload: &'a [u8]) -> Self {
        Self { from: Address::None, to: Address::None, protocol, payload }
    }

    /// Reads an address family in the byte order of the machine that wrote it. Each system has its own
    /// number for IPv6.
    fn family(frame: &'a [u8]) -> Option<Self> {
        let bytes = *frame.first_chunk()?;
        let family = u32::from_be_bytes(bytes).min(u32::from_le_bytes(bytes));
        let kind = match family {
            2 => IPV4,
            10 | 24 | 28 | 30 => IPV6,
            _ => return None,
        };
        Some(Self::anonymous(Protocol::Ethernet(kind), frame.get(4..)?))
    }

    fn ip(packet: &'a [u8]) -> Option<Self> {
        let kind = match packet.first()? >> 4 {
            4 => IPV4,
            6 => IPV6,
            _ => return None,
        };
        Some(Self::anonymous(Protocol::Ethernet(kind), packet))
    }

    /// Reads a header of PPP (RFC 1661), in which a protocol number of one byte is odd.
    fn ppp(frame: &'a [u8]) -> Option<Self> {
        let &first = frame.first()?;
        let number = if first & 1 == 1 { u16::from(first) } else { half(frame, 0)? };
        let payload = frame.get(if first & 1 == 1 { 1 } else { 2 }..)?;
        let protocol = match number {
            0x0021 => Protocol::Ethernet(IPV4),
            0x0057 => Protocol::Ethernet(IPV6),
            number => Protocol::Ppp(number),
        };
        Some(Self::anonymous(protocol, payload))
    }

    /// Reads the pseudo-header that Linux puts in place of a header ("cooked").
    fn cooked(kind: u16, address_len: u16, address: &[u8], payload: &'a [u8]) -> Option<Self> {
        let from = station(address, 0).filter(|_| address_len == 6).unwrap_or(Address::None);
        Some(Self { from, to: Address::None, protocol: Protocol::Ethernet(kind), payload })
    }

    /// Reads a header of a wireless network (IEEE 802.11, 9.2 and 9.3).
    fn wlan(frame: &'a [u8]) -> Option<Self> {
        const DATA: u8 = 2;
        let &[control, flags] = frame.first_chunk()?;
        let (kind, subtype) = (control >> 2 & 3, control >> 4);
        let (to_ds, from_ds, order) = (flags & 1 == 1, flags & 2 == 2, flags & 0x80 == 0x80);
        let (to, from) = match (to_ds, from_ds) {
            (false, false) => (4, 10),
            (false, true) => (4, 16),
            (true, false) => (16, 10),
            (true, true) => (16, 24),
        };
        let [to, from] = [to, from].map(|at| station(frame, at).unwrap_or(Address::None));
        let header = Self { from, to, protocol: Protocol::Wlan(kind), payload: &[] };
        // The frame has no data, or is encrypted.
        if kind != DATA || subtype & 4 == 4 || flags & 0x40 == 0x40 {
            return Some(header);
        }
        let is_qos = subtype & 8 == 8;
        let four_addresses = if to_ds && from_ds { 6 } else { 0 };
        let len = 24 + four_addresses + if is_qos { 2 } else { 0 } + if is_qos && order { 4 } else { 0 };
        let snap = frame.get(len..).and_then(|body| body.strip_prefix(&[0xaa, 0xaa, 3, 0, 0, 0]));
        let inside = snap.and_then(|snap| Some((half(snap, 0)?, snap.get(2..)?)));
        Some(inside.map_or(header, |(kind, payload)| Self {
            protocol: Protocol::Ethernet(kind),
            payload,
            ..header
        }))
    }
}

/// Returns the number in the two bytes at `at`.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&half| u16::from_be_bytes(half))
}

fn station(bytes: &[u8], at: usize) -> Option<Address> {
    bytes.get(at..)?.first_chunk().map(|&address| Address::Ethernet(EthernetAddress(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a packet of IPv4.
    const PACKET: [u8; 2] = [0x45, 0];

    fn read(link_type: u16, header: &[u8]) -> Option<(Protocol, Vec<u8>)> {
        let frame = [header, &PACKET].concat();
        let read = LinkHeader::of(LinkType(link_type), &frame)?;
        Some((read.protocol, read.payload.to_vec()))
    }

    #[test]
    fn a_packet_is_found_behind_every_header() {
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let wlan = |control: [u8; 2], len: usize| [&control[..], &vec![0; len - 2], &snap].concat();
        let cooked = [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &[8, 0]].concat();
        let cooked2 = [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6][..], &[2; 8]].concat();
        for (link_type, header) in [
            (1, [&[2; 12][..], &[8, 0]].concat()),
            (1, [&[2; 12][..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]].concat()),
            (0, vec![2, 0, 0, 0]),
            (0, vec![0, 0, 0, 2]),
            (108, vec![0, 0, 0, 2]),
            (101, vec![]),
            (228, vec![]),
            (9, vec![0xff, 3, 0, 0x21]),
            (9, vec![0x21]),
            (50, vec![0, 0x21]),
            (51, vec![0x11, 0, 0, 1, 0, 4, 0, 0x21]),
            (104, vec![0x0f, 0, 8, 0]),
            (113, cooked),
            (276, cooked2),
            (105, wlan([0x08, 0], 24)),
            (105, wlan([0x88, 0x83], 36)),
            (127, [&[0, 0, 9, 0, 0, 0, 0, 0, 0][..], &wlan([0x88, 2], 26)].concat()),
        ] {
            let expected = (Protocol::Ethernet(IPV4), PACKET.to_vec());
            assert_eq!(read(link_type, &header), Some(expected), "{link_type}: {header:02x?}");
            let frame = [&header[..], &PACKET].concat();
            for len in 0..frame.len() {
                let _ = LinkHeader::of(LinkType(link_type), &frame[..len]);
            }
        }
        assert_eq!(read(0, &[0, 0, 0, 24]).unwrap().0, Protocol::Ethernet(IPV6));
        assert_eq!(read(195, &[0; 30]), None, "not known");
        assert_eq!(read(0, &[7, 0, 0, 0]), None, "another family");
    }

    #[test]
    fn stations_are_those_that_send_and_are_meant() {
        let frame: Vec<u8> = [[0x08, 0, 0, 0, 0, 0], [1; 6], [2; 6], [3; 6], [0; 6], [4; 6]].concat();
        let stations = |flags: u8| {
            let mut frame = frame[2..].to_vec();
            frame[..2].copy_from_slice(&[0x08, flags]);
            let header = LinkHeader::of(LinkType(105), &frame).unwrap();
            [header.from, header.to].map(|address| address.to_string()[..2].to_owned())
        };
        assert_eq!(stations(0), ["02", "01"]);
        assert_eq!(stations(2), ["03", "01"]);
        assert_eq!(stations(1), ["02", "03"]);
        assert_eq!(LinkHeader::of(LinkType(105), &[0xd4, 0, 0, 0]).unwrap().protocol.to_string(), "wlan-ctl");
        let encrypted = [&[0x08, 0x40][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]].concat();
        assert_eq!(LinkHeader::of(LinkType(105), &encrypted).unwrap().payload, &[0; 0]);
    }
}
