//! The summary of a frame for people: its sender, its destination, and its protocol.

use std::fmt;

use evenkeel::raw::frame::LinkType;
use evenkeel::raw::wire::{EthernetAddress, IpAddress, IpProtocol, Ipv4Address, Ipv4Packet, Ipv6Packet};

pub use super::address::{Address, Protocol};
use super::address::{IPV4, IPV6};
use super::link_header::LinkHeader;

/// The headers of a frame, as far as they were captured and are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// The sender.
    pub from: Party,
    /// The destination.
    pub to: Party,
    /// The protocol of the highest layer that was understood.
    pub protocol: Protocol,
    /// The content, if a word can express it.
    pub detail: Detail,
}

/// The content of a packet, if a word can express it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// No content that a word can express.
    None,
    /// The flags of a TCP segment.
    Tcp(u8),
    /// An ARP request for the owner of the first address, sent by the second.
    WhoHas(Ipv4Address, Ipv4Address),
    /// An ARP reply: the IPv4 address has this hardware address.
    IsAt(Ipv4Address, EthernetAddress),
}

/// TCP's flags in tcpdump's notation, by their bits.
const FLAGS: [(u8, char); 8] =
    [(0x02, 'S'), (0x01, 'F'), (0x04, 'R'), (0x08, 'P'), (0x20, 'U'), (0x10, '.'), (0x40, 'E'), (0x80, 'W')];

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Tcp(0) => f.write_str("[none]"),
            Self::Tcp(flags) => {
                let set = FLAGS.into_iter().filter(|(bit, _)| flags & bit != 0);
                write!(f, "[{}]", set.map(|(_, name)| name).collect::<String>())
            }
            Self::WhoHas(target, sender) => write!(f, "who-has {target} tell {sender}"),
            Self::IsAt(address, station) => write!(f, "{address} is-at {}", Address::Ethernet(*station)),
        }
    }
}

/// The sender or the destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Party {
    /// The address of the party.
    pub address: Address,
    /// The port of the party, in TCP and UDP.
    pub port: Option<u16>,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (Address::Ip(IpAddress::Ipv6(address)), Some(port)) => write!(f, "[{address}]:{port}"),
            (address, Some(port)) => write!(f, "{address}:{port}"),
            (address, None) => address.fmt(f),
        }
    }
}

const ARP: u16 = 0x0806;
const TCP: u8 = 6;
/// The offset of the flags in a TCP header, in bytes.
const TCP_FLAGS: usize = 13;
const UDP: u8 = 17;

impl Headers {
    /// Reads as much of a frame of this link type as makes sense.
    #[must_use]
    pub fn of(link_type: LinkType, frame: &[u8]) -> Self {
        let party = |address| Party { address, port: None };
        let Some(LinkHeader { from, to, protocol, payload }) = LinkHeader::of(link_type, frame) else {
            let nobody = party(Address::None);
            return Self {
                from: nobody,
                to: nobody,
                protocol: Protocol::Link(link_type),
                detail: Detail::None,
            };
        };
        let Protocol::Ethernet(kind) = protocol else {
            return Self { from: party(from), to: party(to), protocol, detail: Detail::None };
        };
        Self::of_ip(kind, payload).unwrap_or_else(|| {
            let detail = if kind == ARP { arp(payload) } else { Detail::None };
            Self { from: party(from), to: party(to), protocol, detail }
        })
    }

    fn of_ip(kind: u16, packet: &[u8]) -> Option<Self> {
        match kind {
            IPV4 => {
                // The header is enough, whether the packet is cut off or not.
                let ip = Ipv4Packet::new_unchecked(packet);
                let header = packet.len() >= 20 && ip.version() == 4;
                let rest =
                    packet.get(usize::from(if header { ip.header_len() } else { 0 })..).unwrap_or_default();
                let first = header && ip.frag_offset() == 0;
                header.then(|| {
                    let (from, to) = (ip.src_addr().into(), ip.dst_addr().into());
                    Self::of_transport(from, to, ip.next_header(), if first { rest } else { &[] })
                })
            }
            IPV6 => {
                let ip = Ipv6Packet::new_unchecked(packet);
                let header = packet.len() >= 40 && ip.version() == 6;
                let rest = packet.get(40..).unwrap_or_default();
                header.then(|| {
                    let (from, to) = (ip.src_addr().into(), ip.dst_addr().into());
                    Self::of_transport(from, to, ip.next_header(), rest)
                })
            }
            _ => None,
        }
    }

    fn of_transport(from: IpAddress, to: IpAddress, protocol: IpProtocol, payload: &[u8]) -> Self {
        let protocol = u8::from(protocol);
        let ports = match (protocol, payload.first_chunk()) {
            (TCP | UDP, Some(&[a, b, c, d])) => {
                [Some(u16::from_be_bytes([a, b])), Some(u16::from_be_bytes([c, d]))]
            }
            _ => [None, None],
        };
        let party = |address, port| Party { address: Address::Ip(address), port };
        let detail = match (protocol, payload.get(TCP_FLAGS)) {
            (TCP, Some(flags)) => Detail::Tcp(*flags),
            _ => Detail::None,
        };
        Self {
            from: party(from, ports[0]),
            to: party(to, ports[1]),
            protocol: Protocol::Ip(protocol),
            detail,
        }
    }
}

/// Returns the content of an ARP packet for IPv4 on Ethernet (RFC 826).
fn arp(packet: &[u8]) -> Detail {
    const IPV4_ON_ETHERNET: [u8; 6] = [0, 1, 8, 0, 6, 4];
    let Some(&[a, b, c, d, e, f, 0, operation, ref addresses @ ..]) = packet.first_chunk::<28>() else {
        return Detail::None;
    };
    let [s0, s1, s2, s3, s4, s5, i0, i1, i2, i3, _, _, _, _, _, _, t0, t1, t2, t3] = *addresses;
    let (sender, target) = (Ipv4Address::new(i0, i1, i2, i3), Ipv4Address::new(t0, t1, t2, t3));
    match ([a, b, c, d, e, f] == IPV4_ON_ETHERNET, operation) {
        (true, 1) => Detail::WhoHas(target, sender),
        (true, 2) => Detail::IsAt(sender, EthernetAddress([s0, s1, s2, s3, s4, s5])),
        _ => Detail::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(frame: &[u8]) -> String {
        let Headers { from, to, protocol, detail } = Headers::of(LinkType::ETHERNET, frame);
        format!("{from} > {to} {protocol} {detail}").trim_end().to_owned()
    }

    fn udp() -> Vec<u8> {
        let mut frame = [&[2; 6][..], &[3; 6], &[8, 0, 0x45]].concat();
        frame.resize(14 + 28, 0);
        frame[23] = UDP;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..38].copy_from_slice(&[0, 7, 0, 9]);
        frame
    }

    #[test]
    fn frames_are_shown_with_their_highest_layer() {
        assert_eq!(line(&udp()), "10.0.0.1:7 > 10.0.0.2:9 udp");
        let tagged = [&udp()[..12], &[0x81, 0, 0, 7], &udp()[12..]].concat();
        assert_eq!(line(&tagged), "10.0.0.1:7 > 10.0.0.2:9 udp");
        let mut fragment = udp();
        fragment[21] = 1;
        assert_eq!(line(&fragment), "10.0.0.1 > 10.0.0.2 udp");
        assert_eq!(line(&udp()[..36]), "10.0.0.1 > 10.0.0.2 udp");
        assert_eq!(line(&udp()[..30]), "03:03:03:03:03:03 > 02:02:02:02:02:02 ip");
        let mut v6 = [&[2; 6][..], &[3; 6], &[0x86, 0xdd, 0x60]].concat();
        v6.resize(14 + 44, 0);
        v6[20] = TCP;
        v6[22..24].copy_from_slice(&[0xfd, 0x77]);
        v6[54..58].copy_from_slice(&[0, 7, 0, 9]);
        assert_eq!(line(&v6), "[fd77::]:7 > [::]:9 tcp");
        assert_eq!(line(&[0; 5]), "? > ? link type 1");
    }

    #[test]
    fn segments_are_shown_with_their_flags() {
        let mut tcp = udp();
        tcp[23] = TCP;
        tcp.resize(14 + 40, 0);
        for (flags, shown) in [
            (0x02, "[S]"),
            (0x12, "[S.]"),
            (0x10, "[.]"),
            (0x18, "[P.]"),
            (0x11, "[F.]"),
            (0x04, "[R]"),
            (0, "[none]"),
            (0xc2, "[SEW]"),
        ] {
            tcp[47] = flags;
            assert_eq!(line(&tcp), format!("10.0.0.1:7 > 10.0.0.2:9 tcp {shown}"));
        }
        assert_eq!(line(&tcp[..40]), "10.0.0.1:7 > 10.0.0.2:9 tcp", "cut off before the flags");
    }

    #[test]
    fn arp_is_shown_with_who_is_asked_for() {
        let arp = |operation| {
            let addresses = [[2, 0, 0, 0, 0, 5, 10, 0, 0, 1], [0, 0, 0, 0, 0, 0, 10, 0, 0, 2]].concat();
            [&[0xff; 6][..], &[2, 0, 0, 0, 0, 5], &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation], &addresses]
                .concat()
        };
        let from = "02:00:00:00:00:05 > ff:ff:ff:ff:ff:ff arp";
        assert_eq!(line(&arp(1)), format!("{from} who-has 10.0.0.2 tell 10.0.0.1"));
        assert_eq!(line(&arp(2)), format!("{from} 10.0.0.1 is-at 02:00:00:00:00:05"));
        assert_eq!((line(&arp(9)), line(&arp(1)[..41])), (from.to_owned(), from.to_owned()));
    }

    #[test]
    fn no_frame_is_too_short_or_too_strange() {
        for frame in [udp(), vec![0xff; 90]] {
            for len in 0..frame.len() {
                for at in 0..len {
                    let mut bad = frame[..len].to_vec();
                    bad[at] ^= 0xff;
                    let _ = line(&bad);
                }
            }
        }
    }
}
