//! Another stack that shares the addresses of a host.

use core::fmt;

use crate::demux::Binding;
use crate::id::InterfaceId;
use crate::stack::{NeighborUpdate, Stack};
use crate::wire::{EthernetAddress, IpAddress};

/// Another stack that shares the addresses of a host: the kernel's. It has all traffic but that of the host's
/// sockets, and does what only one of both can do: it keeps ports, joins groups and resolves neighbours.
///
/// The host has `shared` set in its [`stack::Config`](crate::stack::Config::shared).
pub trait OtherStack: fmt::Debug + Send {
    /// Reserves the address and port of a binding, and joins the address if that is a group. Besides
    /// [`Binding::Udp`] and [`Binding::Tcp`] there is nothing to reserve.
    ///
    /// # Errors
    /// The reason why this host does not have them.
    fn reserve(&mut self, binding: &Binding) -> Result<(), NotReserved>;

    /// Gives a reserved address and port back.
    fn release(&mut self, binding: &Binding);

    /// Returns the hardware address of a neighbour as far as it is known. If it is not, or not sure, the
    /// other stack finds it out, and the result follows by
    /// [`Membership::sync_neighbor`](crate::host::Membership::sync_neighbor). The host asks again after a
    /// second, three times.
    fn resolve(&mut self, interface: InterfaceId, address: IpAddress) -> Option<Resolved>;
}

/// The reason why another stack has not reserved a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReserved {
    /// Another program has it.
    InUse,
    /// The port is reserved for programs with a privilege.
    Privilege,
}

/// The stack that a host shares its addresses with, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Sharing(pub(crate) Option<Box<dyn OtherStack>>);

impl Sharing {
    /// Reserves what a binding takes.
    pub(crate) fn reserve(&mut self, binding: &Binding) -> Result<(), NotReserved> {
        self.0.as_mut().map_or(Ok(()), |other| other.reserve(binding))
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&mut self, binding: &Binding) {
        if let Some(other) = &mut self.0 {
            other.release(binding);
        }
    }

    /// Has the other stack resolve the next neighbours that `stack` asks for. Returns the first one that it
    /// knows.
    pub(crate) fn next_resolved(&mut self, stack: &mut Stack) -> Option<NeighborUpdate> {
        let other = self.0.as_mut()?;
        while let Some((interface, address)) = stack.next_neighbor_request() {
            if let Some(Resolved { hardware, confirmed }) = other.resolve(interface, address) {
                return Some(NeighborUpdate::resolved(interface, address, hardware, confirmed));
            }
        }
        None
    }
}

/// The hardware address of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// The address.
    pub hardware: EthernetAddress,
    /// Whether the neighbour was reachable just now.
    pub confirmed: bool,
}
