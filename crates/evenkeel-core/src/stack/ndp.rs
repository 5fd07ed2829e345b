//! Neighbour discovery (RFC 4861): solicitations answered and asked, advertisements heard.
//!
//! Routers' advertisements and redirects are taken note of and not acted on: routes are static. Addresses are
//! used without waiting for duplicate detection (RFC 4862 5.4 asks for it): they are configured, and a
//! conflict is reported (`conflict.rs`).

use super::address::{Cast, solicited_node};
use super::header::Header;
use super::io::Io;
use super::neighbor::Advertisement;
use super::neighbor_update::NeighborUpdate;
use super::packet::Packet;
use super::path::{Next, Path};
use super::received::Received;
use super::state::Stack;
use crate::drop::IpDrop;
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, Icmpv6Message, IpAddress, IpProtocol, Ipv6Address};

/// Only a packet that no router has passed on has it (RFC 4861 3.1).
const HOP_LIMIT: u8 = 255;
const SOURCE_HARDWARE: u8 = 1;
const TARGET_HARDWARE: u8 = 2;
/// Flags of an advertisement, in the first byte of its second word.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The hardware addresses among the options of a message.
#[derive(Debug, Default, Clone, Copy)]
struct Options {
    source: Option<EthernetAddress>,
    target: Option<EthernetAddress>,
}

impl Options {
    /// Parses the options. Every option is checked for its length; unused ones are skipped (RFC 4861
    /// 7.1.1).
    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        while let [kind, len, ..] = *bytes {
            let len = usize::from(len) * 8;
            let option = bytes.get(..len).filter(|option| !option.is_empty())?;
            if matches!(kind, SOURCE_HARDWARE | TARGET_HARDWARE) {
                let hardware = EthernetAddress(option.get(2..8)?.try_into().ok()?);
                if !hardware.is_unicast() {
                    return None;
                }
                if kind == SOURCE_HARDWARE {
                    found.source = Some(hardware);
                } else {
                    found.target = Some(hardware);
                }
            }
            bytes = bytes.get(len..)?;
        }
        bytes.is_empty().then_some(found)
    }
}

/// A solicitation or advertisement, checked.
#[derive(Debug, Clone, Copy)]
struct Message {
    flags: u8,
    target: Ipv6Address,
    options: Options,
}

impl Message {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let flags = *bytes.get(4)?;
        let target: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let target = Ipv6Address::from(target);
        let options = Options::parse(bytes.get(24..)?)?;
        (!target.is_multicast()).then_some(Self { flags, target, options })
    }
}

impl Stack {
    pub(super) fn input_ndp(
        &mut self,
        kind: Icmpv6Message,
        packet: Packet,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        let head = packet.payload.head();
        // A fragment header, that of an atomic fragment too, hides a message from those who filter them (RFC
        // 6980 5).
        let valid = !packet.fragmented && packet.hop_limit == HOP_LIMIT && head.get(1) == Some(&0);
        let handled = valid
            && match kind {
                Icmpv6Message::NeighborSolicit => {
                    Message::parse(head).is_some_and(|message| self.solicited(&packet, message, io))
                }
                Icmpv6Message::NeighborAdvert => {
                    Message::parse(head).is_some_and(|message| self.advertised(&packet, message, io))
                }
                Icmpv6Message::RouterSolicit => head.get(8..).and_then(Options::parse).is_some(),
                Icmpv6Message::RouterAdvert => head.get(16..).and_then(Options::parse).is_some(),
                _ => head.get(40..).and_then(Options::parse).is_some(),
            };
        if handled {
            return Some(Received::consumed(packet.payload, io));
        }
        io.drop_payload(packet.payload, IpDrop::BadIcmp);
        None
    }

    /// Answers a solicitation for an address of ours (RFC 4861 7.2.3, 7.2.4). False if it breaks the rules.
    fn solicited(&mut self, packet: &Packet, message: Message, io: &mut Io<'_>) -> bool {
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
        if !self.has_v6_on(interface, message.target) {
            return true;
        }
        if let Some(hardware) = message.options.source
            && self.is_neighbor(&packet.source, interface)
        {
            self.learn_neighbor(NeighborUpdate::asked((interface, packet.source), hardware), io);
        }
        if self.config.forward_only {
            return true;
        }
        let to = if detects_duplicates { None } else { Some(packet.source) };
        self.neighbor_advertisement(interface, message.target, to, io);
        true
    }

    fn has_v6_on(&self, interface: InterfaceId, address: Ipv6Address) -> bool {
        self.addresses_of(interface).is_some_and(|a| a.v6.iter().any(|cidr| cidr.address() == address))
    }

    /// Returns whether `address` is on the link of `interface`, so that its hardware address is of use.
    pub(super) fn is_neighbor(&self, address: &IpAddress, interface: InterfaceId) -> bool {
        self.routes.hop(address, Some(interface)).is_some_and(|hop| hop.on_link)
    }

    /// Takes an advertisement in (RFC 4861 7.2.5). False if it breaks the rules.
    fn advertised(&mut self, packet: &Packet, message: Message, io: &mut Io<'_>) -> bool {
        let solicited = message.flags & SOLICITED != 0;
        if packet.source.is_unspecified() || (solicited && packet.cast == Cast::Multicast) {
            return false;
        }
        let key = (packet.interface, IpAddress::Ipv6(message.target));
        if self.has_v6_on(packet.interface, message.target) {
            if let Some(hardware) = message.options.target {
                self.conflicts(packet.interface, key.1, hardware, io);
            }
            return true;
        }
        let overrides = message.flags & OVERRIDE != 0;
        let said = Advertisement { hardware: message.options.target, solicited, overrides };
        self.learn_neighbor(NeighborUpdate::advertised(key, said), io);
        true
    }

    /// Sends a probe for `target`, which does not claim it (RFC 4862 5.4.2).
    pub(super) fn duplicate_probe(&mut self, interface: InterfaceId, target: Ipv6Address, io: &mut Io<'_>) {
        let destination = IpAddress::Ipv6(solicited_node(target));
        let path = Path { interface, next: Next::Group(super::address::hardware_group(destination)) };
        let head = [Icmpv6Message::NeighborSolicit.into(), 0, 0, 0, 0, 0, 0, 0];
        let source = IpAddress::Ipv6(Ipv6Address::UNSPECIFIED);
        let header = Header::new(source, destination, IpProtocol::Icmpv6, HOP_LIMIT);
        self.send_icmp(header, path, head, core::iter::once(&target.octets()[..]), io);
    }

    /// Advertises `target` as an address of this host: to the node `to` that solicited it, or to all nodes
    /// if `to` is `None`.
    pub(super) fn neighbor_advertisement(
        &mut self,
        interface: InterfaceId,
        target: Ipv6Address,
        to: Option<IpAddress>,
        io: &mut Io<'_>,
    ) {
        let destination = to.unwrap_or(IpAddress::Ipv6(ALL_NODES));
        let Ok(path) = self.path_to(&destination, Some(interface)) else { return };
        let router = if self.config.forwarding { ROUTER } else { 0 };
        let flags = router | OVERRIDE | if to.is_some() { SOLICITED } else { 0 };
        let head = [Icmpv6Message::NeighborAdvert.into(), 0, 0, 0, flags, 0, 0, 0];
        self.send_ndp(target.into(), destination, path, head, target, TARGET_HARDWARE, io);
    }

    /// Asks for `target`: its solicited-node group, or the one who had it.
    pub(super) fn neighbor_solicitation(
        &mut self,
        interface: InterfaceId,
        target: Ipv6Address,
        ask: Option<EthernetAddress>,
        io: &mut Io<'_>,
    ) {
        let destination = IpAddress::Ipv6(if ask.is_some() { target } else { solicited_node(target) });
        let target_address = IpAddress::Ipv6(target);
        let Some(source) = self.source_for(&target_address, &target_address, interface) else { return };
        let hardware = ask.unwrap_or_else(|| super::address::hardware_group(destination));
        // Not by way of the cache: that is what is being filled.
        let path = Path { interface, next: Next::Group(hardware) };
        let head = [Icmpv6Message::NeighborSolicit.into(), 0, 0, 0, 0, 0, 0, 0];
        self.send_ndp(source, destination, path, head, target, SOURCE_HARDWARE, io);
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of the message")]
    pub(super) fn send_ndp(
        &mut self,
        source: IpAddress,
        destination: IpAddress,
        path: Path,
        head: [u8; 8],
        target: Ipv6Address,
        option: u8,
        io: &mut Io<'_>,
    ) {
        let Some(own) = self.addresses_of(path.interface) else { return };
        let mut body = [0; 24];
        let (address, hardware) = body.split_at_mut(16);
        address.copy_from_slice(&target.octets());
        let [a, b, c, d, e, f] = own.hardware.0;
        hardware.copy_from_slice(&[option, 1, a, b, c, d, e, f]);
        let protocol = IpProtocol::Icmpv6;
        let header = Header::new(source, destination, protocol, HOP_LIMIT);
        self.send_icmp(header, path, head, core::iter::once(&body[..]), io);
    }
}
