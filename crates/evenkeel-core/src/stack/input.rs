//! Input: from the Ethernet header to a datagram, a segment, a packet in transit, or a message to the
//! host itself.

use super::address::kinds::{Cast, is_link_local};
use super::extension::{FIXED, Found, Refusal, Walk};
use super::fragment::reassembly::{Fragment, Reassembly, Whole};
use super::header::ETHERNET;
use super::icmp::control::Control;
use super::icmp::problem::Problem;
use super::ipv6::{BadFragment, FragmentHeader};
use super::packet::{Packet, Payload, Piece};
use super::received::Received;
use super::tcp::TcpPacket;
use super::transit::Transit;
use super::udp::Datagram;
use super::{ipv4, ipv6};
use crate::drop::{IpDrop, LinkDrop, Reason};
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::wire::{EthernetFrame, EthernetProtocol, IpAddress, IpProtocol};

/// Input in one work item: the parts of a stack that a received frame needs.
pub(super) struct Input<'a, 'io> {
    pub(super) reassembly: &'a mut Reassembly,
    pub(super) control: Control<'a, 'io>,
}

impl Input<'_, '_> {
    /// Takes a received frame through everything below sockets.
    pub(super) fn frame(&mut self, interface: InterfaceId, frame: Frame) -> Option<Received> {
        let Ok(ethernet) = EthernetFrame::new_checked(frame.bytes()) else {
            return self.drop(frame, LinkDrop::Truncated);
        };
        let Some(link) = self.control.local().link_cast(interface, ethernet.dst_addr()) else {
            return self.drop(frame, LinkDrop::NotForUs);
        };
        match ethernet.ethertype() {
            EthernetProtocol::Ipv4 => self.v4(interface, link, frame),
            EthernetProtocol::Ipv6 => self.v6(interface, link, frame),
            EthernetProtocol::Arp => self.control.discovery.input_arp(interface, frame),
            EthernetProtocol::Unknown(_) => self.drop(frame, LinkDrop::UnknownEtherType),
        }
    }

    fn drop(&mut self, frame: Frame, reason: impl Into<Reason>) -> Option<Received> {
        self.control.io().drop_frame(frame, reason);
        None
    }

    fn drop_packet(&mut self, packet: Packet, reason: impl Into<Reason>) -> Option<Received> {
        self.control.io().drop_payload(packet.payload, reason);
        None
    }

    const fn forward_only(&self) -> bool {
        self.control.discovery.output.config.forward_only
    }

    /// Checks the addresses of a packet. Returns how it is addressed to this host, or `None` if it is to be
    /// forwarded.
    ///
    /// # Errors
    /// Returns the reason to drop a packet that has an impossible source, or is neither for this host nor
    /// to be forwarded.
    fn admit(
        &self,
        source: &IpAddress,
        destination: &IpAddress,
        interface: InterfaceId,
        link: Cast,
    ) -> Result<Option<Cast>, IpDrop> {
        let (local, config) = (self.control.local(), self.control.discovery.output.config);
        // The families check the unspecified address: few protocols have it as a source.
        if !source.is_unspecified() && local.interfaces.is_martian(source, interface) {
            return Err(IpDrop::Martian);
        }
        let Some(cast) = local.cast(destination, interface) else {
            let addresses = (source, destination);
            return Transit::admit(addresses, link, config, local.interfaces).map(|()| None);
        };
        // A unicast packet in a link-layer broadcast: RFC 1122 3.3.6.
        if cast == Cast::Unicast && link != Cast::Unicast {
            return Err(IpDrop::NotLocal);
        }
        Ok(Some(cast))
    }

    // --- IPv4 ---

    fn v4(&mut self, interface: InterfaceId, link: Cast, frame: Frame) -> Option<Received> {
        let bytes = frame.bytes().get(ETHERNET..).unwrap_or_default();
        let header = match ipv4::Header::parse(bytes) {
            Ok(header) => header,
            Err(reason) => return self.drop(frame, reason),
        };
        let cast = match self.admit_v4(&header, interface, link) {
            Ok(Some(cast)) => cast,
            Ok(None) => return Some(Received::Transit(Transit::new(interface, frame, header.total_len))),
            Err(reason) => return self.drop(frame, reason),
        };
        if self.forward_only() {
            let packet = Piece::new(frame, ETHERNET, ETHERNET + header.total_len);
            return Some(Received::consumed(Payload::One(packet), self.control.io()));
        }
        let piece = Piece::new(frame, ETHERNET + header.header_len, ETHERNET + header.total_len);
        let Whole { payload, next_header, ecn } = if header.is_whole() {
            Whole { payload: Payload::One(piece), next_header: header.protocol, ecn: header.ecn }
        } else {
            self.fragment_v4(interface, &header, piece)?
        };
        let (source, destination) = (header.source, header.destination);
        let (hop_limit, fragmented) = (0, false);
        let packet = Packet { interface, source, destination, cast, hop_limit, fragmented, ecn, payload };
        self.deliver_v4(next_header, packet)
    }

    fn admit_v4(
        &self,
        header: &ipv4::Header,
        interface: InterfaceId,
        link: Cast,
    ) -> Result<Option<Cast>, IpDrop> {
        // "This host" as a source: hosts that have no address yet, and IGMP from switches (RFC 4541 2.1.1).
        if header.source.is_unspecified() && header.protocol != u8::from(IpProtocol::Igmp) {
            return Err(IpDrop::Martian);
        }
        self.admit(&header.source, &header.destination, interface, link)
    }

    /// Takes a fragment. Gives the packet once it is whole.
    fn fragment_v4(&mut self, interface: InterfaceId, header: &ipv4::Header, piece: Piece) -> Option<Whole> {
        if let Err(reason) = header.check_fragment(piece.len()) {
            self.drop(piece.frame, reason);
            return None;
        }
        let &ipv4::Header { offset, more, protocol: next_header, ecn, .. } = header;
        let fragment = Fragment { piece, offset, more, next_header, ecn };
        self.reassembly.insert(header.key(), interface, fragment, self.control.io())
    }

    fn deliver_v4(&mut self, protocol: u8, packet: Packet) -> Option<Received> {
        match IpProtocol::from(protocol) {
            IpProtocol::Udp => Datagram::input(packet, self.control.io()).map(Received::Datagram),
            IpProtocol::Tcp => TcpPacket::input(packet, self.control.io()).map(Received::Segment),
            IpProtocol::Icmp => self.control.input_icmp(packet),
            IpProtocol::Igmp => self.control.input_igmp(packet),
            _ => {
                self.report(&packet, Problem::UnknownProtocol);
                self.drop_packet(packet, IpDrop::UnknownProtocol)
            }
        }
    }

    /// Notifies the sender of a packet of a problem.
    fn report(&mut self, packet: &Packet, problem: Problem) {
        self.control.errors().report(packet.interface, packet.payload.first_frame(), problem);
    }

    // --- IPv6 ---

    fn v6(&mut self, interface: InterfaceId, link: Cast, frame: Frame) -> Option<Received> {
        let bytes = frame.bytes().get(ETHERNET..).unwrap_or_default();
        let Some(header) = ipv6::Header::parse(bytes) else {
            return self.drop(frame, IpDrop::Malformed);
        };
        // The unspecified address is a source in NDP and MLD only; `deliver_v6` checks that.
        let cast = match self.admit(&header.source, &header.destination, interface, link) {
            Ok(Some(cast)) => cast,
            Ok(None) => return Some(Received::Transit(Transit::new(interface, frame, header.total_len))),
            Err(reason) => {
                let is_beyond_scope = reason == IpDrop::Scope && !is_link_local(&header.destination);
                let refusal =
                    if is_beyond_scope { Refusal::Report(Problem::BeyondScope) } else { Refusal::Silent };
                return self.refuse(interface, frame, refusal, reason);
            }
        };
        let walk = Walk {
            packet: bytes.get(..header.total_len).unwrap_or_default(),
            multicast: cast != Cast::Unicast,
        };
        let found = walk.follow(header.next, FIXED, 6);
        let ipv6::Header { source, destination, hop_limit, ecn, .. } = header;
        match found {
            Ok(Found::Upper { protocol, at, field }) => {
                let payload = Payload::One(Piece::new(frame, ETHERNET + at, ETHERNET + header.total_len));
                if self.forward_only() && IpProtocol::from(protocol) != IpProtocol::Icmpv6 {
                    return Some(Received::consumed(payload, self.control.io()));
                }
                let fragmented = false;
                let packet =
                    Packet { interface, source, destination, cast, hop_limit, fragmented, ecn, payload };
                self.deliver_v6(protocol, field, packet)
            }
            // No neighbour is discovered in fragments (RFC 6980), and nothing else is looked at here.
            Ok(Found::Fragment { .. }) | Err(_) if self.forward_only() => {
                let packet = Piece::new(frame, ETHERNET, ETHERNET + header.total_len);
                Some(Received::consumed(Payload::One(packet), self.control.io()))
            }
            Ok(Found::Fragment { at }) => {
                let Whole { payload, next_header, ecn } = self.fragment_v6(interface, &header, at, frame)?;
                let fragmented = true;
                let packet =
                    Packet { interface, source, destination, cast, hop_limit, fragmented, ecn, payload };
                self.deliver_behind_fragment(next_header, packet)
            }
            Err(refusal) => self.refuse(interface, frame, refusal, IpDrop::Malformed),
        }
    }

    fn refuse(
        &mut self,
        interface: InterfaceId,
        frame: Frame,
        refusal: Refusal,
        reason: IpDrop,
    ) -> Option<Received> {
        if let Refusal::Report(problem) = refusal {
            self.control.errors().report(interface, Some(&frame), problem);
        }
        self.drop(frame, reason)
    }

    /// Takes a fragment whose fragment header is at `at`. Gives the packet once it is whole, from behind that
    /// header on.
    fn fragment_v6(
        &mut self,
        interface: InterfaceId,
        header: &ipv6::Header,
        at: usize,
        frame: Frame,
    ) -> Option<Whole> {
        let packet = frame.bytes().get(ETHERNET..ETHERNET + header.total_len).unwrap_or_default();
        let Some(found) = FragmentHeader::parse(packet, at) else {
            self.drop(frame, IpDrop::Malformed);
            return None;
        };
        let FragmentHeader { next: next_header, offset, more, .. } = found;
        if !found.is_atomic()
            && let Err(BadFragment { refusal, reason }) = found.check(packet, at)
        {
            self.refuse(interface, frame, refusal, reason);
            return None;
        }
        let start = ETHERNET + at + FragmentHeader::LEN;
        let piece = Piece::new(frame, start, ETHERNET + header.total_len);
        if found.is_atomic() {
            return Some(Whole { payload: Payload::One(piece), next_header, ecn: header.ecn });
        }
        let fragment = Fragment { piece, offset, more, next_header, ecn: header.ecn };
        self.reassembly.insert(found.key(header), interface, fragment, self.control.io())
    }

    /// Goes over the extension headers behind a fragment header, which lie in the first fragment whole, and
    /// delivers the rest.
    fn deliver_behind_fragment(&mut self, next: u8, mut packet: Packet) -> Option<Received> {
        let payload = &packet.payload;
        let head = payload.head();
        // The walk's offsets are those in the first fragment's packet. A first fragment may have had other
        // headers in front than the one that came last, so they are reckoned from its own start.
        let bytes = payload.first_frame().map(Frame::bytes).unwrap_or_default();
        let start = payload.head_start();
        let headers = bytes.get(ETHERNET..start + head.len()).unwrap_or_default();
        let at = start - ETHERNET;
        let walk = Walk { packet: headers, multicast: packet.cast != Cast::Unicast };
        match walk.follow(next, at, at - FragmentHeader::LEN) {
            Ok(Found::Upper { protocol, at: upper, field }) => {
                packet.payload.strip(upper - at);
                return self.deliver_v6(protocol, field, packet);
            }
            Ok(Found::Fragment { .. }) | Err(Refusal::Silent) => {}
            Err(Refusal::Report(problem)) => self.report(&packet, problem),
        }
        self.drop_packet(packet, IpDrop::Malformed)
    }

    fn deliver_v6(&mut self, protocol: u8, field: usize, packet: Packet) -> Option<Received> {
        let protocol = IpProtocol::from(protocol);
        if packet.source.is_unspecified() && protocol != IpProtocol::Icmpv6 {
            return self.drop_packet(packet, IpDrop::Martian);
        }
        match protocol {
            IpProtocol::Udp => return Datagram::input(packet, self.control.io()).map(Received::Datagram),
            IpProtocol::Tcp => return TcpPacket::input(packet, self.control.io()).map(Received::Segment),
            IpProtocol::Icmpv6 => return self.control.input_icmpv6(packet),
            IpProtocol::Ipv6NoNxt => {}
            _ => self.report(&packet, Problem::NextHeader { pointer: field as u32 }),
        }
        self.drop_packet(packet, IpDrop::UnknownProtocol)
    }
}
