//! Neighbour updates, which several hosts exchange to keep their caches in sync.
//!
//! Several hosts, one on each core, may appear as one to the outside: they have the same addresses, and
//! each receives its share of an interface's frames. An ARP or NDP answer then reaches one of them, which
//! need not be the host that sent the solicitation. So each host passes on the updates that it receives. It
//! processes updates from the others as if it had received the packets itself, but it sends no answer.

use std::collections::VecDeque;

use super::table::{Advertisement, Key};
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// An announcement, answer or solicitation of a neighbour, for the caches of other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborUpdate {
    pub(crate) key: Key,
    pub(crate) event: Event,
}

/// A message of a neighbour, as far as caches are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The neighbour solicited an address of this host.
    Solicited(EthernetAddress),
    /// The neighbour answered a solicitation, or announced itself.
    Advertised(Advertisement),
}

impl NeighborUpdate {
    /// Returns the update that a neighbour has this hardware address. If it is `confirmed`, the neighbour was
    /// reachable just now; or else it is probed after its next use. Only a host that has requested the
    /// address keeps it.
    #[must_use]
    pub const fn resolved(
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        confirmed: bool,
    ) -> Self {
        let advertisement = Advertisement { hardware: Some(hardware), solicited: confirmed, overrides: true };
        Self::advertised((interface, address), advertisement)
    }

    pub(crate) const fn solicited(key: Key, hardware: EthernetAddress) -> Self {
        Self { key, event: Event::Solicited(hardware) }
    }

    pub(crate) const fn advertised(key: Key, advertisement: Advertisement) -> Self {
        Self { key, event: Event::Advertised(advertisement) }
    }

    /// Returns the interface to whose link the neighbour is attached. Hosts that exchange updates must
    /// number their interfaces alike.
    #[must_use]
    pub const fn interface(&self) -> InterfaceId {
        self.key.0
    }

    /// Returns the IP address of the neighbour.
    #[must_use]
    pub const fn address(&self) -> IpAddress {
        self.key.1
    }
}

/// The updates that have not been passed on yet.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    waiting: VecDeque<NeighborUpdate>,
    limit: usize,
}

impl Updates {
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(limit), limit }
    }

    /// Queues an update for the other hosts. An update that finds the queue full is lost: a host that needs
    /// it sends its own solicitation.
    pub(crate) fn record(&mut self, update: NeighborUpdate) {
        if self.waiting.len() < self.limit {
            self.waiting.push_back(update);
        }
    }

    /// Takes the oldest update.
    pub(crate) fn next(&mut self) -> Option<NeighborUpdate> {
        self.waiting.pop_front()
    }
}
