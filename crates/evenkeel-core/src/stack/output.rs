//! Output: source address, IP header, fragments, hardware address.

use core::num::NonZeroU8;

use super::config::Config;
use super::error::OutputError;
use super::fragment::identification::Identifications;
use super::header::{ETHERNET, Header, IPV6, PACKET_MAX, Part};
use super::icmp::message::Message;
use super::icmp::reset::{RESET, Reset};
use super::io::Io;
use super::neighbor::arp::ArpMessage;
use super::neighbor::ndp;
use super::neighbor::table::{Neighbors, Solicitation, Waiting};
use super::route::handle::RouteHandle;
use super::route::path::{Next, Path};
use super::route::path_mtu::PathMtus;
use super::route::routing::Routing;
use super::tcp::FirstHop;
use super::udp::{self, Source};
use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::segmentation::len_of_segment;
use crate::tcp::Checksum;
use crate::tcp::endpoint::Transmit;
use crate::wire::{EthernetAddress, EthernetProtocol, IpAddress, IpEndpoint, IpProtocol};

/// Output in one work item: the parts of a stack that packets need before they leave.
pub(super) struct Output<'a, 'io> {
    pub(super) config: &'a Config,
    pub(super) routing: &'a Routing,
    pub(super) path_mtus: &'a mut PathMtus,
    pub(super) identifications: &'a mut Identifications,
    pub(super) neighbors: &'a mut Neighbors,
    pub(super) io: &'a mut Io<'io>,
}

impl<'io> Output<'_, 'io> {
    /// Lends the parts for a shorter time.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> Output<'_, 'io> {
        let Self { config, routing, path_mtus, identifications, neighbors, io } = self;
        Output { config, routing, path_mtus, identifications, neighbors, io }
    }

    /// Sends a datagram, in fragments if it is larger than the MTU. To a group its TTL or hop limit is 1 (RFC
    /// 1112 6.1). Its sender keeps `route` for the next one.
    ///
    /// # Errors
    /// [`OutputError`]; nothing was sent then.
    #[inline(always)]
    pub(super) fn send_udp(
        &mut self,
        source: Source,
        to: IpEndpoint,
        payload: &[u8],
        route: &mut RouteHandle,
    ) -> Result<(), OutputError> {
        let len = udp::HEADER + payload.len();
        if len > PACKET_MAX {
            return Err(OutputError::TooBig);
        }
        let (path, address) = self.routing.udp_path(&source, &to.addr, route)?;
        let head = udp::head(address, source.port, to, len, payload);
        let own = source.hop_limit.map_or(self.config.hop_limit, NonZeroU8::get);
        let hop_limit = if to.addr.is_multicast() { 1 } else { own };
        let (destination, protocol) = (to.addr, IpProtocol::Udp);
        // A router that cannot take the packet reports that, and this host cuts the next ones itself (RFC
        // 1191, as Linux does). So the packet needs no identification, of which there are too few for a busy
        // flow (RFC 6864 4.3).
        let header = Header { dont_fragment: true, ..Header::new(address, destination, protocol, hop_limit) };
        self.send_packet(header, path, len, &head, core::iter::once(payload))
    }

    /// Sends the segment in `frame` by its route, which is looked up if there is none. Routers are not to
    /// fragment it (RFC 1191 3).
    ///
    /// # Errors
    /// [`OutputError`]; the segment is lost, and counted as dropped.
    pub(super) fn send_segment(
        &mut self,
        frame: Frame,
        &Transmit { ref tuple, dscp, hop_limit, ecn, route, .. }: &Transmit<FirstHop>,
    ) -> Result<(), OutputError> {
        let hop_limit = hop_limit.map_or(self.config.hop_limit, NonZeroU8::get);
        let (source, destination) = (tuple.local.addr.into(), tuple.remote.addr.into());
        let header = Header {
            dscp,
            ecn,
            dont_fragment: true,
            ..Header::new(source, destination, IpProtocol::Tcp, hop_limit)
        };
        let path = match route {
            Some(hop) => hop.path(),
            None => self.routing.path_again(Some(source), &destination),
        };
        match path {
            Ok(path) => self.send_whole(header, path, frame),
            Err(error) => {
                let reason = if error == OutputError::Loopback { IpDrop::Martian } else { IpDrop::NoRoute };
                self.lose(frame, reason);
                Err(error)
            }
        }
    }

    /// Sends `len` bytes of IP payload, which are `head` and then `body`, in one packet or in fragments.
    #[inline(always)]
    fn send_packet<'b>(
        &mut self,
        header: Header,
        path: Path,
        len: usize,
        head: &[u8; 8],
        body: impl Iterator<Item = &'b [u8]>,
    ) -> Result<(), OutputError> {
        if header.len() + len > self.mtu_to(path, &header.destination) {
            return self.send_fragments(header, path, len, head, body);
        }
        let Some(mut frame) = self.io.pool.take() else { return Err(OutputError::NoBuffer) };
        if !frame.resize(len) {
            self.io.pool.recycle(frame);
            return Err(OutputError::TooBig);
        }
        if let Some((first, mut rest)) = frame.bytes_mut().split_first_chunk_mut() {
            *first = *head;
            for chunk in body {
                let (now, later) = rest.split_at_mut(chunk.len().min(rest.len()));
                now.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                rest = later;
            }
        }
        let identification = self.identifications.identify(&header, false);
        self.put_in_packet(header, path, identification, frame)
    }

    /// Returns the size of the largest packet for `destination`, in bytes: the interface's MTU, or less if
    /// a router reported so.
    fn mtu_to(&self, path: Path, destination: &IpAddress) -> usize {
        let mtu = self.routing.interfaces().mtu(path.interface);
        self.path_mtus.get(destination, self.io.now).map_or(mtu, |known| known.min(mtu))
    }

    fn send_fragments<'b>(
        &mut self,
        header: Header,
        path: Path,
        len: usize,
        head: &[u8],
        body: impl Iterator<Item = &'b [u8]>,
    ) -> Result<(), OutputError> {
        let longest = match header.source {
            IpAddress::Ipv4(_) => PACKET_MAX - header.len(),
            IpAddress::Ipv6(_) => PACKET_MAX - (header.len() - IPV6),
        };
        let header_len = header.fragment_len();
        let mtu = self.mtu_to(path, &header.destination);
        let step = mtu.saturating_sub(header_len) & !7;
        if len > longest || step == 0 {
            return Err(OutputError::TooBig);
        }
        // A question to the neighbour may need a frame between the first fragment and the last.
        if self.io.pool.available() < len.div_ceil(step) + 1 {
            return Err(OutputError::NoBuffer);
        }
        let identification = self.identifications.identify(&header, true);
        let mut coalesce = Gather { chunk: head, rest: body };
        let mut offset = 0;
        loop {
            let part_len = step.min(len - offset);
            let more = offset + part_len < len;
            let part = Part { offset, len: part_len, more, identification, fragmented: true };
            let Some(mut frame) = self.io.pool.take() else { return Err(OutputError::NoBuffer) };
            if !frame.resize(header_len + part_len) {
                self.io.pool.recycle(frame);
                return Err(OutputError::TooBig);
            }
            let bytes = frame.bytes_mut();
            if let Some(body) = bytes.get_mut(header_len..) {
                coalesce.fill(body);
            }
            header.emit(part, bytes);
            self.dispatch(frame, path, header.destination);
            offset += part_len;
            if !more {
                return Ok(());
            }
        }
    }

    /// Sends the payload in `frame` with a header put in front, in one packet.
    fn send_whole(&mut self, header: Header, path: Path, frame: Frame) -> Result<(), OutputError> {
        let len = header.len() + len_of_segment(frame.bytes(), frame.segment_bytes());
        if len > self.routing.interfaces().mtu(path.interface) {
            self.lose(frame, IpDrop::TooBig);
            return Err(OutputError::TooBig);
        }
        // It is atomic, so its identification means nothing (RFC 6864 4.1).
        self.put_in_packet(header, path, 0, frame)
    }

    #[inline(always)]
    fn put_in_packet(
        &mut self,
        header: Header,
        path: Path,
        identification: u32,
        mut frame: Frame,
    ) -> Result<(), OutputError> {
        let len = frame.len();
        if !frame.prepend(header.len()) {
            self.lose(frame, IpDrop::TooBig);
            return Err(OutputError::TooBig);
        }
        let part = Part { offset: 0, len, more: false, identification, fragmented: false };
        header.emit(part, frame.bytes_mut());
        self.dispatch(frame, path, header.destination);
        Ok(())
    }

    /// Counts a packet of this host as dropped.
    fn lose(&mut self, frame: Frame, reason: IpDrop) {
        self.io.ledger.originated += 1;
        self.io.ledger.drop_output(reason);
        self.io.pool.recycle(frame);
    }

    /// Sends an ICMP or ICMPv6 message of an 8-byte head and a body; fills its checksum. Small failures end
    /// here: such a message has no caller that could do better.
    pub(super) fn send_icmp<'b>(
        &mut self,
        header: Header,
        path: Path,
        mut head: [u8; 8],
        body: impl Iterator<Item = &'b [u8]> + Clone,
    ) {
        let len = head.len() + body.clone().map(<[u8]>::len).sum::<usize>();
        let start = match header.source {
            IpAddress::Ipv4(_) => Checksum::default(),
            IpAddress::Ipv6(_) => {
                Checksum::pseudo(header.source, header.destination, header.protocol.into(), len)
            }
        };
        let sum = body.clone().fold(start.add(&head), Checksum::add).finish();
        [head[2], head[3]] = sum.to_be_bytes();
        // No route, or no buffer: the peer asks again if it cares.
        let _ = self.send_packet(header, path, len, &head, body);
    }

    /// Sends a short message of neighbour discovery or a membership report.
    pub(super) fn send_message(&mut self, message: &Message) {
        let Message { header, path, head, .. } = *message;
        self.send_icmp(header, path, head, core::iter::once(message.body()));
    }

    /// Sends an ARP packet, if a buffer is free: ARP asks again.
    pub(super) fn send_arp(&mut self, interface: InterfaceId, message: &ArpMessage) {
        let Some(own) = self.routing.interfaces().of(interface) else { return };
        let Some(frame) = message.emit(own.hardware, self.io.pool) else { return };
        self.io.ledger.originated += 1;
        self.transmit(frame, interface, message.to, EthernetProtocol::Arp);
    }

    /// Sends a TCP reset to the sender of a segment in transit.
    pub(super) fn send_reset(&mut self, &Reset { from, to, header }: &Reset) {
        let (Some((head, rest)), Ok(path)) = (header.split_first_chunk(), self.routing.path_to(&to, None))
        else {
            return;
        };
        let ip =
            Header { dont_fragment: true, ..Header::new(from, to, IpProtocol::Tcp, self.config.hop_limit) };
        // No buffer: the sender will ask again.
        let _ = self.send_packet(ip, path, RESET, head, core::iter::once(rest));
    }

    /// Asks for the hardware address of a neighbour: by ARP or NDP, or the stack that shares the addresses.
    pub(super) fn solicit(&mut self, Solicitation { key: (interface, target), hardware }: Solicitation) {
        let Some(own) = self.routing.interfaces().of(interface) else { return };
        if self.config.shared {
            return self.neighbors.request((interface, target));
        }
        match (self.routing.interfaces().source_for(&target, &target, interface), target) {
            (Some(IpAddress::Ipv4(source)), IpAddress::Ipv4(target)) => {
                self.send_arp(interface, &ArpMessage::request(source, target, hardware));
            }
            (Some(source), IpAddress::Ipv6(target)) => {
                let from = (source, own.hardware);
                self.send_message(&ndp::solicitation(interface, from, target, hardware));
            }
            _ => {}
        }
    }

    /// Hands an IP packet of this host to the link.
    #[inline(always)]
    fn dispatch(&mut self, frame: Frame, path: Path, destination: IpAddress) {
        self.io.ledger.originated += 1;
        self.hand_on(Waiting { frame, came_by: None }, path, destination);
    }

    /// Hands an IP packet to the link, or lets it wait for the neighbour's hardware address. It has been
    /// counted as originated or forwarded.
    #[inline(always)]
    pub(super) fn hand_on(&mut self, packet: Waiting, path: Path, destination: IpAddress) {
        let protocol = match destination {
            IpAddress::Ipv4(_) => EthernetProtocol::Ipv4,
            IpAddress::Ipv6(_) => EthernetProtocol::Ipv6,
        };
        let hardware = match path.next {
            Next::Group(hardware) => hardware,
            Next::Neighbor(neighbor) => {
                let key = (path.interface, neighbor);
                match self.neighbors.resolve(key, self.io.now) {
                    Some(hardware) => hardware,
                    None => {
                        if let Some(question) = self.neighbors.park(key, packet, self.io) {
                            self.solicit(question);
                        }
                        return;
                    }
                }
            }
        };
        self.transmit(packet.frame, path.interface, hardware, protocol);
    }

    /// Sends frames that waited for a neighbour.
    pub(super) fn unpark(
        &mut self,
        packets: impl IntoIterator<Item = Waiting>,
        interface: InterfaceId,
        hardware: EthernetAddress,
    ) {
        for Waiting { frame, .. } in packets {
            // An IPv4 packet may wait for an IPv6 gateway.
            let protocol = match frame.bytes().first() {
                Some(0x40..=0x4f) => EthernetProtocol::Ipv4,
                _ => EthernetProtocol::Ipv6,
            };
            self.transmit(frame, interface, hardware, protocol);
        }
    }

    /// Puts the Ethernet header in front and the frame out. It has been counted as originated or forwarded.
    #[inline(always)]
    fn transmit(
        &mut self,
        mut frame: Frame,
        interface: InterfaceId,
        hardware: EthernetAddress,
        protocol: EthernetProtocol,
    ) {
        let own = self.routing.interfaces().of(interface);
        let Some(own) = own.filter(|_| frame.prepend(ETHERNET)) else {
            self.io.ledger.drop_output(IpDrop::NoRoute);
            return self.io.pool.recycle(frame);
        };
        if let Some(header) = frame.bytes_mut().first_chunk_mut::<ETHERNET>() {
            header[..6].copy_from_slice(&hardware.0);
            header[6..12].copy_from_slice(&own.hardware.0);
            header[12..].copy_from_slice(&u16::from(protocol).to_be_bytes());
        }
        self.io.out.push_back((interface, frame));
    }
}

/// Bytes from several places, read in order.
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
