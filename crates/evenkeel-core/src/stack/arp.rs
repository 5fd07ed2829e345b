//! ARP (RFC 826, RFC 5227 for probes).

use super::header::ETHERNET;
use super::io::Io;
use super::neighbor::Advertisement;
use super::neighbor_update::NeighborUpdate;
use super::received::Received;
use super::state::Stack;
use crate::drop::LinkDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, IpAddress, Ipv4Address,
};

impl Stack {
    pub(super) fn input_arp(
        &mut self,
        interface: InterfaceId,
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        let bytes = frame.bytes().get(ETHERNET..).unwrap_or_default();
        let parsed = ArpPacket::new_checked(bytes).and_then(|packet| ArpRepr::parse(&packet));
        let Ok(ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: hardware,
            source_protocol_addr: sender,
            target_protocol_addr: target,
            ..
        }) = parsed
        else {
            io.drop_frame(frame, LinkDrop::BadArp);
            return None;
        };
        let probe = sender.is_unspecified() && operation == ArpOperation::Request;
        if !probe && hardware.is_unicast() && self.has_on(interface, sender) {
            self.conflicts(interface, IpAddress::Ipv4(sender), hardware, io);
        }
        let ours = self.has_on(interface, target);
        if !hardware.is_unicast() || (!probe && self.is_bad_sender(sender, interface)) {
            io.drop_frame(frame, LinkDrop::BadArp);
            return None;
        }
        if !ours {
            // Gratuitous or for others: it may correct what we know (RFC 826), and is otherwise no business
            // of ours.
            self.arp_heard_of(interface, sender, hardware, false, io);
            io.drop_frame(frame, LinkDrop::BadArp);
            return None;
        }
        io.ledger.consumed += 1;
        io.pool.recycle(frame);
        match operation {
            ArpOperation::Request => {
                if !probe {
                    self.learn_neighbor(
                        NeighborUpdate::asked((interface, IpAddress::Ipv4(sender)), hardware),
                        io,
                    );
                }
                if !self.config.forward_only {
                    self.send_arp(interface, ArpOperation::Reply, target, sender, hardware, hardware, io);
                }
            }
            ArpOperation::Reply => self.arp_heard_of(interface, sender, hardware, true, io),
            ArpOperation::Unknown(_) => {}
        }
        Some(Received::Control)
    }

    fn has_on(&self, interface: InterfaceId, address: Ipv4Address) -> bool {
        self.addresses_of(interface).is_some_and(|a| a.v4.iter().any(|cidr| cidr.address() == address))
    }

    /// Sends an ARP probe for `address`, which does not claim it (RFC 5227 2.1.1).
    pub(super) fn arp_probe(&mut self, interface: InterfaceId, address: Ipv4Address, io: &mut Io<'_>) {
        let (nobody, to) = (EthernetAddress::default(), EthernetAddress::BROADCAST);
        self.send_arp(interface, ArpOperation::Request, Ipv4Address::UNSPECIFIED, address, nobody, to, io);
    }

    /// Announces by ARP that `address` belongs to this host, so that neighbours update their caches (RFC
    /// 5227 2.3).
    pub(super) fn arp_announcement(&mut self, interface: InterfaceId, address: Ipv4Address, io: &mut Io<'_>) {
        let (nobody, to) = (EthernetAddress::default(), EthernetAddress::BROADCAST);
        self.send_arp(interface, ArpOperation::Request, address, address, nobody, to, io);
    }

    /// Returns whether a neighbour of `interface` cannot have the address `sender`.
    fn is_bad_sender(&self, sender: Ipv4Address, interface: InterfaceId) -> bool {
        let address = IpAddress::Ipv4(sender);
        sender.is_unspecified()
            || self.is_martian(&address, interface)
            || self.routes.hop(&address, Some(interface)).is_none_or(|hop| !hop.on_link)
    }

    fn arp_heard_of(
        &mut self,
        interface: InterfaceId,
        sender: Ipv4Address,
        hardware: EthernetAddress,
        solicited: bool,
        io: &mut Io<'_>,
    ) {
        let key = (interface, IpAddress::Ipv4(sender));
        let said = Advertisement { hardware: Some(hardware), solicited, overrides: true };
        self.learn_neighbor(NeighborUpdate::advertised(key, said), io);
    }

    /// Sends an ARP request for `target`: to all nodes, or to the node that had it (RFC 1122 2.3.2.1).
    pub(super) fn arp_request(
        &mut self,
        interface: InterfaceId,
        target: Ipv4Address,
        ask: Option<EthernetAddress>,
        io: &mut Io<'_>,
    ) {
        let address = IpAddress::Ipv4(target);
        let Some(IpAddress::Ipv4(source)) = self.source_for(&address, &address, interface) else { return };
        let nobody = EthernetAddress::default();
        let to = ask.unwrap_or(EthernetAddress::BROADCAST);
        self.send_arp(interface, ArpOperation::Request, source, target, nobody, to, io);
    }

    /// Sends an ARP packet, if a buffer is free: ARP asks again.
    #[expect(clippy::too_many_arguments, reason = "they are the fields of the packet")]
    fn send_arp(
        &self,
        interface: InterfaceId,
        operation: ArpOperation,
        source: Ipv4Address,
        target: Ipv4Address,
        target_hardware: EthernetAddress,
        to: EthernetAddress,
        io: &mut Io<'_>,
    ) {
        let Some(own) = self.addresses_of(interface) else { return };
        let packet = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: own.hardware,
            source_protocol_addr: source,
            target_hardware_addr: target_hardware,
            target_protocol_addr: target,
        };
        let Some(mut frame) = io.pool.take() else { return };
        if !frame.resize(packet.buffer_len()) {
            return io.pool.recycle(frame);
        }
        packet.emit(&mut ArpPacket::new_unchecked(frame.bytes_mut()));
        io.ledger.originated += 1;
        self.transmit(frame, interface, to, EthernetProtocol::Arp, io);
    }
}
