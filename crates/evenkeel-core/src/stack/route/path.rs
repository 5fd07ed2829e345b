//! Paths of packets: the interface, the next hop and the source address.

use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// The receiver of a packet on the next link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// All nodes at a hardware address that needs no resolution.
    Group(EthernetAddress),
    Neighbor(IpAddress),
}

/// The first hop of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) interface: InterfaceId,
    pub(crate) next: Next,
}

impl Path {
    /// Returns whether the packet goes to all nodes at a hardware address: it is for a group or a broadcast.
    pub(crate) const fn is_to_several(&self) -> bool {
        matches!(self.next, Next::Group(_))
    }

    /// Returns the neighbour that a packet to `destination` is handed to; the destination itself if that is
    /// a group or a broadcast.
    pub(crate) const fn neighbor_towards(&self, destination: &IpAddress) -> IpAddress {
        match self.next {
            Next::Neighbor(neighbor) => neighbor,
            Next::Group(_) => *destination,
        }
    }
}

/// The address and the interface of this host that a datagram leaves from, as `IP_PKTINFO` names them.
///
/// An answer takes both from its request: see
/// [`Datagram::reply_origin`](crate::stack::Datagram::reply_origin).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// The address, one of the host's own; `None` for the one that suits the way.
    pub address: Option<IpAddress>,
    /// The interface to leave by, if any route leads to the destination that way; `None` for what the routes
    /// say. Link-local and multicast destinations are always reached by it.
    pub interface: Option<InterfaceId>,
}

/// A route request of TCP, and the generation of addresses and routes under which it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathRequest {
    pub(crate) generation: u32,
    pub(crate) source: Option<IpAddress>,
    pub(crate) destination: IpAddress,
}

/// The first hop of a packet, and the address that it is sent from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourcedPath {
    pub(crate) path: Path,
    /// `None` if the host has none that can be the source.
    pub(crate) source: Option<IpAddress>,
}
