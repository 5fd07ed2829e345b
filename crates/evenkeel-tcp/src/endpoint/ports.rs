//! The state of the choice of local ports (RFC 6056).

use crate::time::Instant;
use crate::wire::{IpAddress, IpEndpoint};

/// The progress through the ports to choose from.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// `next_ephemeral` of RFC 6056, 3.3.3, common to all peers.
    pub(super) next: u32,
    /// The number of connections that are gone, each of which may have freed a port.
    pub(super) gone: u64,
    pub(super) exhausted: Option<Exhausted>,
}

/// The addresses between which no port was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted {
    pub(super) local: IpAddress,
    pub(super) remote: IpEndpoint,
    pub(super) gone: u64,
    pub(super) until: Instant,
}
