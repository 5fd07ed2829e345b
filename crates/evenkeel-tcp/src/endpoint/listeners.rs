//! All listeners of a host, by address and port and by deadline.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU32;

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
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenAt {
    /// A local address; `None` for all of them.
    pub address: Option<IpAddr>,
    /// The local port; 0 lets the endpoint choose one.
    pub port: u16,
}

impl ListenAt {
    /// Creates the place of a listener at `port` of all local addresses, IPv4 and IPv6.
    #[must_use]
    pub const fn any(port: u16) -> Self {
        Self { address: None, port }
    }
}

/// An unspecified address (`0.0.0.0`, `::`) stands for all local addresses of both families.
impl From<SocketAddr> for ListenAt {
    fn from(address: SocketAddr) -> Self {
        let specified = !address.ip().is_unspecified();
        Self { address: specified.then_some(address.ip()), port: address.port() }
    }
}

/// The listeners of a host. Their deadlines are in a timer wheel, so no operation but `iter` goes through
/// all of them.
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

    pub(super) fn contains(&self, at: &ListenAt) -> bool {
        self.by_place.contains_key(at)
    }

    fn find(&self, at: &ListenAt) -> Option<ListenerId> {
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

    /// Returns the listener for a local address and port: that of the address, else that of all addresses.
    pub(super) fn at_endpoint(&self, local: &AddrPort) -> Option<(ListenAt, ListenerId)> {
        let at = |address| ListenAt { address, port: local.port };
        [at(Some(local.addr)), at(None)].into_iter().find_map(|at| Some((at, self.find(&at)?)))
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

    /// Gives a listener whose deadline has passed to `work`, which does all that is due, or is called
    /// again for the rest. Returns whether there was one.
    pub(super) fn advance(&mut self, now: Instant, work: impl FnOnce(&mut Listener)) -> bool {
        let Some(slot) = self.wheel.poll_expired(now) else { return false };
        if let Some(listener) = self.at(slot) {
            work(listener);
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

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ListenAt, &Listener)> {
        self.by_place.keys().filter_map(|at| Some((at, self.get(at)?)))
    }
}
