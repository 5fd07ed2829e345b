//! Ports to choose from for connections (RFC 6056): how far it has come.

use crate::time::Instant;
use crate::wire::{IpAddress, IpEndpoint};

/// Ports to choose from, and where to go on.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// `next_ephemeral` of RFC 6056, 3.3.3: common to all peers.
    pub(super) next: u32,
    /// How many connections are gone.
    pub(super) gone: u64,
    pub(super) exhausted: Option<Exhausted>,
}

/// Between these no port was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted {
    pub(super) local: IpAddress,
    pub(super) remote: IpEndpoint,
    pub(super) gone: u64,
    pub(super) until: Instant,
}
