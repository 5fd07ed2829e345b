//! The route that a socket keeps, and how it is known to be out of date: by its generation.

use super::path::{Origin, Way};
use crate::wire::IpAddress;

/// The route of a socket's last datagram: from which origin to which destination, and the generation of
/// addresses and routes under which it was looked up. It holds for the next datagram if all are the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct RouteHandle(Option<Kept>);

#[derive(Debug, Clone, Copy)]
struct Kept {
    generation: u32,
    destination: IpAddress,
    origin: Origin,
    way: Way,
}

impl RouteHandle {
    pub(super) const fn new(destination: IpAddress, origin: Origin, way: Way, generation: u32) -> Self {
        Self(Some(Kept { generation, destination, origin, way }))
    }

    /// Returns the way of the last datagram, if it holds for the next one. It does not once addresses or
    /// routes have changed: their `generation` is then another.
    pub(super) fn way(&self, destination: &IpAddress, origin: &Origin, generation: u32) -> Option<Way> {
        let holds = |kept: &Kept| {
            kept.generation == generation && kept.destination == *destination && kept.origin == *origin
        };
        self.0.filter(holds).map(|kept| kept.way)
    }
}
