//! The way down: path, source address, IP header, fragments, hardware address.

use super::error::OutputError;
use super::header::{ETHERNET, Header, IPV6, PACKET_MAX, Part};
use super::io::Io;
use super::neighbor::Waiting;
use super::packet::{Payload, Piece};
use super::path::{Next, Path};
use super::state::Stack;
use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::tcp::Checksum;
use crate::wire::{EthernetAddress, EthernetProtocol, IpAddress};

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

impl Stack {
    /// Sends `len` bytes of IP payload, which are `head` and then `body`, in one packet or in fragments.
    pub(super) fn send_packet<'a>(
        &mut self,
        header: Header,
        path: Path,
        len: usize,
        head: &[u8; 8],
        body: impl Iterator<Item = &'a [u8]>,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        let mtu = self.mtu_to(path, &header.destination, io);
        if header.len() + len > mtu {
            return self.send_fragments(header, path, len, head, body, io);
        }
        let Some(mut frame) = io.pool.take() else { return Err(OutputError::NoBuffer) };
        if !frame.resize(len) {
            io.pool.recycle(frame);
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
        let identification = self.identify(&header, false);
        self.put_in_packet(header, path, identification, frame, io)
    }

    fn send_fragments<'a>(
        &mut self,
        header: Header,
        path: Path,
        len: usize,
        head: &[u8],
        body: impl Iterator<Item = &'a [u8]>,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        let longest = match header.source {
            IpAddress::Ipv4(_) => PACKET_MAX - header.len(),
            IpAddress::Ipv6(_) => PACKET_MAX - (header.len() - IPV6),
        };
        let header_len = header.fragment_len();
        let mtu = self.mtu_to(path, &header.destination, io);
        let step = mtu.saturating_sub(header_len) & !7;
        if len > longest || step == 0 {
            return Err(OutputError::TooBig);
        }
        // A question to the neighbour may need a frame between the first fragment and the last.
        if io.pool.available() < len.div_ceil(step) + 1 {
            return Err(OutputError::NoBuffer);
        }
        let identification = self.identify(&header, true);
        let mut gather = Gather { chunk: head, rest: body };
        let mut offset = 0;
        loop {
            let part_len = step.min(len - offset);
            let more = offset + part_len < len;
            let part = Part { offset, len: part_len, more, identification, fragmented: true };
            let Some(mut frame) = io.pool.take() else { return Err(OutputError::NoBuffer) };
            if !frame.resize(header_len + part_len) {
                io.pool.recycle(frame);
                return Err(OutputError::TooBig);
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
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        let mtu = self.addresses_of(path.interface).map_or(0, |own| own.mtu);
        if header.len() + frame.len() > mtu {
            lose(frame, IpDrop::TooBig, io);
            return Err(OutputError::TooBig);
        }
        // It is atomic, so its identification means nothing (RFC 6864 4.1).
        self.put_in_packet(header, path, 0, frame, io)
    }

    #[inline(always)]
    fn put_in_packet(
        &mut self,
        header: Header,
        path: Path,
        identification: u32,
        mut frame: Frame,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        let len = frame.len();
        if !frame.prepend(header.len()) {
            lose(frame, IpDrop::TooBig, io);
            return Err(OutputError::TooBig);
        }
        let part = Part { offset: 0, len, more: false, identification, fragmented: false };
        header.emit(part, frame.bytes_mut());
        self.dispatch(frame, path, header.destination, io);
        Ok(())
    }

    /// Returns a new identification. A packet that is whole and remains so has zero: over IPv6 every packet
    /// without a fragment header (RFC 8200 4.5), over IPv4 one that routers may not fragment (RFC 6864
    /// 4.1).
    fn identify(&mut self, header: &Header, fragmented: bool) -> u32 {
        let is_atomic = header.dont_fragment || matches!(header.source, IpAddress::Ipv6(_));
        if is_atomic && !fragmented {
            return 0;
        }
        self.identifications.next(&header.source, &header.destination, header.protocol.into())
    }

    /// Sends an ICMP or ICMPv6 message of an 8-byte head and a body; fills its checksum. Small failures end
    /// here: such a message has no caller that could do better.
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
    #[inline(always)]
    fn dispatch(&mut self, frame: Frame, path: Path, destination: IpAddress, io: &mut Io<'_>) {
        io.ledger.originated += 1;
        self.hand_on(Waiting { frame, came_by: None }, path, destination, io);
    }

    /// Hands an IP packet to the link, or lets it wait for the neighbour's hardware address. It has been
    /// counted as originated or forwarded.
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
    #[inline]
    pub(super) fn transmit(
        &self,
        mut frame: Frame,
        interface: InterfaceId,
        hardware: EthernetAddress,
        protocol: EthernetProtocol,
        io: &mut Io<'_>,
    ) {
        let Some(own) = self.addresses_of(interface).filter(|_| frame.prepend(ETHERNET)) else {
            io.ledger.drop_output(IpDrop::NoRoute);
            return io.pool.recycle(frame);
        };
        if let Some(header) = frame.bytes_mut().first_chunk_mut::<ETHERNET>() {
            header[..6].copy_from_slice(&hardware.0);
            header[6..12].copy_from_slice(&own.hardware.0);
            header[12..].copy_from_slice(&u16::from(protocol).to_be_bytes());
        }
        io.out.push_back((interface, frame));
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
        self.send_icmp(header, path, head, body.pieces().iter().map(Piece::bytes), io);
        io.consume(body);
    }
}

/// Counts a segment of ours as dropped.
pub(super) fn lose(frame: Frame, reason: IpDrop, io: &mut Io<'_>) {
    io.ledger.originated += 1;
    io.ledger.drop_output(reason);
    io.pool.recycle(frame);
}
