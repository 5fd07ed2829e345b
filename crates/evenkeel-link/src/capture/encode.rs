//! The blocks of pcapng (draft-ietf-opsawg-pcapng), appended to a buffer: time stamps in nanoseconds,
//! little-endian order.
//!
//! ```text
//!   section header | interface 0 | interface 1 | ... | packet | ... | statistics 0 | statistics 1 | ...
//! ```

use evenkeel_core::frame::LinkType;
use evenkeel_core::wire::EthernetAddress;

use super::block;

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Inbound = 1,
    /// Sent.
    Outbound = 2,
}

/// An interface as a capture describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Described {
    /// The name of the interface.
    pub name: String,
    /// The link type of its frames, which determines their first header.
    pub link_type: LinkType,
    /// The hardware address of the interface.
    pub address: Option<EthernetAddress>,
    /// The most bytes of a frame that were kept; 0 for all.
    pub snaplen: u32,
    /// The filter expression that chose the frames; empty for none.
    pub filter: String,
}

/// A frame as a capture records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The interface, by its place in the capture.
    pub interface: u32,
    /// The direction of the frame.
    pub direction: Direction,
    /// The time of capture, in nanoseconds since 1970.
    pub time: u64,
    /// Bytes of the frame on the wire.
    pub original_bytes: u32,
    /// Frames lost between the previous one and this one; 0 is not written.
    pub dropped_before: u64,
    /// The captured bytes of the packet; fewer than `original_bytes` if it was cut.
    pub bytes: &'a [u8],
    /// A remark about the frame, of at most [`COMMENT_MAX`] bytes; empty for none.
    pub comment: &'a str,
}

/// Statistics of an interface, from the beginning of the capture. Unknown values are not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nanoseconds since 1970 when the recording began.
    pub begin: u64,
    /// Nanoseconds since 1970 when the recording ended.
    pub end: u64,
    /// Received frames, including shed ones.
    pub received: Option<u64>,
    /// Received frames that the interface shed.
    pub missed: Option<u64>,
    /// Frames that were received, not shed, and accepted by the filter.
    pub accepted: Option<u64>,
    /// Accepted frames that were lost on the way to the file.
    pub dropped: Option<u64>,
    /// Accepted frames that were delivered to the file.
    pub delivered: Option<u64>,
}

/// The codes of the pcapng options that the encoder writes.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const SHB_OS: u16 = 3;
    pub(super) const SHB_USERAPPL: u16 = 4;
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const IF_MACADDR: u16 = 6;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const IF_FILTER: u16 = 11;
    pub(super) const EPB_FLAGS: u16 = 2;
    pub(super) const EPB_DROPCOUNT: u16 = 4;
    pub(super) const ISB_STARTTIME: u16 = 2;
    pub(super) const ISB_ENDTIME: u16 = 3;
    pub(super) const ISB_IFRECV: u16 = 4;
    pub(super) const ISB_IFDROP: u16 = 5;
    pub(super) const ISB_FILTERACCEPT: u16 = 6;
    pub(super) const ISB_OSDROP: u16 = 7;
    pub(super) const ISB_USRDELIV: u16 = 8;
}

const APPLICATION: &str = concat!("evenkeel ", env!("CARGO_PKG_VERSION"));

/// The kind of a filter in `if_filter`: an expression of libpcap.
const FILTER_EXPRESSION: u8 = 0;

/// The most bytes of a packet's block besides its captured bytes: header, trailer, padding, options; without
/// a comment.
pub const PACKET_OVERHEAD: usize = 32 + 3 + 8 + 12 + 4;

/// The most bytes of a comment that are written.
pub const COMMENT_MAX: usize = 512;

/// Returns the bytes that a comment adds to a packet's block.
#[must_use]
pub fn comment_overhead(comment: &str) -> usize {
    match shortened(comment).len() {
        0 => 0,
        len => 4 + len.next_multiple_of(4),
    }
}

/// Returns the part of a comment that is written, in whole characters.
fn shortened(comment: &str) -> &str {
    comment.get(..comment.floor_char_boundary(COMMENT_MAX)).unwrap_or(comment)
}

/// Returns the name and release of the operating system, as captures record it.
#[must_use]
pub fn operating_system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim()).trim_end().to_owned()
}

/// Begins a file with its section and its interfaces. `system` is the operating system.
pub fn begin(file: &mut Vec<u8>, system: &str, interfaces: &[Described]) {
    block(file, block::SECTION, |file| {
        file.extend(block::BYTE_ORDER_MAGIC.to_le_bytes());
        file.extend([1, 0, 0, 0]); // version 1.0
        file.extend(u64::MAX.to_le_bytes()); // section length not given
        if !system.is_empty() {
            add_option(file, option::SHB_OS, system.as_bytes());
        }
        add_option(file, option::SHB_USERAPPL, APPLICATION.as_bytes());
        add_option(file, option::END, &[]);
    });
    for interface in interfaces {
        describe(file, interface);
    }
}

/// Adds the description of another interface, which has the next number.
pub fn describe(file: &mut Vec<u8>, interface: &Described) {
    block(file, block::INTERFACE, |file| {
        file.extend(u32::from(interface.link_type.0).to_le_bytes());
        file.extend(interface.snaplen.to_le_bytes());
        add_option(file, option::IF_NAME, interface.name.as_bytes());
        if let Some(address) = interface.address {
            add_option(file, option::IF_MACADDR, &address.0);
        }
        add_option(file, option::IF_TSRESOL, &[9]);
        if !interface.filter.is_empty() {
            add_option(
                file,
                option::IF_FILTER,
                &[&[FILTER_EXPRESSION], interface.filter.as_bytes()].concat(),
            );
        }
        add_option(file, option::END, &[]);
    });
}

/// Adds a packet. The format limits it to 4 GiB.
pub fn packet(file: &mut Vec<u8>, packet: &Packet<'_>) {
    let captured = u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX);
    let bytes = packet.bytes.get(..captured as usize).unwrap_or_default();
    let padding = bytes.len().wrapping_neg() & 3;
    let drop_count = if packet.dropped_before > 0 { 4 + 8 } else { 0 };
    let comment = comment_overhead(packet.comment);
    // The block has type, length and the fixed fields; then flags, drop count, comment and end of options;
    // then the length again.
    let total = (8 + 20 + bytes.len() + padding + 8 + drop_count + comment + 4 + 4) as u32;
    file.extend_from_slice(
        words([
            block::ENHANCED_PACKET,
            total,
            packet.interface,
            (packet.time >> 32) as u32,
            packet.time as u32,
            captured,
            packet.original_bytes.max(captured),
        ])
        .as_flattened(),
    );
    file.extend_from_slice(bytes);
    pad(file, bytes.len());
    file.extend_from_slice(
        words([option_head(option::EPB_FLAGS, 4), packet.direction as u32]).as_flattened(),
    );
    if packet.dropped_before > 0 {
        add_option(file, option::EPB_DROPCOUNT, &packet.dropped_before.to_le_bytes());
    }
    if comment > 0 {
        add_option(file, option::COMMENT, shortened(packet.comment).as_bytes());
    }
    file.extend_from_slice(words([option_head(option::END, 0), total]).as_flattened());
}

/// Returns code and length of an option as one word.
const fn option_head(code: u16, len: u16) -> u32 {
    code as u32 | (len as u32) << 16
}

/// Returns words in the byte order of a file.
fn words<const N: usize>(words: [u32; N]) -> [[u8; 4]; N] {
    words.map(u32::to_le_bytes)
}

/// Adds the statistics of an interface, identified by its place in the capture.
pub fn statistics(file: &mut Vec<u8>, interface: u32, totals: &Totals) {
    block(file, block::STATISTICS, |file| {
        file.extend(interface.to_le_bytes());
        file.extend(halves(totals.end));
        add_option(file, option::ISB_STARTTIME, &halves(totals.begin));
        add_option(file, option::ISB_ENDTIME, &halves(totals.end));
        let counters = [
            (option::ISB_IFRECV, totals.received),
            (option::ISB_IFDROP, totals.missed),
            (option::ISB_FILTERACCEPT, totals.accepted),
            (option::ISB_OSDROP, totals.dropped),
            (option::ISB_USRDELIV, totals.delivered),
        ];
        for (code, counter) in counters {
            if let Some(counter) = counter {
                add_option(file, code, &counter.to_le_bytes());
            }
        }
        add_option(file, option::END, &[]);
    });
}

/// Adds a block: its type, its length, the bytes from `body`, and its length again.
fn block(file: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = file.len();
    file.extend(kind.to_le_bytes());
    file.extend([0; 4]);
    body(file);
    let total = ((file.len() - start + 4) as u32).to_le_bytes();
    if let Some(length) = file.get_mut(start + 4..start + 8) {
        length.copy_from_slice(&total);
    }
    file.extend(total);
}

fn add_option(file: &mut Vec<u8>, code: u16, value: &[u8]) {
    // Only a filter expression could exceed the limit of an option.
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    file.extend(code.to_le_bytes());
    file.extend((value.len() as u16).to_le_bytes());
    file.extend_from_slice(value);
    pad(file, value.len());
}

/// Returns a time stamp with its upper half first, as the format requires.
fn halves(nanos: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    let (upper, lower) = bytes.split_at_mut(4);
    upper.copy_from_slice(&((nanos >> 32) as u32).to_le_bytes());
    lower.copy_from_slice(&(nanos as u32).to_le_bytes());
    bytes
}

/// Pads the file, after `len` bytes, to a multiple of four bytes.
fn pad(file: &mut Vec<u8>, len: usize) {
    let padding = [0; 3];
    file.extend_from_slice(padding.get(..len.wrapping_neg() & 3).unwrap_or_default());
}

/// Returns the length of the whole blocks at the front of `bytes` that end within its first `limit` bytes.
/// That part of a file may stay.
///
/// `bytes` must begin with a block, and contain only blocks from this encoder.
pub(crate) fn whole_blocks(bytes: &[u8], limit: usize) -> usize {
    let mut end = 0;
    while let Some(rest) = bytes.get(end..) {
        let next = end + whole_block(rest);
        if next > limit {
            break;
        }
        end = next;
    }
    end
}

/// Returns the number of packets in the first `len` bytes of `bytes`, which end with a block.
pub(crate) fn count_packets(bytes: &[u8], len: usize) -> u64 {
    let (mut at, mut packets) = (0, 0);
    while at < len {
        let kind = bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
        packets += u64::from(kind.map(u32::from_le_bytes) == Some(block::ENHANCED_PACKET));
        let rest = bytes.get(at..).unwrap_or_default();
        at += whole_block(rest);
    }
    packets
}

/// Returns the length of the block that `bytes` begins with.
fn whole_block(bytes: &[u8]) -> usize {
    let length = bytes.get(4..).and_then(<[u8]>::first_chunk).copied();
    length.map_or(usize::MAX / 2, |length| u32::from_le_bytes(length) as usize).max(12)
}

#[cfg(test)]
mod tests {
    use prop::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::capture::Reader;

    #[test]
    fn the_longest_packet_block_is_as_long_as_said() {
        let mut longest = 0;
        for len in 0..8 {
            let mut file = Vec::new();
            let bytes = vec![0; len];
            let lost = Packet {
                interface: 0,
                direction: Direction::Inbound,
                time: 0,
                original_bytes: 0,
                dropped_before: 1,
                bytes: &bytes,
                comment: "",
            };
            packet(&mut file, &lost);
            assert_eq!(file.len() % 4, 0);
            longest = longest.max(file.len() - len);
        }
        assert_eq!(longest, PACKET_OVERHEAD);
    }

    #[test]
    fn a_comment_adds_what_was_said_and_ends_with_a_character() {
        let with = |comment: &str| {
            let bare = Packet {
                interface: 0,
                direction: Direction::Inbound,
                time: 0,
                original_bytes: 0,
                dropped_before: 0,
                bytes: &[],
                comment,
            };
            let mut file = Vec::new();
            packet(&mut file, &bare);
            file
        };
        let long = format!("{}\u{b5}", "x".repeat(COMMENT_MAX - 1));
        for comment in ["", "a", "abcd", "\u{b5}m", &long] {
            let file = with(comment);
            assert_eq!(file.len(), with("").len() + comment_overhead(comment), "{comment}");
        }
        assert_eq!(comment_overhead(&long), 4 + COMMENT_MAX, "cut before the character that does not fit");
    }

    proptest! {
        /// A written capture reads back. Cut at any place, it reads back as the packets written up to
        /// there.
        #[test]
        fn what_is_written_reads_back(
            frames in vec((vec(any::<u8>(), 0..200), any::<u64>(), 0..300_u32, 0..3_u64, ".{0,9}"), 0..20),
            filter in "[ -~]{0,70}",
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = Vec::new();
            let interface = Described { name: "ek0".into(), snaplen: 96, filter, ..Described::default() };
            begin(&mut file, "Linux", &[interface.clone(), interface]);
            let mut ends = vec![file.len()];
            for (number, (bytes, time, more, dropped, comment)) in frames.iter().enumerate() {
                packet(&mut file, &Packet {
                    interface: number as u32 % 2,
                    direction: if number % 3 == 0 { Direction::Inbound } else { Direction::Outbound },
                    time: *time,
                    original_bytes: bytes.len() as u32 + more,
                    dropped_before: *dropped,
                    bytes,
                    comment,
                });
                ends.push(file.len());
            }
            statistics(&mut file, 1, &Totals { accepted: Some(7), ..Totals::default() });
            prop_assert_eq!(count_packets(&file, file.len()), frames.len() as u64);
            let limit = cut.index(file.len() + 1);
            let whole = whole_blocks(&file, limit);
            let expected = ends.iter().skip(1).filter(|&&end| end <= limit).count();
            for (bytes, expected) in [(&file[..], frames.len()), (&file[..whole], expected)] {
                if bytes.len() < ends[0] {
                    continue;
                }
                let mut reader = Reader::new(bytes).unwrap();
                for (bytes, time, more, ..) in &frames[..expected] {
                    prop_assert!(reader.advance().unwrap());
                    prop_assert_eq!((reader.frame(), reader.time()), (&bytes[..], *time));
                    prop_assert_eq!(reader.original_bytes(), bytes.len() as u32 + more);
                }
                prop_assert!(!reader.advance().unwrap());
            }
        }
    }

    #[test]
    fn a_file_may_be_cut_between_blocks() {
        let mut file = Vec::new();
        begin(&mut file, "", &[Described::default()]);
        let ends = [whole_blocks(&file, file.len() - 1), file.len()];
        assert!(0 < ends[0] && ends[0] < ends[1]);
        for limit in 0..=file.len() {
            let end = whole_blocks(&file, limit);
            let expected = [0, ends[0], ends[1]].into_iter().rfind(|&end| end <= limit);
            assert_eq!(Some(end), expected);
        }
    }
}
