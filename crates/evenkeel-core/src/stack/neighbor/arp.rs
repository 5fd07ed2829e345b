//! ARP packets that this host sends (RFC 826, RFC 5227 for probes).

use crate::frame::{Frame, Pool};
use crate::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Ipv4Address};

/// An ARP packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArpMessage {
    operation: ArpOperation,
    source: Ipv4Address,
    target: Ipv4Address,
    target_hardware: EthernetAddress,
    /// The hardware address that the frame goes to.
    pub(crate) to: EthernetAddress,
}

impl ArpMessage {
    /// Creates a request to all nodes, or to one.
    const fn request_to(to: EthernetAddress, source: Ipv4Address, target: Ipv4Address) -> Self {
        let target_hardware = EthernetAddress([0; 6]);
        Self { operation: ArpOperation::Request, source, target, target_hardware, to }
    }

    /// Creates a probe for `address`, which does not claim it (RFC 5227 2.1.1).
    pub(crate) const fn probe(address: Ipv4Address) -> Self {
        Self::request_to(EthernetAddress::BROADCAST, Ipv4Address::UNSPECIFIED, address)
    }

    /// Creates an announcement that `address` belongs to this host, so that neighbours update their caches
    /// (RFC 5227 2.3).
    pub(crate) const fn announcement(address: Ipv4Address) -> Self {
        Self::request_to(EthernetAddress::BROADCAST, address, address)
    }

    /// Creates a request for `target`: to all nodes, or to the node that had it (RFC 1122 2.3.2.1).
    pub(crate) fn request(source: Ipv4Address, target: Ipv4Address, ask: Option<EthernetAddress>) -> Self {
        Self::request_to(ask.unwrap_or(EthernetAddress::BROADCAST), source, target)
    }

    /// Creates the reply to a request for `source` by the node with the addresses `target` and `hardware`.
    pub(crate) const fn reply(source: Ipv4Address, target: Ipv4Address, hardware: EthernetAddress) -> Self {
        Self { operation: ArpOperation::Reply, source, target, target_hardware: hardware, to: hardware }
    }

    /// Writes the packet of a node with the hardware address `source_hardware` to a frame. Returns `None` if
    /// no buffer is free.
    pub(crate) fn emit(&self, source_hardware: EthernetAddress, pool: &mut Pool) -> Option<Frame> {
        let packet = ArpRepr::EthernetIpv4 {
            operation: self.operation,
            source_hardware_addr: source_hardware,
            source_protocol_addr: self.source,
            target_hardware_addr: self.target_hardware,
            target_protocol_addr: self.target,
        };
        let mut frame = pool.take()?;
        if !frame.resize(packet.buffer_len()) {
            pool.recycle(frame);
            return None;
        }
        packet.emit(&mut ArpPacket::new_unchecked(frame.bytes_mut()));
        Some(frame)
    }
}
