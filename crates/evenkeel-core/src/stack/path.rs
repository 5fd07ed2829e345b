//! Where the way of a packet begins.

use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// Who takes a packet next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Everybody at a hardware address that is known beforehand.
    Group(EthernetAddress),
    Neighbor(IpAddress),
}

/// The first hop of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) interface: InterfaceId,
    pub(super) next: Next,
}
