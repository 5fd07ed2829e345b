//! The interfaces of a host: their hardware addresses, MTUs and IP addresses.

use super::kinds::{is_link_scope, is_martian_v4, is_martian_v6, link_local_of, solicited_node};
use crate::frame::{BUFFER_BYTES, HEADROOM};
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv4Cidr, Ipv6Address, Ipv6Cidr};

const ETHERNET_BYTES: usize = 14;
/// The bytes of a buffer that are not of an IP packet which it holds at most: headroom, Ethernet header, VLAN
/// tag, and one byte that shows a device that a frame has not filled the buffer.
const AROUND_BYTES: usize = HEADROOM + ETHERNET_BYTES + 4 + 1;
/// The smallest MTU. Every IPv4 host takes such packets.
const MTU_MIN: usize = 576;

/// The hardware address, MTU and IP addresses of an interface.
#[derive(Debug)]
pub(crate) struct InterfaceAddresses {
    pub(crate) hardware: EthernetAddress,
    pub(crate) mtu: usize,
    /// The largest payload of a segment that the interface cuts, in bytes; zero if it cuts none.
    pub(crate) cuts: usize,
    pub(crate) v4: Vec<Ipv4Cidr>,
    pub(crate) v6: Vec<Ipv6Cidr>,
}

impl InterfaceAddresses {
    const fn new(hardware: EthernetAddress, mtu: usize) -> Self {
        Self { hardware, mtu, cuts: 0, v4: Vec::new(), v6: Vec::new() }
    }

    pub(crate) fn owns_v4(&self, address: Ipv4Address) -> bool {
        self.v4.iter().any(|cidr| cidr.address() == address)
    }

    pub(crate) fn owns_v6(&self, address: Ipv6Address) -> bool {
        self.v6.iter().any(|cidr| cidr.address() == address)
    }

    /// Returns whether `address` is a unicast address of this interface.
    pub(crate) fn owns(&self, address: &IpAddress) -> bool {
        match *address {
            IpAddress::Ipv4(address) => self.owns_v4(address),
            IpAddress::Ipv6(address) => self.owns_v6(address),
        }
    }

    /// Returns whether an address of this interface has the prefix of `cidr`.
    pub(crate) fn has_prefix(&self, cidr: &IpCidr) -> bool {
        let same =
            |other: IpCidr| other.prefix_len() == cidr.prefix_len() && other.contains_addr(&cidr.address());
        match cidr {
            IpCidr::Ipv4(_) => self.v4.iter().any(|other| same(IpCidr::Ipv4(*other))),
            IpCidr::Ipv6(_) => self.v6.iter().any(|other| same(IpCidr::Ipv6(*other))),
        }
    }

    /// Returns whether an address of this interface receives solicitations by `group`.
    pub(crate) fn needs_solicited_node(&self, group: Ipv6Address) -> bool {
        self.v6.iter().any(|cidr| solicited_node(cidr.address()) == group)
    }

    /// Returns whether `address` is the directed broadcast of a prefix of this interface.
    pub(crate) fn broadcasts_to(&self, address: Ipv4Address) -> bool {
        self.v4.iter().any(|cidr| cidr.broadcast() == Some(address))
    }

    /// Returns whether both addresses have a prefix of this interface.
    pub(crate) fn share_prefix(&self, a: Ipv4Address, b: Ipv4Address) -> bool {
        self.v4.iter().any(|cidr| cidr.contains_addr(&a) && cidr.contains_addr(&b))
    }

    /// Returns whether `address` has a prefix of this interface.
    pub(crate) fn reaches_v6(&self, address: Ipv6Address) -> bool {
        self.v6.iter().any(|cidr| cidr.contains_addr(&address))
    }

    /// Returns the link-local address from which membership reports are sent (RFC 2710 3).
    pub(crate) fn link_local(&self) -> Option<Ipv6Address> {
        self.v6.iter().map(Ipv6Cidr::address).find(|address| address.is_unicast_link_local())
    }

    /// Returns all addresses with their prefixes, those of IPv4 first, in the order they were given.
    pub(crate) fn cidrs(&self) -> impl Iterator<Item = IpCidr> {
        self.v4.iter().copied().map(IpCidr::Ipv4).chain(self.v6.iter().copied().map(IpCidr::Ipv6))
    }

    /// Returns the address to send from to `destination` by way of `next` on this link.
    ///
    /// The choice is by scope, then by the longest prefix in common (RFC 6724 5, rules 2 and 8; RFC 1122
    /// 3.3.4.3).
    fn source_for(&self, destination: &IpAddress, next: &IpAddress) -> Option<IpAddress> {
        match *destination {
            IpAddress::Ipv4(_) => {
                let on_link = |cidr: &&Ipv4Cidr| IpCidr::Ipv4(**cidr).contains_addr(next);
                let chosen = self.v4.iter().find(on_link).or(self.v4.first())?;
                Some(IpAddress::Ipv4(chosen.address()))
            }
            IpAddress::Ipv6(destination) => {
                let local = is_link_scope(destination);
                let suits = |address: &Ipv6Address| {
                    let common = (u128::from(*address) ^ u128::from(destination)).leading_zeros();
                    (address.is_unicast_link_local() == local, common)
                };
                self.v6.iter().map(Ipv6Cidr::address).max_by_key(suits).map(IpAddress::Ipv6)
            }
        }
    }

    /// Adds an address. Returns whether it is new.
    pub(crate) fn insert(&mut self, cidr: IpCidr) -> bool {
        match cidr {
            IpCidr::Ipv4(cidr) => push_new(&mut self.v4, cidr),
            IpCidr::Ipv6(cidr) => push_new(&mut self.v6, cidr),
        }
    }

    /// Removes an address. Returns whether it was there.
    pub(crate) fn remove(&mut self, cidr: IpCidr) -> bool {
        match cidr {
            IpCidr::Ipv4(cidr) => remove_one(&mut self.v4, cidr),
            IpCidr::Ipv6(cidr) => remove_one(&mut self.v6, cidr),
        }
    }
}

/// Returns the size of buffers that hold the frames of an interface with this MTU.
pub(crate) const fn buffer_bytes_for(mtu: usize) -> usize {
    mtu + AROUND_BYTES
}

/// Returns the largest MTU of an interface whose frames lie in buffers of this size.
const fn mtu_max_of(buffer_bytes: usize) -> usize {
    buffer_bytes - HEADROOM - ETHERNET_BYTES
}

/// All interfaces of a host, by their numbers.
#[derive(Debug)]
pub(crate) struct Interfaces {
    all: Vec<InterfaceAddresses>,
    /// The largest MTU. Larger frames do not fit the pool's buffers.
    mtu_max: usize,
}

impl Default for Interfaces {
    fn default() -> Self {
        Self { all: Vec::new(), mtu_max: mtu_max_of(BUFFER_BYTES) }
    }
}

impl Interfaces {
    /// Raises the largest MTU of interfaces to what buffers of this size hold.
    pub(crate) fn fit(&mut self, buffer_bytes: usize) {
        self.mtu_max = self.mtu_max.max(mtu_max_of(buffer_bytes));
    }

    /// Adds an interface without IP addresses. Returns `None` if all 256 numbers are taken.
    pub(crate) fn add(&mut self, hardware: EthernetAddress, mtu: usize) -> Option<InterfaceId> {
        let number = u8::try_from(self.all.len()).ok()?;
        self.all.push(InterfaceAddresses::new(hardware, mtu.clamp(MTU_MIN, self.mtu_max)));
        Some(InterfaceId(number))
    }

    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the numbers of all interfaces.
    pub(crate) fn ids(&self) -> impl Iterator<Item = InterfaceId> + use<> {
        (0..self.all.len()).map(|place| InterfaceId(place as u8))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &InterfaceAddresses> + Clone {
        self.all.iter()
    }

    #[inline]
    pub(crate) fn of(&self, interface: InterfaceId) -> Option<&InterfaceAddresses> {
        self.all.get(usize::from(interface.0))
    }

    pub(crate) fn of_mut(&mut self, interface: InterfaceId) -> Option<&mut InterfaceAddresses> {
        self.all.get_mut(usize::from(interface.0))
    }

    /// Returns the MTU of an interface, in bytes; zero if there is no such interface.
    pub(crate) fn mtu(&self, interface: InterfaceId) -> usize {
        self.of(interface).map_or(0, |own| own.mtu)
    }

    /// Sets an interface's MTU, within the bounds of what hosts and buffers take.
    pub(crate) fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        let mtu = mtu.clamp(MTU_MIN, self.mtu_max);
        if let Some(own) = self.of_mut(interface) {
            own.mtu = mtu;
        }
    }

    /// Sets the largest payload of a segment that an interface cuts.
    pub(crate) fn set_cuts(&mut self, interface: InterfaceId, payload_max: usize) {
        if let Some(own) = self.of_mut(interface) {
            own.cuts = payload_max;
        }
    }

    /// Replaces the hardware address of an interface. Returns the link-local addresses that belong to the
    /// earlier one and to the new one, if they differ.
    pub(crate) fn set_hardware(
        &mut self,
        interface: InterfaceId,
        hardware: EthernetAddress,
    ) -> Option<(IpCidr, IpCidr)> {
        let own = self.of_mut(interface)?;
        let earlier = core::mem::replace(&mut own.hardware, hardware);
        let link_local = |hardware| IpCidr::Ipv6(link_local_of(hardware));
        (earlier != hardware).then(|| (link_local(earlier), link_local(hardware)))
    }

    pub(crate) fn owns_v4(&self, address: Ipv4Address) -> bool {
        self.all.iter().any(|own| own.owns_v4(address))
    }

    /// Returns whether `address` belongs to this host, as seen from `interface`. A link-local address
    /// counts on its own link only.
    pub(crate) fn owns_v6(&self, address: Ipv6Address, interface: InterfaceId) -> bool {
        if address.is_unicast_link_local() {
            return self.of(interface).is_some_and(|own| own.owns_v6(address));
        }
        self.all.iter().any(|own| own.owns_v6(address))
    }

    /// Returns whether `address` is a unicast address of this host, as seen from `interface`.
    pub(crate) fn owns_by(&self, address: &IpAddress, interface: InterfaceId) -> bool {
        match *address {
            IpAddress::Ipv4(address) => self.owns_v4(address),
            IpAddress::Ipv6(address) => self.owns_v6(address, interface),
        }
    }

    /// Returns whether `address` is a unicast address of this very interface.
    pub(crate) fn owns_on(&self, address: &IpAddress, interface: InterfaceId) -> bool {
        self.of(interface).is_some_and(|own| own.owns(address))
    }

    /// Returns the first interface that has `address`.
    pub(crate) fn owner_of(&self, address: &IpAddress) -> Option<InterfaceId> {
        self.all.iter().position(|own| own.owns(address)).map(|place| InterfaceId(place as u8))
    }

    /// Returns whether a source address must be rejected: no other host can have it, or it belongs to this
    /// host.
    pub(crate) fn is_martian(&self, source: &IpAddress, interface: InterfaceId) -> bool {
        match *source {
            IpAddress::Ipv4(source) => {
                is_martian_v4(source)
                    || self.owns_v4(source)
                    || self.all.iter().any(|own| own.broadcasts_to(source))
            }
            IpAddress::Ipv6(source) => is_martian_v6(source) || self.owns_v6(source, interface),
        }
    }

    /// Returns whether another host can have the address `source`.
    pub(crate) fn is_credible_source(&self, source: &IpAddress, interface: InterfaceId) -> bool {
        !source.is_unspecified() && !self.is_martian(source, interface)
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
                address.is_broadcast() || self.all.iter().any(directed)
            }
            IpAddress::Ipv6(_) => false,
        }
    }

    /// Returns whether `address` is a directed broadcast on the link of `interface`.
    pub(crate) fn is_directed_broadcast(&self, address: &IpAddress, interface: InterfaceId) -> bool {
        match *address {
            IpAddress::Ipv4(address) => self.of(interface).is_some_and(|own| own.broadcasts_to(address)),
            IpAddress::Ipv6(_) => false,
        }
    }

    /// Returns the address of this host to send from to `destination` by way of `next` on `interface`.
    pub(crate) fn source_for(
        &self,
        destination: &IpAddress,
        next: &IpAddress,
        interface: InterfaceId,
    ) -> Option<IpAddress> {
        self.of(interface)?.source_for(destination, next)
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let new = !list.contains(&item);
    if new {
        list.push(item);
    }
    new
}

fn remove_one<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let place = list.iter().position(|other| *other == item);
    place.map(|place| list.remove(place)).is_some()
}
