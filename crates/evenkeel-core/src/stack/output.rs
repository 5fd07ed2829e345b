//! The way down: path, source address, IP header, fragments, hardware address.

use super::address::hardware_group;
use super::icmp::Problem;
use super::neighbor::{Due, Solicitation, Waiting, give_up};
use super::packet::Payload;
use super::tcp::lose;
use super::{Io, SendError, Stack};
use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::tcp::{Checksum, Ecn};
use crate::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Address, Ipv4Packet,
    Ipv6Address, Ipv6Packet,
};

pub(super) const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Router alert: an IPv4 option (RFC 2113), or a whole IPv6 hop-by-hop header (RFC 2711) before its "next header".
const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];
const ALERT_V6: [u8; 7] = [0, 5, 2, 0, 0, 1, 0];
/// The fragment header of IPv6 (RFC 8200 4.5).
const FRAGMENT_V6: usize = 8;
/// No IP packet is longer.
pub(super) const PACKET_MAX: usize = 65_535;

/// What is to stand in the IP header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    pub(super) protocol: IpProtocol,
    pub(super) hop_limit: u8,
    /// Asks routers to look at it (IGMP, MLD).
    pub(super) router_alert: bool,
    /// How it is to be treated on the way: the six bits of RFC 2474.
    pub(super) dscp: u8,
    /// What it says about congestion.
    pub(super) ecn: Ecn,
    /// Routers are to say that it is too big rather than fragment it. Of IPv4; IPv6 packets never are fragmented by routers.
    pub(super) dont_fragment: bool,
}

/// Who takes a packet next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Everybody at a hardware address that is known beforehand.
    Group(EthernetAddress),
    Neighbor(IpAddress),
}

/// The first hop of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) interface: InterfaceId,
    pub(super) next: Next,
}

/// Part of a packet, in the family's own terms.
#[derive(Debug, Clone, Copy)]
struct Part {
    offset: usize,
    len: usize,
    more: bool,
    identification: u32,
    fragmented: bool,
}

/// Octets from several places, read in order.
struct Gather<'a, I> {
    chunk: &'a [u8],
    rest: I,
}

impl<'a, 'b: 'a, I: Iterator<Item = &'b [u8]>> Gather<'a, I> {
    fn fill(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            if self.chunk.is_empty() {
                let Some(chunk) = self.rest.next() else { return };
                self.chunk = chunk;
                continue;
            }
            let (now, later) = self.chunk.split_at(self.chunk.len().min(to.len()));
            let (filled, open) = to.split_at_mut(now.len());
            filled.copy_from_slice(now);
            (self.chunk, to) = (later, open);
        }
    }
}

impl Header {
    /// An ordinary header.
    pub(super) const fn new(
        source: IpAddress,
        destination: IpAddress,
        protocol: IpProtocol,
        hop_limit: u8,
    ) -> Self {
        Self {
            source,
            destination,
            protocol,
            hop_limit,
            router_alert: false,
            dscp: 0,
            ecn: Ecn::NotCapable,
            dont_fragment: false,
        }
    }

    const fn len(&self) -> usize {
        match (&self.source, self.router_alert) {
            (IpAddress::Ipv4(_), false) => IPV4,
            (IpAddress::Ipv4(_), true) => IPV4 + ALERT_V4.len(),
            (IpAddress::Ipv6(_), false) => IPV6,
            (IpAddress::Ipv6(_), true) => IPV6 + 1 + ALERT_V6.len(),
        }
    }

    /// Octets of header in front of each fragment.
    const fn fragment_len(&self) -> usize {
        match self.source {
            IpAddress::Ipv4(_) => self.len(),
            IpAddress::Ipv6(_) => self.len() + FRAGMENT_V6,
        }
    }

    /// Writes the header of `part` to the front of `bytes`, which is header and part long.
    fn emit(&self, part: Part, bytes: &mut [u8]) {
        match (self.source, self.destination) {
            (IpAddress::Ipv4(source), IpAddress::Ipv4(destination)) => {
                self.emit_v4(source, destination, part, bytes)
            }
            (IpAddress::Ipv6(source), IpAddress::Ipv6(destination)) => {
                self.emit_v6(source, destination, part, bytes)
            }
            // A source is always chosen of the destination's family.
            _ => debug_assert!(false, "mixed address families"),
        }
    }

    fn emit_v4(&self, source: Ipv4Address, destination: Ipv4Address, part: Part, bytes: &mut [u8]) {
        if let Some(options) = bytes.get_mut(IPV4..self.len()) {
            options.copy_from_slice(&ALERT_V4[..options.len()]);
        }
        let mut packet = Ipv4Packet::new_unchecked(bytes);
        packet.set_version(4);
        packet.set_header_len(self.len() as u8);
        packet.set_dscp(self.dscp);
        packet.set_ecn(self.ecn.to_bits());
        packet.set_total_len((self.len() + part.len) as u16);
        packet.set_ident(part.identification as u16);
        packet.clear_flags();
        // The parts of a packet that was too big already may be cut further.
        packet.set_dont_frag(self.dont_fragment && !part.fragmented);
        packet.set_more_frags(part.more);
        packet.set_frag_offset(part.offset as u16);
        packet.set_hop_limit(self.hop_limit);
        packet.set_next_header(self.protocol);
        packet.set_src_addr(source);
        packet.set_dst_addr(destination);
        packet.fill_checksum();
    }

    fn emit_v6(&self, source: Ipv6Address, destination: Ipv6Address, part: Part, bytes: &mut [u8]) {
        let header_len = if part.fragmented { self.fragment_len() } else { self.len() };
        let mut packet = Ipv6Packet::new_unchecked(bytes);
        packet.set_version(6);
        packet.set_traffic_class(self.dscp << 2 | self.ecn.to_bits());
        packet.set_flow_label(0);
        packet.set_payload_len((header_len - IPV6 + part.len) as u16);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src_addr(source);
        packet.set_dst_addr(destination);
        let mut next = self.protocol;
        let payload = packet.payload_mut();
        if part.fragmented {
            let at = header_len - IPV6 - FRAGMENT_V6;
            let field = part.offset as u16 | u16::from(part.more);
            payload[at..at + 2].copy_from_slice(&[next.into(), 0]);
            payload[at + 2..at + 4].copy_from_slice(&field.to_be_bytes());
            payload[at + 4..at + 8].copy_from_slice(&part.identification.to_be_bytes());
            next = IpProtocol::Ipv6Frag;
        }
        if self.router_alert {
            payload[0] = next.into();
            payload[1..8].copy_from_slice(&ALERT_V6);
            next = IpProtocol::HopByHop;
        }
        packet.set_next_header(next);
    }
}

impl Stack {
    /// The way to `destination`, by `interface` if one is asked for.
    pub(super) fn path_to(
        &self,
        destination: &IpAddress,
        interface: Option<InterfaceId>,
    ) -> Result<Path, SendError> {
        if destination.is_unspecified()
            || interface.is_some_and(|interface| self.attachment(interface).is_none())
        {
            return Err(SendError::NoRoute);
        }
        if destination.is_multicast() {
            let interface = self.interface_for_group(destination, interface)?;
            return Ok(Path { interface, next: Next::Group(hardware_group(*destination)) });
        }
        match *destination {
            IpAddress::Ipv4(address) if address.is_broadcast() => {
                let interface = self.interface_for_group(destination, interface)?;
                Ok(Path { interface, next: Next::Group(EthernetAddress::BROADCAST) })
            }
            IpAddress::Ipv4(address) if self.owns_v4(address) || address.is_loopback() => {
                Err(SendError::Loopback)
            }
            IpAddress::Ipv6(address) if address.is_unicast_link_local() => {
                let interface = interface.unwrap_or_default();
                if self.owns_v6(address, interface) {
                    return Err(SendError::Loopback);
                }
                self.attachment(interface).ok_or(SendError::NoRoute)?;
                Ok(Path { interface, next: Next::Neighbor(*destination) })
            }
            IpAddress::Ipv6(address)
                if address.is_loopback() || self.owns_v6(address, InterfaceId::default()) =>
            {
                Err(SendError::Loopback)
            }
            _ => self.routed(destination, interface),
        }
    }

    fn routed(&self, destination: &IpAddress, interface: Option<InterfaceId>) -> Result<Path, SendError> {
        let hop = self.routes.hop(destination, interface).ok_or(SendError::NoRoute)?;
        let interface = hop.interface;
        let is_broadcast = match *destination {
            IpAddress::Ipv4(address) => self.attachment(interface).is_some_and(|a| a.broadcasts_to(address)),
            IpAddress::Ipv6(_) => false,
        };
        let next =
            if is_broadcast { Next::Group(EthernetAddress::BROADCAST) } else { Next::Neighbor(hop.neighbor) };
        Ok(Path { interface, next })
    }

    /// The interface for a group or broadcast: the one asked for, the one a route names, or the first.
    fn interface_for_group(
        &self,
        destination: &IpAddress,
        interface: Option<InterfaceId>,
    ) -> Result<InterfaceId, SendError> {
        let chosen = interface
            .or_else(|| self.routes.hop(destination, None).map(|hop| hop.interface))
            .unwrap_or_default();
        self.attachment(chosen).map(|_| chosen).ok_or(SendError::NoRoute)
    }

    /// The largest packet for `destination`: the interface's MTU, or less if a router said so.
    fn mtu_to(&self, path: Path, destination: &IpAddress, io: &Io<'_>) -> usize {
        let mtu = self.attachment(path.interface).map_or(0, |attachment| attachment.mtu);
        self.path_mtus.get(destination, io.now).map_or(mtu, |known| known.min(mtu))
    }

    /// Sends `len` octets of IP payload, which are `head` and then `body`, in one packet or in fragments.
    pub(super) fn send_packet<'a>(
        &mut self,
        header: Header,
        path: Path,
        len: usize,
        head: &[u8],
        body: impl Iterator<Item = &'a [u8]>,
        io: &mut Io<'_>,
    ) -> Result<(), SendError> {
        let longest = match header.source {
            IpAddress::Ipv4(_) => PACKET_MAX - header.len(),
            IpAddress::Ipv6(_) => PACKET_MAX - (header.len() - IPV6),
        };
        if len > longest {
            return Err(SendError::TooBig);
        }
        let mtu = self.mtu_to(path, &header.destination, io);
        let fragmented = header.len() + len > mtu;
        let header_len = if fragmented { header.fragment_len() } else { header.len() };
        let step = if fragmented { mtu.saturating_sub(header_len) & !7 } else { len.max(1) };
        if step == 0 {
            return Err(SendError::TooBig);
        }
        let frames = len.div_ceil(step).max(1);
        // A question to the neighbour may need a frame between the first fragment and the last.
        if io.pool.available() < frames + usize::from(frames > 1) {
            return Err(SendError::NoBuffer);
        }
        let identification = self.identify(&header, fragmented);
        let mut gather = Gather { chunk: head, rest: body };
        let mut offset = 0;
        loop {
            let part_len = step.min(len - offset);
            let more = offset + part_len < len;
            let part = Part { offset, len: part_len, more, identification, fragmented };
            let Some(mut frame) = io.pool.take() else { return Err(SendError::NoBuffer) };
            if !frame.resize(header_len + part_len) {
                io.pool.recycle(frame);
                return Err(SendError::TooBig);
            }
            let bytes = frame.bytes_mut();
            if let Some(body) = bytes.get_mut(header_len..) {
                gather.fill(body);
            }
            header.emit(part, bytes);
            self.dispatch(frame, path, header.destination, io);
            offset += part_len;
            if !more {
                return Ok(());
            }
        }
    }

    /// Sends the payload in `frame` with a header put in front, in one packet.
    pub(super) fn send_whole(
        &mut self,
        header: Header,
        path: Path,
        mut frame: Frame,
        io: &mut Io<'_>,
    ) -> Result<(), SendError> {
        let len = frame.len();
        let mtu = self.attachment(path.interface).map_or(0, |attachment| attachment.mtu);
        if header.len() + len > mtu || !frame.prepend(header.len()) {
            lose(frame, IpDrop::TooBig, io);
            return Err(SendError::TooBig);
        }
        // It is atomic, so its identification means nothing (RFC 6864 4.1).
        let part = Part { offset: 0, len, more: false, identification: 0, fragmented: false };
        header.emit(part, frame.bytes_mut());
        self.dispatch(frame, path, header.destination, io);
        Ok(())
    }

    /// A new identification. What is whole and to remain so has none: over IPv6 every packet without a
    /// fragment header (RFC 8200 4.5), over IPv4 what routers may not fragment (RFC 6864 4.1).
    fn identify(&mut self, header: &Header, fragmented: bool) -> u32 {
        let is_atomic = header.dont_fragment || matches!(header.source, IpAddress::Ipv6(_));
        if is_atomic && !fragmented {
            return 0;
        }
        self.identifications.next(&header.source, &header.destination, header.protocol.into())
    }

    /// Sends an ICMP or ICMPv6 message of an 8-octet head and a body; fills its checksum. Small troubles end here: such a
    /// message has no caller that could do better.
    pub(super) fn send_icmp<'a>(
        &mut self,
        header: Header,
        path: Path,
        mut head: [u8; 8],
        body: impl Iterator<Item = &'a [u8]> + Clone,
        io: &mut Io<'_>,
    ) {
        let len = head.len() + body.clone().map(<[u8]>::len).sum::<usize>();
        let start = match header.source {
            IpAddress::Ipv4(_) => Checksum::default(),
            IpAddress::Ipv6(_) => {
                Checksum::pseudo(&header.source, &header.destination, header.protocol.into(), len)
            }
        };
        let sum = body.clone().fold(start.add(&head), Checksum::add).finish();
        [head[2], head[3]] = sum.to_be_bytes();
        // No route, or no buffer: the peer asks again if it cares.
        let _ = self.send_packet(header, path, len, &head, body, io);
    }

    /// Hands an IP packet of our own to the link.
    fn dispatch(&mut self, frame: Frame, path: Path, destination: IpAddress, io: &mut Io<'_>) {
        io.ledger.originated += 1;
        self.hand_on(Waiting { frame, came_by: None }, path, destination, io);
    }

    /// Hands an IP packet to the link, or lets it wait for the neighbour's hardware address. It has been counted as originated
    /// or forwarded.
    pub(super) fn hand_on(&mut self, packet: Waiting, path: Path, destination: IpAddress, io: &mut Io<'_>) {
        let protocol = match destination {
            IpAddress::Ipv4(_) => EthernetProtocol::Ipv4,
            IpAddress::Ipv6(_) => EthernetProtocol::Ipv6,
        };
        let hardware = match path.next {
            Next::Group(hardware) => hardware,
            Next::Neighbor(neighbor) => {
                let key = (path.interface, neighbor);
                match self.neighbors.resolve(key, io.now) {
                    Some(hardware) => hardware,
                    None => {
                        if let Some(question) = self.neighbors.park(key, packet, io) {
                            self.solicit(question, io);
                        }
                        return;
                    }
                }
            }
        };
        self.transmit(packet.frame, path.interface, hardware, protocol, io);
    }

    /// Sends frames that waited for a neighbour.
    pub(super) fn unpark(
        &self,
        packets: impl IntoIterator<Item = Waiting>,
        interface: InterfaceId,
        hardware: EthernetAddress,
        io: &mut Io<'_>,
    ) {
        for Waiting { frame, .. } in packets {
            // An IPv4 packet may wait for an IPv6 gateway.
            let protocol = match frame.bytes().first() {
                Some(0x40..=0x4f) => EthernetProtocol::Ipv4,
                _ => EthernetProtocol::Ipv6,
            };
            self.transmit(frame, interface, hardware, protocol, io);
        }
    }

    /// Puts the Ethernet header in front and the frame out. It has been counted as originated or forwarded.
    pub(super) fn transmit(
        &self,
        mut frame: Frame,
        interface: InterfaceId,
        hardware: EthernetAddress,
        protocol: EthernetProtocol,
        io: &mut Io<'_>,
    ) {
        let Some(attachment) = self.attachment(interface).filter(|_| frame.prepend(ETHERNET)) else {
            io.ledger.drop_output(IpDrop::NoRoute);
            return io.pool.recycle(frame);
        };
        let mut ethernet = EthernetFrame::new_unchecked(frame.bytes_mut());
        ethernet.set_dst_addr(hardware);
        ethernet.set_src_addr(attachment.hardware);
        ethernet.set_ethertype(protocol);
        io.out.push_back((interface, frame));
    }

    fn solicit(&mut self, question: Solicitation, io: &mut Io<'_>) {
        match question.key.1 {
            IpAddress::Ipv4(target) => self.arp_request(question.key.0, target, question.hardware, io),
            IpAddress::Ipv6(target) => {
                self.neighbor_solicitation(question.key.0, target, question.hardware, io)
            }
        }
    }

    /// Asks again for neighbours that have not answered, and forgets those that will not: the senders of packets that were to be forwarded
    /// to them are told (RFC 1812 5.2.7.1, RFC 4861 7.2.2).
    pub(super) fn tick_neighbors(&mut self, io: &mut Io<'_>) {
        while let Some(due) = self.neighbors.poll(io.now) {
            match due {
                Due::Ask(question) => self.solicit(question, io),
                Due::GaveUp(packets) => packets.into_iter().for_each(|packet| self.unreachable(packet, io)),
            }
        }
    }

    fn unreachable(&mut self, packet: Waiting, io: &mut Io<'_>) {
        if let Some(came_by) = packet.came_by {
            self.report_packet(came_by, packet.frame.bytes(), Problem::Host, io);
        }
        give_up(packet, io);
    }

    /// Sends an answer whose body lies in a received packet, which is consumed by it.
    pub(super) fn answer_echo(
        &mut self,
        header: Header,
        path: Path,
        head: [u8; 8],
        body: Payload,
        io: &mut Io<'_>,
    ) {
        self.send_icmp(header, path, head, body.pieces().iter().map(super::packet::Piece::bytes), io);
        io.consume(body);
    }
}
