//! The path of a packet: by the routes, and by what stands beside them for groups, broadcasts and neighbours.

use core::cell::Cell;

use super::handle::RouteHandle;
use super::hop::Hop;
use super::path::{Next, Origin, Path, PathRequest, SourcedPath};
use super::table::{Route, Routes, Via};
use crate::demux::flow_hash;
use crate::id::InterfaceId;
use crate::stack::address::interfaces::Interfaces;
use crate::stack::address::kinds::{hardware_group, is_reserved};
use crate::stack::error::{OutputError, RouteError};
use crate::stack::random::Random;
use crate::stack::udp::Source;
use crate::wire::{EthernetAddress, IpAddress, IpCidr};

/// The interfaces and the routes of a host, and the generation of both.
///
/// Every change of an address or a route raises the generation: a path that was looked up under another
/// generation is out of date.
#[derive(Debug)]
pub(crate) struct Routing {
    interfaces: Interfaces,
    routes: Routes,
    /// Routes at most.
    limit: usize,
    generation: u32,
    /// The last path that TCP asked for.
    last_path: Cell<Option<(PathRequest, Path)>>,
    /// The seed of the choice of a flow among several next hops.
    flows: u64,
}

impl Routing {
    /// Creates a table of at most `limit` routes. Each router chooses among several next hops by a hash of
    /// the flow and its own `flows`: with a common one, all flows that come to a router would leave it
    /// together.
    pub(crate) fn new(limit: usize, flows: u64) -> Self {
        let last_path = Cell::default();
        Self {
            interfaces: Interfaces::default(),
            routes: Routes::default(),
            limit,
            generation: 0,
            last_path,
            flows,
        }
    }

    /// Replaces the seed of the choice among several next hops.
    pub(crate) const fn reseed(&mut self, flows: u64) {
        self.flows = flows;
    }

    #[inline(always)]
    pub(crate) const fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    #[inline(always)]
    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    #[cfg(test)]
    pub(crate) const fn flows(&self) -> u64 {
        self.flows
    }

    const fn raise_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    // --- Interfaces and their addresses ---

    /// Adds an interface without IP addresses. Returns `None` if all numbers are taken.
    pub(crate) fn add_interface(&mut self, hardware: EthernetAddress, mtu: usize) -> Option<InterfaceId> {
        self.interfaces.add(hardware, mtu)
    }

    /// Raises the largest MTU of interfaces to what buffers of this size hold.
    pub(crate) fn fit(&mut self, buffer_bytes: usize) {
        self.interfaces.fit(buffer_bytes);
    }

    /// Sets an interface's MTU, within its bounds.
    pub(crate) fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        self.interfaces.set_mtu(interface, mtu);
        self.raise_generation();
    }

    /// Sets the largest payload of a segment that an interface cuts.
    pub(crate) fn set_cuts(&mut self, interface: InterfaceId, payload_max: usize) {
        self.interfaces.set_cuts(interface, payload_max);
    }

    /// Replaces the hardware address of an interface. Returns the link-local addresses that belong to the
    /// earlier one and to the new one, if they differ.
    pub(crate) fn set_hardware(
        &mut self,
        interface: InterfaceId,
        hardware: EthernetAddress,
    ) -> Option<(IpCidr, IpCidr)> {
        self.raise_generation();
        self.interfaces.set_hardware(interface, hardware)
    }

    /// Adds an address to an interface, and its prefix to the link. Returns whether the address is new.
    pub(crate) fn add_address(&mut self, interface: InterfaceId, cidr: IpCidr) -> bool {
        let new = self.interfaces.of_mut(interface).is_some_and(|own| own.insert(cidr));
        if new {
            self.routes.add_on_link(cidr, interface);
            self.raise_generation();
        }
        new
    }

    /// Removes an address from an interface, and its prefix from the link unless another address has the
    /// same prefix. Returns whether the address was there.
    pub(crate) fn remove_address(&mut self, interface: InterfaceId, cidr: IpCidr) -> bool {
        let Some(own) = self.interfaces.of_mut(interface) else { return false };
        if !own.remove(cidr) {
            return false;
        }
        if !own.has_prefix(&cidr) {
            self.routes.remove_on_link(cidr, interface);
        }
        self.raise_generation();
        true
    }

    // --- Routes ---

    /// Adds a route, or replaces the one with the same prefix, interface and metric.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub(crate) fn set_route(&mut self, route: Route) -> Result<(), RouteError> {
        for (interface, gateway) in route.via.hops() {
            self.interfaces.of(interface).ok_or(RouteError::Interface)?;
            let is_no_neighbor =
                |gateway| is_reserved(&gateway) || self.interfaces.owns_by(&gateway, interface);
            if gateway.is_some_and(is_no_neighbor) {
                return Err(RouteError::Gateway);
            }
        }
        self.raise_generation();
        self.routes.set(route, self.limit)
    }

    /// Removes the route with the prefix, interface and metric of `route`. Returns whether there was one.
    pub(crate) fn remove_route(&mut self, route: &Route) -> bool {
        self.raise_generation();
        self.routes.remove(route)
    }

    /// Returns the number of routes, those of this host's own prefixes included.
    pub(crate) const fn route_count(&self) -> usize {
        self.routes.len
    }

    /// Returns every route, those of this host's own prefixes included.
    pub(crate) fn routes(&self) -> impl Iterator<Item = Route> {
        self.routes.iter()
    }

    // --- Single next hops ---

    /// Returns whether packets to `source` would, or with several next hops could, leave by the interface
    /// that its packet came by (RFC 3704 2.2, strict).
    pub(crate) fn leads_back(&self, source: &IpAddress, came_by: InterfaceId) -> bool {
        self.routes.lookup(source).is_some_and(|via| via.leads_by(came_by))
    }

    /// Returns whether a route leads to `address` that does not discard packets.
    pub(crate) fn leads_anywhere(&self, address: &IpAddress) -> bool {
        self.routes.lookup(address).is_some_and(|via| via.hops().next().is_some())
    }

    /// Returns whether `address` is on the link of `interface`, so that its hardware address is of use.
    pub(crate) fn is_neighbor(&self, address: &IpAddress, interface: InterfaceId) -> bool {
        self.routes.hop(address, Some(interface)).is_some_and(|hop| hop.on_link)
    }

    /// Returns the next hop of the packet in `frame`, which goes to `destination`. All packets of its flow
    /// have the same one.
    ///
    /// # Errors
    /// Returns the route if it discards packets; `None` if there is none.
    #[inline]
    pub(crate) fn hop_of(&self, destination: &IpAddress, frame: &[u8]) -> Result<Hop, Option<&Via>> {
        let via = self.routes.lookup(destination).ok_or(None)?;
        let flow = || (Random::new(self.flows ^ u64::from(flow_hash(frame))).next() >> 32) as u32;
        via.hop(destination, None, flow).ok_or(Some(via))
    }

    /// Returns the next hop of all packets to `destination`. `None` if there is none, or several.
    pub(crate) fn hop_of_all(&self, destination: &IpAddress) -> Option<Hop> {
        let via = self.routes.lookup(destination)?;
        via.interface()?;
        via.hop(destination, None, || 0)
    }

    // --- Paths ---

    /// Returns the path to `destination`, by `interface` if that is given.
    pub(crate) fn path_to(
        &self,
        destination: &IpAddress,
        interface: Option<InterfaceId>,
    ) -> Result<Path, OutputError> {
        if destination.is_unspecified()
            || interface.is_some_and(|interface| self.interfaces.of(interface).is_none())
        {
            return Err(OutputError::NoRoute);
        }
        if destination.is_multicast() {
            let interface = self.interface_for_group(destination, interface)?;
            return Ok(Path { interface, next: Next::Group(hardware_group(*destination)) });
        }
        match *destination {
            IpAddress::Ipv4(address) if address.is_broadcast() => {
                let interface = self.interface_for_group(destination, interface)?;
                Ok(Path { interface, next: Next::Group(EthernetAddress::BROADCAST) })
            }
            IpAddress::Ipv4(address) if self.interfaces.owns_v4(address) || address.is_loopback() => {
                Err(OutputError::Loopback)
            }
            IpAddress::Ipv6(address) if address.is_unicast_link_local() => {
                let interface = interface.unwrap_or_default();
                if self.interfaces.owns_v6(address, interface) {
                    return Err(OutputError::Loopback);
                }
                self.interfaces.of(interface).ok_or(OutputError::NoRoute)?;
                Ok(Path { interface, next: Next::Neighbor(*destination) })
            }
            IpAddress::Ipv6(address)
                if address.is_loopback() || self.interfaces.owns_v6(address, InterfaceId::default()) =>
            {
                Err(OutputError::Loopback)
            }
            _ => self.routed(destination, interface),
        }
    }

    fn routed(&self, destination: &IpAddress, interface: Option<InterfaceId>) -> Result<Path, OutputError> {
        let hop = self.routes.hop(destination, interface).ok_or(OutputError::NoRoute)?;
        let interface = hop.interface;
        let next = if self.interfaces.is_directed_broadcast(destination, interface) {
            Next::Group(EthernetAddress::BROADCAST)
        } else {
            Next::Neighbor(hop.neighbor)
        };
        Ok(Path { interface, next })
    }

    /// Returns the interface for a group or broadcast: the given one, the one that a route names, or the
    /// first.
    fn interface_for_group(
        &self,
        destination: &IpAddress,
        interface: Option<InterfaceId>,
    ) -> Result<InterfaceId, OutputError> {
        let chosen = interface
            .or_else(|| self.routes.hop(destination, None).map(|hop| hop.interface))
            .unwrap_or_default();
        self.interfaces.of(chosen).map(|_| chosen).ok_or(OutputError::NoRoute)
    }

    /// Returns the path of an answer to a packet that came by `interface`: by that interface if any route
    /// leads there, or else as the routes say. So an answer reaches a peer whose prefix several interfaces
    /// have. A route that leads nowhere forbids the answer, too.
    pub(crate) fn path_back(
        &self,
        destination: &IpAddress,
        interface: InterfaceId,
    ) -> Result<Path, OutputError> {
        self.interfaces.of(interface).ok_or(OutputError::NoRoute)?;
        if self.routes.lookup(destination).is_some_and(Via::leads_nowhere) {
            return Err(OutputError::NoRoute);
        }
        match self.path_to(destination, Some(interface)) {
            Err(OutputError::NoRoute) => self.path_to(destination, None),
            found => found,
        }
    }

    /// Returns the path to `destination` of packets from `source`. Of equally good routes it takes one by an
    /// interface that has this address. A link-local source has no other interface. A peer whose prefix
    /// several interfaces have is most likely behind the one whose address it knows (RFC 1122 3.3.4.2).
    fn path_from(&self, source: &IpAddress, destination: &IpAddress) -> Result<Path, OutputError> {
        let owner = || self.interfaces.owner_of(source);
        let is_bound_to_link = |address: &IpAddress| {
            address.is_multicast()
                || address.is_broadcast()
                || matches!(address, IpAddress::Ipv6(address) if address.is_unicast_link_local())
        };
        if is_bound_to_link(source) || is_bound_to_link(destination) {
            return owner()
                .map_or_else(|| self.path_to(destination, None), |owner| self.path_back(destination, owner));
        }
        let path = self.path_to(destination, None)?;
        if self.interfaces.owns_on(source, path.interface) {
            return Ok(path);
        }
        match owner() {
            Some(owner) if self.is_as_good_by(destination, owner) => self.path_to(destination, Some(owner)),
            _ => Ok(path),
        }
    }

    /// Returns whether a route by `interface` is as good as the best one: it has the same prefix, or both
    /// are the prefixes of links.
    fn is_as_good_by(&self, destination: &IpAddress, interface: InterfaceId) -> bool {
        let Some((length, best)) = self.routes.best(destination) else { return false };
        let is_of_link = |interface, length| {
            let prefix = IpCidr::new(*destination, length);
            self.interfaces.of(interface).is_some_and(|own| own.has_prefix(&prefix))
        };
        let leads = |via: &Via| via.leads_by(interface);
        if self.routes.any_best(destination, leads) {
            return true;
        }
        matches!(*best, Via::Link(other) if is_of_link(other, length))
            && (0..length).any(|length| is_of_link(interface, length))
    }

    /// Returns the path of TCP from `source` to `destination`, for callers that keep no handle: the last
    /// path asked for is often the next one, too.
    pub(crate) fn path_again(
        &self,
        source: Option<IpAddress>,
        destination: &IpAddress,
    ) -> Result<Path, OutputError> {
        let asked = PathRequest { generation: self.generation, source, destination: *destination };
        match self.last_path.get() {
            Some((known, path)) if known == asked => return Ok(path),
            _ => {}
        }
        let path = self.find_path(&Origin { address: source, interface: None }, destination)?;
        self.last_path.set(Some((asked, path)));
        Ok(path)
    }

    /// Returns the path and the source address from `origin` to `destination`, for callers that keep a
    /// handle.
    #[inline]
    pub(crate) fn sourced_path(
        &self,
        handle: &mut RouteHandle,
        origin: &Origin,
        destination: &IpAddress,
    ) -> Result<SourcedPath, OutputError> {
        if let Some(path) = handle.path(destination, origin, self.generation) {
            return Ok(path);
        }
        let path = self.find_sourced_path(origin, destination)?;
        *handle = RouteHandle::new(*destination, *origin, path, self.generation);
        Ok(path)
    }

    /// Returns the path of a datagram, and the address that it is sent from. Its sender keeps `route` for the
    /// next one.
    ///
    /// # Errors
    /// [`OutputError`], also if the destination is a broadcast address and the sender may not broadcast.
    #[inline(always)]
    pub(crate) fn udp_path(
        &self,
        source: &Source,
        destination: &IpAddress,
        route: &mut RouteHandle,
    ) -> Result<(Path, IpAddress), OutputError> {
        let SourcedPath { path, source: address } = self.sourced_path(route, &source.origin, destination)?;
        if source.no_broadcast && path.is_to_several() && !destination.is_multicast() {
            return Err(OutputError::Broadcast);
        }
        Ok((path, address.ok_or(OutputError::NoAddress)?))
    }

    fn find_path(&self, origin: &Origin, destination: &IpAddress) -> Result<Path, OutputError> {
        match (origin.interface, &origin.address) {
            (Some(interface), _) => self.path_back(destination, interface),
            (None, Some(source)) => self.path_from(source, destination),
            (None, None) => self.path_to(destination, None),
        }
    }

    fn find_sourced_path(
        &self,
        origin: &Origin,
        destination: &IpAddress,
    ) -> Result<SourcedPath, OutputError> {
        let path = self.find_path(origin, destination)?;
        let source = match origin.address {
            Some(address) => self.usable_source(address, destination, path),
            // An answer to a packet for a group or a broadcast has an address of the interface by which that
            // came (RFC 1122 4.1.3.5), even if it leaves by another.
            None => origin
                .interface
                .filter(|interface| *interface != path.interface)
                .and_then(|interface| self.source_by(destination, Path { interface, ..path }))
                .or_else(|| self.source_by(destination, path)),
        };
        Ok(SourcedPath { path, source })
    }

    /// Returns `address` if it can be the source of a packet that goes by `path`.
    fn usable_source(&self, address: IpAddress, to: &IpAddress, path: Path) -> Option<IpAddress> {
        let fits = address.version() == to.version() && self.interfaces.owns_by(&address, path.interface);
        fits.then_some(address)
    }

    /// Returns the address of this host that suits a packet by `path` to `destination`.
    pub(crate) fn source_by(&self, destination: &IpAddress, path: Path) -> Option<IpAddress> {
        self.interfaces.source_for(destination, &path.neighbor_towards(destination), path.interface)
    }
}
