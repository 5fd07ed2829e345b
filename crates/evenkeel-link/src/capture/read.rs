//! A reader of capture files, which does not trust their content.

use std::io::{self, Read};

use evenkeel_core::frame::LinkType;

use super::block;

/// A reader of the frames of a pcap or pcapng file, one after the other, in bounded memory.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: Format,
    order: Order,
    /// The only link type to read; frames of others are passed over. `None` for all.
    only: Option<LinkType>,
    /// The number of frames passed over, and the link type of the last one.
    skipped: u64,
    skipped_link_type: LinkType,
    /// The link type of the last frame.
    link_type: LinkType,
    /// Whether a frame with a time stamp has been read.
    stamped: bool,
    /// Time of the last frame in nanoseconds since 1970.
    time: u64,
    /// Bytes that the last frame had on the wire.
    original: u32,
    /// The block or record read last, which contains the frame. Its memory is reused, so that frames need no
    /// allocation.
    block: Vec<u8>,
    frame: core::ops::Range<usize>,
}

/// The reason why a capture cannot be read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file does not begin like a capture.
    #[error("not a pcap or pcapng file")]
    NotACapture,
    /// The frames were not captured on Ethernet.
    #[error("captured on link type {}, not on Ethernet", .0.0)]
    NotEthernet(LinkType),
    /// The file has an invalid length or reference.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// The file ends inside a block.
    #[error("cut off in the middle of a frame")]
    CutOff,
    /// An error of the operating system.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

#[derive(Debug)]
enum Format {
    Classic {
        units: Units,
    },
    /// The interfaces that the current section has described so far.
    Next {
        interfaces: Vec<Source>,
    },
}

/// An interface of a pcapng section.
#[derive(Debug, Clone, Copy)]
struct Source {
    link_type: LinkType,
    snaplen: u32,
    units: Units,
    offset_secs: i64,
}

/// The unit of time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Units {
    per_second: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// The largest block with a frame; libpcap's largest snapshot length fits.
const BLOCK_BYTES_MAX: usize = 512 * 1024;
const INTERFACES_MAX: usize = 4096;

impl<R: Read> Reader<R> {
    /// Reads the file's header; then reads its Ethernet frames only. `input` should be buffered.
    ///
    /// # Errors
    /// [`CaptureError`]
    pub fn new(input: R) -> Result<Self, CaptureError> {
        Self::open(input, Some(LinkType::ETHERNET))
    }

    /// Reads the file's header; then reads frames of any link type. `input` should be buffered.
    ///
    /// # Errors
    /// [`CaptureError`]
    pub fn of_any_link_type(input: R) -> Result<Self, CaptureError> {
        Self::open(input, None)
    }

    fn open(mut input: R, only: Option<LinkType>) -> Result<Self, CaptureError> {
        let mut magic = [0; 4];
        input.read_exact(&mut magic).map_err(|e| at_end(e, CaptureError::NotACapture))?;
        let mut reader = Self {
            input,
            format: Format::Next { interfaces: Vec::new() },
            order: Order::Little,
            only,
            skipped: 0,
            skipped_link_type: LinkType::ETHERNET,
            link_type: LinkType::ETHERNET,
            stamped: false,
            time: 0,
            original: 0,
            block: Vec::new(),
            frame: 0..0,
        };
        if u32::from_le_bytes(magic) == block::SECTION {
            reader.section()?;
        } else {
            reader.classic(magic)?;
        }
        Ok(reader)
    }

    /// Advances to the next frame; returns false at the end of the file.
    ///
    /// # Errors
    /// [`CaptureError`]: nothing more can be read.
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        self.frame = 0..0;
        match self.format {
            Format::Classic { units } => self.record(units),
            Format::Next { .. } => self.next_frame(),
        }
    }

    /// Returns the captured bytes of the frame, without FCS.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.block.get(self.frame.clone()).unwrap_or_default()
    }

    /// Returns the link type of the last frame. Before the first frame, returns the file's, as far as its
    /// header has one.
    #[must_use]
    pub const fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// Returns whether the file is big-endian, as was the machine that wrote it.
    #[must_use]
    pub fn is_big_endian(&self) -> bool {
        self.order == Order::Big
    }

    /// Returns the time at which the last frame was captured, in nanoseconds since 1970. A frame without a
    /// time stamp has the time of the frame before it; 0 if no frame so far had one.
    #[must_use]
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// Returns whether the last frame, or any frame before it, has a time stamp.
    #[must_use]
    pub const fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Returns the number of bytes that the frame had on the wire. It is more than were captured if the
    /// frame was cut to a snapshot length.
    #[must_use]
    pub const fn original_bytes(&self) -> u32 {
        self.original
    }

    /// Returns the number of frames passed over because they were not captured on Ethernet.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns an error if frames were passed over. The error names the link type of those frames.
    ///
    /// # Errors
    /// [`CaptureError::NotEthernet`]
    pub const fn check_skipped(&self) -> Result<(), CaptureError> {
        if self.skipped == 0 { Ok(()) } else { Err(CaptureError::NotEthernet(self.skipped_link_type)) }
    }

    // --- pcap ---

    fn classic(&mut self, magic: [u8; 4]) -> Result<(), CaptureError> {
        const MICROSECONDS: u32 = 0xa1b2_c3d4;
        const NANOSECONDS: u32 = 0xa1b2_3c4d;
        let (order, per_second) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (MICROSECONDS, _) => (Order::Little, 1_000_000),
            (NANOSECONDS, _) => (Order::Little, 1_000_000_000),
            (_, MICROSECONDS) => (Order::Big, 1_000_000),
            (_, NANOSECONDS) => (Order::Big, 1_000_000_000),
            _ => return Err(CaptureError::NotACapture),
        };
        self.order = order;
        // These are version, time zone, accuracy and snapshot length, which the reader ignores, and the link
        // type.
        self.fill(20)?;
        // The upper half gives the length of the FCS.
        self.link_type = LinkType(self.u32_at(16)? as u16);
        self.format = Format::Classic { units: Units { per_second } };
        let wanted = self.only.is_none_or(|only| only == self.link_type);
        if wanted { Ok(()) } else { Err(CaptureError::NotEthernet(self.link_type)) }
    }

    fn record(&mut self, units: Units) -> Result<bool, CaptureError> {
        const HEADER: usize = 16;
        if !self.fill_or_end(HEADER)? {
            return Ok(false);
        }
        let (secs, fraction) = (self.u32_at(0)?, self.u32_at(4)?);
        let captured = self.u32_at(8)? as usize;
        self.original = self.u32_at(12)?;
        self.time = nanos(u128::from(secs) * u128::from(units.per_second) + u128::from(fraction), units, 0);
        self.stamped = true;
        self.fill(captured)?;
        self.frame = 0..captured;
        Ok(true)
    }

    // --- pcapng ---

    fn next_frame(&mut self) -> Result<bool, CaptureError> {
        while let Some(kind) = self.next_block()? {
            let is_frame = match kind {
                block::INTERFACE => self.describe_interface().map(|()| false)?,
                block::ENHANCED_PACKET => self.enhanced_packet()?,
                block::PACKET => self.packet()?,
                block::SIMPLE_PACKET => self.simple_packet()?,
                _ => false,
            };
            if is_frame {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the body of the next block that may matter; returns its type. `None` at the end of the file.
    fn next_block(&mut self) -> Result<Option<u32>, CaptureError> {
        loop {
            if !self.fill_or_end(4)? {
                return Ok(None);
            }
            let kind = self.u32_at(0)?;
            if kind == block::SECTION {
                self.section()?;
                continue;
            }
            self.fill(4)?;
            let body = self.body_len(0)?;
            let wanted = [block::INTERFACE, block::PACKET, block::SIMPLE_PACKET, block::ENHANCED_PACKET];
            if wanted.contains(&kind) {
                self.fill(body as usize)?;
                return self.end_of_block(body + 12).map(|()| Some(kind));
            }
            self.skip(body)?;
            self.end_of_block(body + 12)?;
        }
    }

    /// Reads the rest of a section header: type, length, byte-order magic, ...
    fn section(&mut self) -> Result<(), CaptureError> {
        self.fill(8)?;
        let magic = self.block.get(4..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        self.order = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (block::BYTE_ORDER_MAGIC, _) => Order::Little,
            (_, block::BYTE_ORDER_MAGIC) => Order::Big,
            _ => return Err(CaptureError::Damaged("a section without byte-order magic")),
        };
        let body = self.body_len(0)?;
        let rest = body.checked_sub(4).ok_or(CaptureError::Damaged("a section header that is too short"))?;
        self.skip(rest)?;
        self.format = Format::Next { interfaces: Vec::new() };
        self.end_of_block(body + 12)
    }

    /// Returns the length of a block without its type and its two lengths, from the length at `at`.
    fn body_len(&self, at: usize) -> Result<u32, CaptureError> {
        let total = self.u32_at(at)?;
        let body = total.checked_sub(12).filter(|_| total.is_multiple_of(4));
        body.ok_or(CaptureError::Damaged("a block length that cannot be"))
    }

    /// Reads the length at the end of a block, and keeps the body.
    fn end_of_block(&mut self, total: u32) -> Result<(), CaptureError> {
        let mut trailer = [0; 4];
        self.input.read_exact(&mut trailer).map_err(|e| at_end(e, CaptureError::CutOff))?;
        let agrees = self.order.u32(trailer) == total;
        if agrees { Ok(()) } else { Err(CaptureError::Damaged("a block whose two lengths differ")) }
    }

    fn describe_interface(&mut self) -> Result<(), CaptureError> {
        let mut source = Source {
            link_type: LinkType(self.u16_at(0)?),
            snaplen: self.u32_at(4)?,
            units: Units { per_second: 1_000_000 },
            offset_secs: 0,
        };
        self.read_options(8, &mut source)?;
        let Format::Next { interfaces } = &mut self.format else { return Ok(()) };
        if interfaces.len() == INTERFACES_MAX {
            return Err(CaptureError::Damaged("too many interfaces"));
        }
        interfaces.push(source);
        Ok(())
    }

    fn read_options(&self, mut at: usize, source: &mut Source) -> Result<(), CaptureError> {
        const END: u16 = 0;
        const IF_TSRESOL: u16 = 9;
        const IF_TSOFFSET: u16 = 14;
        while at < self.block.len() {
            let (code, len) = (self.u16_at(at)?, usize::from(self.u16_at(at + 2)?));
            let value = self.block.get(at + 4..at + 4 + len);
            let value = value.ok_or(CaptureError::Damaged("an option that leaves its block"))?;
            match (code, value) {
                (END, _) => break,
                (IF_TSRESOL, &[resolution]) => {
                    let units = Units::from_resolution(resolution);
                    source.units =
                        units.ok_or(CaptureError::Damaged("a time stamp resolution that cannot be"))?;
                }
                (IF_TSOFFSET, value) => {
                    if let Some(&value) = value.first_chunk() {
                        source.offset_secs = self.order.i64(value);
                    }
                }
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        Ok(())
    }

    /// Reads an enhanced packet block: interface, time stamp in two halves, captured and original length,
    /// frame.
    fn enhanced_packet(&mut self) -> Result<bool, CaptureError> {
        let interface = self.u32_at(0)?;
        self.stamped_packet(interface)
    }

    /// Reads an obsolete packet block, with the interface in 16 bits and a drop count.
    fn packet(&mut self) -> Result<bool, CaptureError> {
        let interface = self.u16_at(0)?;
        self.stamped_packet(interface.into())
    }

    fn stamped_packet(&mut self, interface: u32) -> Result<bool, CaptureError> {
        let source = self.source(interface)?;
        let stamp = u64::from(self.u32_at(4)?) << 32 | u64::from(self.u32_at(8)?);
        let captured = self.u32_at(12)? as usize;
        self.original = self.u32_at(16)?;
        self.time = nanos(stamp.into(), source.units, source.offset_secs);
        self.stamped = true;
        self.found(source, 20, captured)
    }

    /// Reads a simple packet block: original length and frame. It belongs to the first interface, is cut to
    /// its snapshot length, and has no time.
    fn simple_packet(&mut self) -> Result<bool, CaptureError> {
        let source = self.source(0)?;
        let original = self.u32_at(0)?;
        self.original = original;
        let captured = if source.snaplen == 0 { original } else { original.min(source.snaplen) };
        self.found(source, 4, captured as usize)
    }

    fn found(&mut self, source: Source, start: usize, len: usize) -> Result<bool, CaptureError> {
        let end = start.checked_add(len).filter(|&end| end <= self.block.len());
        let end = end.ok_or(CaptureError::Damaged("a frame that leaves its block"))?;
        if self.only.is_some_and(|only| only != source.link_type) {
            self.skipped += 1;
            self.skipped_link_type = source.link_type;
            return Ok(false);
        }
        self.link_type = source.link_type;
        self.frame = start..end;
        Ok(true)
    }

    fn source(&self, index: u32) -> Result<Source, CaptureError> {
        let Format::Next { interfaces } = &self.format else { return Err(CaptureError::NotACapture) };
        let source = interfaces.get(index as usize).copied();
        source.ok_or(CaptureError::Damaged("a frame of an interface that was not described"))
    }

    // --- Bytes ---

    /// Replaces the content of the block with exactly `len` bytes from the file.
    fn fill(&mut self, len: usize) -> Result<(), CaptureError> {
        if self.fill_or_end(len)? || len == 0 { Ok(()) } else { Err(CaptureError::CutOff) }
    }

    /// Fills the block with the next `len` bytes of the file. Returns false if the file ends before the
    /// first of them.
    fn fill_or_end(&mut self, len: usize) -> Result<bool, CaptureError> {
        if len > BLOCK_BYTES_MAX {
            return Err(CaptureError::Damaged("a frame larger than any captured one"));
        }
        self.block.resize(len, 0);
        let Some(first) = self.block.get_mut(..1) else { return Ok(false) };
        let got = loop {
            match self.input.read(first) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        if got == 0 {
            return Ok(false);
        }
        let rest = self.block.get_mut(1..).unwrap_or_default();
        self.input.read_exact(rest).map_err(|e| at_end(e, CaptureError::CutOff))?;
        Ok(true)
    }

    fn skip(&mut self, len: u32) -> Result<(), CaptureError> {
        let passed = io::copy(&mut (&mut self.input).take(len.into()), &mut io::sink())?;
        if passed == u64::from(len) { Ok(()) } else { Err(CaptureError::CutOff) }
    }

    fn u16_at(&self, at: usize) -> Result<u16, CaptureError> {
        Ok(self.order.u16(self.chunk(at)?))
    }

    fn u32_at(&self, at: usize) -> Result<u32, CaptureError> {
        Ok(self.order.u32(self.chunk(at)?))
    }

    fn chunk<const N: usize>(&self, at: usize) -> Result<[u8; N], CaptureError> {
        let chunk = self.block.get(at..).and_then(<[u8]>::first_chunk);
        chunk.copied().ok_or(CaptureError::Damaged("a block that is too short"))
    }
}

impl Units {
    /// Reads the option `if_tsresol`: a negative power of ten, or of two if the highest bit is set.
    fn from_resolution(resolution: u8) -> Option<Self> {
        let exponent = u32::from(resolution & 0x7f);
        let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
        base.checked_pow(exponent).map(|per_second| Self { per_second })
    }
}

impl Order {
    const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    const fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Self::Little => i64::from_le_bytes(bytes),
            Self::Big => i64::from_be_bytes(bytes),
        }
    }
}

/// Converts a time stamp to nanoseconds since 1970. Times outside of 1970 to 2554 become the nearer bound.
fn nanos(stamp: u128, units: Units, offset_secs: i64) -> u64 {
    let nanos = stamp.saturating_mul(1_000_000_000) / u128::from(units.per_second.max(1));
    let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
    let total = nanos.saturating_add(i128::from(offset_secs) * 1_000_000_000);
    u64::try_from(total.max(0)).unwrap_or(u64::MAX)
}

fn at_end(error: io::Error, ended: CaptureError) -> CaptureError {
    if error.kind() == io::ErrorKind::UnexpectedEof { ended } else { error.into() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A writer of files byte by byte, in either byte order, independent of the encoder.
    pub(crate) struct Bytes(pub Vec<u8>, Order);

    impl Bytes {
        pub(crate) fn little() -> Self {
            Self(Vec::new(), Order::Little)
        }
        fn n16(mut self, n: u16) -> Self {
            self.0.extend(if self.1 == Order::Big { n.to_be_bytes() } else { n.to_le_bytes() });
            self
        }
        fn n32(mut self, n: u32) -> Self {
            self.0.extend(if self.1 == Order::Big { n.to_be_bytes() } else { n.to_le_bytes() });
            self
        }
        fn raw(mut self, bytes: &[u8]) -> Self {
            self.0.extend(bytes);
            self
        }
        fn block(self, kind: u32, body: impl FnOnce(Self) -> Self) -> Self {
            let order = self.1;
            let mut body = body(Self(Vec::new(), order)).0;
            body.resize(body.len().next_multiple_of(4), 0);
            let total = body.len() as u32 + 12;
            self.n32(kind).n32(total).raw(&body).n32(total)
        }
        fn section(self) -> Self {
            self.block(block::SECTION, |b| {
                b.n32(block::BYTE_ORDER_MAGIC).n16(1).n16(0).n32(u32::MAX).n32(u32::MAX)
            })
        }
        fn interface(self, linktype: u16, options: &[(u16, &[u8])]) -> Self {
            self.block(block::INTERFACE, |b| {
                let b = b.n16(linktype).n16(0).n32(65535);
                options.iter().fold(b, |b, (code, value)| {
                    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
                    b.n16(*code).n16(value.len() as u16).raw(value).raw(&padding)
                })
            })
        }
        fn enhanced(self, interface: u32, stamp: u64, frame: &[u8]) -> Self {
            let len = frame.len() as u32;
            self.block(block::ENHANCED_PACKET, |b| {
                b.n32(interface).n32((stamp >> 32) as u32).n32(stamp as u32).n32(len).n32(len).raw(frame)
            })
        }
        /// Adds a frame without a time stamp, and one at `micros` microseconds.
        pub(crate) fn unstamped_then(self, micros: u64) -> Self {
            let file = self.section().interface(1, &[]);
            file.block(block::SIMPLE_PACKET, |b| b.n32(60).raw(&[7; 60])).enhanced(0, micros, &[8; 60])
        }
        /// Adds an interface of each link type, with a frame on it.
        pub(crate) fn of_link_types(self, types: &[u16]) -> Self {
            let file = types.iter().fold(self.section(), |file, kind| file.interface(*kind, &[]));
            (0..types.len() as u32).fold(file, |file, index| file.enhanced(index, 1, &[9; 60]))
        }
        /// Returns a classic file with frames at these microseconds.
        pub(crate) fn classic(self, frames: &[(u64, &[u8])]) -> Self {
            let header = self.n32(0xa1b2_c3d4).n16(2).n16(4).n32(0).n32(0).n32(65535).n32(1);
            frames.iter().fold(header, |file, (micros, frame)| {
                let len = frame.len() as u32;
                let (secs, micros) = ((micros / 1_000_000) as u32, (micros % 1_000_000) as u32);
                file.n32(secs).n32(micros).n32(len).n32(len).raw(frame)
            })
        }
    }

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, CaptureError> {
        let mut reader = Reader::new(bytes)?;
        let mut frames = Vec::new();
        while reader.advance()? {
            frames.push((reader.time(), reader.frame().to_vec()));
        }
        Ok(frames)
    }

    #[test]
    fn classic_files_are_read_in_both_orders() {
        for order in [Order::Little, Order::Big] {
            let file = Bytes(Vec::new(), order).classic(&[
                (1_000_002, b"one"),
                (2_000_000, b""),
                (2_000_001, b"three"),
            ]);
            let frames = all(&file.0).unwrap();
            assert_eq!(frames[0], (1_000_002_000, b"one".to_vec()));
            assert_eq!(frames[1], (2_000_000_000, vec![]));
            assert_eq!(frames[2], (2_000_001_000, b"three".to_vec()));
        }
    }

    #[test]
    fn time_stamps_count_in_what_the_interface_says() {
        for order in [Order::Little, Order::Big] {
            let minus_5: [u8; 8] =
                if order == Order::Big { (-5_i64).to_be_bytes() } else { (-5_i64).to_le_bytes() };
            let file = Bytes(Vec::new(), order)
                .section()
                .interface(1, &[])
                .interface(1, &[(2, b"name"), (9, &[9]), (0, &[])])
                .interface(1, &[(9, &[0x80 | 10])])
                .interface(1, &[(14, &minus_5)])
                .enhanced(0, 7, b"micro")
                .enhanced(1, 7, b"nano")
                .enhanced(2, 1536, b"1/1024")
                .enhanced(3, 6_000_000, b"offset");
            let times: Vec<u64> = all(&file.0).unwrap().into_iter().map(|(time, _)| time).collect();
            assert_eq!(times, [7_000, 7, 1_500_000_000, 1_000_000_000]);
        }
    }

    #[test]
    fn every_kind_of_packet_block_is_read_and_other_blocks_are_passed_over() {
        let file = Bytes::little()
            .section()
            .interface(1, &[])
            .interface(113, &[])
            .block(0x0000_0bad, |b| b.raw(b"a block type nobody knows"))
            .block(block::PACKET, |b| b.n16(0).n16(9).n32(0).n32(5).n32(3).n32(3).raw(b"old"))
            .enhanced(1, 6, b"of another link type")
            .block(block::SIMPLE_PACKET, |b| b.n32(6).raw(b"simple"));
        // This is a second section, in the other byte order, with its own interfaces.
        let second = Bytes(Vec::new(), Order::Big).section().interface(1, &[]).enhanced(0, 8, b"big");
        let bytes = [file.0, second.0].concat();
        let frames = all(&bytes).unwrap();
        let expected: Vec<(u64, &[u8])> = vec![(5_000, b"old"), (6_000, b"simple"), (8_000, b"big")];
        assert_eq!(frames, expected.iter().map(|(t, f)| (*t, f.to_vec())).collect::<Vec<_>>());
        let mut reader = Reader::new(&bytes[..]).unwrap();
        while reader.advance().unwrap() {}
        assert_eq!(reader.skipped(), 1);
        assert!(matches!(reader.check_skipped(), Err(CaptureError::NotEthernet(LinkType(113)))));
    }

    #[test]
    fn a_frame_without_a_time_stamp_has_that_of_the_one_before() {
        let simple = |file: Bytes| file.block(block::SIMPLE_PACKET, |b| b.n32(6).raw(b"simple"));
        let file = simple(simple(Bytes::little().section().interface(1, &[])).enhanced(0, 7, b"stamped"));
        let mut reader = Reader::new(&file.0[..]).unwrap();
        let mut times = Vec::new();
        while reader.advance().unwrap() {
            times.push((reader.is_stamped(), reader.time()));
        }
        assert_eq!(times, [(false, 0), (true, 7_000), (true, 7_000)]);
    }

    #[test]
    fn damage_is_an_error() {
        let section = || Bytes::little().section().interface(1, &[]);
        let damaged = |file: Bytes| matches!(all(&file.0), Err(CaptureError::Damaged(_)));
        assert!(damaged(section().enhanced(1, 0, b"no such interface")));
        assert!(damaged(section().n32(6).n32(13).raw(&[0; 13])), "length not a multiple of four");
        assert!(damaged(section().n32(6).n32(8).raw(&[0; 13])), "length too short");
        assert!(damaged(section().n32(6).n32(0xffff_fffc).raw(&[0; 13])), "length too long");
        assert!(damaged(section().n32(4).n32(16).n32(0).n32(20)), "lengths differ");
        assert!(damaged(
            section().block(block::ENHANCED_PACKET, |b| b.n32(0).n32(0).n32(0).n32(100).n32(100))
        ));
        assert!(damaged(section().interface(1, &[(9, &[20])])), "10^20 units a second");
        assert!(damaged(section().block(block::INTERFACE, |b| b.n16(1).n16(0).n32(0).n16(2).n16(999))));
        let too_many = (0..=INTERFACES_MAX).fold(section(), |file, _| file.interface(1, &[]));
        assert!(damaged(too_many));
        assert!(matches!(all(b"GIF89a.............."), Err(CaptureError::NotACapture)));
        assert!(matches!(all(b""), Err(CaptureError::NotACapture)));
        let loopback = Bytes::little().n32(0xa1b2_c3d4).raw(&[0; 16]).n32(0);
        assert!(matches!(all(&loopback.0), Err(CaptureError::NotEthernet(LinkType(0)))));
    }

    #[test]
    fn frames_of_any_link_type_can_be_read() {
        let file = Bytes::little().of_link_types(&[113, 1, 0]);
        let mut reader = Reader::of_any_link_type(&file.0[..]).unwrap();
        let mut types = Vec::new();
        while reader.advance().unwrap() {
            types.push((reader.link_type().0, reader.frame().len()));
        }
        assert_eq!((types, reader.skipped()), (vec![(113, 60), (1, 60), (0, 60)], 0));
        let loopback = Bytes(Vec::new(), Order::Big).n32(0xa1b2_c3d4).raw(&[0; 16]).n32(0);
        let reader = Reader::of_any_link_type(&loopback.0[..]).unwrap();
        assert_eq!((reader.link_type(), reader.is_big_endian()), (LinkType(0), true));
    }

    fn samples() -> [Vec<u8>; 2] {
        let next = Bytes::little()
            .section()
            .interface(1, &[(9, &[9]), (0, &[])])
            .enhanced(0, 7, &[1; 60])
            .block(5, |b| b.raw(&[0; 12]))
            .block(block::SIMPLE_PACKET, |b| b.n32(6).raw(b"simple"));
        [next.0, Bytes::little().classic(&[(1, &[2; 60]), (2, &[3; 61])]).0]
    }

    #[test]
    fn a_file_cut_off_anywhere_ends_in_a_frame_less_or_an_error() {
        for file in samples() {
            let whole = all(&file).unwrap().len();
            for len in 0..file.len() {
                if let Ok(frames) = all(&file[..len]) {
                    assert!(frames.len() < whole || len >= file.len() - 24, "{len} of {}", file.len());
                }
            }
        }
    }

    #[test]
    fn no_byte_can_do_harm() {
        for file in samples() {
            for at in 0..file.len() {
                for value in [0, 1, 2, 3, 4, 7, 8, 0x0a, 0x0d, 0x7f, 0x80, 0xfe, 0xff] {
                    let mut bad = file.clone();
                    bad[at] = value;
                    let _ = all(&bad);
                }
            }
        }
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut bad = samples()[0].clone();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % bad.len();
                bad[at] = (seed >> 24) as u8;
            }
            let _ = all(&bad);
        }
    }
}
