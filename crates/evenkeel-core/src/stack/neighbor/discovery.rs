//! Neighbour discovery by ARP and NDP: solicitations answered, advertisements processed, and the addresses of
//! this host probed for, announced and defended.
//!
//! Routers' advertisements and redirects are checked and otherwise ignored: routes are static. Addresses are
//! used without waiting for duplicate detection (RFC 4862 5.4 asks for it): they are configured, and a
//! conflict is reported (`claims.rs`).

use super::arp::ArpMessage;
use super::claims::{AddressConflict, Claims, Pending, Step};
use super::ndp::{self, ALL_NODES, Advertised, HOP_LIMIT, Options};
use super::table::Advertisement;
use super::update::{Event, NeighborUpdate, Updates};
use crate::drop::{IpDrop, LinkDrop};
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::stack::address::kinds::{Cast, solicited_node};
use crate::stack::error::{NeighborError, OutputError};
use crate::stack::header::ETHERNET;
use crate::stack::output::Output;
use crate::stack::packet::Packet;
use crate::stack::received::Received;
use crate::stack::route::path::{Next, Path};
use crate::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv6Message, IpAddress, Ipv4Address, Ipv6Address,
};

/// The first hop of a packet: the interface it leaves by, and the neighbour it is handed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedHop {
    /// The interface that the packet leaves by.
    pub interface: InterfaceId,
    /// The neighbour: the destination itself, or a router. `None` for a group and for a broadcast.
    pub neighbor: Option<IpAddress>,
    /// The hardware address that the frame goes to, once it is known.
    pub hardware: Option<EthernetAddress>,
}

/// The exchange with neighbours about addresses, in one work item.
pub(crate) struct Discovery<'a, 'io> {
    pub(crate) claims: &'a mut Claims,
    pub(crate) updates: &'a mut Updates,
    pub(crate) output: Output<'a, 'io>,
}

impl Discovery<'_, '_> {
    /// Processes an ARP packet.
    pub(crate) fn input_arp(&mut self, interface: InterfaceId, frame: Frame) -> Option<Received> {
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
            self.output.io.drop_frame(frame, LinkDrop::BadArp);
            return None;
        };
        let probe = sender.is_unspecified() && operation == ArpOperation::Request;
        if !probe && hardware.is_unicast() && self.owns_on(interface, sender) {
            self.on_conflict(interface, IpAddress::Ipv4(sender), hardware);
        }
        let ours = self.owns_on(interface, target);
        if !hardware.is_unicast() || (!probe && self.is_bad_sender(sender, interface)) {
            self.output.io.drop_frame(frame, LinkDrop::BadArp);
            return None;
        }
        let key = (interface, IpAddress::Ipv4(sender));
        let advertised = |solicited| {
            let hardware = Some(hardware);
            NeighborUpdate::advertised(key, Advertisement { hardware, solicited, overrides: true })
        };
        if !ours {
            // A gratuitous packet, or one for another node. It may correct an entry of the cache (RFC 826).
            self.learn(advertised(false));
            self.output.io.drop_frame(frame, LinkDrop::BadArp);
            return None;
        }
        self.output.io.ledger.consumed += 1;
        self.output.io.pool.recycle(frame);
        match operation {
            ArpOperation::Request => {
                if !probe {
                    self.learn(NeighborUpdate::solicited(key, hardware));
                }
                if !self.output.config.forward_only {
                    self.output.send_arp(interface, &ArpMessage::reply(target, sender, hardware));
                }
            }
            ArpOperation::Reply => self.learn(advertised(true)),
            ArpOperation::Unknown(_) => {}
        }
        Some(Received::Control)
    }

    fn owns_on(&self, interface: InterfaceId, address: Ipv4Address) -> bool {
        self.output.routing.interfaces().of(interface).is_some_and(|own| own.owns_v4(address))
    }

    /// Returns whether a neighbour of `interface` cannot have the address `sender`.
    fn is_bad_sender(&self, sender: Ipv4Address, interface: InterfaceId) -> bool {
        let address = IpAddress::Ipv4(sender);
        let routing = self.output.routing;
        sender.is_unspecified()
            || routing.interfaces().is_martian(&address, interface)
            || !routing.is_neighbor(&address, interface)
    }

    /// Processes a message of NDP.
    pub(crate) fn input_ndp(&mut self, kind: Icmpv6Message, packet: Packet) -> Option<Received> {
        let head = packet.payload.head();
        // A fragment header, that of an atomic fragment too, hides a message from those who filter them (RFC
        // 6980 5).
        let valid = !packet.fragmented && packet.hop_limit == HOP_LIMIT && head.get(1) == Some(&0);
        let handled =
            valid
                && match kind {
                    Icmpv6Message::NeighborSolicit => ndp::Received::parse(head)
                        .is_some_and(|message| self.on_solicitation(&packet, message)),
                    Icmpv6Message::NeighborAdvert => ndp::Received::parse(head)
                        .is_some_and(|message| self.on_advertisement(&packet, message)),
                    Icmpv6Message::RouterSolicit => head.get(8..).and_then(Options::parse).is_some(),
                    Icmpv6Message::RouterAdvert => head.get(16..).and_then(Options::parse).is_some(),
                    _ => head.get(40..).and_then(Options::parse).is_some(),
                };
        if handled {
            return Some(Received::consumed(packet.payload, self.output.io));
        }
        self.output.io.drop_payload(packet.payload, IpDrop::BadIcmp);
        None
    }

    /// Answers a solicitation for an address of this host (RFC 4861 7.2.3, 7.2.4). Returns false if the
    /// solicitation is invalid.
    fn on_solicitation(&mut self, packet: &Packet, message: ndp::Received) -> bool {
        let detects_duplicates = packet.source.is_unspecified();
        if detects_duplicates {
            let to_group = packet.destination == IpAddress::Ipv6(solicited_node(message.target));
            if !to_group || message.options.source.is_some() {
                return false;
            }
        } else if packet.cast == Cast::Multicast && message.options.source.is_none() {
            return false;
        }
        let interface = packet.interface;
        if !self.output.routing.interfaces().owns_on(&message.target.into(), interface) {
            return true;
        }
        if let Some(hardware) = message.options.source
            && self.output.routing.is_neighbor(&packet.source, interface)
        {
            self.learn(NeighborUpdate::solicited((interface, packet.source), hardware));
        }
        if self.output.config.forward_only {
            return true;
        }
        let to = if detects_duplicates { None } else { Some(packet.source) };
        self.advertise(interface, message.target, to);
        true
    }

    /// Processes an advertisement (RFC 4861 7.2.5). Returns false if it is invalid.
    fn on_advertisement(&mut self, packet: &Packet, message: ndp::Received) -> bool {
        let solicited = message.is_solicited();
        if packet.source.is_unspecified() || (solicited && packet.cast == Cast::Multicast) {
            return false;
        }
        let key = (packet.interface, IpAddress::Ipv6(message.target));
        if self.output.routing.interfaces().owns_on(&key.1, packet.interface) {
            if let Some(hardware) = message.options.target {
                self.on_conflict(packet.interface, key.1, hardware);
            }
            return true;
        }
        let (hardware, overrides) = (message.options.target, message.overrides());
        self.learn(NeighborUpdate::advertised(key, Advertisement { hardware, solicited, overrides }));
        true
    }

    /// Processes an update that a neighbour sent to this host: for its own cache, and for those of others.
    fn learn(&mut self, update: NeighborUpdate) {
        self.updates.record(update);
        self.sync(update);
    }

    /// Brings the cache in sync with that of another host, which must have the same interfaces and addresses.
    pub(crate) fn sync(&mut self, NeighborUpdate { key, event }: NeighborUpdate) {
        let Output { neighbors, io, .. } = &mut self.output;
        let known = match event {
            Event::Solicited(hardware) => Some((hardware, neighbors.on_solicitation(key, hardware, io))),
            Event::Advertised(advertisement) => neighbors.on_advertisement(key, advertisement, io.now),
        };
        if let Some((hardware, waited)) = known {
            self.output.unpark(waited, key.0, hardware);
        }
    }

    /// Sets a neighbour's hardware address for good: the neighbour is not probed, and its advertisements
    /// change nothing.
    ///
    /// # Errors
    /// [`NeighborError`]; nothing is changed then.
    pub(crate) fn set(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
    ) -> Result<(), NeighborError> {
        let Output { routing, neighbors, io, .. } = &mut self.output;
        routing.interfaces().of(interface).ok_or(NeighborError::Interface)?;
        if !address.is_unicast() || !hardware.is_unicast() {
            return Err(NeighborError::NotUnicast);
        }
        let waited = neighbors.set((interface, address), hardware, io);
        self.output.unpark(waited, interface, hardware);
        Ok(())
    }

    /// Returns the first hop towards `destination`. Asks for its hardware address if that is neither known
    /// nor asked for; after three questions in three seconds (RFC 4861 10) the neighbour is forgotten.
    ///
    /// # Errors
    /// [`OutputError`]; no question is sent then.
    pub(crate) fn first_hop(&mut self, destination: IpAddress) -> Result<ResolvedHop, OutputError> {
        let Output { routing, neighbors, io, .. } = &mut self.output;
        let Path { interface, next } = routing.path_to(&destination, None)?;
        let neighbor = match next {
            Next::Group(hardware) => {
                return Ok(ResolvedHop { interface, neighbor: None, hardware: Some(hardware) });
            }
            Next::Neighbor(neighbor) => neighbor,
        };
        if let Some(question) = neighbors.ask((interface, neighbor), io) {
            self.output.solicit(question);
        }
        let hardware = self.output.neighbors.hardware((interface, neighbor));
        Ok(ResolvedHop { interface, neighbor: Some(neighbor), hardware })
    }

    /// Processes the evidence that another host uses `address`, which belongs to this host on this
    /// interface.
    fn on_conflict(&mut self, interface: InterfaceId, address: IpAddress, hardware: EthernetAddress) {
        let config = self.output.config;
        let own = self.output.routing.interfaces().of(interface);
        if config.forward_only || own.is_none_or(|own| own.hardware == hardware) {
            return;
        }
        let conflict = AddressConflict { interface, address, hardware };
        let defend = self.claims.claimed(conflict, self.output.io.now);
        if config.announce && defend == Some(true) {
            self.announce(interface, address);
        }
    }

    /// Probes for new addresses and announces them, as far as that is due.
    pub(crate) fn tick(&mut self) {
        while let Some(Pending { interface, address, step, .. }) = self.claims.take_due(self.output.io.now) {
            match (step, address) {
                (Step::Probe, IpAddress::Ipv4(address)) => {
                    self.output.send_arp(interface, &ArpMessage::probe(address));
                }
                (Step::Probe, IpAddress::Ipv6(address)) => {
                    self.output.send_message(&ndp::probe(interface, address));
                }
                (Step::Announce | Step::AnnounceAgain, _) => self.announce(interface, address),
            }
        }
    }

    fn announce(&mut self, interface: InterfaceId, address: IpAddress) {
        match address {
            IpAddress::Ipv4(address) => self.output.send_arp(interface, &ArpMessage::announcement(address)),
            IpAddress::Ipv6(address) => self.advertise(interface, address, None),
        }
    }

    /// Advertises `target` as an address of this host: to the node `to` that solicited it, or to all nodes
    /// if `to` is `None`.
    fn advertise(&mut self, interface: InterfaceId, target: Ipv6Address, to: Option<IpAddress>) {
        let Output { routing, config, .. } = self.output;
        let destination = to.unwrap_or(IpAddress::Ipv6(ALL_NODES));
        let Ok(path) = routing.path_to(&destination, Some(interface)) else { return };
        let Some(own) = routing.interfaces().of(path.interface) else { return };
        let (is_router, is_solicited) = (config.forwarding, to.is_some());
        let advertised = Advertised { target, hardware: own.hardware, is_router, is_solicited };
        self.output.send_message(&advertised.message(destination, path));
    }
}
