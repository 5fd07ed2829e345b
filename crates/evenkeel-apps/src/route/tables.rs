//! Static routes and neighbours in the host's terms, and their installation.

use std::collections::BTreeSet;

use evenkeel::raw::host::Host;
use evenkeel::raw::ip::{InterfaceId, Route, Via};
use evenkeel::raw::time::Instant;
use evenkeel::raw::wire::{EthernetAddress, IpAddress, IpCidr};

use super::plan::{StaticNeighbor, StaticRoute, Way};

/// Routes and neighbours in the user's form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Routes.
    pub routes: Vec<StaticRoute>,
    /// Neighbours.
    pub neighbors: Vec<StaticNeighbor>,
}

/// An entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}`: {what}")]
pub struct Unusable {
    /// The entry as it is written.
    pub entry: String,
    /// The reason why it cannot be used.
    pub what: String,
}

/// The name and addresses of a link, as far as routes need them. Its index in a list is its interface.
#[derive(Debug, Clone)]
pub struct Place {
    /// The name of the link in routes and rules.
    pub name: String,
    /// The router's addresses on the link. Their prefixes are on the link, too.
    pub addresses: Vec<IpCidr>,
}

/// Routes and neighbours in the host's terms, with interfaces in place of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    routes: Vec<Route>,
    neighbors: Vec<(InterfaceId, IpAddress, EthernetAddress)>,
}

impl Tables {
    /// Converts the tables that a user wrote: finds the links of their entries.
    ///
    /// # Errors
    /// The first entry that is [`Unusable`].
    pub fn of(written: &Written, links: &[Place]) -> Result<Self, Unusable> {
        let route = |route: &StaticRoute| {
            route_of(route, links).map_err(|what| Unusable { entry: route.to_string(), what })
        };
        let neighbor = |neighbor: &StaticNeighbor| {
            not_ourselves(&neighbor.address, links)
                .map_err(|what| Unusable { entry: neighbor.to_string(), what })?;
            let interface = interface(neighbor.link.as_deref(), Some(neighbor.address), links);
            let interface = interface.map_err(|what| Unusable { entry: neighbor.to_string(), what })?;
            Ok((interface, neighbor.address, neighbor.hardware))
        };
        let routes = written.routes.iter().map(route).collect::<Result<Vec<_>, _>>()?;
        let mut names = BTreeSet::new();
        for (route, entry) in routes.iter().zip(&written.routes) {
            if !names.insert(name_of(route)) {
                let what = "there is another route to this prefix, by the same link and with the same metric";
                return Err(Unusable { entry: entry.to_string(), what: what.to_owned() });
            }
        }
        Ok(Self { routes, neighbors: written.neighbors.iter().map(neighbor).collect::<Result<_, _>>()? })
    }

    /// Puts the tables into a host, and removes entries that only `earlier` tables had. Entries of both stay
    /// all the time.
    ///
    /// # Errors
    /// The first entry that the host refuses; the others are in the host.
    pub fn apply(&self, earlier: &Self, host: &mut Host, now: Instant) -> Result<(), String> {
        let mut refused = None;
        for route in &self.routes {
            if let Err(error) = host.set_route(route.clone()) {
                refused = refused.or(Some(format!("route to {}: {error}", route.to)));
            }
        }
        for &(interface, address, hardware) in &self.neighbors {
            if let Err(error) = host.set_neighbor(interface, address, hardware, now) {
                refused = refused.or(Some(format!("neighbour {address}: {error}")));
            }
        }
        let kept: BTreeSet<_> = self.routes.iter().map(name_of).collect();
        for route in earlier.routes.iter().filter(|old| !kept.contains(&name_of(old))) {
            host.remove_route(route);
        }
        let kept: BTreeSet<_> =
            self.neighbors.iter().map(|&(interface, address, _)| (interface, address)).collect();
        for &(interface, address, _) in &earlier.neighbors {
            if !kept.contains(&(interface, address)) {
                host.remove_neighbor(interface, address, now);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Returns the number of routes and the number of neighbours.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.routes.len(), self.neighbors.len())
    }
}

/// Returns the key of a route in a host's table: a new route with an equal key replaces the old one.
fn name_of(route: &Route) -> (IpCidr, u32, Option<InterfaceId>) {
    (route.to, route.metric, route.via.interface())
}

fn route_of(route: &StaticRoute, links: &[Place]) -> Result<Route, String> {
    let link = route.link.as_deref();
    let via = match route.way {
        Way::Gateway(gateway) => {
            not_ourselves(&gateway, links)?;
            Via::Gateway(interface(link, Some(gateway), links)?, gateway)
        }
        Way::OnLink => Via::Link(interface(link, None, links)?),
        Way::Blackhole => Via::Blackhole,
        Way::Unreachable => Via::Unreachable,
        Way::Prohibit => Via::Prohibit,
    };
    Ok(Route { to: route.to, via, metric: route.metric })
}

/// Refuses an address of the router itself.
fn not_ourselves(address: &IpAddress, links: &[Place]) -> Result<(), String> {
    let ours = links.iter().find(|link| link.addresses.iter().any(|cidr| cidr.address() == *address));
    ours.map_or(Ok(()), |link| Err(format!("{address} is the router's own address, on `{}`", link.name)))
}

/// Returns the link of this name, or the one on whose network the address is.
fn interface(name: Option<&str>, address: Option<IpAddress>, links: &[Place]) -> Result<InterfaceId, String> {
    let on_link = |place: &Place| {
        address.is_some_and(|address| place.addresses.iter().any(|cidr| cidr.contains_addr(&address)))
    };
    let index = match name {
        Some(name) => links.iter().position(|place| place.name == name).ok_or_else(|| {
            let names = links.iter().map(|place| place.name.as_str());
            format!("no link is called `{name}`: there is {}", crate::text::alternatives(names))
        })?,
        None => links.iter().position(on_link).ok_or_else(|| {
            let address = address.map_or_else(String::new, |address| address.to_string());
            format!("{address} is on no link's network: add link=NAME, or give a link an address there")
        })?,
    };
    u8::try_from(index).map(InterfaceId).map_err(|_| "too many links".to_owned())
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::cable;
    use evenkeel::raw::host::Config;

    use super::*;

    fn links() -> Vec<Place> {
        let place = |name: &str, address: &str| Place {
            name: name.to_owned(),
            addresses: vec![address.parse().unwrap()],
        };
        vec![place("lan", "10.0.1.1/24"), place("wan", "10.0.2.1/24")]
    }

    fn tables(routes: &[&str], neighbors: &[&str]) -> Result<Tables, Unusable> {
        let routes = routes.iter().map(|r| r.parse().unwrap()).collect();
        let neighbors = neighbors.iter().map(|n| n.parse().unwrap()).collect();
        Tables::of(&Written { routes, neighbors }, &links())
    }

    #[test]
    fn the_link_is_that_of_the_gateways_network() {
        let tables = tables(&["10.9.0.0/16,via=10.0.2.2", "10.8.0.0/16,via=10.7.7.7,link=lan"], &[]).unwrap();
        let via: Vec<_> = tables.routes.iter().map(|route| route.via.interface()).collect();
        assert_eq!(via, [Some(InterfaceId(1)), Some(InterfaceId(0))]);
    }

    #[test]
    fn what_cannot_be_placed_is_said() {
        let said = |routes: &[&str]| tables(routes, &[]).unwrap_err().to_string();
        assert_eq!(
            said(&["10.9.0.0/16,via=10.7.7.7"]),
            "`10.9.0.0/16,via=10.7.7.7`: 10.7.7.7 is on no link's network: add link=NAME, or give a link an \
             address there"
        );
        assert_eq!(
            said(&[
                "10.9.0.0/16,via=10.0.2.2",
                "10.9.0.0/16,via=10.0.2.3,metric=1",
                "10.9.0.0/16,via=10.0.2.4"
            ]),
            "`10.9.0.0/16,via=10.0.2.4`: there is another route to this prefix, by the same link and with \
             the same metric"
        );
        assert!(said(&["10.9.0.0/16,link=x"]).contains("no link is called `x`: there is lan or wan"));
    }

    #[test]
    fn a_next_hop_or_neighbour_that_is_the_router_itself_is_refused() {
        for (routes, neighbors, entry) in [
            (&["10.9.0.0/16,via=10.0.2.1"][..], &[][..], "10.9.0.0/16,via=10.0.2.1"),
            (&["10.9.0.0/16,via=10.0.2.1,link=lan"], &[], "10.9.0.0/16,via=10.0.2.1,link=lan"),
            (&[], &["10.0.2.1,02:00:00:00:00:09"], "10.0.2.1,02:00:00:00:00:09"),
        ] {
            let said = tables(routes, neighbors).unwrap_err().to_string();
            assert_eq!(said, format!("`{entry}`: 10.0.2.1 is the router's own address, on `wan`"));
        }
    }

    /// The time to read routes, compare them and put them into the host grows with their number, not with
    /// its square: otherwise a hundred thousand would take minutes.
    #[test]
    fn a_hundred_thousand_routes_are_read_and_replaced_in_little_time() {
        let routes = |via: &str| {
            let route = |n: u32| format!("20.{}.{}.{}/32,via={via}", n >> 16, n >> 8 & 255, n & 255);
            let routes = (0..100_000).map(|n| route(n).parse().unwrap()).collect();
            Written { routes, neighbors: Vec::new() }
        };
        let mut host = Host::new(Config::default()).unwrap();
        for place in links() {
            let (end, _other) = cable::pair(cable::Options::new("a", 1), cable::Options::new("b", 2));
            host.add_interface(Box::new(end), &place.addresses, Instant::ZERO).unwrap();
        }
        let before = evenkeel::raw::cpu::thread_cpu_time();
        let first = Tables::of(&routes("10.0.2.2"), &links()).unwrap();
        first.apply(&Tables::default(), &mut host, Instant::ZERO).unwrap();
        let second = Tables::of(&routes("10.0.1.2"), &links()).unwrap();
        second.apply(&first, &mut host, Instant::ZERO).unwrap();
        assert!(host.route_count() >= 100_000);
        let taken = evenkeel::raw::cpu::thread_cpu_time() - before;
        assert!(taken.as_secs() < 10, "{taken:?}");
    }

    /// A route that is only changed is never missing.
    #[test]
    fn later_tables_take_the_place_of_earlier_ones() {
        let mut host = Host::new(Config::default()).unwrap();
        for place in links() {
            let (end, _other) = cable::pair(cable::Options::new("a", 1), cable::Options::new("b", 2));
            host.add_interface(Box::new(end), &place.addresses, Instant::ZERO).unwrap();
        }
        let own = host.routes().count();
        let first =
            tables(&["10.9.0.0/16,via=10.0.2.2", "10.8.0.0/16,blackhole"], &["10.0.2.9,02:00:00:00:00:09"])
                .unwrap();
        first.apply(&Tables::default(), &mut host, Instant::ZERO).unwrap();
        assert_eq!((host.routes().count(), host.neighbors(Instant::ZERO).count()), (own + 2, 1));
        let second = tables(&["10.9.0.0/16,via=10.0.2.3", "10.7.0.0/16,prohibit"], &[]).unwrap();
        second.apply(&first, &mut host, Instant::ZERO).unwrap();
        let ways: Vec<_> = host.routes().filter(|r| second.routes.contains(r)).collect();
        assert_eq!((ways.len(), host.routes().count()), (2, own + 2));
        assert_eq!(host.neighbors(Instant::ZERO).count(), 0);
    }
}
