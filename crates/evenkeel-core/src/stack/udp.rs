//! UDP: datagrams in and out (RFC 768, RFC 8200 8.1).

use core::num::NonZeroU8;

use super::address::kinds::{Cast, ends_v4, ends_v6};
use super::io::Io;
use super::packet::{Packet, Payload};
use super::route::path::Origin;
use crate::drop::{Reason, UdpDrop};
use crate::frame::Pool;
use crate::id::InterfaceId;
use crate::tcp::Checksum;
use crate::wire::{IpAddress, IpEndpoint, IpProtocol, Ipv4Address};

/// Bytes of a UDP header.
pub(super) const HEADER: usize = 8;

/// A whole UDP datagram, its checksum verified, in the frames it came in.
///
/// Its frames are part of the counters: the owner ends it as delivered or dropped, and recycles it.
#[derive(Debug)]
pub struct Datagram {
    /// The interface it came in by.
    pub interface: InterfaceId,
    /// The number of the [`Cast`] by which it was addressed to us. As an enum it would hold the tag of
    /// `Option<Datagram>`, and moving such an option would take byte after byte.
    cast: u8,
    /// Behind the headers, which stay where they are.
    pub(super) payload: Payload,
}

impl Datagram {
    /// Returns the datagram of a packet for UDP. A packet that is malformed or has a wrong checksum is
    /// dropped.
    pub(super) fn input(mut packet: Packet, io: &mut Io<'_>) -> Option<Self> {
        match check(&mut packet) {
            Ok(()) => {
                packet.payload.strip(HEADER);
                Some(Self::new(packet.interface, packet.cast, packet.payload))
            }
            Err(reason) => {
                io.drop_payload(packet.payload, reason);
                None
            }
        }
    }

    pub(super) const fn new(interface: InterfaceId, cast: Cast, payload: Payload) -> Self {
        Self { interface, cast: cast as u8, payload }
    }

    /// Returns the address and port of the sender.
    #[must_use]
    pub fn source(&self) -> IpEndpoint {
        self.ends().0
    }

    /// Returns the address and port that the datagram was sent to. The address is one of this host, a
    /// broadcast, or a group.
    #[must_use]
    pub fn destination(&self) -> IpEndpoint {
        self.ends().1
    }

    /// Returns whether the datagram was sent to an address of this host alone, and not to a group or a
    /// broadcast.
    #[must_use]
    pub const fn is_unicast(&self) -> bool {
        self.cast == Cast::Unicast as u8
    }

    /// Returns the address and the interface that an answer leaves from: the address that this datagram was
    /// sent to (RFC 1122 4.1.3.5) and the interface that it came by. If it was sent to a group or a
    /// broadcast, the answer has an address of that interface.
    #[must_use]
    pub fn reply_origin(&self) -> Origin {
        let address = self.is_unicast().then(|| self.destination().addr);
        Origin { address, interface: Some(self.interface) }
    }

    /// Returns source and destination, as the datagram's headers say.
    fn ends(&self) -> (IpEndpoint, IpEndpoint) {
        let first = self.payload.first();
        let ends = first.and_then(|piece| Self::ends_in(piece.frame.bytes(), piece.start()));
        // No datagram is made of a frame that does not hold its headers.
        ends.unwrap_or_else(|| [IpEndpoint::new(IpAddress::Ipv4(Ipv4Address::UNSPECIFIED), 0); 2].into())
    }

    /// Returns the source and destination of a frame whose UDP header ends before the offset `payload`.
    #[inline]
    fn ends_in(frame: &[u8], payload: usize) -> Option<(IpEndpoint, IpEndpoint)> {
        let &[a, b, c, d] = frame.get(payload.checked_sub(HEADER)?..)?.first_chunk()?;
        let (source, destination) = if frame.get(12) == Some(&0x08) {
            ends_v4(frame.get(26..)?.first_chunk()?)
        } else {
            ends_v6(frame.get(22..)?.first_chunk()?)
        };
        let ports = [[a, b], [c, d]].map(u16::from_be_bytes);
        Some((IpEndpoint::new(source, ports[0]), IpEndpoint::new(destination, ports[1])))
    }

    /// Returns the length of the payload, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns the frames that the datagram came in, from their Ethernet headers on.
    pub(crate) fn whole_frames(&self) -> impl Iterator<Item = &[u8]> {
        self.payload.pieces().iter().map(|piece| piece.frame.bytes())
    }

    /// Returns whether the payload is empty, which UDP allows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of frames that the datagram came in: more than one if it was fragmented.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.payload.frames()
    }

    /// Returns the payload in place, if it lies in one frame.
    #[must_use]
    pub fn as_slice(&self) -> Option<&[u8]> {
        match &self.payload {
            Payload::One(piece) => Some(piece.bytes()),
            Payload::Many(_) => None,
        }
    }

    /// Returns the payload, in order, frame by frame.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.payload.chunks()
    }

    /// Copies as much of the payload as fits. Returns the number of bytes copied.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut copied = 0;
        for chunk in self.chunks() {
            let room = to.get_mut(copied..).unwrap_or_default();
            let take = chunk.len().min(room.len());
            room[..take].copy_from_slice(&chunk[..take]);
            copied += take;
        }
        copied
    }

    /// Returns a copy in frames of its own, for one more receiver of a group. The copy's frames are not
    /// counted anywhere yet.
    ///
    /// `None` if the pool has too few free buffers.
    #[must_use]
    pub fn duplicate(&self, pool: &mut Pool) -> Option<Self> {
        let payload = self.payload.duplicate(pool)?;
        Some(Self { interface: self.interface, cast: self.cast, payload })
    }

    /// Gives its frames back, faster than by dropping it. They must have been counted.
    #[inline(always)]
    pub fn recycle(self, pool: &mut Pool) {
        self.payload.recycle(pool);
    }
}

/// A receiver of datagrams as they come up.
pub(crate) trait TakesDatagrams {
    /// Returns the number of datagrams that there is room for.
    fn room(&self) -> usize;

    /// Returns whether there is room for one more datagram.
    fn has_room(&self) -> bool;

    fn put(&mut self, datagram: Datagram);
}

/// One of them, if there is one.
impl TakesDatagrams for Option<Datagram> {
    fn room(&self) -> usize {
        usize::from(self.is_none())
    }

    fn has_room(&self) -> bool {
        self.is_none()
    }

    fn put(&mut self, datagram: Datagram) {
        *self = Some(datagram);
    }
}

/// The origin and the port that a datagram is sent from, and the options of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Source {
    /// The address and the interface. Link-local and multicast destinations want an interface when the host
    /// has several.
    pub origin: Origin,
    /// The port.
    pub port: u16,
    /// The TTL or hop limit of datagrams to single hosts and broadcasts; `None` for the configured one.
    pub hop_limit: Option<NonZeroU8>,
    /// Whether datagrams to broadcast addresses are refused.
    pub no_broadcast: bool,
}

/// The length field of a UDP header, and whether it has a checksum.
struct Sum {
    len: usize,
    summed: bool,
}

impl Sum {
    fn parse(head: &[u8]) -> Option<Self> {
        let &[_, _, _, _, e, f, g, h, ..] = head else { return None };
        Some(Self { len: usize::from(u16::from_be_bytes([e, f])), summed: [g, h] != [0, 0] })
    }
}

/// Checks length and checksum; cuts off what the length field leaves over.
fn check(packet: &mut Packet) -> Result<(), Reason> {
    let sum = Sum::parse(packet.payload.head()).ok_or(UdpDrop::Malformed)?;
    if sum.len < HEADER || sum.len > packet.payload.len() {
        return Err(UdpDrop::Malformed.into());
    }
    packet.payload.truncate(sum.len);
    if sum.summed {
        let pseudo = Checksum::pseudo(packet.source, packet.destination, IpProtocol::Udp.into(), sum.len);
        if packet.payload.chunks().fold(pseudo, Checksum::add).finish() != 0 {
            return Err(UdpDrop::Checksum.into());
        }
    } else if matches!(packet.source, IpAddress::Ipv6(_)) {
        // Optional over IPv4 only (RFC 8200 8.1).
        return Err(UdpDrop::Checksum.into());
    }
    Ok(())
}

/// Returns the header of a datagram of `len` bytes.
pub(super) fn head(source: IpAddress, port: u16, to: IpEndpoint, len: usize, payload: &[u8]) -> [u8; HEADER] {
    let mut head = [0; HEADER];
    head[..2].copy_from_slice(&port.to_be_bytes());
    head[2..4].copy_from_slice(&to.port.to_be_bytes());
    head[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    let pseudo = Checksum::pseudo(source, to.addr, IpProtocol::Udp.into(), len);
    // A sum of zero is sent as its other form: zero means "no checksum".
    let sum = match pseudo.add(&head).add(payload).finish() {
        0 => 0xffff,
        sum => sum,
    };
    head[6..].copy_from_slice(&u16::to_be_bytes(sum));
    head
}
