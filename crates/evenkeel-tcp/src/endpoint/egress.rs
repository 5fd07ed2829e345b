//! Routes as connections keep them, and the interfaces by which they lead out.
//!
//! An endpoint does not know what a route is. Its user looks it up ([`Routes`]), and each connection keeps
//! what the lookup said together with the generation of addresses and routes under which it did. Under
//! another generation it is looked up anew at its next use.

use super::super::tuple::FourTuple;

/// An egress interface: one by which segments leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Egress(u8);

/// A set of egress interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EgressSet(u64);

/// What IP knows of the ways to peers.
pub trait Routes {
    /// What a lookup says. It is kept with each connection.
    type Route: Copy;

    /// Another number than before as soon as a lookup may say something else than before: addresses or routes
    /// have changed. After 2^32 changes it may begin again.
    fn generation(&self) -> u32;

    /// The route of segments from `tuple.local` to `tuple.remote`.
    fn lookup(&self, tuple: &FourTuple) -> Self::Route;

    /// The interface by which they leave; `None` if they do not have to wait for any.
    fn egress(&self, route: &Self::Route) -> Option<Egress>;
}

/// For who has one interface only, which is never full.
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
    /// None has been looked up yet.
    pub(super) const NONE: Self = Self(None);

    pub(super) const fn new(route: R, generation: u32) -> Self {
        Self(Some((generation, route)))
    }

    /// The route as it is now.
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
    /// The interface of this number. There are [`EgressSet::MAX`]; higher numbers begin again with the first.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number % EgressSet::MAX)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl EgressSet {
    /// How many interfaces there are.
    pub const MAX: u8 = 64;
    /// None.
    pub const NONE: Self = Self(0);

    /// The set of one interface.
    #[must_use]
    pub const fn one(egress: Egress) -> Self {
        Self(1 << egress.0)
    }

    /// Whether the interface is in the set.
    #[must_use]
    pub const fn contains(self, egress: Egress) -> bool {
        self.0 >> egress.0 & 1 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The one of the lowest number.
    pub(super) const fn first(self) -> Option<Egress> {
        if self.is_empty() { None } else { Some(Egress(self.0.trailing_zeros() as u8)) }
    }
}
