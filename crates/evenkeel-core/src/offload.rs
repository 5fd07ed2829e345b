//! Forwarding by an interface itself: what the host has decided about a destination, the interface does with
//! the packets that follow.
//!
//! The host decides about the first packets to a destination. The interface then forwards others by itself,
//! until a route, an address, an MTU or a neighbour changes: then it forgets everything, and the host decides
//! anew. Every second the interface reports which next hops it has used, so that their neighbours are probed
//! as if the host had sent the packets (RFC 4861 7.3).

use core::fmt;

use crate::wire::{EthernetAddress, IpAddress};

/// The part of an interface that forwards packets by itself.
///
/// It forwards only what the host would forward in the same way: whole packets without options whose TTL or
/// hop limit is at least 2, from a source that a host can have, and no larger than the MTU. All others go to
/// the host.
pub trait Offload: fmt::Debug + Send {
    /// Forwards packets to `destination` that arrive at this interface, from now on. Returns whether it does:
    /// it may have no room, or no way to the device of the next hop.
    fn forward(&mut self, destination: IpAddress, next: &OffloadHop) -> bool;

    /// Forgets all destinations: their packets go to the host again.
    fn clear(&mut self);

    /// Calls `used` with the number of each next hop by which packets have left since the last call. May
    /// forget destinations that have had no packets for some time.
    fn each_used(&mut self, used: &mut dyn FnMut(u32));

    /// Returns the number of packets that it has forwarded so far.
    fn forwarded(&self) -> u64;
}

/// The way of packets to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadHop {
    /// The host's number of it, for [`Offload::each_used`].
    pub number: u32,
    /// The device by which packets leave: see
    /// [`Properties::offload_device`](crate::interface::Properties::offload_device).
    pub device: u32,
    /// The size of the largest IP packet that may leave there, in bytes.
    pub mtu: usize,
    /// The hardware address of the neighbour.
    pub to: EthernetAddress,
    /// The hardware address of the host on that device.
    pub from: EthernetAddress,
}
