//! The configuration of a running host: interfaces, addresses, routes, neighbours.

use super::membership::Membership;
use super::run::Host;
use crate::id::InterfaceId;
use crate::interface::Interface;
use crate::link::AddInterfaceError;
use crate::other_stack::{OtherStack, Sharing};
use crate::receive::ReceivePath;
use crate::stack::{AddressConflict, Neighbor, NeighborError, Route, RouteError};
use crate::time::Instant;
use crate::wire::{EthernetAddress, IpAddress, IpCidr};

impl Host {
    /// Adds an interface, with the host's addresses on it. An IPv6 link-local address is added automatically.
    ///
    /// The host's architecture determines how frames of the interface are received. Under both lazy
    /// architectures, an interface that demultiplexes does so itself. For any other interface, the host
    /// demultiplexes. Both kinds may share a host.
    ///
    /// # Errors
    /// [`AddInterfaceError`] if the interface does not suit the architecture, or a limit of rings, queues or
    /// memory is reached. The error says what to change.
    pub fn add_interface(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_interface_as(interface, addresses, None, now)
    }

    /// Adds an interface with its own receive path, `plan`. Interfaces with different receive paths may share
    /// a host. A lazy receive path needs a host whose architecture is lazy.
    ///
    /// # Errors
    /// [`AddInterfaceError`], as for [`Host::add_interface`]. [`AddInterfaceError::NotLazy`] if `plan` is
    /// lazy and the host's architecture is not. Nothing is changed then.
    pub fn add_interface_with(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        plan: ReceivePath,
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_interface_as(interface, addresses, Some(plan), now)
    }

    /// Adds an interface whose driver cannot poll. Its device work runs in the interrupt, and its frames pass
    /// through the shared IP queue, as in 4.2BSD. Other interfaces of the host may be polled. A flood on this
    /// interface can still livelock the host.
    ///
    /// # Errors
    /// [`AddInterfaceError`], as for [`Host::add_interface`].
    pub fn add_legacy_interface(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_interface_as(interface, addresses, Some(ReceivePath::LEGACY), now)
    }

    pub(super) fn add_interface_as(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        plan: Option<ReceivePath>,
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let id = self.net.add_interface(interface, addresses, plan, now)?;
        self.net.output(now).transmit();
        Ok(id)
    }

    /// Replaces the device of an interface after the device is gone. Addresses, routes, queues and limits
    /// stay. The hardware address and the MTU are those of the new device. All addresses are announced again.
    ///
    /// # Errors
    /// [`AddInterfaceError`] if the new device cannot replace the earlier one, which then stays.
    pub fn replace_interface(
        &mut self,
        id: InterfaceId,
        interface: Box<dyn Interface>,
        now: Instant,
    ) -> Result<(), AddInterfaceError> {
        self.net.replace_interface(id, interface, now)?;
        self.net.output(now).transmit();
        Ok(())
    }

    /// Adds a static route to `to` through `gateway`. The default route has the destination `0.0.0.0/0` or
    /// `::/0`.
    ///
    /// # Errors
    /// [`RouteError`] if the interface does not exist, the gateway does not suit the route, or the table is
    /// full. Nothing is changed then.
    pub fn add_route(
        &mut self,
        to: IpCidr,
        gateway: IpAddress,
        interface: InterfaceId,
    ) -> Result<(), RouteError> {
        self.net.stack.add_route(to, gateway, interface)
    }

    /// Adds a route, or replaces the one with the same prefix, interface and metric. The route applies from
    /// the next packet on.
    ///
    /// # Errors
    /// [`RouteError`] if the interface does not exist, the gateway does not suit the route, or the table is
    /// full. Nothing is changed then.
    pub fn set_route(&mut self, route: Route) -> Result<(), RouteError> {
        self.net.stack.set_route(route)
    }

    /// Removes the route with the prefix, interface and metric of `route`. Returns whether there was one.
    pub fn remove_route(&mut self, route: &Route) -> bool {
        self.net.stack.remove_route(route)
    }

    /// Returns the number of routes, including those of the host's own prefixes.
    #[must_use]
    pub fn route_count(&self) -> usize {
        self.net.stack.route_count()
    }

    /// Returns an iterator over all routes, including those of the host's own prefixes.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.net.stack.routes()
    }

    /// Sets a permanent hardware address of a neighbour. The host never requests it and never forgets it.
    ///
    /// # Errors
    /// [`NeighborError`] if the interface does not exist, or an address is not unicast. Nothing is changed
    /// then.
    pub fn set_neighbor(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        now: Instant,
    ) -> Result<(), NeighborError> {
        let set = self.net.with_stack(now, |stack, io| stack.set_neighbor(interface, address, hardware, io));
        self.net.output(now).transmit();
        set
    }

    /// Removes the entry of a neighbour. Returns whether there was one. Packets that wait for it are
    /// dropped.
    pub fn remove_neighbor(&mut self, interface: InterfaceId, address: IpAddress, now: Instant) -> bool {
        self.net.with_stack(now, |stack, io| stack.remove_neighbor(interface, address, io))
    }

    /// Returns an iterator over the neighbours that are known or requested, in their state at `now`.
    pub fn neighbors(&self, now: Instant) -> impl Iterator<Item = Neighbor> {
        self.net.stack.neighbors(now)
    }

    /// Sets the stack that shares this host's addresses. Sockets that are opened from now on reserve their
    /// ports there, under the lazy architectures. Neighbours are resolved there if the host's
    /// [`stack::Config`](crate::stack::Config::shared) says so.
    pub fn share_with(&mut self, other: Box<dyn OtherStack>) {
        self.net.rx.sharing = Sharing(Some(other));
    }

    /// Removes and returns the oldest unreported address conflict: another host claims an address of this
    /// one.
    pub fn next_conflict(&mut self) -> Option<AddressConflict> {
        self.net.stack.next_conflict()
    }

    /// Returns this host as a member of a group of hosts that share interfaces and addresses.
    pub const fn membership(&mut self) -> Membership<'_> {
        Membership { host: self }
    }

    /// Adds an address to an interface. The prefix of the address is on-link from now on.
    pub fn add_address(&mut self, interface: InterfaceId, address: IpCidr, now: Instant) {
        self.net.add_address(interface, address, now);
        self.net.output(now).transmit();
    }

    /// Removes an address from an interface. Returns whether the interface had it.
    pub fn remove_address(&mut self, interface: InterfaceId, address: IpCidr) -> bool {
        self.net.remove_address(interface, address)
    }

    /// Sets the size of the largest IP packet that leaves through an interface: at least 576 bytes, and at
    /// most 1906 or what an interface of this host was added with.
    pub fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        self.net.stack.set_mtu(interface, mtu);
    }

    /// Stops the forwarding of unscreened packets from now on. Without this call, forwarding stops only when
    /// the first process screens. Packets may pass before that process first runs.
    pub fn require_screening(&mut self) {
        self.net.sockets.screened = true;
    }

    /// Returns an iterator over the host's interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = &dyn Interface> {
        self.net.links.iter()
    }

    /// Returns an interface, through which the caller can make its driver's own calls.
    pub fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut (dyn Interface + 'static)> {
        self.net.links.interface_mut(id)
    }
}
