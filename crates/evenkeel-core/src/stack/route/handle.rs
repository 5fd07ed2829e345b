//! The route that a socket keeps, and how it is known to be out of date: by its generation.

use super::path::{Origin, SourcedPath};
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
    path: SourcedPath,
}

impl RouteHandle {
    pub(crate) const fn new(
        destination: IpAddress,
        origin: Origin,
        path: SourcedPath,
        generation: u32,
    ) -> Self {
        Self(Some(Kept { generation, destination, origin, path }))
    }

    /// Returns the path of the last datagram, if it holds for the next one. It does not once addresses or
    /// routes have changed: their `generation` is then another.
    pub(crate) fn path(
        &self,
        destination: &IpAddress,
        origin: &Origin,
        generation: u32,
    ) -> Option<SourcedPath> {
        let holds = |kept: &Kept| {
            kept.generation == generation && kept.destination == *destination && kept.origin == *origin
        };
        self.0.filter(holds).map(|kept| kept.path)
    }
}
