//! The next hop of a packet.

use crate::id::InterfaceId;
use crate::wire::IpAddress;

/// The next hop of a packet: an interface and a neighbour on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) interface: InterfaceId,
    pub(crate) neighbor: IpAddress,
    pub(crate) on_link: bool,
}
