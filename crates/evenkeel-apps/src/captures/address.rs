//! Addresses and protocols of any layer.

use std::fmt;

use evenkeel::raw::frame::LinkType;
use evenkeel::raw::wire::{EthernetAddress, IpAddress};

/// The EtherType of IPv4.
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;

/// An address of the highest layer that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// The address of a host.
    Ip(IpAddress),
    /// The address of a station.
    Ethernet(EthernetAddress),
    /// The link has no addresses, or this one is unknown.
    None,
}

/// The highest protocol that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// A protocol of IP, by its number.
    Ip(u8),
    /// A protocol of Ethernet, by its type.
    Ethernet(u16),
    /// A protocol of PPP, by its number.
    Ppp(u16),
    /// A frame of 802.11 without a packet that could be read, by its type.
    Wlan(u8),
    /// No header was understood: the link type is unknown, or the frame is cut off.
    Link(LinkType),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Ethernet(EthernetAddress([a, b, c, d, e, g])) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Self::None => f.write_str("?"),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::Ip(1) => "icmp",
            Self::Ip(2) => "igmp",
            Self::Ip(6) => "tcp",
            Self::Ip(17) => "udp",
            Self::Ip(47) => "gre",
            Self::Ip(50) => "esp",
            Self::Ip(58) => "icmp6",
            Self::Ip(132) => "sctp",
            Self::Ip(number) => return write!(f, "ip-{number}"),
            Self::Ethernet(0x0800) => "ip",
            Self::Ethernet(0x0806) => "arp",
            Self::Ethernet(0x86dd) => "ip6",
            Self::Ethernet(0x88cc) => "lldp",
            Self::Ethernet(0..0x0600) => "llc",
            Self::Ethernet(number) => return write!(f, "ether-{number:04x}"),
            Self::Ppp(0x8021 | 0xc021) => "ppp-control",
            Self::Ppp(number) => return write!(f, "ppp-{number:04x}"),
            Self::Wlan(0) => "wlan-mgt",
            Self::Wlan(1) => "wlan-ctl",
            Self::Wlan(_) => "wlan-data",
            Self::Link(LinkType(number)) => return write!(f, "link type {number}"),
        };
        f.write_str(name)
    }
}
