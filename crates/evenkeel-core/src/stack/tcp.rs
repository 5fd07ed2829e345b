//! TCP as IP sees it: what has come for it, and what it sends (RFC 9293 3.9.2).

use std::borrow::Cow;

use super::address::Cast;
use super::error::OutputError;
use super::extension::upper_of;
use super::header::Header;
use super::io::Io;
use super::output::lose;
use super::packet::{Packet, Payload};
use super::path::{Next, Path};
use super::state::Stack;
use crate::drop::{IpDrop, TcpDrop};
use crate::frame::{Frame, Pool};
use crate::id::InterfaceId;
use crate::ledger::Ledger;
use crate::tcp::endpoint::{Egress, Quote, Routes, Transmit};
use crate::tcp::{Ecn, FourTuple};
use crate::time::Instant;
use crate::wire::{IpAddress, IpProtocol, Ipv4Address, Ipv6Address};

/// Bytes of a TCP header without options: what the maximum segment size leaves out, beside the IP header (RFC
/// 6691 2).
const TCP_HEADER: usize = 20;

/// A segment for us, in the frames it came in. Nothing of it has been looked at.
///
/// Its frames are part of the counters: whoever has it ends it as delivered, consumed or dropped, and
/// recycles it.
#[derive(Debug)]
pub struct TcpPacket {
    /// The interface it came in by.
    pub interface: InterfaceId,
    /// The address of the sender.
    pub source: IpAddress,
    /// The address of ours that it was sent to.
    pub destination: IpAddress,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    pub(super) payload: Payload,
}

impl TcpPacket {
    /// Returns the segment, from the TCP header on: in place, or copied together if it came in fragments.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.payload.pieces() {
            [piece] => Cow::Borrowed(piece.bytes()),
            pieces => Cow::Owned(pieces.iter().flat_map(|piece| piece.bytes().iter().copied()).collect()),
        }
    }

    /// Ends it as read by a program, or soon to be.
    pub(crate) fn deliver(self, ledger: &mut Ledger, pool: &mut Pool) {
        ledger.delivered += self.payload.frames();
        self.payload.recycle(pool);
    }

    /// Ends it inside the host: it brought nothing for a program.
    pub fn consume(self, ledger: &mut Ledger, pool: &mut Pool) {
        ledger.consumed += self.payload.frames();
        self.payload.recycle(pool);
    }

    /// Ends it as dropped.
    pub(crate) fn drop(self, reason: TcpDrop, ledger: &mut Ledger, pool: &mut Pool) {
        ledger.drop_input(reason, self.payload.frames());
        self.payload.recycle(pool);
    }
}

/// An ICMP error about a segment of this host. The segment's connection decides whether to trust it (RFC
/// 5927 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// The segment that it quotes.
    pub quote: Quote,
    /// The kind of the error.
    pub kind: IcmpErrorKind,
}

/// The kind of an ICMP error about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// It was too big for a link that takes packets of so many bytes.
    TooBig {
        /// Bytes, IP header included.
        mtu: usize,
    },
    /// The segment did not arrive. `hard` says that others will not arrive either (RFC 1122 4.2.3.9).
    Unreachable {
        /// Port or protocol unreachable, or prohibited.
        hard: bool,
    },
}

/// The first hop of a connection's segments, or the reason why they cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstHop(Result<Path, OutputError>);

impl FirstHop {
    /// Returns the interface by which the segments leave.
    pub(crate) fn interface(&self) -> Option<InterfaceId> {
        self.0.ok().map(|path| path.interface)
    }
}

impl Routes for Stack {
    type Route = FirstHop;

    fn generation(&self) -> u32 {
        self.generation
    }

    fn lookup(&self, tuple: &FourTuple) -> FirstHop {
        FirstHop(self.path_again(Some(tuple.local.addr), &tuple.remote.addr))
    }

    fn egress(&self, route: &FirstHop) -> Option<Egress> {
        route.interface().map(InterfaceId::egress)
    }
}

impl Stack {
    /// Returns the ICMP error about a segment of this host that an ICMP `message` reports, if it reports
    /// one.
    pub(super) fn icmp_error_v4(&self, message: &[u8]) -> Option<IcmpError> {
        let (&[kind, code, _, _, _, _, high, low], quoted) = message.split_first_chunk()?;
        let kind = match (kind, code) {
            (3, 4) => IcmpErrorKind::TooBig { mtu: usize::from(u16::from_be_bytes([high, low])) },
            (3, 2 | 3 | 9 | 10 | 13) => IcmpErrorKind::Unreachable { hard: true },
            (3 | 11 | 12, _) => IcmpErrorKind::Unreachable { hard: false },
            _ => return None,
        };
        let quote = quote_v4(quoted)?;
        let IpAddress::Ipv4(source) = quote.tuple.local.addr else { return None };
        self.owns_v4(source).then_some(IcmpError { quote, kind })
    }

    /// Returns the ICMP error about a segment of this host that an ICMPv6 `message` reports, if it reports
    /// one.
    pub(super) fn icmp_error_v6(&self, message: &[u8], interface: InterfaceId) -> Option<IcmpError> {
        let (&[kind, code, _, _, a, b, c, d], quoted) = message.split_first_chunk()?;
        let kind = match (kind, code) {
            (2, _) => {
                let mtu = u32::from_be_bytes([a, b, c, d]);
                IcmpErrorKind::TooBig { mtu: usize::try_from(mtu).unwrap_or(usize::MAX) }
            }
            (1, 1 | 4 | 5 | 6) | (4, 1) => IcmpErrorKind::Unreachable { hard: true },
            (1 | 3 | 4, _) => IcmpErrorKind::Unreachable { hard: false },
            _ => return None,
        };
        let quote = quote_v6(quoted)?;
        let IpAddress::Ipv6(source) = quote.tuple.local.addr else { return None };
        self.owns_v6(source, interface).then_some(IcmpError { quote, kind })
    }

    /// Records that a packet of ours is given up, because its next hop does not answer. Only TCP wants to
    /// know.
    pub(super) fn record_unresolved(&mut self, packet: &[u8]) {
        let quote = if packet.first().is_some_and(|first| first >> 4 == 4) {
            quote_v4(packet)
        } else {
            quote_v6(packet)
        };
        if self.unresolved.len() < self.config.pending_pkts {
            self.unresolved.extend(quote);
        }
    }

    /// Returns the next segment of ours that was given up because its next hop does not answer.
    pub(crate) fn next_unresolved(&mut self) -> Option<Quote> {
        self.unresolved.pop_front()
    }

    /// Records the finding of a connection that the way to `destination` takes packets of at most `mtu`
    /// bytes. Other connections begin with that.
    pub(crate) fn learn_path_mtu(&mut self, destination: IpAddress, mtu: usize, now: Instant) {
        self.path_mtus.learn(destination, mtu, now, self.config.path_mtus);
    }

    /// Returns the segment of a packet for TCP. TCP is between two hosts: a packet to several is dropped
    /// without an answer (RFC 9293 3.9.2.3, MUST-57).
    pub(super) fn input_tcp(packet: Packet, io: &mut Io<'_>) -> Option<TcpPacket> {
        if packet.cast != Cast::Unicast {
            io.drop_payload(packet.payload, TcpDrop::NotUnicast);
            return None;
        }
        let Packet { interface, source, destination, ecn, payload, .. } = packet;
        Some(TcpPacket { interface, source, destination, ecn, payload })
    }

    /// Returns the source address, the segment size and the first hop of a connection to `destination`. The
    /// address is one of this host, for a connection whose user names none. The size is the number of bytes
    /// that a segment may have behind the 20 bytes of its header, options included. Connections are to a
    /// single host only (RFC 9293 3.9.1.1, MUST-46).
    pub(crate) fn open_to(
        &self,
        source: Option<IpAddress>,
        destination: &IpAddress,
        now: Instant,
    ) -> Result<(IpAddress, u16, FirstHop), OutputError> {
        let path = self.path_again(source, destination)?;
        let Next::Neighbor(next) = path.next else { return Err(OutputError::NoRoute) };
        if self.is_broadcast(destination) {
            return Err(OutputError::NoRoute);
        }
        let source = source.or_else(|| self.source_for(destination, &next, path.interface));
        let mtu = self.addresses_of(path.interface).map_or(0, |own| own.mtu);
        let mtu = self.path_mtus.get(destination, now).map_or(mtu, |known| known.min(mtu));
        Ok((source.ok_or(OutputError::NoAddress)?, segment_max(mtu, destination), FirstHop(Ok(path))))
    }

    /// Returns the maximum segment size, in bytes, that a neighbour's segments can have on the link of
    /// `interface`.
    pub(crate) fn mss_by(&self, interface: InterfaceId, peer: &IpAddress) -> u16 {
        segment_max(self.addresses_of(interface).map_or(0, |own| own.mtu), peer)
    }

    /// Sends the segment in `frame` by its route, which is looked up if there is none. Routers are not to
    /// fragment it (RFC 1191 3).
    ///
    /// # Errors
    /// [`OutputError`]; the segment is lost, and counted as dropped.
    pub(crate) fn send_segment(
        &mut self,
        frame: Frame,
        &Transmit { ref tuple, dscp, ecn, route, .. }: &Transmit<FirstHop>,
        io: &mut Io<'_>,
    ) -> Result<(), OutputError> {
        let (source, destination) = (tuple.local.addr, tuple.remote.addr);
        let protocol = IpProtocol::Tcp;
        let header = Header {
            dscp,
            ecn,
            dont_fragment: true,
            ..Header::new(source, destination, protocol, self.config.hop_limit)
        };
        let path = match route.unwrap_or_else(|| self.lookup(tuple)).0 {
            Ok(path) => path,
            Err(error) => {
                let reason = if error == OutputError::Loopback { IpDrop::Martian } else { IpDrop::NoRoute };
                lose(frame, reason, io);
                return Err(error);
            }
        };
        self.send_whole(header, path, frame, io)
    }
}

/// Returns what an IPv4 packet quotes of a segment, if it is the first part of one.
fn quote_v4(packet: &[u8]) -> Option<Quote> {
    let header = packet.first_chunk::<20>()?;
    let address = |at: usize| Ipv4Address::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    if header[0] >> 4 != 4 || !whole || header[9] != u8::from(IpProtocol::Tcp) {
        return None;
    }
    let bytes = packet.get(usize::from(header[0] & 0xf) * 4..)?;
    Quote::parse(bytes, address(12).into(), address(16).into())
}

/// Returns what an IPv6 packet quotes of a segment.
fn quote_v6(packet: &[u8]) -> Option<Quote> {
    let address = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Address::from_octets(bytes))
    };
    let (source, destination) = (address(8)?, address(24)?);
    let (protocol, at) = upper_of(packet)?;
    if packet[0] >> 4 != 6 || protocol != u8::from(IpProtocol::Tcp) {
        return None;
    }
    Quote::parse(packet.get(at..)?, source.into(), destination.into())
}

pub(crate) fn segment_max(mtu: usize, peer: &IpAddress) -> u16 {
    let ip = match peer {
        IpAddress::Ipv4(_) => 20,
        IpAddress::Ipv6(_) => 40,
    };
    u16::try_from(mtu.saturating_sub(ip + TCP_HEADER)).unwrap_or(u16::MAX)
}
