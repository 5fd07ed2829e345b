//! An IP packet addressed to us, and its payload in the frames it came in.

use super::address::kinds::Cast;
use crate::frame::{Frame, Pool};
use crate::id::InterfaceId;
use crate::tcp::Ecn;
use crate::wire::IpAddress;

/// A run of bytes in a frame.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) frame: Frame,
    start: u32,
    end: u32,
}

impl Piece {
    /// Creates a piece of the bytes `start..end` of `frame`. A range beyond the frame reads as empty.
    pub(crate) const fn new(frame: Frame, start: usize, end: usize) -> Self {
        Self { frame, start: start as u32, end: end as u32 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.frame.bytes().get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    pub(crate) const fn len(&self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Returns the offset of the first byte within the frame.
    pub(crate) const fn start(&self) -> usize {
        self.start as usize
    }

    /// Takes up to `len` bytes off the front. Returns how many there were.
    fn strip(&mut self, len: usize) -> usize {
        let taken = len.min(self.len());
        self.start += taken as u32;
        taken
    }

    /// Keeps `len` bytes at most.
    fn truncate(&mut self, len: usize) {
        self.end = self.start + len.min(self.len()) as u32;
    }
}

/// The payload of an IP packet: one run of bytes, or several after reassembly.
#[derive(Debug)]
pub(crate) enum Payload {
    One(Piece),
    /// In order.
    Many(Box<[Piece]>),
}

impl Payload {
    pub(crate) fn pieces(&self) -> &[Piece] {
        match self {
            Self::One(piece) => core::slice::from_ref(piece),
            Self::Many(pieces) => pieces,
        }
    }

    fn pieces_mut(&mut self) -> &mut [Piece] {
        match self {
            Self::One(piece) => core::slice::from_mut(piece),
            Self::Many(pieces) => pieces,
        }
    }

    /// Returns the runs of bytes, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces().iter().map(Piece::bytes)
    }

    /// Returns the first run. Any header of an upper layer must lie in it whole (RFC 7112 5 asks for that
    /// over IPv6).
    pub(crate) fn head(&self) -> &[u8] {
        self.first().map(Piece::bytes).unwrap_or_default()
    }

    /// Returns the first run with its frame, from the Ethernet header on. The headers in that frame count
    /// for the whole packet.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Piece> {
        match self {
            Self::One(piece) => Some(piece),
            Self::Many(pieces) => pieces.first(),
        }
    }

    /// Returns the offset of the first run within its frame; 0 if there is none.
    pub(crate) fn head_start(&self) -> usize {
        self.first().map_or(0, Piece::start)
    }

    /// Returns the frame of the first run, whose headers count for the whole packet.
    pub(crate) fn first_frame(&self) -> Option<&Frame> {
        self.first().map(|piece| &piece.frame)
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces().iter().map(Piece::len).sum()
    }

    pub(crate) fn frames(&self) -> u64 {
        self.pieces().len() as u64
    }

    /// Takes `len` bytes off the front.
    pub(crate) fn strip(&mut self, mut len: usize) {
        for piece in self.pieces_mut() {
            len -= piece.strip(len);
        }
    }

    /// Keeps `len` bytes at most. Frames that come out empty stay: they are accounted for with the packet.
    pub(crate) fn truncate(&mut self, mut len: usize) {
        for piece in self.pieces_mut() {
            piece.truncate(len);
            len -= piece.len();
        }
    }

    /// Returns a copy, frame by frame, or `None` if the pool has too few free buffers.
    pub(crate) fn duplicate(&self, pool: &mut Pool) -> Option<Self> {
        let mut copy = |piece: &Piece| {
            let frame = pool.take_copy(piece.frame.bytes())?;
            Some(Piece { frame, start: piece.start, end: piece.end })
        };
        match self {
            Self::One(piece) => copy(piece).map(Self::One),
            Self::Many(pieces) => {
                let copied = Self::Many(pieces.iter().map_while(copy).collect());
                if copied.frames() == self.frames() {
                    return Some(copied);
                }
                copied.recycle(pool);
                None
            }
        }
    }

    #[inline(always)]
    pub(crate) fn recycle(self, pool: &mut Pool) {
        match self {
            Self::One(piece) => pool.recycle(piece.frame),
            Self::Many(pieces) => recycle_all(pieces, pool),
        }
    }
}

#[cold]
fn recycle_all(pieces: Box<[Piece]>, pool: &mut Pool) {
    pieces.into_iter().for_each(|piece| pool.recycle(piece.frame));
}

/// A packet addressed to us, without its IP header.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) interface: InterfaceId,
    pub(super) source: IpAddress,
    pub(super) destination: IpAddress,
    pub(super) cast: Cast,
    /// Of IPv6 only: NDP and MLD look at it.
    pub(super) hop_limit: u8,
    /// It came behind a fragment header of IPv6, if only as an atomic fragment: NDP looks at it.
    pub(super) fragmented: bool,
    pub(super) ecn: Ecn,
    pub(super) payload: Payload,
}
