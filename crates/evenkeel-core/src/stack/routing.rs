//! Which way packets take: the routes, and what stands beside them for groups, broadcasts and neighbours.

use super::address::{Cast, hardware_group, is_reserved};
use super::error::{OutputError, RouteError};
use super::io::Io;
use super::path::{Next, Path, RouteHandle};
use super::route::{Route, Via};
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

    /// Removes the route with the prefix, interface and metric of `route`; says whether there was one. Its
    /// gateway does not matter.
    pub fn remove_route(&mut self, route: &Route) -> bool {
        self.raise_generation();
        self.routes.remove(route)
    }

    /// How many routes there are, those of our own prefixes included.
    #[must_use]
    pub const fn route_count(&self) -> usize {
        self.routes.len
    }

    /// Every route, those of our own prefixes included.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.routes.iter()
    }

    /// The way to `destination`, by `interface` if one is asked for.
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

    /// The interface for a group or broadcast: the one asked for, the one a route names, or the first.
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

    /// The largest packet for `destination`: the interface's MTU, or less if a router said so.
    pub(super) fn mtu_to(&self, path: Path, destination: &IpAddress, io: &Io<'_>) -> usize {
        let mtu = self.addresses_of(path.interface).map_or(0, |own| own.mtu);
        self.path_mtus.get(destination, io.now).map_or(mtu, |known| known.min(mtu))
    }

    /// The same as [`Stack::path_to`] by any interface, for who keeps no handle: the last destination that
    /// was asked for is often the next one, too.
    pub(super) fn path_again(&self, destination: &IpAddress) -> Result<Path, OutputError> {
        let mut handle = self.last_path.get();
        let path = self.path_by(&mut handle, destination);
        self.last_path.set(handle);
        path
    }

    /// The same as [`Stack::path_to`] by any interface, for who keeps a handle.
    pub(super) fn path_by(
        &self,
        handle: &mut RouteHandle,
        destination: &IpAddress,
    ) -> Result<Path, OutputError> {
        if let Some(path) = handle.path(destination, self.generation) {
            return Ok(path);
        }
        let path = self.path_to(destination, None)?;
        let source = self.source_by(destination, path);
        *handle = RouteHandle::new(*destination, path, source, self.generation);
        Ok(path)
    }
}
