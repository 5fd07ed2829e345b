//! Segments as the peer parses and writes them: an independent implementation of the format.

/// A segment of either side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seg {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    /// Value and echo.
    pub(crate) clock: Option<(u32, u32)>,
    pub(crate) sack: Vec<(u32, u32)>,
    pub(crate) cookie: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const URG: u8 = 0x20;
pub(crate) const ECE: u8 = 0x40;
pub(crate) const CWR: u8 = 0x80;

/// Returns whether `a` comes after `b` on the circle of sequence numbers.
pub(crate) const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Returns the later of two numbers.
pub(crate) const fn later(a: u32, b: u32) -> u32 {
    if after(a, b) { a } else { b }
}

/// Returns the earlier of two numbers.
pub(crate) const fn earlier(a: u32, b: u32) -> u32 {
    if after(a, b) { b } else { a }
}

/// Returns the bytes of an option with this many blocks, or as many as fit beside other options of `others`
/// bytes.
pub(crate) fn sack_len(blocks: usize, others: usize) -> usize {
    let fit = 40_usize.saturating_sub(others + 4) / 8;
    match blocks.min(fit) {
        0 => 0,
        blocks => 4 + 8 * blocks,
    }
}

impl Seg {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number after its last byte, SYN and FIN included.
    pub(crate) fn end(&self) -> u32 {
        self.text_end().wrapping_add(u32::from(self.has(FIN)))
    }

    /// Returns the number of its first byte of payload.
    pub(crate) fn text(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.has(SYN)))
    }

    /// Returns the number after its last byte of payload.
    pub(crate) fn text_end(&self) -> u32 {
        self.text().wrapping_add(self.payload.len() as u32)
    }

    /// Writes the segment with a right checksum.
    pub(crate) fn emit(&self, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
        }
        if self.sack_permitted {
            options.extend([4, 2]);
        }
        if let Some((value, echo)) = self.clock {
            options.extend([8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if let Some(scale) = self.scale {
            options.extend([1, 3, 3, scale]);
        }
        if let Some(cookie) = &self.cookie {
            options.extend([34, cookie.len() as u8 + 2]);
            options.extend(cookie);
        }
        let len = sack_len(self.sack.len(), options.len());
        if len > 0 {
            let blocks = (len - 4) / 8;
            options.extend([1, 1, 5, blocks as u8 * 8 + 2]);
            for (start, end) in &self.sack[..blocks] {
                options.extend(start.to_be_bytes());
                options.extend(end.to_be_bytes());
            }
        }
        options.resize(options.len().next_multiple_of(4), 1);
        let mut bytes = Vec::with_capacity(20 + options.len() + self.payload.len());
        bytes.extend(from.1.to_be_bytes());
        bytes.extend(to.1.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.push(((20 + options.len()) / 4 * 16) as u8);
        bytes.push(self.flags);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(&options);
        bytes.extend(&self.payload);
        let checksum = checksum(&bytes, from.0, to.0);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads a segment. `None` if it is malformed.
    pub(crate) fn parse(bytes: &[u8], from: [u8; 4], to: [u8; 4]) -> Option<Self> {
        if checksum(bytes, from, to) != 0 {
            return None;
        }
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let header = usize::from(*bytes.get(12)? >> 4) * 4;
        let mut seg = Self {
            seq: word(4)?,
            ack: word(8)?,
            flags: *bytes.get(13)?,
            window: half(14)?,
            urgent: half(18)?,
            payload: bytes.get(header..)?.to_vec(),
            ..Self::default()
        };
        let mut rest = bytes.get(20..header)?;
        while let [kind, more @ ..] = rest {
            match kind {
                0 => break,
                1 => rest = more,
                _ => {
                    let len = usize::from(*more.first()?);
                    let (option, left) = rest.split_at_checked(len)?;
                    seg.hear(*kind, option.get(2..)?)?;
                    rest = left;
                }
            }
        }
        Some(seg)
    }

    fn hear(&mut self, kind: u8, value: &[u8]) -> Option<()> {
        let word = |at: usize| Some(u32::from_be_bytes(*value.get(at..)?.first_chunk()?));
        match kind {
            2 => self.mss = Some(u16::from_be_bytes(*value.first_chunk()?)),
            3 => self.scale = Some(*value.first()?),
            4 => self.sack_permitted = true,
            5 => {
                for at in 0..value.len() / 8 {
                    self.sack.push((word(at * 8)?, word(at * 8 + 4)?));
                }
            }
            8 => self.clock = Some((word(0)?, word(4)?)),
            34 => self.cookie = Some(value.to_vec()),
            _ => {}
        }
        Some(())
    }
}

/// Returns the Internet checksum (RFC 1071) over pseudo-header and segment.
fn checksum(bytes: &[u8], from: [u8; 4], to: [u8; 4]) -> u16 {
    let pairs = |bytes: &[u8]| -> u64 {
        let (whole, rest) = bytes.as_chunks::<2>();
        let last = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
        whole.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>() + last
    };
    let mut sum = pairs(&from) + pairs(&to) + 6 + bytes.len() as u64 + pairs(bytes);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Returns the byte at a place of a stream. The two directions differ.
pub(crate) const fn byte(ours: bool, place: u64) -> u8 {
    let mixed = (place ^ (place >> 8) << 3).wrapping_mul(if ours { 167 } else { 59 });
    (mixed ^ mixed >> 7) as u8
}

/// Returns bytes of a stream.
pub(crate) fn bytes(ours: bool, from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|place| byte(ours, place)).collect()
}
