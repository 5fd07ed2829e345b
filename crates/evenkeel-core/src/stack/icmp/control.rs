//! Messages to the host itself: ICMP (RFC 792, RFC 1122 3.2.2), ICMPv6 (RFC 4443), IGMP and MLD.

use super::errors::Errors;
use super::offender::{address_v4, address_v6};
use super::quote::IcmpError;
use crate::drop::IpDrop;
use crate::id::InterfaceId;
use crate::stack::address::kinds::Cast;
use crate::stack::address::local::Local;
use crate::stack::io::Io;
use crate::stack::multicast::groups::Groups;
use crate::stack::multicast::query::{IGMP_QUERY, Query};
use crate::stack::neighbor::discovery::Discovery;
use crate::stack::packet::{Packet, Piece};
use crate::stack::received::Received;
use crate::stack::route::path_mtu::MIN_V6;
use crate::tcp::{Checksum, ReplyLimit};
use crate::wire::{Icmpv4Message, Icmpv6Message, IpAddress, IpProtocol};

/// MLDv1 report and done (RFC 2710 3), which other members send.
const MLD_V1: [u8; 2] = [131, 132];

/// The messages to the host itself in one work item.
pub(crate) struct Control<'a, 'io> {
    pub(crate) groups: &'a mut Groups,
    pub(crate) limit: &'a mut ReplyLimit,
    pub(crate) discovery: Discovery<'a, 'io>,
}

impl<'io> Control<'_, 'io> {
    /// Returns the addresses that packets to this host may bear.
    pub(crate) fn local(&self) -> Local<'_> {
        Local { interfaces: self.discovery.output.routing.interfaces(), groups: self.groups }
    }

    /// Returns the ICMP errors of this work item.
    pub(crate) fn errors(&mut self) -> Errors<'_, 'io> {
        Errors { groups: self.groups, limit: self.limit, output: self.discovery.output.reborrow() }
    }

    /// Returns the clock, the buffers and the counters.
    pub(crate) fn io(&mut self) -> &mut Io<'io> {
        self.discovery.output.io
    }

    fn consume(&mut self, packet: Packet) -> Option<Received> {
        Some(Received::consumed(packet.payload, self.io()))
    }

    fn drop_bad(&mut self, packet: Packet) -> Option<Received> {
        self.io().drop_payload(packet.payload, IpDrop::BadIcmp);
        None
    }

    /// Processes an ICMP message.
    pub(crate) fn input_icmp(&mut self, packet: Packet) -> Option<Received> {
        let sum = packet.payload.chunks().fold(Checksum::default(), Checksum::add).finish();
        let Some(&[kind, code, _, _, a, b, c, d]) = packet.payload.head().get(..8).filter(|_| sum == 0)
        else {
            return self.drop_bad(packet);
        };
        if let Some(error) = IcmpError::parse_v4(packet.payload.head(), self.local().interfaces) {
            self.consume(packet);
            return Some(Received::IcmpError(error));
        }
        match Icmpv4Message::from(kind) {
            // Never to a broadcast or group (RFC 1122 3.2.2.6 allows to keep silent): it would amplify.
            // Its code means nothing and is not asked for; that of the answer is zero.
            Icmpv4Message::EchoRequest if packet.cast == Cast::Unicast => {
                Some(self.echo([u8::from(Icmpv4Message::EchoReply), 0, 0, 0, a, b, c, d], packet))
            }
            Icmpv4Message::DstUnreachable if code == 4 => {
                self.learn_path_mtu_v4(&packet, u16::from_be_bytes([c, d]));
                self.consume(packet)
            }
            _ => self.consume(packet),
        }
    }

    /// Processes an ICMPv6 message: which goes where (RFC 4443).
    pub(crate) fn input_icmpv6(&mut self, packet: Packet) -> Option<Received> {
        let protocol = IpProtocol::Icmpv6.into();
        let pseudo = Checksum::pseudo(packet.source, packet.destination, protocol, packet.payload.len());
        let sum = packet.payload.chunks().fold(pseudo, Checksum::add).finish();
        let Some(&[kind, _, _, _, a, b, c, d]) = packet.payload.head().get(..8).filter(|_| sum == 0) else {
            return self.drop_bad(packet);
        };
        let message = Icmpv6Message::from(kind);
        if packet.source.is_unspecified()
            && !(message.is_ndisc() || message.is_mld() || MLD_V1.contains(&kind))
        {
            self.io().drop_payload(packet.payload, IpDrop::Martian);
            return None;
        }
        // A link that takes less does not exist: to be discarded (RFC 8201 4).
        if message == Icmpv6Message::PktTooBig
            && usize::try_from(u32::from_be_bytes([a, b, c, d])).is_ok_and(|mtu| mtu < MIN_V6)
        {
            return self.consume(packet);
        }
        let forward_only = self.discovery.output.config.forward_only;
        let interfaces = self.local().interfaces;
        if !forward_only
            && let Some(error) = IcmpError::parse_v6(packet.payload.head(), interfaces, packet.interface)
        {
            self.consume(packet);
            return Some(Received::IcmpError(error));
        }
        match message {
            message if forward_only && !message.is_ndisc() => self.consume(packet),
            Icmpv6Message::EchoRequest => {
                // RFC 4443 4.2 wants groups answered too: within the limit, so that one packet does not start
                // a storm.
                if packet.cast != Cast::Unicast && !self.errors().within_rate(&packet.source) {
                    return self.consume(packet);
                }
                Some(self.echo([u8::from(Icmpv6Message::EchoReply), 0, 0, 0, a, b, c, d], packet))
            }
            Icmpv6Message::PktTooBig => {
                self.learn_path_mtu_v6(&packet, u32::from_be_bytes([a, b, c, d]));
                self.consume(packet)
            }
            message if message.is_ndisc() => self.discovery.input_ndp(message, packet),
            Icmpv6Message::MldQuery => self.input_mld(packet),
            _ => self.consume(packet),
        }
    }

    /// Answers an echo request with its own payload (RFC 1122 3.2.2.6, RFC 4443 4.2).
    fn echo(&mut self, head: [u8; 8], packet: Packet) -> Received {
        let path = self.errors().return_path(packet.interface, packet.source, packet.destination);
        let mut payload = packet.payload;
        payload.strip(head.len());
        let output = &mut self.discovery.output;
        if let Some((header, path)) = path.filter(|_| output.config.echo_reply) {
            output.send_icmp(header, path, head, payload.pieces().iter().map(Piece::bytes));
        }
        Received::consumed(payload, output.io)
    }

    /// Learns a path MTU from "fragmentation needed", if that quotes a packet of this host (RFC 1191).
    fn learn_path_mtu_v4(&mut self, packet: &Packet, mtu: u16) {
        let Some(quoted) = packet.payload.head().get(8..) else { return };
        if let (Some(source), Some(destination)) = (address_v4(quoted, 12), address_v4(quoted, 16)) {
            self.learn_path_mtu(packet.interface, source, destination, mtu.into());
        }
    }

    /// Learns a path MTU from "packet too big" (RFC 8201 4).
    fn learn_path_mtu_v6(&mut self, packet: &Packet, mtu: u32) {
        let Some(quoted) = packet.payload.head().get(8..) else { return };
        if let (Some(source), Some(destination)) = (address_v6(quoted, 8), address_v6(quoted, 24)) {
            let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
            self.learn_path_mtu(packet.interface, source, destination, mtu);
        }
    }

    fn learn_path_mtu(&mut self, by: InterfaceId, source: IpAddress, destination: IpAddress, mtu: usize) {
        let output = &mut self.discovery.output;
        if output.routing.interfaces().owns_by(&source, by) && destination.is_unicast() {
            output.path_mtus.learn(destination, mtu, output.io.now);
        }
    }

    /// Processes an IGMP message.
    pub(crate) fn input_igmp(&mut self, packet: Packet) -> Option<Received> {
        let sum = packet.payload.chunks().fold(Checksum::default(), Checksum::add).finish();
        let head = packet.payload.head();
        if sum != 0 || head.len() < 8 {
            return self.drop_bad(packet);
        }
        if head.first() == Some(&IGMP_QUERY) {
            let Some(query) = Query::parse_igmp(head) else { return self.drop_bad(packet) };
            self.on_query(packet.interface, &query);
        }
        self.consume(packet)
    }

    fn input_mld(&mut self, packet: Packet) -> Option<Received> {
        // RFC 2710 3, RFC 3810 5.1.14: from a neighbour, which a router cannot forge for another link.
        let from_link = matches!(packet.source, IpAddress::Ipv6(source) if source.is_unicast_link_local());
        let query = Query::parse_mld(packet.payload.head());
        let Some(query) = query.filter(|_| from_link && packet.hop_limit == 1) else {
            return self.drop_bad(packet);
        };
        self.on_query(packet.interface, &query);
        self.consume(packet)
    }

    fn on_query(&mut self, interface: InterfaceId, query: &Query) {
        self.groups.on_query(interface, query, self.discovery.output.io.now);
    }

    /// Sends the membership reports that are due.
    pub(crate) fn tick_groups(&mut self) {
        let output = &mut self.discovery.output;
        while let Some(report) = self.groups.poll(output.io.now) {
            output.send_message(&report.message(output.routing.interfaces()));
        }
    }
}
