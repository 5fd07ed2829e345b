//! A segment: its header and its payload (RFC 9293, 3.1).

use core::fmt;
use core::net::IpAddr;
use core::ops::BitOr;

use super::options::Options;
use super::seq::{SeqNumber, SeqRange};
use crate::checksum::Checksum;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// The protocol number of TCP in an IP header.
pub const PROTOCOL: u8 = 6;

/// The control bits of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// The empty set of control bits.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// The bit that synchronises sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// The bit that resets the connection.
    pub const RST: Self = Self(0x04);
    /// Push: the data is for the user now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field means something.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer means something.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168, 6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168, 6.1).
    pub const CWR: Self = Self(0x80);

    /// Creates the control bits from those of a header.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns whether a segment with these bits opens a connection: it has SYN without ACK.
    #[must_use]
    pub const fn opens(self) -> bool {
        self.contains(Self::SYN) && !self.contains(Self::ACK)
    }

    /// Returns these bits together with those of `flags`.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Returns whether all bits of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns whether some bit of `flags` is set.
    #[must_use]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns these bits without those of `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// As tcpdump writes them: `S.`, `P.`, `F.`, `R`; `E` and `W` for ECE and CWR.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::SYN, 'S'),
            (Self::FIN, 'F'),
            (Self::RST, 'R'),
            (Self::PSH, 'P'),
            (Self::URG, 'U'),
            (Self::ECE, 'E'),
            (Self::CWR, 'W'),
            (Self::ACK, '.'),
        ];
        letters
            .iter()
            .filter(|(flag, _)| self.contains(*flag))
            .try_for_each(|(_, letter)| write!(f, "{letter}"))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The ECN field of the IP header (RFC 3168, 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The transport does not know ECN.
    #[default]
    NotCapable,
    /// ECT(1).
    Capable1,
    /// ECT(0), what we send.
    Capable,
    /// Congestion experienced.
    Experienced,
}

impl Ecn {
    /// Creates the value from the two low bits of the traffic class.
    #[must_use]
    pub const fn from_bits(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable,
            _ => Self::Experienced,
        }
    }

    /// Returns the two low bits of the traffic class.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self as u8
    }
}

/// A payload of so many bytes is summed while it is copied, a smaller one together with the header.
const BULK: usize = 256;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// SEG.SEQ: of the SYN, or of the first byte of payload.
    pub seq: SeqNumber,
    /// SEG.ACK: the next byte the sender expects. Valid only with [`Flags::ACK`].
    pub ack: SeqNumber,
    /// The control bits.
    pub flags: Flags,
    /// SEG.WND as it stands in the header, not scaled.
    pub window: u16,
    /// SEG.UP. Valid only with [`Flags::URG`].
    pub urgent: u16,
    /// The options of the segment.
    pub options: Options,
    /// The ECN field of the IP header, received or to be sent.
    pub ecn: Ecn,
}

impl Header {
    /// Returns the number of bytes of the header with its options.
    #[must_use]
    pub fn bytes(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Returns the header without options (RFC 9293, 3.1). The checksum is zero.
    fn fixed_part(&self, header_len: usize) -> [u8; HEADER_LEN] {
        let [s0, s1] = self.source.to_be_bytes();
        let [d0, d1] = self.destination.to_be_bytes();
        let [n0, n1, n2, n3] = self.seq.to_u32().to_be_bytes();
        let [a0, a1, a2, a3] = self.ack.to_u32().to_be_bytes();
        let [w0, w1] = self.window.to_be_bytes();
        let [u0, u1] = self.urgent.to_be_bytes();
        let offset = (header_len as u8 / 4) << 4;
        [s0, s1, d0, d1, n0, n1, n2, n3, a0, a1, a2, a3, offset, self.flags.0, w0, w1, 0, 0, u0, u1]
    }

    /// Returns the number of bytes of options behind the header; `None` if its length is less than its own.
    fn options_len(fixed: &[u8; HEADER_LEN]) -> Option<usize> {
        (usize::from(fixed[12] >> 4) * 4).checked_sub(HEADER_LEN)
    }

    /// Reads a header from its first bytes and its options.
    #[inline]
    fn read(fixed: &[u8; HEADER_LEN], options: &[u8], ecn: Ecn) -> Self {
        let [s0, s1, d0, d1, n0, n1, n2, n3, a0, a1, a2, a3, _, flags, w0, w1, _, _, u0, u1] = *fixed;
        Self {
            source: u16::from_be_bytes([s0, s1]),
            destination: u16::from_be_bytes([d0, d1]),
            seq: SeqNumber::new(u32::from_be_bytes([n0, n1, n2, n3])),
            ack: SeqNumber::new(u32::from_be_bytes([a0, a1, a2, a3])),
            flags: Flags(flags),
            window: u16::from_be_bytes([w0, w1]),
            urgent: u16::from_be_bytes([u0, u1]),
            options: Options::parse(options),
            ecn,
        }
    }
}

/// The reason why bytes are not a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes are fewer than the header, or than its length field.
    Short,
    /// The checksum is wrong.
    Checksum,
    /// A port is zero.
    Port,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the segment is shorter than its header",
            Self::Checksum => "the segment's checksum is wrong",
            Self::Port => "the segment has a port of zero",
        })
    }
}

impl core::error::Error for Malformed {}

/// A header and a payload, which may lie in two places, as in a ring.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use evenkeel_tcp::{Ecn, Flags, Header, Malformed, Options, Segment, SeqNumber, Timestamps};
///
/// let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
/// let timestamps = Some(Timestamps { value: 7, echo: 3 });
/// let header = Header {
///     source: 40_000,
///     destination: 80,
///     seq: SeqNumber::new(1_000),
///     flags: Flags::ACK | Flags::PSH,
///     options: Options { timestamps, ..Options::default() },
///     ..Header::default()
/// };
/// let segment = Segment { header, payload: [b"GET ", b"/\r\n"] };
///
/// let mut bytes = [0; 100];
/// let len = segment.emit(&mut bytes, source, destination).expect("room for 40 bytes");
/// let parsed = Segment::parse(&bytes[..len], source, destination, Ecn::NotCapable)?;
/// assert_eq!((parsed.header, parsed.payload[0]), (header, &b"GET /\r\n"[..]));
/// assert_eq!(parsed.range().end, SeqNumber::new(1_007));
///
/// bytes[30] ^= 1;
/// let damaged = Segment::parse(&bytes[..len], source, destination, Ecn::NotCapable);
/// assert_eq!(damaged, Err(Malformed::Checksum));
/// # Ok::<(), Malformed>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment<'a> {
    /// The header of the segment.
    pub header: Header,
    /// The payload, in order.
    pub payload: [&'a [u8]; 2],
}

impl<'a> Segment<'a> {
    /// Returns a segment without payload.
    #[must_use]
    pub const fn bare(header: Header) -> Self {
        Self { header, payload: [&[], &[]] }
    }

    /// Parses the payload of an IP packet from `source` to `destination`, whose header has the codepoint
    /// `ecn`. The segment's payload is not copied.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a whole segment, or were damaged.
    pub fn parse(
        bytes: &'a [u8],
        source: impl Into<IpAddr>,
        destination: impl Into<IpAddr>,
        ecn: Ecn,
    ) -> Result<Self, Malformed> {
        Self::parse_between(bytes, &source.into(), &destination.into(), ecn)
    }

    pub(crate) fn parse_between(
        bytes: &'a [u8],
        source: &IpAddr,
        destination: &IpAddr,
        ecn: Ecn,
    ) -> Result<Self, Malformed> {
        let (fixed, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
        let options_len = Header::options_len(fixed).ok_or(Malformed::Short)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(Malformed::Short)?;
        let pseudo = Checksum::pseudo(*source, *destination, PROTOCOL, bytes.len());
        if pseudo.add(bytes).finish() != 0 {
            return Err(Malformed::Checksum);
        }
        Self::of_parts(fixed, options, payload, ecn)
    }

    /// Parses a segment whose checksum was verified, or is not needed.
    pub(crate) fn parse_verified(bytes: &'a [u8], ecn: Ecn) -> Result<Self, Malformed> {
        let (fixed, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
        let options_len = Header::options_len(fixed).ok_or(Malformed::Short)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(Malformed::Short)?;
        Self::of_parts(fixed, options, payload, ecn)
    }

    #[inline]
    fn of_parts(
        fixed: &[u8; HEADER_LEN],
        options: &[u8],
        payload: &'a [u8],
        ecn: Ecn,
    ) -> Result<Self, Malformed> {
        let header = Header::read(fixed, options, ecn);
        if header.source == 0 || header.destination == 0 {
            return Err(Malformed::Port);
        }
        Ok(Self { header, payload: [payload, &[]] })
    }

    /// Returns the number of bytes of payload.
    #[must_use]
    pub const fn payload_len(&self) -> usize {
        self.payload[0].len() + self.payload[1].len()
    }

    /// Returns SEG.LEN: the bytes of payload, and one each for SYN and FIN (RFC 9293, 3.4).
    #[must_use]
    pub const fn seq_len(&self) -> u32 {
        let flags = self.header.flags;
        self.payload_len() as u32 + flags.contains(Flags::SYN) as u32 + flags.contains(Flags::FIN) as u32
    }

    /// Returns the sequence numbers that the segment occupies.
    #[must_use]
    pub const fn range(&self) -> SeqRange {
        SeqRange::at(self.header.seq, self.seq_len())
    }

    /// Returns the number of bytes of header and payload.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.bytes() + self.payload_len()
    }

    /// Returns the rest of a segment after its SYN.
    pub(crate) fn after_syn(&self) -> Self {
        Self { header: Header { seq: self.header.seq + 1, ..self.header }, ..*self }
    }

    /// Returns whether the segment has no payload.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.payload_len() == 0
    }

    /// Writes the segment with its checksum to the beginning of `to`. Returns the number of bytes; `None` if
    /// `to` is shorter than [`Segment::len`].
    pub fn emit(
        &self,
        to: &mut [u8],
        source: impl Into<IpAddr>,
        destination: impl Into<IpAddr>,
    ) -> Option<usize> {
        self.emit_between(to, &source.into(), &destination.into())
    }

    pub(crate) fn emit_between(&self, to: &mut [u8], source: &IpAddr, destination: &IpAddr) -> Option<usize> {
        let header_len = self.header.bytes();
        let len = header_len + self.payload_len();
        let to = to.get_mut(..len)?;
        let (head, mut rest) = to.split_at_mut(header_len);
        let (fixed, room) = head.split_first_chunk_mut()?;
        *fixed = self.header.fixed_part(header_len);
        self.header.options.write_to(room)?;
        let pseudo = Checksum::pseudo(*source, *destination, PROTOCOL, len);
        let sum = match self.payload {
            [bulk, []] if bulk.len() >= BULK => pseudo.add(head).add_copied(bulk, rest),
            parts => {
                for part in parts.into_iter().filter(|part| !part.is_empty()) {
                    let (room, after) = rest.split_at_mut_checked(part.len())?;
                    room.copy_from_slice(part);
                    rest = after;
                }
                pseudo.add(to)
            }
        };
        *to.get_mut(16..)?.first_chunk_mut()? = sum.finish().to_be_bytes();
        Some(len)
    }

    /// Writes the segment as [`Segment::emit`] does, for a device that completes its checksum: the field has
    /// the sum of the pseudo-header.
    pub(crate) fn emit_unfinished(
        &self,
        to: &mut [u8],
        source: &IpAddr,
        destination: &IpAddr,
    ) -> Option<usize> {
        let header_len = self.header.bytes();
        let len = header_len + self.payload_len();
        let (head, rest) = to.get_mut(..len)?.split_at_mut(header_len);
        let (fixed, room) = head.split_first_chunk_mut()?;
        *fixed = self.header.fixed_part(header_len);
        self.header.options.write_to(room)?;
        let [first, second] = self.payload;
        let (room, after) = rest.split_at_mut_checked(first.len())?;
        room.copy_from_slice(first);
        after.copy_from_slice(second);
        // The sum itself, and not its complement.
        let sum = !Checksum::pseudo(*source, *destination, PROTOCOL, len).finish();
        *to.get_mut(16..)?.first_chunk_mut()? = sum.to_be_bytes();
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::{SackBlocks, Timestamps};
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use smoltcp::wire::{TcpControl, TcpPacket, TcpRepr};

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    const A6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
    const B6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

    fn header() -> Header {
        let sack = SackBlocks::from_iter([SeqRange::at(SeqNumber::new(500), 10)]);
        Header {
            source: 80,
            destination: 40_000,
            seq: SeqNumber::new(u32::MAX - 2),
            ack: SeqNumber::new(77),
            flags: Flags::ACK | Flags::PSH | Flags::CWR,
            window: 4321,
            urgent: 0,
            options: Options {
                timestamps: Some(Timestamps { value: 3, echo: 4 }),
                sack,
                ..Options::default()
            },
            ecn: Ecn::Capable,
        }
    }

    #[test]
    fn what_is_sent_is_what_smoltcp_reads() {
        let segment = Segment { header: header(), payload: [b"hello ", b"world"] };
        let mut bytes = [0xaa; 100];
        let len = segment.emit(&mut bytes, A, B).unwrap();
        assert_eq!(len, segment.len());
        let packet = TcpPacket::new_checked(&bytes[..len]).unwrap();
        let read = TcpRepr::parse(&packet, &A.into(), &B.into(), &Default::default()).unwrap();
        assert_eq!(
            (read.src_port, read.dst_port, read.window_len, read.control),
            (80, 40_000, 4321, TcpControl::Psh)
        );
        assert_eq!((read.payload, read.sack_ranges[0]), (&b"hello world"[..], Some((500, 510))));
        assert!(packet.cwr() && !packet.ece());
    }

    #[test]
    fn a_wrong_bit_anywhere_is_noticed() {
        let segment = Segment { header: header(), payload: [b"hello", b""] };
        let mut bytes = [0; 100];
        let len = segment.emit(&mut bytes, A6, B6).unwrap();
        assert_eq!(Segment::parse(&bytes[..len], A6, B6, Ecn::Capable), Ok(segment));
        assert_eq!(Segment::parse(&bytes[..len], A6, A6, Ecn::Capable), Err(Malformed::Checksum));
        for bit in 0..8 * len {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Segment::parse(&bytes[..len], A6, B6, Ecn::Capable).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn syn_and_fin_count_one_each() {
        let header =
            Header { flags: Flags::SYN | Flags::FIN, seq: SeqNumber::new(u32::MAX), ..Header::default() };
        let segment = Segment { header, payload: [b"ab", b""] };
        assert_eq!((segment.seq_len(), segment.range().end), (4, SeqNumber::new(3)));
    }

    #[test]
    fn a_payload_in_two_places_leaves_as_one_does() {
        let payload: Vec<u8> = (0..1_460_u32).map(|n| (n * 7 % 251) as u8).collect();
        let emitted = |payload| {
            let mut bytes = [0xaa; 1_600];
            let len = Segment { header: header(), payload }.emit(&mut bytes, A, B).unwrap();
            bytes[..len].to_vec()
        };
        for len in [BULK - 1, BULK, BULK + 1, 1_447, 1_448] {
            let whole = emitted([&payload[..len], b""]);
            let read = Segment::parse(&whole, A, B, Ecn::Capable).unwrap();
            assert_eq!(read.payload[0], &payload[..len]);
            for cut in [0, 1, 100, len / 2, len - 1] {
                let (a, b) = payload[..len].split_at(cut);
                assert!(emitted([a, b]) == whole, "{len} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_buffer_too_small_gets_nothing() {
        let segment = Segment { header: header(), payload: [b"hello", b""] };
        assert_eq!(segment.emit(&mut vec![0; segment.len() - 1], A, B), None);
    }

    #[test]
    fn a_header_length_below_20_or_beyond_the_segment_is_malformed() {
        let mut bytes = [0; 100];
        let len = Segment { header: header(), payload: [b"hello", b""] }.emit(&mut bytes, A, B).unwrap();
        for words in 0..16 {
            bytes[12] = words << 4;
            bytes[16..18].fill(0);
            let sum = Checksum::pseudo(A, B, PROTOCOL, len).add(&bytes[..len]).finish();
            bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            let parsed = Segment::parse(&bytes[..len], A, B, Ecn::NotCapable);
            let is_right = (5..=len / 4).contains(&usize::from(words));
            assert_eq!(parsed.is_ok(), is_right, "{words} words");
            assert_eq!(TcpPacket::new_checked(&bytes[..len]).is_ok(), is_right, "{words} words, smoltcp");
        }
        (0..HEADER_LEN).for_each(|len| {
            assert_eq!(Segment::parse(&bytes[..len], A, B, Ecn::NotCapable), Err(Malformed::Short));
        });
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_malformed(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            fix: bool,
        ) {
            if fix && bytes.len() >= HEADER_LEN {
                bytes[12] = (bytes[12] & 0x0f) | ((5 + bytes[12] / 16 % 11) << 4);
                bytes[16..18].fill(0);
                let sum = Checksum::pseudo(A, B, 6, bytes.len()).add(&bytes).finish();
                bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            }
            if let Ok(segment) = Segment::parse(&bytes, A, B, Ecn::NotCapable) {
                prop_assert!(segment.payload_len() + HEADER_LEN <= bytes.len());
                let mut again = [0; 200];
                let len = segment.emit(&mut again, A, B).unwrap();
                let read = Segment::parse(&again[..len], A, B, Ecn::NotCapable).unwrap();
                prop_assert_eq!(read.header.seq, segment.header.seq);
                prop_assert_eq!(read.header.flags, segment.header.flags);
                prop_assert_eq!(read.payload, segment.payload);
            }
        }
    }
}
