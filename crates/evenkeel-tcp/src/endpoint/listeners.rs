//! All listeners of a host, by address and port and by deadline.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::num::{NonZeroU8, NonZeroU32};

use super::super::connection::Config;
use super::super::counters::Counters;
use super::super::listener::{Arrival, Listener, Reaction};
use super::super::table::TupleHash;
use crate::time::Instant;
use crate::tuple::AddrPort;
use evenkeel_timers::Wheel;

/// The address and port at which a listener listens.
///
/// ```
/// use std::net::SocketAddr;
///
/// use evenkeel_tcp::endpoint::ListenAt;
///
/// let address: SocketAddr = "192.0.2.1:80".parse()?;
/// assert_eq!(ListenAt::from(address), ListenAt { address: Some(address.ip()), port: 80 });
///
/// let unspecified: SocketAddr = "[::]:80".parse()?;
/// assert_eq!(ListenAt::from(unspecified), ListenAt::any(80));
///
/// // Addresses of IPv4 alone.
/// let of_ipv4: SocketAddr = "0.0.0.0:80".parse()?;
/// assert_eq!(ListenAt::from(of_ipv4), ListenAt { address: Some(of_ipv4.ip()), port: 80 });
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenAt {
    /// The local port; 0 lets the endpoint choose one.
    pub port: u16,
    /// A local address; `None` for all of them. An unspecified address stands for all of its family.
    pub address: Option<IpAddr>,
}

impl ListenAt {
    /// Creates the place of a listener at `port` of all local addresses, IPv4 and IPv6.
    #[must_use]
    pub const fn any(port: u16) -> Self {
        Self { address: None, port }
    }

    /// Returns whether a segment could be for listeners at both places.
    fn overlaps(&self, other: &Self) -> bool {
        let share = |one: IpAddr, other: IpAddr| {
            one == other
                || one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified())
        };
        self.port == other.port
            && self.address.zip(other.address).is_none_or(|(one, other)| share(one, other))
    }
}

/// `::` stands for all local addresses of both families, and `0.0.0.0` for those of IPv4.
impl From<SocketAddr> for ListenAt {
    fn from(address: SocketAddr) -> Self {
        let is_all = address.ip() == Ipv6Addr::UNSPECIFIED;
        Self { address: (!is_all).then_some(address.ip()), port: address.port() }
    }
}

/// The listeners of a host. Their deadlines are in a timer wheel, so no operation but `iter` and
/// `iter_mut` goes through all of them.
#[derive(Default)]
pub(super) struct Listeners {
    by_place: BTreeMap<ListenAt, u32>,
    slots: Vec<Option<Listening>>,
    free: Vec<u32>,
    /// Deadlines by slot. One may be earlier than anything is due, never later.
    wheel: Wheel,
    /// The number of listeners there ever were.
    count: u32,
}

struct Listening {
    serial: NonZeroU32,
    listener: Listener,
    /// The settings of the connections that it opens.
    options: Arc<Config>,
}

/// The name of a listener, which stays its own when it is gone and another listens in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListenerId {
    slot: u32,
    /// The listener's number; not zero, so that an `Option` of the name takes no more memory: each
    /// connection has one.
    serial: NonZeroU32,
}

impl Listeners {
    pub(super) fn insert(&mut self, at: ListenAt, listener: Listener, options: Arc<Config>) {
        self.count = self.count.wrapping_add(1);
        let serial = NonZeroU32::new(self.count).unwrap_or(NonZeroU32::MIN);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        if let Some(free) = self.slots.get_mut(slot as usize) {
            *free = Some(Listening { serial, listener, options });
        }
        self.by_place.insert(at, slot);
    }

    pub(super) fn remove(&mut self, at: &ListenAt) -> Option<Listener> {
        let slot = self.by_place.remove(at)?;
        self.wheel.cancel(slot);
        self.free.push(slot);
        self.slots.get_mut(slot as usize)?.take().map(|listening| listening.listener)
    }

    /// Returns whether another listener at `at` would get segments of one that is there.
    pub(super) fn conflicts(&self, at: &ListenAt) -> bool {
        let with_port = self.by_place.range(ListenAt::any(at.port)..);
        with_port.take_while(|(other, _)| other.port == at.port).any(|(other, _)| other.overlaps(at))
    }

    pub(super) fn find(&self, at: &ListenAt) -> Option<ListenerId> {
        let slot = *self.by_place.get(at)?;
        let serial = self.slots.get(slot as usize)?.as_ref()?.serial;
        Some(ListenerId { slot, serial })
    }

    pub(super) fn get(&self, at: &ListenAt) -> Option<&Listener> {
        self.listening(at).map(|listening| &listening.listener)
    }

    pub(super) fn options(&self, id: ListenerId) -> Option<&Arc<Config>> {
        let listening = self.slots.get(id.slot as usize)?.as_ref();
        listening.filter(|listening| listening.serial == id.serial).map(|listening| &listening.options)
    }

    /// Returns the TTL or hop limit of a listener's segments; `None` for that of the host.
    pub(super) fn hop_limit(&self, id: ListenerId) -> Option<NonZeroU8> {
        self.options(id)?.hop_limit
    }

    /// Returns the settings of the connections that a listener opens.
    pub(super) fn options_at(&mut self, at: &ListenAt) -> Option<&mut Arc<Config>> {
        let slot = *self.by_place.get(at)?;
        self.slots.get_mut(slot as usize)?.as_mut().map(|listening| &mut listening.options)
    }

    fn listening(&self, at: &ListenAt) -> Option<&Listening> {
        let slot = *self.by_place.get(at)?;
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: &ListenAt) -> Option<&mut Listener> {
        let slot = *self.by_place.get(at)?;
        self.at(slot)
    }

    pub(super) fn by_id(&mut self, id: ListenerId) -> Option<&mut Listener> {
        let listening = self.slots.get_mut(id.slot as usize)?.as_mut();
        listening.filter(|listening| listening.serial == id.serial).map(|listening| &mut listening.listener)
    }

    /// Returns the listener for a local address and port: that of the address, of all of its family, or of
    /// all. There is at most one.
    pub(super) fn at_endpoint(&self, local: &AddrPort) -> Option<(ListenAt, ListenerId)> {
        let all: IpAddr = match local.addr {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let at = |address| ListenAt { address, port: local.port };
        let places = [at(None), at(Some(all)), at(Some(local.addr))];
        places.into_iter().find_map(|at| Some((at, self.find(&at)?)))
    }

    /// Gives a segment to a listener, and updates the listener's deadline. Returns its reaction.
    pub(super) fn handle(
        &mut self,
        id: ListenerId,
        hash: TupleHash,
        arrival: &Arrival<'_>,
        counters: &mut Counters,
    ) -> Reaction {
        let Some(listener) = self.by_id(id) else { return Reaction::Nothing };
        let reaction = listener.handle_hashed(hash, arrival, counters);
        if matches!(reaction, Reaction::Open(_)) {
            self.schedule_slot(id.slot);
        }
        reaction
    }

    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    pub(super) fn not_before(&self) -> Option<Instant> {
        self.wheel.not_before()
    }

    /// Gives a listener whose deadline has passed, and the TTL of its segments, to `work`, which does all
    /// that is due, or is called again for the rest. Returns whether there was one.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        work: impl FnOnce(&mut Listener, Option<NonZeroU8>),
    ) -> bool {
        let Some(slot) = self.wheel.poll_expired(now) else { return false };
        if let Some(Listening { listener, options, .. }) =
            self.slots.get_mut(slot as usize).and_then(Option::as_mut)
        {
            work(listener, options.hop_limit);
        }
        self.schedule_slot(slot);
        true
    }

    fn at(&mut self, slot: u32) -> Option<&mut Listener> {
        self.slots.get_mut(slot as usize)?.as_mut().map(|listening| &mut listening.listener)
    }

    fn schedule_slot(&mut self, slot: u32) {
        let listening = self.slots.get(slot as usize).and_then(Option::as_ref);
        match listening.and_then(|listening| listening.listener.next_deadline()) {
            Some(at) => self.wheel.set(slot, at),
            None => _ = self.wheel.cancel(slot),
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.slots.iter_mut().flatten().map(|listening| &mut listening.listener)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ListenAt, &Listener)> {
        self.by_place.keys().filter_map(|at| Some((at, self.get(at)?)))
    }
}
