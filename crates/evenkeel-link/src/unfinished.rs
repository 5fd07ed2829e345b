//! Checksums that a sender of the same kernel left to an adaptor, where nothing says so.
//!
//! Over a veth a frame keeps such a checksum, and AF_XDP does not say which frames have one. The field then
//! holds the sum of the pseudo-header alone, not complemented.

use crate::received::Unfinished;
use evenkeel_core::segmentation::folded_sum;

/// Returns the checksum of a plain UDP datagram or TCP segment that holds the sum of its pseudo-header and
/// nothing else. Of complete checksums, one in 65 536 looks like that.
#[inline]
pub(crate) fn unfinished_in(frame: &[u8]) -> Option<Unfinished> {
    let (addresses, start, protocol) = match frame.get(12..15)? {
        [0x08, 0x00, 0x45] => (frame.get(26..34)?, 34, *frame.get(23)?),
        [0x86, 0xdd, _] => (frame.get(22..54)?, 54, *frame.get(20)?),
        _ => return None,
    };
    let offset = match protocol {
        17 => 6,
        6 => 16,
        _ => return None,
    };
    let len = match start {
        34 => u16::from_be_bytes([*frame.get(16)?, *frame.get(17)?]).checked_sub(20)?,
        _ => u16::from_be_bytes([*frame.get(18)?, *frame.get(19)?]),
    };
    // Nothing follows the packet, over which the sum would go as well.
    if frame.len() != start + usize::from(len) {
        return None;
    }
    let &field = frame.get(start + offset..)?.first_chunk()?;
    let sum = u32::from(folded_sum(addresses)) + u32::from(protocol) + u32::from(len);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (folded == u32::from(u16::from_be_bytes(field))).then_some(Unfinished { start, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::complete;

    /// Returns a datagram over IPv4 with this payload and a checksum that is left to an adaptor.
    fn datagram(payload: &[u8]) -> Vec<u8> {
        let len = 8 + payload.len() as u16;
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x30, 0x39, 0, 7]);
        frame.extend(len.to_be_bytes());
        let sum = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + len;
        frame.extend(sum.to_be_bytes());
        frame.extend(payload);
        frame
    }

    #[test]
    fn what_holds_the_sum_of_its_pseudo_header_is_unfinished() {
        let mut frame = datagram(b"abc");
        let unfinished = unfinished_in(&frame).unwrap();
        assert_eq!(unfinished, Unfinished { start: 34, offset: 6 });
        assert!(complete(&mut frame, unfinished));
        assert_eq!(unfinished_in(&frame), None, "it is complete now");
        for (at, byte) in [(14, 0x46), (23, 1), (40, 0xff), (17, 32)] {
            let mut other = datagram(b"abc");
            other[at] = byte;
            assert_eq!(unfinished_in(&other), None, "byte {at}");
        }
        for len in 0..frame.len() {
            assert_eq!(unfinished_in(&datagram(b"abc")[..len]), None);
        }
    }
}
