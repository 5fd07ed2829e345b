//! Forwarding by an interface itself: what the host has decided about a destination, the interface does with
//! the packets that follow.
//!
//! The host decides about the first packets to a destination. The interface then forwards others by itself,
//! until a route, an address, an MTU or a neighbour changes: then it forgets everything, and the host decides
//! anew. Every second the interface reports which next hops it has used, so that their neighbours are probed
//! as if the host had sent the packets (RFC 4861 7.3).
//!
//! Under screening, the interface also needs a verdict about a packet's [`Flow`]. It drops flows that screening
//! drops.

mod flow;

use core::fmt;

pub use self::flow::{ACCOUNTS, Depth, Flow, FlowHits, FlowScope, FlowVerdict};
use crate::wire::{EthernetAddress, IpAddress};

/// The part of an interface that forwards packets by itself.
///
/// It forwards only what the host would forward in the same way: whole packets without options whose TTL or
/// hop limit is at least 2, from a source that a host can have, and no larger than the MTU. All others go to
/// the host.
pub trait Offload: fmt::Debug + Send {
    /// Sets the addresses of the host, its broadcast addresses included. Packets from them or to them go to the
    /// host. Called when nothing is handed over, and before anything is.
    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>);

    /// Forwards packets to `destination` that arrive at this interface, from now on. Returns whether it does:
    /// it may have no room, or no way to the device of the next hop.
    fn forward(&mut self, destination: IpAddress, next: &OffloadHop) -> bool;

    /// Decides as `verdict` says about packets of `flow`, which is cut to `scope`. Returns whether it does. From
    /// the first call on, it forwards only packets of flows that have such a verdict and are let through. With
    /// another scope than before, it forgets earlier verdicts. It may forget others at any time.
    fn judge(&mut self, flow: &Flow, scope: &FlowScope, verdict: FlowVerdict) -> bool;

    /// Forgets all destinations and verdicts: their packets go to the host again.
    fn clear(&mut self);

    /// Calls `used` with the number of each next hop by which packets have left since the last call. May
    /// forget destinations that have had no packets for some time.
    fn each_used(&mut self, used: &mut dyn FnMut(u32));

    /// Returns the number of packets that it has forwarded so far.
    fn forwarded(&self) -> u64;

    /// Returns the number of packets that it has dropped so far because of verdicts.
    fn refused(&self) -> u64;

    /// Calls `hit` with each account on which it has counted packets since the last call: packets of flows
    /// that it has forwarded or dropped.
    fn each_hit(&mut self, hit: &mut dyn FnMut(u16, FlowHits));
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
