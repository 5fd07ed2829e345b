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

/// The route to the destination of a socket's last datagram, and the generation of addresses and routes under
/// which it was looked up. It holds for the next one if neither is another.
#[derive(Debug, Clone, Copy, Default)]
pub struct RouteHandle(Option<Kept>);

#[derive(Debug, Clone, Copy)]
struct Kept {
    generation: u32,
    destination: IpAddress,
    path: Path,
    /// The address of ours that suits the destination.
    source: Option<IpAddress>,
}

impl RouteHandle {
    pub(super) const fn new(
        destination: IpAddress,
        path: Path,
        source: Option<IpAddress>,
        generation: u32,
    ) -> Self {
        Self(Some(Kept { generation, destination, path, source }))
    }

    /// The source address of what goes by the path that was looked up last.
    pub(super) fn source(&self) -> Option<IpAddress> {
        self.0?.source
    }

    pub(super) fn path(&self, destination: &IpAddress, generation: u32) -> Option<Path> {
        let holds = |kept: &Kept| kept.generation == generation && kept.destination == *destination;
        self.0.filter(holds).map(|kept| kept.path)
    }
}
