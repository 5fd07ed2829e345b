//! The destinations of packets to this host.

use super::interfaces::Interfaces;
use super::kinds::Cast;
use crate::id::InterfaceId;
use crate::stack::multicast::groups::Groups;
use crate::wire::{EthernetAddress, IpAddress, Ipv4Address};

/// The addresses that packets to this host may bear: those of its interfaces, and the groups it has joined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local<'a> {
    pub(crate) interfaces: &'a Interfaces,
    pub(crate) groups: &'a Groups,
}

impl<'a> Local<'a> {
    /// Returns how a packet to `destination` that came by `interface` is addressed to this host; `None` if
    /// it is for another.
    pub(crate) fn cast(self, destination: &IpAddress, interface: InterfaceId) -> Option<Cast> {
        let member = || self.groups.is_member(*destination, interface).then_some(Cast::Multicast);
        match *destination {
            IpAddress::Ipv4(address) if self.interfaces.owns_v4(address) => Some(Cast::Unicast),
            IpAddress::Ipv6(address) if self.interfaces.owns_v6(address, interface) => Some(Cast::Unicast),
            IpAddress::Ipv4(address) if address.is_broadcast() => Some(Cast::Broadcast),
            IpAddress::Ipv4(address) if address.is_multicast() => member(),
            IpAddress::Ipv6(address) if address.is_multicast() => member(),
            IpAddress::Ipv4(_) => {
                self.interfaces.is_directed_broadcast(destination, interface).then_some(Cast::Broadcast)
            }
            IpAddress::Ipv6(_) => None,
        }
    }

    /// Returns how a frame is addressed to this host; `None` if it is for another. IP checks which groups
    /// are joined.
    pub(crate) fn link_cast(self, interface: InterfaceId, destination: EthernetAddress) -> Option<Cast> {
        let own = self.interfaces.of(interface)?;
        if destination == own.hardware {
            Some(Cast::Unicast)
        } else if destination.is_broadcast() {
            Some(Cast::Broadcast)
        } else {
            destination.is_multicast().then_some(Cast::Multicast)
        }
    }

    /// Returns whether a packet to `address` ends here: a unicast address of this host, a broadcast address
    /// of one of its links, or a group that it has joined.
    pub(crate) fn contains(self, address: &IpAddress) -> bool {
        if address.is_multicast() {
            return self.groups.is_member_anywhere(address);
        }
        self.interfaces.ids().any(|interface| self.cast(address, interface).is_some())
    }

    /// Returns every address that packets to this host may bear: its own on all interfaces, the directed
    /// broadcasts of its prefixes, the limited broadcast, and the groups it is in. Some may come twice.
    pub(crate) fn addresses(self) -> impl Iterator<Item = IpAddress> + use<'a> {
        let v4 = self.interfaces.iter().flat_map(|own| &own.v4);
        let v6 = self.interfaces.iter().flat_map(|own| &own.v6);
        let own = v4.clone().map(|cidr| cidr.address().into()).chain(v6.map(|cidr| cidr.address().into()));
        let broadcasts = v4.filter_map(|cidr| cidr.broadcast().map(Into::into));
        own.chain(broadcasts).chain([Ipv4Address::BROADCAST.into()]).chain(self.groups.addresses())
    }
}
