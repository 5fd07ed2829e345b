//! The stack: all that it owns.

use core::cell::Cell;
use std::collections::VecDeque;

use super::address::InterfaceAddresses;
use super::believed::Believed;
use super::config::Config;
use super::conflict::Claims;
use super::groups::Groups;
use super::identification::Identifications;
use super::neighbor::Neighbors;
use super::neighbor_update::Updates;
use super::path::{Asked, Path};
use super::path_mtu::PathMtus;
use super::random::Random;
use super::reassembly::Reassembly;
use super::route::Routes;
use crate::deadline::Deadline;
use crate::tcp::endpoint::Quote;
use crate::tcp::{ReplyLimit, Secret};
use crate::time::Instant;
use crate::timed::Waits;

/// The protocols below sockets of one host.
///
/// Calls may come in any order, with a time that never goes back. After each of them
/// [`Io::out`](super::Io::out) may have frames to send, and [`Stack::next_deadline`] may have changed;
/// [`Stack::tick`] is to be called when it has come.
#[derive(Debug)]
pub struct Stack {
    pub(super) config: Config,
    pub(super) interfaces: Vec<InterfaceAddresses>,
    pub(super) routes: Routes,
    /// Another number whenever an address or a route has changed: routes that were looked up before mean
    /// nothing any more.
    pub(super) generation: u32,
    pub(super) believed: Believed,
    /// The last route that TCP asked for.
    pub(super) last_path: Cell<Option<(Asked, Path)>>,
    pub(super) path_mtus: PathMtus,
    pub(super) neighbors: Neighbors,
    /// Segments of ours that were given up because their next hop does not answer, until TCP takes them.
    pub(super) unresolved: VecDeque<Quote>,
    pub(super) updates: Updates,
    pub(super) claims: Claims,
    pub(super) reassembly: Reassembly,
    pub(super) groups: Groups,
    pub(super) errors: ReplyLimit,
    pub(super) random: Random,
    pub(super) identifications: Identifications,
    /// Which flows take which of several next hops.
    pub(super) flows: u64,
    /// Whether every frame must take the long way.
    #[cfg(test)]
    pub(crate) long_way_only: bool,
    /// The number of frames that have taken the long way.
    #[cfg(test)]
    pub(crate) long_ways: Cell<u64>,
}

impl Stack {
    /// Creates a stack without interfaces. Identifications and jitter are derived from `seed`: equal seeds
    /// give equal runs. On a real network, a secret is needed as well ([`Stack::set_secret`]).
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            interfaces: Vec::new(),
            routes: Routes::default(),
            generation: 0,
            believed: Believed::default(),
            last_path: Cell::default(),
            path_mtus: PathMtus::default(),
            neighbors: Neighbors::new(&config, seed),
            unresolved: VecDeque::new(),
            updates: Updates::new(config.neighbor_updates),
            claims: Claims::default(),
            reassembly: Reassembly::new(&config),
            groups: Groups::default(),
            errors: error_limit(&config, Secret::of_seed(seed)),
            identifications: Identifications::new(Secret::of_seed(seed)),
            // As other routers choose by the same hash, each mixes in something of its own: or all flows that
            // come to one would go on together.
            flows: Random::new(!seed).next(),
            random: Random::new(seed),
            #[cfg(test)]
            long_way_only: false,
            #[cfg(test)]
            long_ways: Cell::new(0),
            config,
        }
    }

    /// Derives from `secret`, from now on: identifications, jitter, the number of ICMP errors that leave,
    /// and the choice of a flow among several next hops.
    pub fn set_secret(&mut self, secret: Secret) {
        let seed = |label| secret.hash_for(label, &[]);
        self.identifications = Identifications::new(secret);
        self.errors = error_limit(&self.config, secret);
        self.neighbors.reseed(seed(2));
        self.random = Random::new(seed(3));
        self.flows = seed(4);
    }

    /// Records that an address or a route has changed.
    pub(super) const fn raise_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Returns the limits that the stack was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the largest number of frames that a stack with these limits holds. Its pool must be able to
    /// spare as many.
    #[must_use]
    pub const fn frames_held_max(config: &Config) -> usize {
        config.held_pkts()
    }

    /// Returns when [`Stack::tick`] has something to do next; [`Instant::NEVER`] if it has nothing.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let mut next = Instant::NEVER;
        self.each_deadline(|_, deadline| next = next.min(deadline));
        next
    }

    /// Calls `hear` with the next deadline of each part of the stack that needs [`Stack::tick`].
    #[inline]
    pub(crate) fn each_deadline(&self, mut hear: impl FnMut(Deadline, Instant)) {
        hear(Deadline::Reassembly, self.reassembly.next_deadline());
        hear(Deadline::Neighbors, self.neighbors.next_deadline());
        hear(Deadline::Groups, self.groups.next_deadline());
        hear(Deadline::Claims, self.claims.next_deadline());
    }

    /// Fragments held in reassembly: part of the ledger's `queued`.
    #[must_use]
    pub fn reassembling(&self) -> u64 {
        self.reassembly.held()
    }

    /// Returns the number of frames that wait for a neighbour: the ledger's `held`.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.neighbors.held()
    }
}

/// Returns the rate limit of ICMP errors.
fn error_limit(config: &Config, secret: Secret) -> ReplyLimit {
    /// Among others with the same secret.
    const LABEL: u64 = 2;
    ReplyLimit::new(secret, LABEL, config.icmp_errors_per_s, config.icmp_error_burst)
}

impl Waits for Stack {
    fn next_deadline(&self) -> Instant {
        self.next_deadline()
    }
}

#[cfg(test)]
impl Stack {
    /// Checks the invariants that hold between any two calls.
    pub(super) fn check_invariants(&self) {
        self.neighbors.check_invariants(&self.config);
        self.reassembly.check_invariants();
    }
}
