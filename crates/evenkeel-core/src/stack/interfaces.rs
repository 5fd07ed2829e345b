//! Interfaces and their addresses: added, changed, taken away.

use super::address::{ALL_ROUTERS, InterfaceAddresses, link_local_of, solicited_node};
use super::io::Io;
use super::state::Stack;
use crate::frame::{BUFFER_BYTES, HEADROOM};
use crate::id::InterfaceId;
use crate::time::Instant;
use crate::wire::{EthernetAddress, IpAddress, IpCidr};

/// Frames larger than a pool's buffers cannot be held, so no MTU is larger; the least is what IPv4 hosts must
/// take.
const MTU_MAX: usize = BUFFER_BYTES - HEADROOM - ETHERNET_BYTES;
const MTU_MIN: usize = 576;
const ETHERNET_BYTES: usize = 14;

impl Stack {
    /// Adds an interface with the hardware address `mac` whose IP packets are of `mtu` bytes at most, and
    /// gives it the IPv6 link-local address of its hardware address (RFC 4291 appendix A).
    ///
    /// The MTU is taken as 576 at least and 1906 at most (what a frame buffer holds). Of the 256 interfaces
    /// that can be named, more are not added: the last one's name is given again.
    pub fn add_interface(&mut self, mac: EthernetAddress, mtu: usize) -> InterfaceId {
        let Ok(number) = u8::try_from(self.interfaces.len()) else { return InterfaceId(u8::MAX) };
        let mtu = mtu.clamp(MTU_MIN, MTU_MAX);
        self.interfaces.push(InterfaceAddresses { hardware: mac, mtu, v4: Vec::new(), v6: Vec::new() });
        let interface = InterfaceId(number);
        if self.config.forwarding {
            self.groups.pin(ALL_ROUTERS.into(), interface, Instant::ZERO, self.config.report_groups);
        }
        self.put_address(interface, IpCidr::Ipv6(link_local_of(mac)), Instant::ZERO);
        interface
    }

    /// Gives an interface an address; its prefix is on-link from now on.
    pub fn add_address(&mut self, interface: InterfaceId, cidr: IpCidr, io: &mut Io<'_>) {
        self.put_address(interface, cidr, io.now);
        self.tick_groups(io);
        self.tick_claims(io);
    }

    /// Removes an address from an interface, and its prefix from the link unless another address has the
    /// same prefix. Returns whether the address was there. Routes by gateways of that prefix stay.
    pub fn remove_address(&mut self, interface: InterfaceId, cidr: IpCidr) -> bool {
        let Some(own) = self.interfaces.get_mut(usize::from(interface.0)) else { return false };
        let removed = match cidr {
            IpCidr::Ipv4(cidr) => remove_one(&mut own.v4, cidr),
            IpCidr::Ipv6(cidr) => remove_one(&mut own.v6, cidr),
        };
        if !removed {
            return false;
        }
        self.claims.forget(interface, cidr.address());
        if !own.has_prefix(&cidr) {
            self.routes.remove_on_link(cidr, interface);
        }
        if let IpAddress::Ipv6(address) = cidr.address()
            && !own.v6.iter().any(|other| solicited_node(other.address()) == solicited_node(address))
        {
            self.groups.unpin(IpAddress::Ipv6(solicited_node(address)), interface);
        }
        self.raise_generation();
        true
    }

    /// Sets an interface's MTU, within the bounds of [`Stack::add_interface`].
    pub fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        if let Some(own) = self.interfaces.get_mut(usize::from(interface.0)) {
            own.mtu = mtu.clamp(MTU_MIN, MTU_MAX);
        }
    }

    /// Gives an interface another hardware address, and in place of the link-local address that came with the
    /// earlier one its own.
    pub fn set_hardware(&mut self, interface: InterfaceId, mac: EthernetAddress, io: &mut Io<'_>) {
        let Some(own) = self.interfaces.get_mut(usize::from(interface.0)) else { return };
        let earlier = core::mem::replace(&mut own.hardware, mac);
        if earlier != mac {
            self.remove_address(interface, IpCidr::Ipv6(link_local_of(earlier)));
            self.add_address(interface, IpCidr::Ipv6(link_local_of(mac)), io);
        }
    }

    /// Announces all addresses of an interface, as new ones: it has come to another place.
    pub fn announce_again(&mut self, interface: InterfaceId, io: &mut Io<'_>) {
        let Some(own) = self.addresses_of(interface) else { return };
        let v4 = own.v4.iter().map(|cidr| IpAddress::Ipv4(cidr.address()));
        let all: Vec<_> = v4.chain(own.v6.iter().map(|cidr| cidr.address().into())).collect();
        for address in all {
            self.claims.forget(interface, address);
            self.claim(interface, address, io.now);
        }
        self.tick_claims(io);
    }

    fn claim(&mut self, interface: InterfaceId, address: IpAddress, now: Instant) {
        if self.config.announce && !self.config.forward_only {
            self.claims.begin(interface, address, now);
        }
    }

    fn put_address(&mut self, interface: InterfaceId, cidr: IpCidr, now: Instant) {
        let Some(own) = self.interfaces.get_mut(usize::from(interface.0)) else { return };
        let new = match cidr {
            IpCidr::Ipv4(cidr) => push_new(&mut own.v4, cidr),
            IpCidr::Ipv6(cidr) => push_new(&mut own.v6, cidr),
        };
        if !new {
            return;
        }
        self.claim(interface, cidr.address(), now);
        self.routes.add_on_link(cidr, interface);
        if let IpAddress::Ipv6(address) = cidr.address() {
            let group = IpAddress::Ipv6(solicited_node(address));
            self.groups.pin(group, interface, now, self.config.report_groups);
        }
        self.raise_generation();
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
