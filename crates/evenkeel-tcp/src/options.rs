//! The options of a segment (RFC 9293, 3.2).

use super::seq::{SeqNumber, SeqRange};

/// Bytes of options that a header has room for.
pub const OPTIONS_MAX: usize = 40;
/// The most bytes of a Fast Open cookie (RFC 7413, 2).
pub const COOKIE_MAX: usize = 16;
/// The most SACK blocks of a segment, without other options (RFC 2018, 3).
pub const SACK_BLOCKS_MAX: usize = 4;

/// The least MSS that a peer can announce: 48, as in Linux (`TCP_MIN_SND_MSS`). Less counts as 48. Options
/// take up to 40 bytes of it; a peer that made us send single bytes would keep us busy with little effort
/// (CVE-2019-11479). It is not more, because small devices do announce 48.
pub const MSS_MIN: u16 = 48;
/// The MSS of a peer that does not announce one, for IPv4 (RFC 9293, 3.7.1, MUST-15).
pub const MSS_DEFAULT_V4: u16 = 536;
/// The MSS of a peer that does not announce one, for IPv6 (RFC 9293, 3.7.1, MUST-15).
pub const MSS_DEFAULT_V6: u16 = 1_220;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;
/// Bytes of timestamps with what aligns them.
const TIMESTAMPS_LEN: usize = 12;

/// The options of a segment.
///
/// ```
/// use evenkeel_tcp::Options;
///
/// // Those of a SYN.
/// let (mss, window_scale) = (Some(1_460), Some(7));
/// let options = Options { mss, window_scale, sack_permitted: true, ..Options::default() };
/// let (bytes, len) = options.emit();
/// assert_eq!(&bytes[..len], [2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7]);
/// assert_eq!(Options::parse(&bytes[..len]), options);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Bytes of payload the sender can take in a segment (RFC 9293, 3.7.1). In SYNs.
    pub mss: Option<u16>,
    /// The shift of the sender's later windows (RFC 7323, 2). In SYNs.
    pub window_scale: Option<u8>,
    /// Whether the sender accepts SACK blocks (RFC 2018, 2). In SYNs.
    pub sack_permitted: bool,
    /// The timestamps (RFC 7323, 3).
    pub timestamps: Option<Timestamps>,
    /// The ranges beyond the acknowledgment number that the sender has received (RFC 2018, 3).
    pub sack: SackBlocks,
    /// The Fast Open cookie, or a request for one (RFC 7413, 2). In SYNs.
    pub fast_open: Option<Cookie>,
}

/// The two clocks of the timestamps option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the last value that came from the receiver. Valid only with an ACK.
    pub echo: u32,
}

/// Up to four ranges of sequence numbers, in the order of the option.
#[derive(Debug, Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [SeqRange; SACK_BLOCKS_MAX],
    len: u8,
}

impl SackBlocks {
    /// Appends a block if there is room for one.
    pub fn push(&mut self, block: SeqRange) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = block;
            self.len += 1;
        }
    }

    /// Returns the blocks in the order of the option.
    #[must_use]
    pub fn as_slice(&self) -> &[SeqRange] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns whether there are no blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps the first `len` blocks.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u8::try_from(len).unwrap_or(u8::MAX));
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl FromIterator<SeqRange> for SackBlocks {
    /// Collects the first four blocks.
    fn from_iter<I: IntoIterator<Item = SeqRange>>(blocks: I) -> Self {
        let mut all = Self::default();
        blocks.into_iter().for_each(|block| all.push(block));
        all
    }
}

/// A Fast Open cookie. An empty one is a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cookie {
    bytes: [u8; COOKIE_MAX],
    len: u8,
}

impl Cookie {
    /// The request for a cookie.
    pub const REQUEST: Self = Self { bytes: [0; COOKIE_MAX], len: 0 };

    /// Creates a cookie of 4 to 16 bytes, an even number of them (RFC 7413, 4.1.1); or the request, if
    /// there are none.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let right = bytes.is_empty() || (4..=COOKIE_MAX).contains(&bytes.len()) && bytes.len() % 2 == 0;
        let mut cookie = Self { len: u8::try_from(bytes.len()).ok().filter(|_| right)?, ..Self::REQUEST };
        cookie.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(cookie)
    }

    /// Returns the bytes of the cookie.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns whether the option is a request for a cookie.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }
}

impl Options {
    /// Reads the bytes between header and payload.
    ///
    /// Parsing never fails. An option with an illegal length ends the list (RFC 9293, MUST-7). Options of
    /// unknown kinds (MUST-6), and of known kinds with a wrong length, are skipped.
    #[must_use]
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        // What nearly every segment has (RFC 7323, appendix A).
        if let &[NOP, NOP, TIMESTAMPS, 10, ref clocks @ ..] = bytes {
            if clocks.len() == 8 {
                options.read(TIMESTAMPS, clocks);
                return options;
            }
        }
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                END => break,
                NOP => bytes = rest,
                _ => {
                    let Some((data, after)) = split_option(rest) else { break };
                    options.read(kind, data);
                    bytes = after;
                }
            }
        }
        options
    }

    fn read(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (SACK, blocks) if !blocks.is_empty() && blocks.len() % 8 == 0 => {
                self.sack = blocks.chunks_exact(8).filter_map(read_block).collect();
            }
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                let (value, echo) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                self.timestamps = Some(Timestamps { value, echo });
            }
            (FAST_OPEN, bytes) => self.fast_open = Cookie::new(bytes).or(self.fast_open),
            _ => {}
        }
    }

    /// Returns the number of bytes that the options take in a header: a multiple of four, at most
    /// [`OPTIONS_MAX`].
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        if self.clocks_alone().is_some() {
            return TIMESTAMPS_LEN;
        }
        let len = self.bytes_before_sack();
        let blocks = self.blocks_that_fit(len).len();
        let sack = if blocks == 0 { 0 } else { 2 + 2 + 8 * blocks };
        (len + sack).next_multiple_of(4).min(OPTIONS_MAX)
    }

    /// Returns the timestamps if there are no other options, as in nearly every segment (RFC 7323, appendix
    /// A).
    #[inline]
    fn clocks_alone(&self) -> Option<Timestamps> {
        let others = self.mss.is_some() || self.window_scale.is_some() || self.sack_permitted;
        self.timestamps.filter(|_| !others && self.sack.is_empty() && self.fast_open.is_none())
    }

    /// Writes them to `room`, which is as long as they are.
    #[inline]
    pub(super) fn write_to(&self, room: &mut [u8]) -> Option<()> {
        if let (Some(clocks), Ok(room)) =
            (self.clocks_alone(), <&mut [u8; TIMESTAMPS_LEN]>::try_from(&mut *room))
        {
            *room = write_timestamps([NOP, NOP], clocks);
            return Some(());
        }
        let (bytes, len) = self.emit();
        room.copy_from_slice(bytes.get(..len).filter(|bytes| bytes.len() == room.len())?);
        Some(())
    }

    /// Returns the number of bytes that [`Options::emit`] writes before SACK. They always fit.
    const fn bytes_before_sack(&self) -> usize {
        let mut len = if self.mss.is_some() { 4 } else { 0 };
        len += match (self.sack_permitted, self.timestamps.is_some()) {
            (false, false) => 0,
            (true, false) => 4,
            (_, true) => 12,
        };
        if self.window_scale.is_some() {
            len += 4;
        }
        if let Some(cookie) = &self.fast_open {
            len += 2 + cookie.len as usize;
        }
        len
    }

    /// Returns the SACK blocks that fit behind `len` bytes of other options.
    fn blocks_that_fit(&self, len: usize) -> &[SeqRange] {
        let room = OPTIONS_MAX.saturating_sub(len + 4) / 8;
        let blocks = self.sack.as_slice();
        blocks.get(..room.min(blocks.len())).unwrap_or_default()
    }

    /// Returns whether there are no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bytes of the options, and their number. SACK blocks without room are left out, the last
    /// first.
    ///
    /// The options are aligned as in RFC 7323, appendix A.
    #[must_use]
    pub fn emit(&self) -> ([u8; OPTIONS_MAX], usize) {
        let mut to = Writer { bytes: [NOP; OPTIONS_MAX], len: 0 };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            to.write(&[MSS, 4, a, b]);
        }
        match (self.sack_permitted, self.timestamps) {
            (false, None) => {}
            (true, None) => to.write(&[NOP, NOP, SACK_PERMITTED, 2]),
            (false, Some(clocks)) => to.timestamps([NOP, NOP], clocks),
            (true, Some(clocks)) => to.timestamps([SACK_PERMITTED, 2], clocks),
        }
        if let Some(shift) = self.window_scale {
            to.write(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        if let Some(cookie) = &self.fast_open {
            to.write(&[FAST_OPEN, 2 + cookie.len]);
            to.write(cookie.as_slice());
        }
        let blocks = self.blocks_that_fit(to.len);
        if !blocks.is_empty() {
            to.write(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            blocks.iter().for_each(|block| to.write(&write_block(*block)));
        }
        (to.bytes, to.len.next_multiple_of(4).min(OPTIONS_MAX))
    }
}

/// Returns the data of an option whose length byte `rest` begins with, and what follows it.
fn split_option(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = rest.split_first()?;
    rest.split_at_checked(usize::from(len).checked_sub(2)?)
}

fn read_block(bytes: &[u8]) -> Option<SeqRange> {
    let [a, b, c, d, e, f, g, h] = *bytes.first_chunk()?;
    let number = |bytes| SeqNumber::new(u32::from_be_bytes(bytes));
    Some(SeqRange::new(number([a, b, c, d]), number([e, f, g, h])))
}

fn write_block(block: SeqRange) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (block.start.to_u32().to_be_bytes(), block.end.to_u32().to_be_bytes());
    [a, b, c, d, e, f, g, h]
}

/// A header's room for options, full of NOPs.
struct Writer {
    bytes: [u8; OPTIONS_MAX],
    len: usize,
}

impl Writer {
    /// Appends bytes; leaves them out if there is no room.
    fn write(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        }
    }

    /// Appends timestamps, so that two bytes before them align them.
    fn timestamps(&mut self, before: [u8; 2], clocks: Timestamps) {
        self.write(&write_timestamps(before, clocks));
    }
}

fn write_timestamps(before: [u8; 2], Timestamps { value, echo }: Timestamps) -> [u8; TIMESTAMPS_LEN] {
    let ([x, y], [a, b, c, d], [e, f, g, h]) = (before, value.to_be_bytes(), echo.to_be_bytes());
    [x, y, TIMESTAMPS, 10, a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(start: u32, end: u32) -> SeqRange {
        SeqRange::new(SeqNumber::new(start), SeqNumber::new(end))
    }

    #[test]
    fn a_syn_says_all_it_can_in_forty_bytes() {
        let options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
            fast_open: Cookie::new(&[9; 16]),
            ..Options::default()
        };
        let (bytes, len) = options.emit();
        assert_eq!(len, 40);
        assert_eq!(bytes[..20], [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7]);
        assert_eq!(bytes[20..22], [34, 18]);
        assert_eq!(Options::parse(&bytes[..len]), options);
    }

    #[test]
    fn three_blocks_fit_beside_timestamps_and_four_without() {
        let sack: SackBlocks = (0..6).map(|i| block(i * 10, i * 10 + 5)).collect();
        assert_eq!(sack.as_slice().len(), 4);
        let alone = Options { sack, ..Options::default() };
        assert_eq!((alone.len(), Options::parse(&alone.emit().0).sack.as_slice().len()), (36, 4));
        let both = Options { timestamps: Some(Timestamps::default()), ..alone };
        assert_eq!((both.len(), Options::parse(&both.emit().0).sack.as_slice().len()), (40, 3));
    }

    #[test]
    fn an_illegal_length_ends_the_list_and_a_wrong_one_is_passed_over() {
        assert!(!Options::parse(&[2, 4, 5, 180, 9, 0, 4, 2]).sack_permitted, "length zero");
        assert!(!Options::parse(&[9, 1, 4, 2]).sack_permitted, "length one");
        assert_eq!(
            Options::parse(&[4, 2, 8, 10, 1, 2]),
            Options { sack_permitted: true, ..Options::default() },
            "cut off"
        );
        assert_eq!(Options::parse(&[2, 3, 5, 4, 2]), Options { sack_permitted: true, ..Options::default() });
        assert_eq!(Options::parse(&[5, 6, 0, 0, 0, 0, 3, 3, 9]).window_scale, Some(9));
        assert_eq!(Options::parse(&[253, 4, 1, 1, 0, 4, 2]), Options::default(), "nothing behind the end");
    }

    #[test]
    fn a_cookie_has_four_to_sixteen_bytes_in_pairs() {
        assert!(Cookie::new(&[]).is_some_and(|c| c.is_request()));
        assert!([1, 2, 3, 5, 17, 18].iter().all(|len| Cookie::new(&vec![7; *len]).is_none()));
        assert!(
            [4, 6, 8, 16]
                .iter()
                .all(|len| Cookie::new(&vec![7; *len]).is_some_and(|c| c.as_slice().len() == *len))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_options_and_what_is_written_is_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut options = Options::parse(&bytes);
            let (written, len) = options.emit();
            prop_assert!(len <= OPTIONS_MAX && len.is_multiple_of(4));
            prop_assert_eq!(len, options.len());
            let read = Options::parse(&written[..len]);
            // What claimed more room than a header has may have lost blocks, and nothing else, unless it was
            // absurd.
            if bytes.len() <= OPTIONS_MAX {
                options.sack.truncate(read.sack.as_slice().len());
                prop_assert_eq!(read, options);
            }
        }
    }
}
