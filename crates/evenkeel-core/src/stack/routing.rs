//! Which way packets take: the routes, and what stands beside them for groups, broadcasts and neighbours.

use super::address::{Cast, hardware_group, is_reserved};
use super::error::{OutputError, RouteError};
use super::io::Io;
use super::path::{Asked, Next, Origin, Path, Way};
use super::route::{Route, Via};
use super::route_handle::RouteHandle;
use super::state::Stack;
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress, IpCidr};

impl Stack {
    /// Adds a route by a gateway, of metric zero. The longest matching prefix wins; `0.0.0.0/0` and `::/0`
    /// lead to the default gateway.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_route(
        &mut self,
        destination: IpCidr,
        gateway: IpAddress,
        interface: InterfaceId,
    ) -> Result<(), RouteError> {
        self.set_route(Route { to: destination, via: Via::Gateway(interface, gateway), metric: 0 })
    }

    /// Adds a route, or replaces the one with the same prefix, interface and metric. It holds from the next
    /// packet on.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn set_route(&mut self, route: Route) -> Result<(), RouteError> {
        for (interface, gateway) in route.via.hops() {
            self.addresses_of(interface).ok_or(RouteError::Interface)?;
            let is_nobody =
                |gateway| is_reserved(&gateway) || self.cast(&gateway, interface) == Some(Cast::Unicast);
            if gateway.is_some_and(is_nobody) {
                return Err(RouteError::Gateway);
            }
        }
        self.raise_generation();
        self.routes.set(route, self.config.routes)
    }

    /// Removes the route with the prefix, interface and metric of `route`. Returns whether there was one.
    /// Its gateway does not matter.
    pub fn remove_route(&mut self, route: &Route) -> bool {
        self.raise_generation();
        self.routes.remove(route)
    }

    /// Returns the number of routes, those of this host's own prefixes included.
    #[must_use]
    pub const fn route_count(&self) -> usize {
        self.routes.len
    }

    /// Returns every route, those of this host's own prefixes included.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.routes.iter()
    }

    /// Returns the path to `destination`, by `interface` if that is given.
    pub(super) fn path_to(
        &self,
        destination: &IpAddress,
        interface: Option<InterfaceId>,
    ) -> Result<Path, OutputError> {
        if destination.is_unspecified()
            || interface.is_some_and(|interface| self.addresses_of(interface).is_none())
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
            IpAddress::Ipv4(address) if self.owns_v4(address) || address.is_loopback() => {
                Err(OutputError::Loopback)
            }
            IpAddress::Ipv6(address) if address.is_unicast_link_local() => {
                let interface = interface.unwrap_or_default();
                if self.owns_v6(address, interface) {
                    return Err(OutputError::Loopback);
                }
                self.addresses_of(interface).ok_or(OutputError::NoRoute)?;
                Ok(Path { interface, next: Next::Neighbor(*destination) })
            }
            IpAddress::Ipv6(address)
                if address.is_loopback() || self.owns_v6(address, InterfaceId::default()) =>
            {
                Err(OutputError::Loopback)
            }
            _ => self.routed(destination, interface),
        }
    }

    fn routed(&self, destination: &IpAddress, interface: Option<InterfaceId>) -> Result<Path, OutputError> {
        let hop = self.routes.hop(destination, interface).ok_or(OutputError::NoRoute)?;
        let interface = hop.interface;
        let is_broadcast = match *destination {
            IpAddress::Ipv4(address) => {
                self.addresses_of(interface).is_some_and(|a| a.broadcasts_to(address))
            }
            IpAddress::Ipv6(_) => false,
        };
        let next =
            if is_broadcast { Next::Group(EthernetAddress::BROADCAST) } else { Next::Neighbor(hop.neighbor) };
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
        self.addresses_of(chosen).map(|_| chosen).ok_or(OutputError::NoRoute)
    }

    /// Returns the size of the largest packet for `destination`, in bytes: the interface's MTU, or less if
    /// a router reported so.
    pub(super) fn mtu_to(&self, path: Path, destination: &IpAddress, io: &Io<'_>) -> usize {
        let mtu = self.addresses_of(path.interface).map_or(0, |own| own.mtu);
        self.path_mtus.get(destination, io.now).map_or(mtu, |known| known.min(mtu))
    }

    /// Returns the way back for an answer to what came by `interface`: by that interface if any route leads
    /// there, or else as the routes say. So an answer reaches a peer whose prefix several interfaces have. A
    /// route that leads nowhere forbids the answer, too.
    pub(super) fn path_back(
        &self,
        destination: &IpAddress,
        interface: InterfaceId,
    ) -> Result<Path, OutputError> {
        self.addresses_of(interface).ok_or(OutputError::NoRoute)?;
        if self.routes.lookup(destination).is_some_and(Via::leads_nowhere) {
            return Err(OutputError::NoRoute);
        }
        match self.path_to(destination, Some(interface)) {
            Err(OutputError::NoRoute) => self.path_to(destination, None),
            found => found,
        }
    }

    /// Returns the way to `destination` for what is sent from `source`. Of equally good routes it takes one
    /// by an interface that has this address: what is link-local has no other, and a peer whose prefix
    /// several interfaces have is most likely behind the one whose address it knows (RFC 1122 3.3.4.2).
    fn path_from(&self, source: &IpAddress, destination: &IpAddress) -> Result<Path, OutputError> {
        let owner = || self.interfaces.iter().position(|own| own.owns(source));
        let owner = || owner().map(|place| InterfaceId(place as u8));
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
        if self.addresses_of(path.interface).is_some_and(|own| own.owns(source)) {
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
            self.addresses_of(interface).is_some_and(|own| own.has_prefix(&prefix))
        };
        let leads = |via: &Via| via.leads_by(interface);
        if self.routes.any_best(destination, leads) {
            return true;
        }
        matches!(*best, Via::Link(other) if is_of_link(other, length))
            && (0..length).any(|length| is_of_link(interface, length))
    }

    /// Returns the route of TCP from `source` to `destination`, for callers that keep no handle: the last
    /// route asked for is often the next one, too.
    pub(super) fn path_again(
        &self,
        source: Option<IpAddress>,
        destination: &IpAddress,
    ) -> Result<Path, OutputError> {
        let asked = Asked { generation: self.generation, source, destination: *destination };
        match self.last_path.get() {
            Some((known, path)) if known == asked => return Ok(path),
            _ => {}
        }
        let path = self.find_path(&Origin { address: source, interface: None }, destination)?;
        self.last_path.set(Some((asked, path)));
        Ok(path)
    }

    /// Returns the way from `origin` to `destination`, for callers that keep a handle.
    #[inline]
    pub(super) fn way(
        &self,
        handle: &mut RouteHandle,
        origin: &Origin,
        destination: &IpAddress,
    ) -> Result<Way, OutputError> {
        if let Some(way) = handle.way(destination, origin, self.generation) {
            return Ok(way);
        }
        let way = self.find_way(origin, destination)?;
        *handle = RouteHandle::new(*destination, *origin, way, self.generation);
        Ok(way)
    }

    fn find_path(&self, origin: &Origin, destination: &IpAddress) -> Result<Path, OutputError> {
        match (origin.interface, &origin.address) {
            (Some(interface), _) => self.path_back(destination, interface),
            (None, Some(source)) => self.path_from(source, destination),
            (None, None) => self.path_to(destination, None),
        }
    }

    fn find_way(&self, origin: &Origin, destination: &IpAddress) -> Result<Way, OutputError> {
        let path = self.find_path(origin, destination)?;
        let source = match origin.address {
            Some(address) => self.usable_source(address, destination, path),
            // An answer to what came for a group or a broadcast has an address of the interface by which that
            // came (RFC 1122 4.1.3.5), even if it leaves by another.
            None => origin
                .interface
                .filter(|interface| *interface != path.interface)
                .and_then(|interface| self.source_by(destination, Path { interface, ..path }))
                .or_else(|| self.source_by(destination, path)),
        };
        Ok(Way { path, source })
    }

    /// Returns `address` if it can be the source of a packet that goes by `path`.
    fn usable_source(&self, address: IpAddress, to: &IpAddress, path: Path) -> Option<IpAddress> {
        let fits =
            address.version() == to.version() && self.cast(&address, path.interface) == Some(Cast::Unicast);
        fits.then_some(address)
    }
}
