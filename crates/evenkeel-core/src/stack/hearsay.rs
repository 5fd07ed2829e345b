//! What neighbours say of themselves, to be passed on to other hosts.
//!
//! Several hosts, one on each core, may be one to the outside: they have the same addresses, and each receives its share of an interface's
//! frames. An answer of ARP or NDP then reaches one of them, and it may be another one that has asked. So each passes on what it
//! hears, and takes in what it is told as if it had heard it itself; only, it answers nothing.

use std::collections::VecDeque;

use super::neighbor::{Advertisement, Key};
use super::{Io, Stack};
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// Something that a neighbour said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hearsay {
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

impl Hearsay {
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

/// What has been heard and not passed on yet.
#[derive(Debug, Default)]
pub(super) struct News {
    waiting: VecDeque<Hearsay>,
    limit: usize,
}

impl News {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(limit), limit }
    }

    /// What there is no room for is lost: whoever wants to know asks again.
    fn note(&mut self, hearsay: Hearsay) {
        if self.waiting.len() < self.limit {
            self.waiting.push_back(hearsay);
        }
    }
}

impl Stack {
    /// A neighbour said something of itself, here.
    pub(super) fn hear(&mut self, hearsay: Hearsay, io: &mut Io<'_>) {
        self.news.note(hearsay);
        self.take_in(hearsay, io);
    }

    /// Takes in what another host has heard, which must have the same interfaces and addresses.
    pub fn take_in(&mut self, Hearsay { key, said }: Hearsay, io: &mut Io<'_>) {
        let known = match said {
            Said::Asked(hardware) => Some((hardware, self.neighbors.heard(key, hardware, io))),
            Said::Advertised(said) => self.neighbors.advertised(key, said, io.now),
        };
        if let Some((hardware, waited)) = known {
            self.unpark(waited, key.0, hardware, io);
        }
    }

    /// The oldest thing heard that has not been passed on, if the stack is to keep it ([`Config::news`](super::Config::news)).
    pub fn next_news(&mut self) -> Option<Hearsay> {
        self.news.waiting.pop_front()
    }
}
