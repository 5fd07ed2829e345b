//! Routes of connections, and the interfaces by which they lead out.
//!
//! An endpoint does not interpret routes. Its user looks them up ([`Routes`]), and each connection keeps
//! the result together with the generation of addresses and routes at the lookup. Under another generation
//! the connection looks its route up again at its next use.

use super::super::tuple::FourTuple;

/// An egress interface: one through which segments leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Egress(u8);

/// A set of egress interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EgressSet(u64);

/// The IP layer's routes to peers.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
///
/// use evenkeel_tcp::FourTuple;
/// use evenkeel_tcp::endpoint::{Egress, EgressSet, Routes};
///
/// /// A host with a private network at interface 0, and everything else at interface 1.
/// struct TwoInterfaces;
///
/// impl Routes for TwoInterfaces {
///     type Route = Egress;
///
///     fn generation(&self) -> u32 {
///         0
///     }
///
///     fn lookup(&self, tuple: &FourTuple) -> Egress {
///         let is_private = matches!(tuple.remote.addr, IpAddr::V4(address) if address.is_private());
///         Egress::new(if is_private { 0 } else { 1 })
///     }
///
///     fn egress(&self, route: &Egress) -> Option<Egress> {
///         Some(*route)
///     }
/// }
///
/// let tuple = FourTuple::new((Ipv4Addr::new(10, 0, 0, 1), 40_000), (Ipv4Addr::new(10, 0, 0, 2), 80));
/// assert_eq!(TwoInterfaces.lookup(&tuple), Egress::new(0));
///
/// // With this set, `Endpoint::set_full` makes connections of interface 1 wait, and no others.
/// assert!(!EgressSet::one(Egress::new(1)).contains(Egress::new(0)));
/// ```
pub trait Routes {
    /// The result of a lookup. Each connection keeps its own.
    type Route: Copy;

    /// Returns the generation of addresses and routes: another number as soon as a lookup may give another
    /// result than before. After 2^32 changes the numbers may begin again.
    fn generation(&self) -> u32;

    /// Returns the route of segments from `tuple.local` to `tuple.remote`.
    fn lookup(&self, tuple: &FourTuple) -> Self::Route;

    /// Returns the interface through which segments on `route` leave; `None` if they never have to wait
    /// for an interface.
    fn egress(&self, route: &Self::Route) -> Option<Egress>;

    /// Returns the largest payload in bytes of a segment that the interface of `route` cuts into segments and
    /// whose checksum it completes. The default is zero: each segment leaves by itself.
    fn cuts(&self, route: &Self::Route) -> usize {
        let _ = route;
        0
    }
}

/// Routes of a host with a single interface, which is never full.
impl Routes for () {
    type Route = ();

    fn generation(&self) -> u32 {
        0
    }

    fn lookup(&self, _: &FourTuple) {}

    fn egress(&self, (): &()) -> Option<Egress> {
        None
    }
}

/// A route, and the generation under which it was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteHandle<R>(Option<(u32, R)>);

impl<R: Copy> RouteHandle<R> {
    /// A handle without a route: none has been looked up yet.
    pub(super) const NONE: Self = Self(None);

    pub(super) const fn new(route: R, generation: u32) -> Self {
        Self(Some((generation, route)))
    }

    /// Returns the current route, after a new lookup if the generation has changed.
    pub(super) fn validate(&mut self, tuple: &FourTuple, routes: &impl Routes<Route = R>) -> R {
        match self.0 {
            Some((generation, route)) if generation == routes.generation() => route,
            _ => self.renew(tuple, routes),
        }
    }

    #[cold]
    fn renew(&mut self, tuple: &FourTuple, routes: &impl Routes<Route = R>) -> R {
        let route = routes.lookup(tuple);
        *self = Self::new(route, routes.generation());
        route
    }
}

impl Egress {
    /// Returns the interface with this number. There are [`EgressSet::MAX`]; higher numbers begin again
    /// with the first.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number % EgressSet::MAX)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl EgressSet {
    /// The number of interfaces that a set can have.
    pub const MAX: u8 = 64;
    /// The set of no interfaces.
    pub const NONE: Self = Self(0);

    /// Returns the set of one interface.
    #[must_use]
    pub const fn one(egress: Egress) -> Self {
        Self(1 << egress.0)
    }

    /// Returns whether the interface is in the set.
    #[must_use]
    pub const fn contains(self, egress: Egress) -> bool {
        self.0 >> egress.0 & 1 != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the interfaces of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the interface with the lowest number; `None` if the set is empty.
    pub(super) const fn first(self) -> Option<Egress> {
        if self.is_empty() { None } else { Some(Egress(self.0.trailing_zeros() as u8)) }
    }
}
