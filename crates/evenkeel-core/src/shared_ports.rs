//! The ports of another stack that shares the addresses of a host.

use core::fmt;

use crate::demux::Binding;

/// Another stack that shares the addresses of a host: the kernel's. It keeps the ports and groups of the
/// host's sockets free of its own programs, as one program keeps a port from another.
///
/// It is asked about [`Binding::Udp`] and [`Binding::Tcp`]. For other bindings there is nothing to reserve.
/// Source: `bind(2)`.
pub trait SharedPorts: fmt::Debug + Send {
    /// Reserves the address and port of a binding, and joins the address if that is a group. Returns whether
    /// this host has them now: false if another program has.
    fn reserve(&mut self, binding: &Binding) -> bool;

    /// Gives a reserved address and port back.
    fn release(&mut self, binding: &Binding);
}
