//! IPv4 input (RFC 791, RFC 1122 3.2).

use super::address::Cast;
use super::header::{ETHERNET, PACKET_MAX};
use super::io::Io;
use super::packet::{Packet, Payload, Piece};
use super::problem::Problem;
use super::reassembly::{Fragment, Key, Whole};
use super::received::Received;
use super::state::Stack;
use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::tcp::{Checksum, Ecn};
use crate::wire::{IpAddress, IpProtocol, Ipv4Packet};

/// The fields of an IPv4 header that input needs.
#[derive(Debug, Clone, Copy)]
struct Header {
    source: IpAddress,
    destination: IpAddress,
    protocol: u8,
    header_len: usize,
    total_len: usize,
    identification: u16,
    offset: usize,
    more: bool,
    ecn: Ecn,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, IpDrop> {
        let packet = Ipv4Packet::new_checked(bytes).map_err(|_| IpDrop::Malformed)?;
        if packet.version() != 4 {
            return Err(IpDrop::Malformed);
        }
        let header_len = usize::from(packet.header_len());
        let header = bytes.get(..header_len).ok_or(IpDrop::Malformed)?;
        if Checksum::default().add(header).finish() != 0 {
            return Err(IpDrop::Checksum);
        }
        check_options(header.get(20..).unwrap_or_default())?;
        Ok(Self {
            source: IpAddress::Ipv4(packet.src_addr()),
            destination: IpAddress::Ipv4(packet.dst_addr()),
            protocol: packet.next_header().into(),
            header_len,
            total_len: usize::from(packet.total_len()),
            identification: packet.ident(),
            offset: usize::from(packet.frag_offset()),
            more: packet.more_frags(),
            ecn: Ecn::from_bits(packet.ecn()),
        })
    }
}

/// Options are understood only as far as to skip them; source routes are refused (RFC 7126 4.3, 4.4).
fn check_options(mut options: &[u8]) -> Result<(), IpDrop> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        options = match *kind {
            END => return Ok(()),
            NOTHING => rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Err(IpDrop::Malformed),
            _ => {
                let len = rest.first().copied().map(usize::from).filter(|len| *len >= 2);
                len.and_then(|len| options.get(len..)).ok_or(IpDrop::Malformed)?
            }
        };
    }
    Ok(())
}

impl Stack {
    pub(super) fn input_v4(
        &mut self,
        interface: InterfaceId,
        link: Cast,
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        let bytes = frame.bytes().get(ETHERNET..).unwrap_or_default();
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(reason) => {
                io.drop_frame(frame, reason);
                return None;
            }
        };
        let cast = match self.admit_v4(&header, interface, link) {
            Ok(Some(cast)) => cast,
            Ok(None) => return Some(Self::transit(interface, frame, header.total_len)),
            Err(reason) => {
                io.drop_frame(frame, reason);
                return None;
            }
        };
        if self.config.forward_only {
            let packet = Piece::new(frame, ETHERNET, ETHERNET + header.total_len);
            return Some(Received::consumed(Payload::One(packet), io));
        }
        let piece = Piece::new(frame, ETHERNET + header.header_len, ETHERNET + header.total_len);
        let Whole { payload, next_header, ecn } = if header.offset == 0 && !header.more {
            Whole { payload: Payload::One(piece), next_header: header.protocol, ecn: header.ecn }
        } else {
            self.reassemble_v4(interface, &header, piece, io)?
        };
        let (source, destination) = (header.source, header.destination);
        let (hop_limit, fragmented) = (0, false);
        let packet = Packet { interface, source, destination, cast, hop_limit, fragmented, ecn, payload };
        self.deliver_v4(next_header, packet, io)
    }

    /// Checks the addresses of a packet. Returns how it is addressed to this host, or `None` if it is to be
    /// forwarded.
    ///
    /// # Errors
    /// Returns the reason to drop a packet that has an impossible source, or is neither for this host nor
    /// to be forwarded.
    fn admit_v4(&self, header: &Header, interface: InterfaceId, link: Cast) -> Result<Option<Cast>, IpDrop> {
        if header.source.is_unspecified() {
            // "This host" as a source: hosts that have no address yet, and IGMP from switches (RFC 4541
            // 2.1.1).
            if header.protocol != u8::from(IpProtocol::Igmp) {
                return Err(IpDrop::Martian);
            }
        } else if self.is_martian(&header.source, interface) {
            return Err(IpDrop::Martian);
        }
        let Some(cast) = self.cast(&header.destination, interface) else {
            return self.admit_transit(&header.source, &header.destination, link).map(|()| None);
        };
        // A unicast packet in a link-layer broadcast: RFC 1122 3.3.6.
        if cast == Cast::Unicast && link != Cast::Unicast {
            return Err(IpDrop::NotLocal);
        }
        Ok(Some(cast))
    }

    fn reassemble_v4(
        &mut self,
        interface: InterfaceId,
        header: &Header,
        piece: Piece,
        io: &mut Io<'_>,
    ) -> Option<Whole> {
        let len = piece.len();
        if len == 0 || (header.more && !len.is_multiple_of(8)) {
            io.drop_frame(piece.frame, IpDrop::Malformed);
            return None;
        }
        if header.header_len + header.offset + len > PACKET_MAX {
            io.drop_frame(piece.frame, IpDrop::FragmentTooBig);
            return None;
        }
        let key = Key {
            source: header.source,
            destination: header.destination,
            identification: header.identification.into(),
            protocol: header.protocol,
        };
        let &Header { offset, more, protocol: next_header, ecn, .. } = header;
        let fragment = Fragment { piece, offset, more, next_header, ecn };
        self.reassembly.insert(key, interface, fragment, io)
    }

    fn deliver_v4(&mut self, protocol: u8, packet: Packet, io: &mut Io<'_>) -> Option<Received> {
        match IpProtocol::from(protocol) {
            IpProtocol::Udp => Self::input_udp(packet, io).map(Received::Datagram),
            IpProtocol::Tcp => Self::input_tcp(packet, io).map(Received::Segment),
            IpProtocol::Icmp => self.input_icmp(packet, io),
            IpProtocol::Igmp => self.input_igmp(packet, io),
            _ => {
                self.report(packet.interface, packet.payload.first_frame(), Problem::UnknownProtocol, io);
                io.drop_payload(packet.payload, IpDrop::UnknownProtocol);
                None
            }
        }
    }
}
