//! Cutting an IPv4 packet that is too large for its next link (RFC 791 3.2, RFC 1812 4.2.2.7).

use crate::frame::{Frame, Pool};
use crate::tcp::Checksum;

const FIXED: usize = 20;
const OPTIONS_MAX: usize = 40;
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// The bit of an option's type that marks it as one for every fragment.
const COPIED: u8 = 0x80;

/// The options of fragments other than the first.
#[derive(Debug)]
struct Options {
    bytes: [u8; OPTIONS_MAX],
    len: usize,
}

impl Options {
    /// Copies those of `options` that are marked for every fragment, padded with "end of options". The list
    /// has been checked on input.
    fn copied_from(mut options: &[u8]) -> Self {
        const END: u8 = 0;
        const NOTHING: u8 = 1;
        let mut copied = Self { bytes: [END; OPTIONS_MAX], len: 0 };
        while let [kind, rest @ ..] = options {
            let len = match (*kind, rest) {
                (END, _) | (_, []) => break,
                (NOTHING, _) => 1,
                (_, [len, ..]) => usize::from(*len),
            };
            let Some((option, behind)) = options.split_at_checked(len.max(1)) else { break };
            if kind & COPIED != 0 {
                copied.push(option);
            }
            options = behind;
        }
        copied.len = copied.len.next_multiple_of(4);
        copied
    }

    fn push(&mut self, option: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + option.len()) {
            place.copy_from_slice(option);
            self.len += option.len();
        }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A packet that is cut into fragments of `mtu` bytes at most, in order, one at a time. It may be a fragment
/// itself.
#[derive(Debug)]
pub(crate) struct Cutter<'a> {
    fixed: &'a [u8; FIXED],
    options: &'a [u8],
    /// Those of all fragments but the first.
    later: Options,
    payload: &'a [u8],
    mtu: usize,
    /// Bytes of payload that have been cut off.
    offset: usize,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(packet: &'a [u8], mtu: usize) -> Option<Self> {
        let header_len = usize::from(packet.first()? & 0xf) * 4;
        let (header, payload) = packet.split_at_checked(header_len)?;
        let (fixed, options) = header.split_first_chunk::<FIXED>()?;
        Some(Self { fixed, options, later: Options::copied_from(options), payload, mtu, offset: 0 })
    }

    /// Fragments that are still to come.
    pub(crate) fn left(&self) -> usize {
        let left = self.payload.len().saturating_sub(self.offset);
        let next = self.room(self.offset);
        if left == 0 { 0 } else { 1 + left.saturating_sub(next).div_ceil(self.room(self.offset + next)) }
    }

    /// Returns the largest payload, in bytes, of the fragment at `offset`.
    fn room(&self, offset: usize) -> usize {
        self.mtu.saturating_sub(FIXED + self.options_at(offset).len()).max(8) & !7
    }

    fn options_at(&self, offset: usize) -> &[u8] {
        if offset == 0 { self.options } else { self.later.as_slice() }
    }

    /// Returns the next fragment. `None` if none is left, or no buffer is free.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<Frame> {
        let end = self.payload.len().min(self.offset + self.room(self.offset));
        let part = self.payload.get(self.offset..end).filter(|part| !part.is_empty())?;
        let more = end < self.payload.len();
        let fragment = emit(self.fixed, self.options_at(self.offset), part, self.offset, more, pool)?;
        self.offset = end;
        Some(fragment)
    }
}

/// Writes one fragment, `offset` bytes into the payload of the packet with the header `fixed`.
fn emit(
    fixed: &[u8; FIXED],
    options: &[u8],
    part: &[u8],
    offset: usize,
    more: bool,
    pool: &mut Pool,
) -> Option<Frame> {
    let mut frame = pool.take()?;
    let header_len = FIXED + options.len();
    if !frame.resize(header_len + part.len()) {
        pool.recycle(frame);
        return None;
    }
    let mut header = *fixed;
    header[0] = 0x40 | (header_len / 4) as u8;
    [header[2], header[3]] = ((header_len + part.len()) as u16).to_be_bytes();
    let field = u16::from_be_bytes([header[6], header[7]]);
    let place = (field & OFFSET) + (offset / 8) as u16;
    let flags = (field & !OFFSET) | if more { MORE } else { 0 };
    [header[6], header[7]] = (flags | place & OFFSET).to_be_bytes();
    [header[10], header[11]] = [0, 0];
    [header[10], header[11]] = Checksum::default().add(&header).add(options).finish().to_be_bytes();
    let bytes = frame.bytes_mut();
    let (to_header, to_part) = bytes.split_at_mut_checked(header_len)?;
    let (to_fixed, to_options) = to_header.split_at_mut_checked(FIXED)?;
    to_fixed.copy_from_slice(&header);
    to_options.copy_from_slice(options);
    to_part.copy_from_slice(part);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(field: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let header_len = FIXED + options.len();
        let mut packet = vec![0x40 | (header_len / 4) as u8, 0x2e];
        packet.extend(((header_len + payload.len()) as u16).to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(field.to_be_bytes());
        packet.extend([9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(options);
        packet.extend(payload);
        packet
    }

    fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut pool = Pool::new(64);
        let mut cutter = Cutter::new(packet, mtu).unwrap();
        let mut fragments = Vec::new();
        let mut left = cutter.left();
        while let Some(frame) = cutter.next(&mut pool) {
            left -= 1;
            assert_eq!(cutter.left(), left);
            fragments.push(frame.bytes().to_vec());
            pool.recycle(frame);
        }
        assert_eq!(left, 0);
        fragments
    }

    #[test]
    fn options_are_in_the_first_fragment_and_those_to_be_copied_in_all() {
        // Record route (not copied), nothing, router alert (copied), a security option (copied), end.
        let record_route = [7, 7, 4, 0, 0, 0, 0];
        let (alert, security) = ([0x94, 4, 0, 0], [0x82, 3, 9]);
        let options = [&record_route[..], &[1], &alert, &security, &[0]].concat();
        let fragments = cut(&packet(0, &options, &[7; 1000]), 576);
        let header_lens: Vec<_> = fragments.iter().map(|bytes| usize::from(bytes[0] & 0xf) * 4).collect();
        assert_eq!(header_lens, [36, 28]);
        assert_eq!(fragments[0][20..36], options);
        assert_eq!(fragments[1][20..28], [&alert[..], &security, &[0]].concat());
        // 540 bytes are room for 67 times eight; the last fragment has the rest.
        assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [36 + 536, 28 + 464]);
    }

    #[test]
    fn a_fragment_is_cut_into_fragments_of_the_same_packet() {
        // Flags and offset: more to come, 1480 bytes in.
        let fragments = cut(&packet(MORE | 185, &[], &[7; 1480]), 1006);
        let fields: Vec<_> = fragments.iter().map(|bytes| u16::from_be_bytes([bytes[6], bytes[7]])).collect();
        assert_eq!(fields, [MORE | 185, MORE | (185 + 123)]);
        let last = cut(&packet(185, &[], &[7; 1481]), 1006);
        let fields: Vec<_> = last.iter().map(|bytes| u16::from_be_bytes([bytes[6], bytes[7]])).collect();
        assert_eq!(fields, [MORE | 185, 185 + 123]);
    }

    #[test]
    fn without_a_buffer_nothing_is_cut_off() {
        let (packet, mut pool) = (packet(0, &[], &[7; 1480]), Pool::new(1));
        let mut cutter = Cutter::new(&packet, 576).unwrap();
        let first = cutter.next(&mut pool).unwrap();
        assert!(cutter.next(&mut pool).is_none());
        assert_eq!(cutter.left(), 2);
        pool.recycle(first);
        assert_eq!(cutter.next(&mut pool).map(|frame| frame.bytes()[6..8].to_vec()), Some(vec![0x20, 69]));
    }

    proptest! {
        #[test]
        fn fragments_of_fragments_make_up_the_packet(
            payload in proptest::collection::vec(any::<u8>(), 1..1800),
            base in 0..4000_u16, more in any::<bool>(), words in 0..=10_usize,
            mtu in 68..1500_usize, smaller in 68..1500_usize,
        ) {
            let options = vec![1; words * 4];
            let field = base | if more { MORE } else { 0 };
            let original = packet(field, &options, &payload);
            let mut together = Vec::<u8>::new();
            let once = cut(&original, mtu);
            let twice: Vec<_> = once.iter().flat_map(|bytes| {
                if bytes.len() > smaller { cut(bytes, smaller) } else { vec![bytes.clone()] }
            }).collect();
            for (place, bytes) in twice.iter().enumerate() {
                prop_assert!(bytes.len() <= mtu);
                let header_len = usize::from(bytes[0] & 0xf) * 4;
                prop_assert_eq!(Checksum::default().add(&bytes[..header_len]).finish(), 0);
                prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
                let field = u16::from_be_bytes([bytes[6], bytes[7]]);
                prop_assert_eq!(usize::from(field & OFFSET), usize::from(base) + together.len() / 8);
                prop_assert_eq!(field & MORE != 0, more || place + 1 < twice.len());
                together.extend(&bytes[header_len..]);
                prop_assert_eq!(&bytes[4..6], &original[4..6]);
                prop_assert_eq!(&bytes[8..10], &original[8..10]);
                prop_assert_eq!(&bytes[12..20], &original[12..20]);
            }
            prop_assert_eq!(together, payload);
        }
    }
}
