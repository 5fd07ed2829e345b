//! ICMP (RFC 792, RFC 1122 3.2.2) and ICMPv6 (RFC 4443): echo, errors out, errors in.

use super::address::{Cast, is_link_local, is_link_scope};
use super::extension::upper_of;
use super::header::{ETHERNET, Header};
use super::io::Io;
use super::packet::{Packet, Payload};
use super::path::{Next, Path};
use super::problem::Problem;
use super::received::Received;
use super::state::Stack;
use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::tcp::Checksum;
use crate::wire::{Icmpv4Message, Icmpv6Message, IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

/// Bytes of the offending packet quoted over IPv4: the message stays within 576 bytes (RFC 1812 4.3.2.3).
const QUOTE_V4: usize = 576 - 20 - 8;
/// Over IPv6: within the minimum MTU (RFC 4443 2.4 c).
const QUOTE_V6: usize = 1280 - 40 - 8;

/// A packet about which an error may be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offender<'a> {
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    /// As much of it as an error may quote.
    pub(super) quote: &'a [u8],
}

fn address_v4(packet: &[u8], at: usize) -> Option<IpAddress> {
    let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
    Some(IpAddress::Ipv4(Ipv4Address::from(bytes)))
}

fn address_v6(packet: &[u8], at: usize) -> Option<IpAddress> {
    let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
    Some(IpAddress::Ipv6(Ipv6Address::from(bytes)))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Returns the parts of a packet that an error about it needs, if its kind allows an error (RFC 1122 3.2.2,
/// RFC 4443 2.4 e).
pub(super) fn offender(packet: &[u8], even_to_group: bool) -> Option<Offender<'_>> {
    match packet.first()? >> 4 {
        4 => offender_v4(packet),
        6 => offender_v6(packet, even_to_group),
        _ => None,
    }
}

fn offender_v4(packet: &[u8]) -> Option<Offender<'_>> {
    const REPORTABLE: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];
    let header_len = usize::from(*packet.first()? & 0xf) * 4;
    let (source, destination) = (address_v4(packet, 12)?, address_v4(packet, 16)?);
    let first_fragment = be16(packet, 6)? & 0x1fff == 0;
    let is_icmp = *packet.get(9)? == u8::from(IpProtocol::Icmp);
    let is_error = is_icmp && !packet.get(header_len).is_some_and(|kind| REPORTABLE.contains(kind));
    if !first_fragment || is_error || !source.is_unicast() || !destination.is_unicast() {
        return None;
    }
    let len = usize::from(be16(packet, 2)?).min(QUOTE_V4);
    Some(Offender { source, destination, quote: packet.get(..len)? })
}

fn offender_v6(packet: &[u8], even_to_group: bool) -> Option<Offender<'_>> {
    const INFORMATIONAL: u8 = 128;
    let (source, destination) = (address_v6(packet, 8)?, address_v6(packet, 24)?);
    // What cannot be followed to its upper layer is at least no error message that we would recognise.
    let is_error = match upper_of(packet) {
        Some((protocol, at)) if protocol == u8::from(IpProtocol::Icmpv6) => {
            // A fragment may end before the type: whatever it is the first of, it tells nobody of an error.
            let kind = packet.get(at).copied();
            kind.is_some_and(|kind| kind < INFORMATIONAL || kind == u8::from(Icmpv6Message::Redirect))
        }
        _ => false,
    };
    if is_error || !source.is_unicast() || !(destination.is_unicast() || even_to_group) {
        return None;
    }
    let len = (usize::from(be16(packet, 4)?) + 40).min(QUOTE_V6);
    Some(Offender { source, destination, quote: packet.get(..len)? })
}

impl Stack {
    /// Notifies the sender of the packet in `frame` of a problem, if that is allowed and within the rate
    /// limit.
    ///
    /// A fragment that is not the first is never reported: `frame` is then the first one's, or nothing.
    pub(super) fn report(
        &mut self,
        interface: InterfaceId,
        frame: Option<&Frame>,
        problem: Problem,
        io: &mut Io<'_>,
    ) {
        let Some((link, packet)) = frame.and_then(|frame| frame.bytes().split_at_checked(ETHERNET)) else {
            return;
        };
        let to_group = link.first().is_none_or(|byte| byte & 1 == 1);
        if !to_group || problem.may_answer_group() {
            self.report_packet(interface, packet, problem, io);
        }
    }

    /// Does the same for a packet of which the link-layer header is gone.
    pub(super) fn report_packet(
        &mut self,
        interface: InterfaceId,
        packet: &[u8],
        problem: Problem,
        io: &mut Io<'_>,
    ) {
        let Some(offender) = offender(packet, problem.may_answer_group()) else { return };
        let Some((kind, code, word)) = (match offender.source {
            IpAddress::Ipv4(_) => problem.v4(),
            IpAddress::Ipv6(_) => Some(problem.v6()),
        }) else {
            return;
        };
        if self.cast(&offender.destination, interface) == Some(Cast::Broadcast) {
            return;
        }
        if !self.within_rate(&offender.source, io) {
            return;
        }
        let [a, b, c, d] = word.to_be_bytes();
        let head = [kind, code, 0, 0, a, b, c, d];
        let quote = core::iter::once(offender.quote);
        self.reply_icmp(interface, offender.source, offender.destination, head, quote, io);
    }

    /// Returns whether the rate limit allows one more error to `to` now. If not, counts the error as
    /// dropped.
    pub(super) fn within_rate(&mut self, to: &IpAddress, io: &mut Io<'_>) -> bool {
        let passes = self.errors.pass(to, io.now);
        if !passes {
            io.ledger.originated += 1;
            io.ledger.drop_output(IpDrop::RateLimited);
        }
        passes
    }

    /// Sends an ICMP message back to `to`, from the address it had sent to if that is one of ours.
    pub(super) fn reply_icmp<'a>(
        &mut self,
        interface: InterfaceId,
        to: IpAddress,
        from: IpAddress,
        head: [u8; 8],
        body: impl Iterator<Item = &'a [u8]> + Clone,
        io: &mut Io<'_>,
    ) {
        if let Some((header, path)) = self.way_back(interface, to, from) {
            self.send_icmp(header, path, head, body, io);
        }
    }

    /// Returns the header and the path of an ICMP message to `to`, about a packet that was sent to `from`.
    /// If that packet was for this host or came from a neighbour, the message leaves by the interface that
    /// the packet came by. The sender of another packet in transit may be behind any interface, so the
    /// routes decide.
    fn way_back(&self, interface: InterfaceId, to: IpAddress, from: IpAddress) -> Option<(Header, Path)> {
        let on_link = matches!(to, IpAddress::Ipv6(address) if is_link_scope(address));
        let goes_back = on_link || self.cast(&from, interface).is_some() || self.is_neighbor(&to, interface);
        let path = if goes_back { self.path_back(&to, interface) } else { self.path_to(&to, None) }.ok()?;
        let source = if self.cast(&from, interface) == Some(Cast::Unicast) {
            from
        } else {
            self.source_of_error(&to, path)?
        };
        let protocol = match to {
            IpAddress::Ipv4(_) => IpProtocol::Icmp,
            IpAddress::Ipv6(_) => IpProtocol::Icmpv6,
        };
        let hop_limit = self.config.hop_limit;
        Some((Header::new(source, to, protocol, hop_limit), path))
    }

    /// Returns an address of the interface by which an error leaves (RFC 1812 4.3.2.4). If that has none
    /// which is valid where the error goes, returns one of another interface.
    fn source_of_error(&self, to: &IpAddress, path: Path) -> Option<IpAddress> {
        let next = if let Next::Neighbor(neighbor) = path.next { neighbor } else { *to };
        let suits = |source: &IpAddress| is_link_local(to) || !is_link_local(source);
        let others = (0..self.interfaces.len()).map(|place| InterfaceId(place as u8));
        let own = core::iter::once(path.interface).chain(others);
        own.filter_map(|interface| self.source_for(to, &next, interface)).find(suits)
    }

    pub(super) fn input_icmp(&mut self, packet: Packet, io: &mut Io<'_>) -> Option<Received> {
        let sum = packet.payload.chunks().fold(Checksum::default(), Checksum::add).finish();
        let Some(&[kind, code, _, _, a, b, c, d]) = packet.payload.head().get(..8).filter(|_| sum == 0)
        else {
            io.drop_payload(packet.payload, IpDrop::BadIcmp);
            return None;
        };
        if let Some(error) = self.icmp_error_v4(packet.payload.head()) {
            Received::consumed(packet.payload, io);
            return Some(Received::IcmpError(error));
        }
        Some(match Icmpv4Message::from(kind) {
            // Never to a broadcast or group (RFC 1122 3.2.2.6 allows to keep silent): it would amplify.
            // Its code means nothing and is not asked for; that of the answer is zero.
            Icmpv4Message::EchoRequest if packet.cast == Cast::Unicast => {
                self.echo([u8::from(Icmpv4Message::EchoReply), 0, 0, 0, a, b, c, d], packet, io)
            }
            Icmpv4Message::DstUnreachable if code == 4 => {
                self.learn_path_mtu_v4(&packet.payload, u16::from_be_bytes([c, d]), io);
                Received::consumed(packet.payload, io)
            }
            _ => Received::consumed(packet.payload, io),
        })
    }

    /// Answers an echo request with its own payload (RFC 1122 3.2.2.6, RFC 4443 4.2).
    pub(super) fn echo(&mut self, head: [u8; 8], packet: Packet, io: &mut Io<'_>) -> Received {
        let way = self.way_back(packet.interface, packet.source, packet.destination);
        let mut payload = packet.payload;
        payload.strip(head.len());
        match way.filter(|_| self.config.echo_reply) {
            Some((header, path)) => {
                self.answer_echo(header, path, head, payload, io);
                Received::Control
            }
            None => Received::consumed(payload, io),
        }
    }

    /// Learns a path MTU from "fragmentation needed", if that quotes a packet of this host (RFC 1191).
    fn learn_path_mtu_v4(&mut self, payload: &Payload, mtu: u16, io: &Io<'_>) {
        let Some(quoted) = payload.head().get(8..) else { return };
        let (Some(IpAddress::Ipv4(source)), Some(destination)) =
            (address_v4(quoted, 12), address_v4(quoted, 16))
        else {
            return;
        };
        if self.owns_v4(source) && destination.is_unicast() {
            self.path_mtus.learn(destination, mtu.into(), io.now, self.config.path_mtus);
        }
    }

    /// Learns a path MTU from "packet too big" (RFC 8201 4).
    pub(super) fn learn_path_mtu_v6(&mut self, packet: &Packet, mtu: u32, io: &Io<'_>) {
        let Some(quoted) = packet.payload.head().get(8..) else { return };
        let (Some(IpAddress::Ipv6(source)), Some(destination)) =
            (address_v6(quoted, 8), address_v6(quoted, 24))
        else {
            return;
        };
        if self.owns_v6(source, packet.interface) && destination.is_unicast() {
            let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
            self.path_mtus.learn(destination, mtu, io.now, self.config.path_mtus);
        }
    }
}
