//! Neighbour updates: what neighbours say of themselves, to keep the caches of several hosts in sync.
//!
//! Several hosts, one on each core, may be one to the outside: they have the same addresses, and each
//! receives its share of an interface's frames. An answer of ARP or NDP then reaches one of them, and it may
//! be another one that has asked. So each passes on what it hears, and takes in what it is told as if it had
//! heard it itself; only, it answers nothing.

use std::collections::VecDeque;

use super::neighbor::{Advertisement, Key};
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// Something that a neighbour said of itself, for the caches of other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborUpdate {
    pub(super) key: Key,
    pub(super) said: Said,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
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
    pub(super) waiting: VecDeque<NeighborUpdate>,
    limit: usize,
}

impl Updates {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(limit), limit }
    }

    /// What there is no room for is lost: whoever wants to know asks again.
    pub(super) fn note(&mut self, update: NeighborUpdate) {
        if self.waiting.len() < self.limit {
            self.waiting.push_back(update);
        }
    }
}
