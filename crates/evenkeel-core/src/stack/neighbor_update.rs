//! Neighbour updates: what neighbours say of themselves, to keep the caches of several hosts in sync.
//!
//! Several hosts, one on each core, may be one to the outside: they have the same addresses, and each receives its share of an interface's
//! frames. An answer of ARP or NDP then reaches one of them, and it may be another one that has asked. So each passes on what it
//! hears, and takes in what it is told as if it had heard it itself; only, it answers nothing.

use std::collections::VecDeque;

use super::neighbor::{Advertisement, Key};
use super::{Io, Stack};
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// Something that a neighbour said of itself, for the caches of other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborUpdate {
    key: Key,
    said: Said,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It asked for an address of ours.
    Asked(EthernetAddress),
    /// It answered, or announced itself.
    Advertised(Advertisement),
}

impl NeighborUpdate {
    pub(super) fn asked(key: Key, hardware: EthernetAddress) -> Self {
        Self { key, said: Said::Asked(hardware) }
    }

    pub(super) fn advertised(key: Key, said: Advertisement) -> Self {
        Self { key, said: Said::Advertised(said) }
    }

    /// Whose link the neighbour is on. Hosts that tell each other must number their interfaces alike.
    #[must_use]
    pub const fn interface(&self) -> InterfaceId {
        self.key.0
    }

    /// The neighbour.
    #[must_use]
    pub const fn address(&self) -> IpAddress {
        self.key.1
    }
}

/// Those that have not been passed on yet.
#[derive(Debug, Default)]
pub(super) struct Updates {
    waiting: VecDeque<NeighborUpdate>,
    limit: usize,
}

impl Updates {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(limit), limit }
    }

    /// What there is no room for is lost: whoever wants to know asks again.
    fn note(&mut self, update: NeighborUpdate) {
        if self.waiting.len() < self.limit {
            self.waiting.push_back(update);
        }
    }
}

impl Stack {
    /// A neighbour said something of itself to this host: for its cache, and for those of others.
    pub(super) fn learn_neighbor(&mut self, update: NeighborUpdate, io: &mut Io<'_>) {
        self.updates.note(update);
        self.sync_neighbor(update, io);
    }

    /// Brings the cache in sync with that of another host, which must have the same interfaces and addresses.
    pub fn sync_neighbor(&mut self, NeighborUpdate { key, said }: NeighborUpdate, io: &mut Io<'_>) {
        let known = match said {
            Said::Asked(hardware) => Some((hardware, self.neighbors.heard(key, hardware, io))),
            Said::Advertised(said) => self.neighbors.advertised(key, said, io.now),
        };
        if let Some((hardware, waited)) = known {
            self.unpark(waited, key.0, hardware, io);
        }
    }

    /// The oldest update that has not been passed on, if the stack is to keep them
    /// ([`Config::neighbor_updates`](super::Config::neighbor_updates)).
    pub fn next_neighbor_update(&mut self) -> Option<NeighborUpdate> {
        self.updates.waiting.pop_front()
    }
}
