//! Static routes, and what has been learnt of path MTUs.

use core::time::Duration;
use std::collections::VecDeque;

use super::{InterfaceId, RouteError};
use crate::time::Instant;
use crate::wire::{IpAddress, IpCidr};

#[derive(Debug)]
struct Route {
    destination: IpCidr,
    /// `None` for a prefix that is on the link itself.
    gateway: Option<IpAddress>,
    interface: InterfaceId,
}

/// Where a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) interface: InterfaceId,
    pub(crate) neighbor: IpAddress,
    pub(crate) on_link: bool,
}

/// Routes, longest prefix first, so that the first that matches is the one.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// Adds the prefix of one of our own addresses.
    pub(crate) fn add_on_link(&mut self, destination: IpCidr, interface: InterfaceId) {
        self.insert(Route { destination, gateway: None, interface });
    }

    pub(crate) fn add(
        &mut self,
        destination: IpCidr,
        gateway: IpAddress,
        interface: InterfaceId,
        limit: usize,
    ) -> Result<(), RouteError> {
        if destination.address().version() != gateway.version() {
            return Err(RouteError::Family);
        }
        if self.routes.iter().filter(|route| route.gateway.is_some()).count() >= limit {
            return Err(RouteError::Full);
        }
        self.insert(Route { destination, gateway: Some(gateway), interface });
        Ok(())
    }

    fn insert(&mut self, route: Route) {
        let length = route.destination.prefix_len();
        let place = self.routes.partition_point(|other| other.destination.prefix_len() >= length);
        self.routes.insert(place, route);
    }

    /// The way to `destination`, by `interface` if one is asked for.
    pub(crate) fn lookup(&self, destination: &IpAddress, interface: Option<InterfaceId>) -> Option<Hop> {
        let route = self.routes.iter().find(|route| {
            interface.is_none_or(|interface| interface == route.interface)
                && route.destination.contains_addr(destination)
        })?;
        Some(Hop {
            interface: route.interface,
            neighbor: route.gateway.unwrap_or(*destination),
            on_link: route.gateway.is_none(),
        })
    }
}

/// How long a reduced path MTU is believed (RFC 8201 5.3, RFC 1191 6.3).
const PATH_MTU_LIFE: Duration = Duration::from_secs(600);

/// Path MTUs that routers have reported, a few, the oldest forgotten first.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    known: VecDeque<(IpAddress, usize, Instant)>,
}

impl PathMtus {
    pub(crate) fn learn(&mut self, destination: IpAddress, mtu: usize, now: Instant, limit: usize) {
        self.known.retain(|(known, _, until)| *known != destination && *until > now);
        if limit == 0 {
            return;
        }
        while self.known.len() >= limit {
            self.known.pop_front();
        }
        self.known.push_back((destination, mtu, now + PATH_MTU_LIFE));
    }

    pub(crate) fn get(&self, destination: &IpAddress, now: Instant) -> Option<usize> {
        let matches = |(known, _, until): &&(IpAddress, usize, Instant)| known == destination && *until > now;
        self.known.iter().find(matches).map(|(_, mtu, _)| *mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: InterfaceId = InterfaceId(0);
    const WAN: InterfaceId = InterfaceId(1);

    fn cidr(a: u8, b: u8, length: u8) -> IpCidr {
        IpCidr::new(IpAddress::v4(a, b, 0, 0), length)
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut routes = Routes::default();
        let gateway = IpAddress::v4(10, 1, 0, 1);
        routes.add(cidr(0, 0, 0), gateway, WAN, 8).unwrap();
        routes.add_on_link(cidr(10, 1, 16), LAN);
        routes.add(cidr(10, 0, 8), IpAddress::v4(10, 1, 0, 2), LAN, 8).unwrap();
        let to = |a, b| routes.lookup(&IpAddress::v4(a, b, 0, 9), None).unwrap();
        assert_eq!((to(8, 8).neighbor, to(8, 8).interface), (gateway, WAN));
        assert_eq!(to(10, 2).neighbor, IpAddress::v4(10, 1, 0, 2));
        assert_eq!((to(10, 1).neighbor, to(10, 1).on_link), (IpAddress::v4(10, 1, 0, 9), true));
        assert_eq!(routes.lookup(&IpAddress::v4(10, 1, 0, 9), Some(WAN)).unwrap().neighbor, gateway);
        assert_eq!(routes.lookup(&IpAddress::v6(1, 0, 0, 0, 0, 0, 0, 1), None), None);
    }

    #[test]
    fn the_table_is_bounded_and_of_one_family_a_route() {
        let mut routes = Routes::default();
        let gateway = IpAddress::v4(10, 1, 0, 1);
        routes.add(cidr(1, 0, 8), gateway, LAN, 1).unwrap();
        assert_eq!(routes.add(cidr(2, 0, 8), gateway, LAN, 1), Err(RouteError::Full));
        let six = IpAddress::v6(1, 0, 0, 0, 0, 0, 0, 1);
        assert_eq!(routes.add(cidr(2, 0, 8), six, LAN, 9), Err(RouteError::Family));
    }

    #[test]
    fn path_mtus_age_and_are_bounded() {
        let mut mtus = PathMtus::default();
        let host = |n| IpAddress::v4(10, 0, 0, n);
        for n in 0..10 {
            mtus.learn(host(n), 1300 + n as usize, Instant::ZERO, 4);
        }
        assert_eq!(mtus.get(&host(5), Instant::ZERO), None);
        assert_eq!(mtus.get(&host(9), Instant::from_millis(599_000)), Some(1309));
        assert_eq!(mtus.get(&host(9), Instant::from_millis(601_000)), None);
    }
}
