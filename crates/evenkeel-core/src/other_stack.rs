//! Another stack that shares the addresses of a host.

use core::fmt;

use crate::demux::Binding;
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

/// Another stack that shares the addresses of a host: the kernel's. It has all traffic but that of the host's
/// sockets, and does what only one of both can do: it keeps ports, joins groups and resolves neighbours.
///
/// The host has `shared` set in its [`stack::Config`](crate::stack::Config::shared).
pub trait OtherStack: fmt::Debug + Send {
    /// Reserves the address and port of a binding, and joins the address if that is a group. Returns whether
    /// this host has them now: false if another program has. Besides [`Binding::Udp`] and [`Binding::Tcp`]
    /// there is nothing to reserve.
    fn reserve(&mut self, binding: &Binding) -> bool;

    /// Gives a reserved address and port back.
    fn release(&mut self, binding: &Binding);

    /// Returns the hardware address of a neighbour as far as it is known. If it is not, or not sure, the other
    /// stack finds it out, and the result follows by
    /// [`Host::sync_neighbor`](crate::host::Host::sync_neighbor). The host asks again after a second, three
    /// times.
    fn resolve(&mut self, interface: InterfaceId, address: IpAddress) -> Option<Resolved>;
}

/// The hardware address of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// The address.
    pub hardware: EthernetAddress,
    /// Whether the neighbour was reachable just now.
    pub confirmed: bool,
}
