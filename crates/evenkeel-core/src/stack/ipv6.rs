//! IPv6 input (RFC 8200).

use super::address::{Cast, is_link_local};
use super::extension::{FIXED, Found, Refusal, Walk};
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
use crate::tcp::Ecn;
use crate::wire::{IpAddress, IpProtocol, Ipv6Packet};

/// The fixed header, as far as input needs it.
#[derive(Debug, Clone, Copy)]
struct Header {
    source: IpAddress,
    destination: IpAddress,
    next: u8,
    hop_limit: u8,
    ecn: Ecn,
    total_len: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let packet = Ipv6Packet::new_checked(bytes).ok().filter(|packet| packet.version() == 6)?;
        Some(Self {
            source: IpAddress::Ipv6(packet.src_addr()),
            destination: IpAddress::Ipv6(packet.dst_addr()),
            next: packet.next_header().into(),
            hop_limit: packet.hop_limit(),
            ecn: Ecn::from_bits(packet.traffic_class()),
            total_len: packet.total_len(),
        })
    }
}

impl Stack {
    pub(super) fn input_v6(
        &mut self,
        interface: InterfaceId,
        link: Cast,
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        let bytes = frame.bytes().get(ETHERNET..).unwrap_or_default();
        let Some(header) = Header::parse(bytes) else {
            io.drop_frame(frame, IpDrop::Malformed);
            return None;
        };
        let cast = match self.admit_v6(&header, interface, link) {
            Ok(Some(cast)) => cast,
            Ok(None) => return Some(Self::transit(interface, frame, header.total_len)),
            Err(reason) => {
                if reason == IpDrop::Scope && !is_link_local(&header.destination) {
                    self.report(interface, Some(&frame), Problem::BeyondScope, io);
                }
                io.drop_frame(frame, reason);
                return None;
            }
        };
        let walk = Walk {
            packet: bytes.get(..header.total_len).unwrap_or_default(),
            multicast: cast != Cast::Unicast,
        };
        let found = walk.follow(header.next, FIXED, 6);
        let Header { source, destination, hop_limit, ecn, .. } = header;
        match found {
            Ok(Found::Upper { protocol, at, field }) => {
                let payload = Payload::One(Piece::new(frame, ETHERNET + at, ETHERNET + header.total_len));
                if self.config.forward_only && IpProtocol::from(protocol) != IpProtocol::Icmpv6 {
                    return Some(Received::consumed(payload, io));
                }
                let fragmented = false;
                let packet =
                    Packet { interface, source, destination, cast, hop_limit, fragmented, ecn, payload };
                self.deliver_v6(protocol, field, packet, io)
            }
            // No neighbour is discovered in fragments (RFC 6980), and nothing else is looked at here.
            Ok(Found::Fragment { .. }) | Err(_) if self.config.forward_only => {
                let packet = Piece::new(frame, ETHERNET, ETHERNET + header.total_len);
                Some(Received::consumed(Payload::One(packet), io))
            }
            Ok(Found::Fragment { at }) => {
                let Whole { payload, next_header, ecn } =
                    self.fragment_v6(interface, &header, at, frame, io)?;
                let fragmented = true;
                let packet =
                    Packet { interface, source, destination, cast, hop_limit, fragmented, ecn, payload };
                self.deliver_behind_fragment(next_header, packet, io)
            }
            Err(refusal) => {
                self.refuse(interface, refusal, frame, io);
                None
            }
        }
    }

    /// Checks the addresses of a packet. Returns how it is addressed to this host, or `None` if it is to be
    /// forwarded.
    ///
    /// # Errors
    /// Returns the reason to drop a packet that has an impossible source, or is neither for this host nor
    /// to be forwarded.
    fn admit_v6(&self, header: &Header, interface: InterfaceId, link: Cast) -> Result<Option<Cast>, IpDrop> {
        // The unspecified address is a source in NDP and MLD only; `deliver_v6` sees to that.
        if !header.source.is_unspecified() && self.is_martian(&header.source, interface) {
            return Err(IpDrop::Martian);
        }
        let Some(cast) = self.cast(&header.destination, interface) else {
            return self.admit_transit(&header.source, &header.destination, link).map(|()| None);
        };
        if cast == Cast::Unicast && link != Cast::Unicast {
            return Err(IpDrop::NotLocal);
        }
        Ok(Some(cast))
    }

    fn refuse(&mut self, interface: InterfaceId, refusal: Refusal, frame: Frame, io: &mut Io<'_>) {
        if let Refusal::Report(problem) = refusal {
            self.report(interface, Some(&frame), problem, io);
        }
        io.drop_frame(frame, IpDrop::Malformed);
    }

    /// Takes a fragment whose fragment header is at `at`. Gives the packet once it is whole, from behind that
    /// header on.
    fn fragment_v6(
        &mut self,
        interface: InterfaceId,
        header: &Header,
        at: usize,
        frame: Frame,
        io: &mut Io<'_>,
    ) -> Option<Whole> {
        let packet = frame.bytes().get(ETHERNET..ETHERNET + header.total_len).unwrap_or_default();
        let Some(&[next, _, high, low, a, b, c, d]) = packet.get(at..at + 8) else {
            io.drop_frame(frame, IpDrop::Malformed);
            return None;
        };
        let field = u16::from_be_bytes([high, low]);
        let (offset, more) = (usize::from(field & !7), field & 1 == 1);
        let len = packet.len() - (at + 8);
        if offset == 0 && !more {
            // An atomic fragment is a packet of its own, whatever else has this identification (RFC 6946 4).
            let payload = Payload::One(Piece::new(frame, ETHERNET + at + 8, ETHERNET + header.total_len));
            return Some(Whole { payload, next_header: next, ecn: header.ecn });
        }
        let refused = if len == 0 {
            Some(Refusal::Silent)
        } else if more && !len.is_multiple_of(8) {
            Some(Refusal::Report(Problem::Header { pointer: 4 }))
        } else if offset == 0 && !Self::has_all_headers(packet, next, at) {
            Some(Refusal::Report(Problem::Incomplete))
        } else {
            None
        };
        if let Some(refusal) = refused {
            self.refuse(interface, refusal, frame, io);
            return None;
        }
        if (at - FIXED) + offset + len > PACKET_MAX {
            self.report(interface, Some(&frame), Problem::Header { pointer: at as u32 + 2 }, io);
            io.drop_frame(frame, IpDrop::FragmentTooBig);
            return None;
        }
        let key = Key {
            source: header.source,
            destination: header.destination,
            identification: u32::from_be_bytes([a, b, c, d]),
            protocol: 0,
        };
        let piece = Piece::new(frame, ETHERNET + at + 8, ETHERNET + header.total_len);
        let fragment = Fragment { piece, offset, more, next_header: next, ecn: header.ecn };
        self.reassembly.insert(key, interface, fragment, io)
    }

    /// Returns whether a first fragment has all headers, the upper layer's included (RFC 8200 4.5, RFC 7112
    /// 5). If that protocol is unknown here, the first byte of its header is enough.
    fn has_all_headers(packet: &[u8], next: u8, at: usize) -> bool {
        let walk = Walk { packet, multicast: false };
        match walk.follow(next, at + 8, at) {
            Ok(Found::Upper { protocol, at, .. }) => {
                let needed = match IpProtocol::from(protocol) {
                    IpProtocol::Udp | IpProtocol::Icmpv6 => 8,
                    // Its options are part of the header (RFC 7112 2).
                    IpProtocol::Tcp => {
                        packet.get(at + 12).map_or(20, |offset| usize::from(offset >> 4) * 4).max(20)
                    }
                    IpProtocol::Ipv6NoNxt => 0,
                    _ => 1,
                };
                at + needed <= packet.len()
            }
            // A problem of another kind, which reassembly's user will name.
            Ok(Found::Fragment { .. }) | Err(Refusal::Report(_)) => true,
            Err(Refusal::Silent) => false,
        }
    }

    /// Goes over the extension headers behind a fragment header, which lie in the first fragment whole, and
    /// delivers the rest.
    fn deliver_behind_fragment(&mut self, next: u8, mut packet: Packet, io: &mut Io<'_>) -> Option<Received> {
        let payload = &packet.payload;
        let head = payload.head();
        // The walk's offsets are those in the first fragment's packet; a first fragment may have had other
        // headers in front than the one that came last, so they are reckoned from its own start.
        let bytes = payload.first_frame().map(Frame::bytes).unwrap_or_default();
        let start = payload.head_start();
        let headers = bytes.get(ETHERNET..start + head.len()).unwrap_or_default();
        let at = start - ETHERNET;
        let walk = Walk { packet: headers, multicast: packet.cast != Cast::Unicast };
        let found = walk.follow(next, at, at - 8);
        match found {
            Ok(Found::Upper { protocol, at: upper, field }) => {
                packet.payload.strip(upper - at);
                return self.deliver_v6(protocol, field, packet, io);
            }
            Ok(Found::Fragment { .. }) | Err(Refusal::Silent) => {}
            Err(Refusal::Report(problem)) => {
                self.report(packet.interface, packet.payload.first_frame(), problem, io);
            }
        }
        io.drop_payload(packet.payload, IpDrop::Malformed);
        None
    }

    fn deliver_v6(
        &mut self,
        protocol: u8,
        field: usize,
        packet: Packet,
        io: &mut Io<'_>,
    ) -> Option<Received> {
        let protocol = IpProtocol::from(protocol);
        if packet.source.is_unspecified() && protocol != IpProtocol::Icmpv6 {
            io.drop_payload(packet.payload, IpDrop::Martian);
            return None;
        }
        match protocol {
            IpProtocol::Udp => return Self::input_udp(packet, io).map(Received::Datagram),
            IpProtocol::Tcp => return Self::input_tcp(packet, io).map(Received::Segment),
            IpProtocol::Icmpv6 => return self.input_icmpv6(packet, io),
            IpProtocol::Ipv6NoNxt => {}
            _ => {
                let problem = Problem::NextHeader { pointer: field as u32 };
                self.report(packet.interface, packet.payload.first_frame(), problem, io);
            }
        }
        io.drop_payload(packet.payload, IpDrop::UnknownProtocol);
        None
    }
}
