//! The forwarding table: longest prefix first, then the lowest metric.

use prefix_trie::PrefixMap;
use smallvec::SmallVec;

use super::hop::Hop;
use super::multipath::Multipath;
use crate::id::InterfaceId;
use crate::stack::error::RouteError;
use crate::stack::random::Random;
use crate::wire::{IpAddress, IpCidr};

/// A way for packets to a prefix.
///
/// Prefix, interface and metric together name it: there is one route of each such name. Several next hops are
/// a route by no interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The destinations; `0.0.0.0/0` and `::/0` are all of a family.
    pub to: IpCidr,
    /// The next hop or hops of these destinations, or the way in which their packets are refused.
    pub via: Via,
    /// Of several routes to the same prefix the one with the lowest is taken; of equal ones, the oldest.
    pub metric: u32,
}

/// The target of a route. The kinds are those of Linux's `ip route`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// To neighbours on the link itself.
    Link(InterfaceId),
    /// To a gateway on a link; that of an IPv4 route may have an IPv6 address (RFC 8950).
    Gateway(InterfaceId, IpAddress),
    /// To any of several next hops, each flow to one.
    Multipath(Multipath),
    /// Nowhere, without a word.
    Blackhole,
    /// Nowhere; the sender is notified that the host (over IPv6, the route) cannot be reached.
    Unreachable,
    /// Nowhere; the sender is notified that it is prohibited.
    Prohibit,
}

impl Via {
    /// Returns the one interface by which packets leave. `None` if there is none or several next hops.
    #[must_use]
    pub const fn interface(&self) -> Option<InterfaceId> {
        match *self {
            Self::Link(interface) | Self::Gateway(interface, _) => Some(interface),
            Self::Multipath(_) | Self::Blackhole | Self::Unreachable | Self::Prohibit => None,
        }
    }

    /// Returns whether packets end here, with or without an ICMP error.
    pub(crate) const fn leads_nowhere(&self) -> bool {
        matches!(self, Self::Blackhole | Self::Unreachable | Self::Prohibit)
    }

    /// Returns whether packets may leave by this interface.
    #[must_use]
    pub fn leads_by(&self, interface: InterfaceId) -> bool {
        match self {
            Self::Multipath(all) => all.hops().any(|hop| hop.interface == interface),
            _ => self.interface() == Some(interface),
        }
    }

    /// Returns the next hops, interfaces and gateways, if the route leads anywhere.
    pub fn hops(&self) -> impl Iterator<Item = (InterfaceId, Option<IpAddress>)> {
        let (one, all) = match *self {
            Self::Link(interface) => (Some((interface, None)), None),
            Self::Gateway(interface, gateway) => (Some((interface, Some(gateway))), None),
            Self::Multipath(ref all) => (None, Some(all)),
            Self::Blackhole | Self::Unreachable | Self::Prohibit => (None, None),
        };
        let all = all.into_iter().flat_map(Multipath::hops).map(|hop| (hop.interface, hop.gateway));
        one.into_iter().chain(all)
    }

    /// Returns the next hop of a packet to `destination`, by `interface` if that is given. The hash of its
    /// flow decides among several.
    pub(crate) fn hop(
        &self,
        destination: &IpAddress,
        interface: Option<InterfaceId>,
        flow: impl FnOnce() -> u32,
    ) -> Option<Hop> {
        match *self {
            Self::Link(interface) => Some(Hop { interface, neighbor: *destination, on_link: true }),
            Self::Gateway(interface, neighbor) => Some(Hop { interface, neighbor, on_link: false }),
            Self::Multipath(ref all) => Some(all.of_flow(flow(), interface)?.hop(destination)),
            Self::Blackhole | Self::Unreachable | Self::Prohibit => None,
        }
    }
}

/// One of the ways for a prefix.
#[derive(Debug, Clone)]
struct Choice {
    via: Via,
    metric: u32,
}

/// All ways for a prefix, the best first. Nearly always there is one.
type Choices = SmallVec<[Choice; 1]>;

/// Routes of both families.
///
/// A lookup walks a tree bitmap (Eatherton, Varghese, Dittia), five bits a step, and so costs about the same
/// for ten routes and for a hundred thousand.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    v4: PrefixMap<(u32, u8), Choices>,
    v6: PrefixMap<(u128, u8), Choices>,
    pub(crate) len: usize,
}

impl Routes {
    /// Adds the prefix of one of our own addresses.
    pub(crate) fn add_on_link(&mut self, to: IpCidr, interface: InterfaceId) {
        let own = Self::on_link(to, interface);
        if !self.contains(&own) {
            self.put(own);
        }
    }

    /// Removes the prefix of an address that was ours.
    pub(crate) fn remove_on_link(&mut self, to: IpCidr, interface: InterfaceId) {
        self.remove(&Self::on_link(to, interface));
    }

    const fn on_link(to: IpCidr, interface: InterfaceId) -> Route {
        Route { to, via: Via::Link(interface), metric: 0 }
    }

    /// Adds a route or replaces the one of its name.
    pub(crate) fn set(&mut self, route: Route, limit: usize) -> Result<(), RouteError> {
        let six = matches!(route.to, IpCidr::Ipv6(_));
        if route.via.hops().any(|(_, gateway)| six && matches!(gateway, Some(IpAddress::Ipv4(_)))) {
            return Err(RouteError::Family);
        }
        if self.len >= limit && !self.contains(&route) {
            return Err(RouteError::Full);
        }
        self.put(route);
        Ok(())
    }

    fn contains(&self, route: &Route) -> bool {
        let choices = match key(&route.to) {
            Key::V4(key) => self.v4.get(&key),
            Key::V6(key) => self.v6.get(&key),
        };
        choices.is_some_and(|choices| choices.iter().any(|choice| choice.is(route)))
    }

    fn put(&mut self, route: Route) {
        let choices = match key(&route.to) {
            Key::V4(key) => self.v4.entry(key).or_default(),
            Key::V6(key) => self.v6.entry(key).or_default(),
        };
        match choices.iter_mut().find(|choice| choice.is(&route)) {
            Some(choice) => choice.via = route.via,
            None => {
                let place = choices.partition_point(|choice| choice.metric <= route.metric);
                choices.insert(place, Choice { via: route.via, metric: route.metric });
                self.len += 1;
            }
        }
    }

    /// Removes the route of this name. Returns whether there was one.
    pub(crate) fn remove(&mut self, route: &Route) -> bool {
        let key = key(&route.to);
        let choices = match key {
            Key::V4(key) => self.v4.get_mut(&key),
            Key::V6(key) => self.v6.get_mut(&key),
        };
        let Some(choices) = choices else { return false };
        let Some(place) = choices.iter().position(|choice| choice.is(route)) else { return false };
        choices.remove(place);
        self.len -= 1;
        if choices.is_empty() {
            match key {
                Key::V4(key) => drop(self.v4.remove(&key)),
                Key::V6(key) => drop(self.v6.remove(&key)),
            }
        }
        true
    }

    /// Returns the best route for `destination`, even one that leads nowhere.
    pub(crate) fn lookup(&self, destination: &IpAddress) -> Option<&Via> {
        self.best(destination).map(|(_, via)| via)
    }

    /// Returns the best route for `destination`, even one that leads nowhere, and the length of its prefix.
    pub(crate) fn best(&self, destination: &IpAddress) -> Option<(u8, &Via)> {
        let (length, choices) = self.choices(destination)?;
        choices.first().map(|choice| (length, &choice.via))
    }

    /// Returns whether `is` holds for any route of the longest prefix that matches `destination`.
    pub(crate) fn any_best(&self, destination: &IpAddress, is: impl Fn(&Via) -> bool) -> bool {
        self.choices(destination).is_some_and(|(_, choices)| choices.iter().any(|choice| is(&choice.via)))
    }

    fn choices(&self, destination: &IpAddress) -> Option<(u8, &Choices)> {
        match *destination {
            IpAddress::Ipv4(address) => {
                self.v4.get_lpm(&(address.to_bits(), 32)).map(|((_, length), choices)| (length, choices))
            }
            IpAddress::Ipv6(address) => {
                self.v6.get_lpm(&(address.to_bits(), 128)).map(|((_, length), choices)| (length, choices))
            }
        }
    }

    /// Returns the next hop on the way to `destination`, by `interface` if that is given. Of several next
    /// hops, all packets to this destination take the same one.
    pub(crate) fn hop(&self, destination: &IpAddress, interface: Option<InterfaceId>) -> Option<Hop> {
        let via = match interface {
            None => self.lookup(destination),
            Some(interface) => self.lookup_by(destination, interface),
        };
        via.and_then(|via| via.hop(destination, interface, || spread(destination)))
    }

    /// Returns the best of the routes for `destination` that leave by `interface`. Tries the longest prefix
    /// first, then shorter ones until one has such a route. It is nearly always the first.
    fn lookup_by(&self, destination: &IpAddress, interface: InterfaceId) -> Option<&Via> {
        let mut length = match destination {
            IpAddress::Ipv4(_) => 32,
            IpAddress::Ipv6(_) => 128,
        };
        loop {
            let (found, choices) = match *destination {
                IpAddress::Ipv4(address) => {
                    let ((_, found), choices) = self.v4.get_lpm(&(address.to_bits(), length))?;
                    (found, choices)
                }
                IpAddress::Ipv6(address) => {
                    let ((_, found), choices) = self.v6.get_lpm(&(address.to_bits(), length))?;
                    (found, choices)
                }
            };
            let mut ways = choices.iter().map(|choice| &choice.via);
            if let Some(via) = ways.find(|via| via.leads_by(interface)) {
                return Some(via);
            }
            length = found.checked_sub(1)?;
        }
    }

    /// Returns every route, in order of family, prefix and metric.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Route> {
        let route = |to, choice: &Choice| Route { to, via: choice.via.clone(), metric: choice.metric };
        let v4 = self.v4.iter().flat_map(move |((bits, length), choices)| {
            let to = IpCidr::new(IpAddress::Ipv4(bits.into()), length);
            choices.iter().map(move |choice| route(to, choice))
        });
        let v6 = self.v6.iter().flat_map(move |((bits, length), choices)| {
            let to = IpCidr::new(IpAddress::Ipv6(bits.into()), length);
            choices.iter().map(move |choice| route(to, choice))
        });
        v4.chain(v6)
    }
}

impl Choice {
    /// Returns whether the choice and `route`, which have the same prefix, are the same route by metric and
    /// interface.
    fn is(&self, route: &Route) -> bool {
        self.metric == route.metric && self.via.interface() == route.via.interface()
    }
}

/// Returns a hash of an address.
fn spread(address: &IpAddress) -> u32 {
    let bits = match *address {
        IpAddress::Ipv4(address) => address.to_bits().into(),
        IpAddress::Ipv6(address) => address.to_bits(),
    };
    (Random::new((bits >> 64) as u64 ^ bits as u64).next() >> 32) as u32
}

enum Key {
    V4((u32, u8)),
    V6((u128, u8)),
}

fn key(prefix: &IpCidr) -> Key {
    match prefix {
        IpCidr::Ipv4(cidr) => Key::V4((cidr.network().address().to_bits(), cidr.prefix_len())),
        IpCidr::Ipv6(cidr) => {
            let length = cidr.prefix_len();
            let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            Key::V6((cidr.address().to_bits() & !host, length))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::multipath::NextHop;
    use super::*;

    const LAN: InterfaceId = InterfaceId(0);
    const WAN: InterfaceId = InterfaceId(1);

    fn cidr(a: u8, b: u8, length: u8) -> IpCidr {
        IpCidr::new(IpAddress::v4(a, b, 0, 0), length)
    }

    fn by_gateway(to: IpCidr, gateway: IpAddress, interface: InterfaceId) -> Route {
        Route { to, via: Via::Gateway(interface, gateway), metric: 0 }
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut routes = Routes::default();
        let gateway = IpAddress::v4(10, 1, 0, 1);
        routes.set(by_gateway(cidr(0, 0, 0), gateway, WAN), 8).unwrap();
        routes.add_on_link(cidr(10, 1, 16), LAN);
        routes.set(by_gateway(cidr(10, 0, 8), IpAddress::v4(10, 1, 0, 2), LAN), 8).unwrap();
        let to = |a, b| routes.hop(&IpAddress::v4(a, b, 0, 9), None).unwrap();
        assert_eq!((to(8, 8).neighbor, to(8, 8).interface), (gateway, WAN));
        assert_eq!(to(10, 2).neighbor, IpAddress::v4(10, 1, 0, 2));
        assert_eq!((to(10, 1).neighbor, to(10, 1).on_link), (IpAddress::v4(10, 1, 0, 9), true));
        assert_eq!(routes.hop(&IpAddress::v4(10, 1, 0, 9), Some(WAN)).unwrap().neighbor, gateway);
        assert_eq!(routes.hop(&IpAddress::v6(1, 0, 0, 0, 0, 0, 0, 1), None), None);
    }

    #[test]
    fn the_lowest_metric_wins_and_the_next_takes_over() {
        let mut routes = Routes::default();
        let gateway = |n| IpAddress::v4(10, 1, 0, n);
        let route = |n, metric| Route { metric, ..by_gateway(cidr(192, 0, 8), gateway(n), LAN) };
        let taken = |routes: &Routes| routes.hop(&IpAddress::v4(192, 9, 9, 9), None).map(|hop| hop.neighbor);
        for (n, metric) in [(1, 20), (2, 10), (3, 30)] {
            routes.set(route(n, metric), 8).unwrap();
        }
        assert_eq!(taken(&routes), Some(gateway(2)));
        routes.set(route(4, 10), 8).unwrap();
        assert_eq!(taken(&routes), Some(gateway(4)), "the same name: replaced");
        assert!(routes.remove(&route(9, 10)));
        assert_eq!(taken(&routes), Some(gateway(1)));
        assert!(
            !routes.remove(&route(1, 10)) && routes.remove(&route(1, 20)) && routes.remove(&route(3, 30))
        );
        assert_eq!((taken(&routes), routes.len, routes.iter().count()), (None, 0, 0));
    }

    #[test]
    fn the_table_is_bounded_and_of_one_family_a_route() {
        let mut routes = Routes::default();
        let gateway = IpAddress::v4(10, 1, 0, 1);
        routes.set(by_gateway(cidr(1, 0, 8), gateway, LAN), 1).unwrap();
        routes.set(by_gateway(cidr(1, 0, 8), IpAddress::v4(10, 1, 0, 2), LAN), 1).unwrap();
        assert_eq!(routes.set(by_gateway(cidr(2, 0, 8), gateway, LAN), 1), Err(RouteError::Full));
        let six = IpAddress::v6(1, 0, 0, 0, 0, 0, 0, 1);
        let to_six = IpCidr::new(six, 64);
        assert_eq!(routes.set(by_gateway(to_six, gateway, LAN), 9), Err(RouteError::Family));
        assert_eq!(routes.set(by_gateway(cidr(2, 0, 8), six, LAN), 9), Ok(()), "RFC 8950");
    }

    /// Routes over few bits, so that they meet: prefixes of either family, three interfaces, none or two, few
    /// metrics.
    fn any_route() -> impl Strategy<Value = Route> {
        (any::<bool>(), 0..=8_u8, any::<u8>(), 0..5_u8, 0..3_u32).prop_map(
            |(six, length, bits, out, metric)| {
                let address = if six {
                    IpAddress::v6(u16::from(bits) << 8, 0, 0, 0, 0, 0, 0, 7)
                } else {
                    IpAddress::v4(bits, 0, 0, 7)
                };
                let by = |n| NextHop { interface: InterfaceId(n), gateway: None, weight: 1 };
                let via = match out {
                    3 => Via::Blackhole,
                    4 => Via::Multipath(Multipath::new(&[by(metric as u8), by(2)]).unwrap()),
                    _ => Via::Link(InterfaceId(out)),
                };
                Route { to: IpCidr::new(address, length), via, metric }
            },
        )
    }

    /// Returns the result of looking a destination up in a table that is searched in order.
    fn searched(table: &[Route], destination: &IpAddress, interface: Option<InterfaceId>) -> Option<Via> {
        let matching = table.iter().filter(|route| {
            route.to.contains_addr(destination)
                && interface.is_none_or(|interface| route.via.leads_by(interface))
        });
        matching
            .min_by_key(|route| (u8::MAX - route.to.prefix_len(), route.metric))
            .map(|route| route.via.clone())
    }

    fn same_name(a: &Route, b: &Route) -> bool {
        let prefix = |route: &Route| (route.to.address().version(), route.to.prefix_len());
        prefix(a) == prefix(b)
            && a.to.contains_addr(&b.to.address())
            && (a.via.interface(), a.metric) == (b.via.interface(), b.metric)
    }

    proptest! {
        #[test]
        fn agrees_with_a_table_searched_in_order(
            changes in proptest::collection::vec((any_route(), 0..4_u8), 0..60),
            probes in proptest::collection::vec(any::<u8>(), 20),
        ) {
            let (mut routes, mut table) = (Routes::default(), Vec::<Route>::new());
            for (route, what) in changes {
                let known = table.iter().position(|other| same_name(other, &route));
                if what == 0 {
                    prop_assert_eq!(routes.remove(&route), known.is_some());
                    known.map(|place| table.remove(place));
                } else {
                    routes.set(route.clone(), usize::MAX).unwrap();
                    match known {
                        Some(place) => table[place] = route,
                        None => table.push(route),
                    }
                }
            }
            prop_assert_eq!(routes.len, table.len());
            prop_assert_eq!(routes.iter().count(), table.len());
            for probe in probes {
                let v4 = IpAddress::v4(probe, 1, 2, 3);
                let v6 = IpAddress::v6(u16::from(probe) << 8, 1, 0, 0, 0, 0, 0, 1);
                for destination in [v4, v6] {
                    let expected = searched(&table, &destination, None);
                    prop_assert_eq!(routes.lookup(&destination).cloned(), expected);
                    for interface in (0..3).map(InterfaceId) {
                        let expected = searched(&table, &destination, Some(interface));
                        prop_assert_eq!(routes.lookup_by(&destination, interface).cloned(), expected);
                    }
                }
            }
        }
    }
}
