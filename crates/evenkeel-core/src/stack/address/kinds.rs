//! Kinds of addresses: impossible ones, those with the scope of a link, and those derived from others.

use crate::wire::{EthernetAddress, IpAddress, Ipv4Address, Ipv6Address, Ipv6Cidr};

/// The group that every IPv6 router is in (RFC 4291 2.8).
pub(crate) const ALL_ROUTERS: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The kind of address by which a packet was addressed to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cast {
    Unicast,
    Multicast,
    Broadcast,
}

/// Returns the link-local address of a hardware address: its interface identifier (RFC 4291 appendix A)
/// behind fe80::/64.
pub(crate) fn link_local_of(hardware: EthernetAddress) -> Ipv6Cidr {
    let [a, b, c, d, e, f] = hardware.0;
    let bytes = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    Ipv6Cidr::new(Ipv6Address::from(bytes), 64)
}

/// Returns the group to which neighbours send solicitations for `address` (RFC 4291 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Address) -> Ipv6Address {
    let [.., a, b, c] = address.octets();
    Ipv6Address::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// Returns the hardware group of an IP group (RFC 1112 6.4, RFC 2464 7).
pub(crate) fn hardware_group(group: IpAddress) -> EthernetAddress {
    match group {
        IpAddress::Ipv4(group) => {
            let [_, b, c, d] = group.octets();
            EthernetAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddress::Ipv6(group) => {
            let [.., a, b, c, d] = group.octets();
            EthernetAddress([0x33, 0x33, a, b, c, d])
        }
    }
}

/// Returns whether no packet on a wire can have the source `source` (RFC 1122 3.2.1.3). The caller judges
/// 0.0.0.0 itself.
pub(crate) fn is_martian_v4(source: Ipv4Address) -> bool {
    let first = source.octets()[0];
    first == 127 || first >= 224 || (first == 0 && !source.is_unspecified())
}

/// Returns whether no packet on a wire can have the IPv6 source `source` (RFC 4291 2.5.3, 2.5.5.2, 2.7).
pub(crate) fn is_martian_v6(source: Ipv6Address) -> bool {
    source.is_multicast() || source.is_loopback() || source.to_ipv4_mapped().is_some()
}

/// Returns whether no packet that a router forwards bears `address`, as source or destination (RFC 1812
/// 4.2.2.11 and 5.3.7, RFC 4291 2.5.2, 2.5.3, 2.5.5.2).
pub(crate) fn is_reserved(address: &IpAddress) -> bool {
    match *address {
        IpAddress::Ipv4(address) => address.is_unspecified() || is_martian_v4(address),
        IpAddress::Ipv6(address) => address.is_unspecified() || is_martian_v6(address),
    }
}

/// Returns whether `address` is link-local, of either family (RFC 3927, RFC 4291 2.5.6).
pub(crate) fn is_link_local(address: &IpAddress) -> bool {
    match *address {
        IpAddress::Ipv4(address) => address.is_link_local(),
        IpAddress::Ipv6(address) => address.is_unicast_link_local(),
    }
}

/// Returns whether `address` is valid on its own link only: it is link-local, or a group of at most
/// link-local scope.
pub(crate) fn is_link_scope(address: Ipv6Address) -> bool {
    address.is_unicast_link_local() || (address.is_multicast() && address.octets()[1] & 0xf <= 2)
}

/// Returns source and destination, as they stand in a header.
#[inline(always)]
pub(crate) const fn ends_v4(addresses: &[u8; 8]) -> (IpAddress, IpAddress) {
    let &[a, b, c, d, e, f, g, h] = addresses;
    (IpAddress::Ipv4(Ipv4Address::new(a, b, c, d)), IpAddress::Ipv4(Ipv4Address::new(e, f, g, h)))
}

#[inline(always)]
pub(crate) fn ends_v6(addresses: &[u8; 32]) -> (IpAddress, IpAddress) {
    let [source, destination] = [0, 1].map(|end| {
        let address = addresses.as_chunks::<16>().0.get(end).copied().unwrap_or_default();
        IpAddress::Ipv6(Ipv6Address::from_octets(address))
    });
    (source, destination)
}
