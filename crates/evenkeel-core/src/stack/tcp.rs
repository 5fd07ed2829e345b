//! TCP as IP sees it: what has come for it, and what it sends (RFC 9293 3.9.2).

use core::num::NonZeroU16;
use std::borrow::Cow;

use super::address::kinds::Cast;
use super::error::OutputError;
use super::io::Io;
use super::packet::{Packet, Payload};
use super::route::path::Path;
use crate::drop::{Reason, TcpDrop};
use crate::frame::{Frame, Pool};
use crate::id::InterfaceId;
use crate::ledger::Ledger;
use crate::tcp::Ecn;
use crate::wire::IpAddress;

/// Bytes of a TCP header without options: what the maximum segment size leaves out, beside the IP header (RFC
/// 6691 2).
const TCP_HEADER: usize = 20;

/// A segment for us, in the frames it came in. Nothing of it has been looked at.
///
/// Its frames are part of the counters: the owner ends it as delivered, consumed or dropped, and
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
    /// Returns the segment of a packet for TCP. TCP is between two hosts: a packet to several is dropped
    /// without an answer (RFC 9293 3.9.2.3, MUST-57).
    pub(super) fn input(packet: Packet, io: &mut Io<'_>) -> Option<Self> {
        if packet.cast != Cast::Unicast {
            io.drop_payload(packet.payload, TcpDrop::NotUnicast);
            return None;
        }
        let Packet { interface, source, destination, ecn, payload, .. } = packet;
        Some(Self { interface, source, destination, ecn, payload })
    }

    /// Returns the segment, from the TCP header on: in place, or copied together if it came in fragments.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.payload.pieces() {
            [piece] => Cow::Borrowed(piece.bytes()),
            pieces => Cow::Owned(pieces.iter().flat_map(|piece| piece.bytes().iter().copied()).collect()),
        }
    }

    /// Returns the frame with it if it is a large segment.
    #[inline]
    pub(crate) fn large_frame(&self) -> Option<&Frame> {
        self.payload.first_frame().filter(|frame| frame.segment_bytes().is_some())
    }

    /// Returns the number of bytes of payload in each segment that it was, or would be, on the wire, if it is
    /// a large segment. Its checksum is then not to be verified.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> Option<NonZeroU16> {
        self.payload.first_frame()?.segment_bytes()
    }

    /// Returns the frames that it came in, from their Ethernet headers on.
    pub(crate) fn whole_frames(&self) -> impl Iterator<Item = &[u8]> {
        self.payload.pieces().iter().map(|piece| piece.frame.bytes())
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
    pub(crate) fn drop(self, reason: impl Into<Reason>, ledger: &mut Ledger, pool: &mut Pool) {
        ledger.drop_input(reason, self.payload.frames());
        self.payload.recycle(pool);
    }
}

/// The first hop of a connection's segments, or the reason why they cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstHop(Result<Path, OutputError>);

impl FirstHop {
    pub(super) const fn new(path: Result<Path, OutputError>) -> Self {
        Self(path)
    }

    pub(super) const fn path(self) -> Result<Path, OutputError> {
        self.0
    }

    /// Returns the interface by which the segments leave.
    pub(crate) fn interface(&self) -> Option<InterfaceId> {
        self.0.ok().map(|path| path.interface)
    }
}

/// Returns the maximum size of a segment to `peer` in a packet of `mtu` bytes, options included.
pub(crate) fn segment_max(mtu: usize, peer: &IpAddress) -> u16 {
    let ip = match peer {
        IpAddress::Ipv4(_) => 20,
        IpAddress::Ipv6(_) => 40,
    };
    u16::try_from(mtu.saturating_sub(ip + TCP_HEADER)).unwrap_or(u16::MAX)
}
