//! Which addresses are ours, and which of ours suits a destination.

use super::address::{Cast, InterfaceAddresses, is_link_scope, is_martian_v4, is_martian_v6};
use super::path::{Next, Path};
use super::state::Stack;
use crate::id::InterfaceId;
use crate::wire::{IpAddress, IpCidr, Ipv4Address, Ipv4Cidr, Ipv6Address, Ipv6Cidr};

impl Stack {
    pub(super) fn addresses_of(&self, interface: InterfaceId) -> Option<&InterfaceAddresses> {
        self.interfaces.get(usize::from(interface.0))
    }

    pub(super) fn owns_v4(&self, address: Ipv4Address) -> bool {
        self.interfaces.iter().any(|own| own.owns_v4(address))
    }

    /// Returns whether `address` belongs to this host, as seen from `interface`. A link-local address
    /// counts on its own link only.
    pub(super) fn owns_v6(&self, address: Ipv6Address, interface: InterfaceId) -> bool {
        if address.is_unicast_link_local() {
            return self.addresses_of(interface).is_some_and(|own| own.owns_v6(address));
        }
        self.interfaces.iter().any(|own| own.owns_v6(address))
    }

    /// Returns whether `address` is a unicast address of any interface of this host.
    pub(crate) fn is_own(&self, address: &IpAddress) -> bool {
        self.interfaces.iter().any(|own| own.owns(address))
    }

    /// Returns whether a source address must be rejected: no other host can have it, or it belongs to this
    /// host.
    pub(super) fn is_martian(&self, source: &IpAddress, interface: InterfaceId) -> bool {
        match *source {
            IpAddress::Ipv4(source) => {
                is_martian_v4(source)
                    || self.owns_v4(source)
                    || self.interfaces.iter().any(|own| own.broadcasts_to(source))
            }
            IpAddress::Ipv6(source) => is_martian_v6(source) || self.owns_v6(source, interface),
        }
    }

    /// Returns whether `address` is the limited broadcast, or a directed one of any prefix of this host.
    /// The old form with zeros counts, too (RFC 1812 4.2.3.1).
    pub(crate) fn is_broadcast(&self, address: &IpAddress) -> bool {
        match *address {
            IpAddress::Ipv4(address) => {
                let names_prefix =
                    |cidr: &Ipv4Cidr| cidr.prefix_len() < 31 && cidr.network().address() == address;
                let directed =
                    |a: &InterfaceAddresses| a.broadcasts_to(address) || a.v4.iter().any(names_prefix);
                address.is_broadcast() || self.interfaces.iter().any(directed)
            }
            IpAddress::Ipv6(_) => false,
        }
    }

    /// Returns how a packet to `destination` that came by `interface` is addressed to this host; `None` if
    /// it is for another.
    pub(super) fn cast(&self, destination: &IpAddress, interface: InterfaceId) -> Option<Cast> {
        match *destination {
            IpAddress::Ipv4(address) if self.owns_v4(address) => Some(Cast::Unicast),
            IpAddress::Ipv6(address) if self.owns_v6(address, interface) => Some(Cast::Unicast),
            IpAddress::Ipv4(address) if address.is_broadcast() => Some(Cast::Broadcast),
            IpAddress::Ipv4(address) if address.is_multicast() => self.member_cast(*destination, interface),
            IpAddress::Ipv6(address) if address.is_multicast() => self.member_cast(*destination, interface),
            IpAddress::Ipv4(address) => {
                self.addresses_of(interface).filter(|a| a.broadcasts_to(address)).map(|_| Cast::Broadcast)
            }
            IpAddress::Ipv6(_) => None,
        }
    }

    fn member_cast(&self, group: IpAddress, interface: InterfaceId) -> Option<Cast> {
        self.groups.is_member(group, interface).then_some(Cast::Multicast)
    }

    /// Returns the address of this host that suits a packet by `path` to `destination`.
    pub(super) fn source_by(&self, destination: &IpAddress, path: Path) -> Option<IpAddress> {
        let next = if let Next::Neighbor(next) = path.next { next } else { *destination };
        self.source_for(destination, &next, path.interface)
    }

    /// Returns the address of this host to send from to `destination` by way of `next` on `interface`.
    ///
    /// Same scope first, then the longest prefix in common (RFC 6724 5, rules 2 and 8; RFC 1122 3.3.4.3).
    pub(super) fn source_for(
        &self,
        destination: &IpAddress,
        next: &IpAddress,
        interface: InterfaceId,
    ) -> Option<IpAddress> {
        let own = self.addresses_of(interface)?;
        match *destination {
            IpAddress::Ipv4(_) => {
                let on_link = |cidr: &&Ipv4Cidr| IpCidr::Ipv4(**cidr).contains_addr(next);
                let chosen = own.v4.iter().find(on_link).or(own.v4.first())?;
                Some(IpAddress::Ipv4(chosen.address()))
            }
            IpAddress::Ipv6(destination) => {
                let local = is_link_scope(destination);
                let suits = |address: &Ipv6Address| {
                    let common = (u128::from(*address) ^ u128::from(destination)).leading_zeros();
                    (address.is_unicast_link_local() == local, common)
                };
                own.v6.iter().map(Ipv6Cidr::address).max_by_key(suits).map(IpAddress::Ipv6)
            }
        }
    }

    /// Returns whether a packet to `address` ends here: a unicast address of this host, a broadcast address
    /// of one of its links, or a group that it has joined.
    #[must_use]
    pub fn is_local(&self, address: &IpAddress) -> bool {
        if address.is_multicast() {
            return self.groups.is_member_anywhere(address);
        }
        (0..self.interfaces.len()).any(|i| self.cast(address, InterfaceId(i as u8)).is_some())
    }

    /// Returns every address that packets to this host may bear: its own on all interfaces, the directed
    /// broadcasts of its prefixes, the limited broadcast, and the groups it is in. Some may come twice.
    pub fn local_addresses(&self) -> impl Iterator<Item = IpAddress> {
        let v4 = self.interfaces.iter().flat_map(|own| &own.v4);
        let v6 = self.interfaces.iter().flat_map(|own| &own.v6);
        let own = v4.clone().map(|cidr| cidr.address().into()).chain(v6.map(|cidr| cidr.address().into()));
        let broadcasts = v4.filter_map(|cidr| cidr.broadcast().map(Into::into));
        own.chain(broadcasts).chain([Ipv4Address::BROADCAST.into()]).chain(self.groups.addresses())
    }
}
