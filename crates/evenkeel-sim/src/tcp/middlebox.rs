//! Middleboxes that interfere with Fast Open (RFC 7413, 7.1): some drop unknown segments.

use core::ops::Range;

/// A middlebox that interferes with SYNs of Fast Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Middlebox {
    /// SYNs with data are dropped.
    EatsData,
    /// SYNs and SYN-ACKs with the option are dropped.
    EatsOption,
    /// The option is removed. Data stay, and the checksum is corrected.
    StripsOption,
}

const SYN: u8 = 2;
const OPTIONS: usize = 20;
const FAST_OPEN: u8 = 34;
const CHECKSUM: Range<usize> = 16..18;

impl Middlebox {
    /// Handles a segment, from the TCP header on. Returns whether the segment passes.
    pub(super) fn handle(self, segment: &mut [u8]) -> bool {
        let header = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4).min(segment.len());
        if segment.get(13).is_none_or(|flags| flags & SYN == 0) {
            return true;
        }
        let option = find_option(&segment[..header]);
        match (self, option) {
            (Self::EatsData, _) => segment.len() == header,
            (Self::EatsOption, option) => option.is_none(),
            (Self::StripsOption, Some(place)) => {
                strip(&mut segment[..header], place);
                true
            }
            (Self::StripsOption, None) => true,
        }
    }
}

fn find_option(header: &[u8]) -> Option<Range<usize>> {
    let mut at = OPTIONS;
    loop {
        match header.get(at..)? {
            [] | [0, ..] => return None,
            [1, ..] => at += 1,
            [kind, len, ..] => {
                let end = at + usize::from(*len).max(2);
                if *kind == FAST_OPEN {
                    return (end <= header.len()).then_some(at..end);
                }
                at = end;
            }
            [_] => return None,
        }
    }
}

/// Replaces the option with no-operations, and updates the checksum (RFC 1624).
fn strip(header: &mut [u8], option: Range<usize>) {
    let before = sum(header);
    header[option].fill(1);
    let [high, low] = [header[CHECKSUM.start], header[CHECKSUM.start + 1]];
    let checksum = !u16::from_be_bytes([high, low]);
    let checksum = !fold(u32::from(checksum) + u32::from(!before) + u32::from(sum(header)));
    header[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

fn sum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    fold(words.sum())
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}
