//! A frame in a ring of a packet socket, `TPACKET_V2` or `TPACKET_V3`: the kernel's description of it, and
//! the work that the kernel left.

use core::mem::{offset_of, size_of};

use libc::{tpacket_hdr_variant1, tpacket2_hdr, tpacket3_hdr};

use evenkeel_core::segmentation::{Offload, folded_sum};

/// The memory of a ring.
///
/// # Safety
/// `base` points to `len` readable and writable bytes, aligned to 16, for as long as the value lives, even if
/// it moves. Only a kernel that follows the ring's protocol accesses them otherwise.
pub(crate) unsafe trait Memory {
    fn base(&self) -> *mut u8;
    fn len(&self) -> usize;
}

/// The content of a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    /// A frame.
    Frame(Received<'a>),
    /// The lengths point outside the slot. The kernel does not write such slots.
    Malformed,
}

/// A frame in its slot, with the tag that the kernel took out and the work that it left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received<'a> {
    /// The bytes in the slot: the whole frame, unless it exceeds the slot or was cut to a snapshot length.
    pub(crate) bytes: &'a [u8],
    /// Bytes of the frame, without the VLAN tag.
    pub(crate) whole: usize,
    /// The segmentation that the sender left to the adaptor (segmentation offload).
    pub(crate) to_be_segmented: Option<Offload>,
    /// Whether the frame is larger than the slot and waits as a whole in the socket's queue.
    pub(crate) is_queued: bool,
    /// The time at which the frame passed, in nanoseconds since 1970.
    pub(crate) stamp_nanos: u64,
    /// Whether the frame was on its way out.
    pub(crate) sent: bool,
    /// The VLAN tag that stood after the source address: TPID and TCI.
    pub(crate) vlan: Option<[u8; 4]>,
    /// A checksum that the sender left to the adaptor.
    pub(crate) unfinished: Option<Unfinished>,
}

/// A checksum still to be completed: the sum over everything from `start` to the end goes to `start +
/// offset`, which already holds the sum of the pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) start: usize,
    pub(crate) offset: usize,
}

impl Received<'_> {
    /// Returns the length of the frame with its VLAN tag in place.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.vlan.map_or(0, |tag| tag.len())
    }

    /// Returns whether the slot holds the whole frame and no segmentation is left.
    pub(crate) fn is_whole(&self) -> bool {
        self.bytes.len() == self.whole && self.to_be_segmented.is_none()
    }

    /// Returns whether the headers of the frame are final: no VLAN tag was taken out, and nothing but the
    /// checksum of a plain datagram or segment is unfinished.
    #[inline]
    pub(crate) fn has_its_headers(&self) -> bool {
        self.vlan.is_none() && self.unfinished.is_none_or(|unfinished| unfinished.is_plain_in(self.bytes))
    }

    /// Writes the frame to `room`, which is [`Received::len`] long, with its VLAN tag in place and its
    /// checksum completed. Returns false if the checksum is invalid.
    pub(crate) fn write(&self, room: &mut [u8]) -> bool {
        const ADDRESSES: usize = 12;
        let tag = self.vlan.as_ref().map_or(&[][..], |tag| tag);
        let (addresses, rest) = self.bytes.split_at(self.bytes.len().min(ADDRESSES));
        let (to_addresses, to_rest) = room.split_at_mut(addresses.len());
        let (to_tag, to_rest) = to_rest.split_at_mut(tag.len());
        to_addresses.copy_from_slice(addresses);
        to_tag.copy_from_slice(tag);
        to_rest.copy_from_slice(rest);
        let Some(mut unfinished) = self.unfinished else { return true };
        // The kernel counts from the start of the frame without its tag.
        unfinished.start += tag.len();
        complete(room, unfinished)
    }
}

impl Unfinished {
    /// Returns whether the checksum is that of UDP or TCP, behind an IP header without options or
    /// extensions, and lies in the frame. A sender can name any other place.
    #[inline]
    pub(crate) fn is_plain_in(self, frame: &[u8]) -> bool {
        let (ip, protocol) = match frame.get(12..15) {
            Some([0x08, 0x00, 0x45]) => (20, frame.get(23)),
            Some([0x86, 0xdd, _]) => (40, frame.get(20)),
            _ => return false,
        };
        let offset = match protocol {
            Some(17) => 6,
            Some(6) => 16,
            _ => return false,
        };
        self.start == 14 + ip && self.offset == offset && self.start + self.offset + 2 <= frame.len()
    }
}

/// Bytes of `struct virtio_net_hdr`, which `PACKET_VNET_HDR` puts in front of the frame.
pub(crate) const VNET_BYTES: usize = 10;
pub(crate) const VNET_NEEDS_CSUM: u8 = 1;
const TPID_8021Q: u16 = 0x8100;

/// The offsets of the fields that the kernel writes in front of a frame, in bytes from the start of a ring's
/// read.
pub(crate) trait Layout {
    const WHOLE: usize;
    const CAPTURED: usize;
    const MAC: usize;
    const VLAN_TCI: usize;
    const VLAN_TPID: usize;
    const SECONDS: usize;
    const NANOS: usize;
    /// The packet type in `struct sockaddr_ll`, after the header (`TPACKET_ALIGN`).
    const PACKET_TYPE: usize;
    /// Bytes of the header before the read. The offset of the frame counts from the header's beginning.
    const SKIPPED: usize;
}

/// The layout of a slot after the status word (`TPACKET_V2`).
pub(crate) struct InSlot;

impl Layout for InSlot {
    const WHOLE: usize = offset_of!(tpacket2_hdr, tp_len) - Self::SKIPPED;
    const CAPTURED: usize = offset_of!(tpacket2_hdr, tp_snaplen) - Self::SKIPPED;
    const MAC: usize = offset_of!(tpacket2_hdr, tp_mac) - Self::SKIPPED;
    const VLAN_TCI: usize = offset_of!(tpacket2_hdr, tp_vlan_tci) - Self::SKIPPED;
    const VLAN_TPID: usize = offset_of!(tpacket2_hdr, tp_vlan_tpid) - Self::SKIPPED;
    const SECONDS: usize = offset_of!(tpacket2_hdr, tp_sec) - Self::SKIPPED;
    const NANOS: usize = offset_of!(tpacket2_hdr, tp_nsec) - Self::SKIPPED;
    const PACKET_TYPE: usize = size_of::<tpacket2_hdr>().next_multiple_of(16)
        + offset_of!(libc::sockaddr_ll, sll_pkttype)
        - Self::SKIPPED;
    const SKIPPED: usize = size_of::<u32>();
}

/// The layout of a frame in a block (`TPACKET_V3`).
pub(crate) struct InBlock;

impl Layout for InBlock {
    const WHOLE: usize = offset_of!(tpacket3_hdr, tp_len);
    const CAPTURED: usize = offset_of!(tpacket3_hdr, tp_snaplen);
    const MAC: usize = offset_of!(tpacket3_hdr, tp_mac);
    // This is the lower half of a word.
    const VLAN_TCI: usize = offset_of!(tpacket3_hdr, hv1)
        + offset_of!(tpacket_hdr_variant1, tp_vlan_tci)
        + if cfg!(target_endian = "big") { 2 } else { 0 };
    const VLAN_TPID: usize = offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid);
    const SECONDS: usize = offset_of!(tpacket3_hdr, tp_sec);
    const NANOS: usize = offset_of!(tpacket3_hdr, tp_nsec);
    const PACKET_TYPE: usize =
        size_of::<tpacket3_hdr>().next_multiple_of(16) + offset_of!(libc::sockaddr_ll, sll_pkttype);
    const SKIPPED: usize = 0;
}

/// The bytes that hold header and address.
const HEAD_BYTES: usize = 64;

/// Parses the content of a ring. Returns `None` if its lengths point outside of `bytes`.
#[inline]
pub(crate) fn parse<L: Layout>(bytes: &[u8], status: u32) -> Option<Received<'_>> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let u16_at = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let u32_at = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);

    let mac = usize::from(u16_at(L::MAC)).checked_sub(L::SKIPPED)?;
    let vnet: &[u8; VNET_BYTES] = bytes.get(mac.checked_sub(VNET_BYTES)?..)?.first_chunk()?;
    let bytes = bytes.get(mac..)?.get(..u32_at(L::CAPTURED) as usize)?;

    let vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tpid = if known { u16_at(L::VLAN_TPID) } else { TPID_8021Q };
        let ([a, b], [c, d]) = (tpid.to_be_bytes(), u16_at(L::VLAN_TCI).to_be_bytes());
        [a, b, c, d]
    });
    Some(Received {
        bytes,
        whole: u32_at(L::WHOLE) as usize,
        to_be_segmented: offload_of(vnet),
        is_queued: status & libc::TP_STATUS_COPY != 0,
        stamp_nanos: u64::from(u32_at(L::SECONDS)) * 1_000_000_000 + u64::from(u32_at(L::NANOS)),
        sent: head[L::PACKET_TYPE] == libc::PACKET_OUTGOING,
        vlan,
        unfinished: unfinished_of(vnet),
    })
}

/// Returns the checksum that was left to the adaptor, according to `struct virtio_net_hdr`.
#[inline]
pub(crate) fn unfinished_of(vnet: &[u8; VNET_BYTES]) -> Option<Unfinished> {
    let [flags, _, _, _, _, _, start_low, start_high, offset_low, offset_high] = *vnet;
    (flags & VNET_NEEDS_CSUM != 0).then(|| Unfinished {
        start: u16::from_ne_bytes([start_low, start_high]).into(),
        offset: u16::from_ne_bytes([offset_low, offset_high]).into(),
    })
}

/// Reads from a `struct virtio_net_hdr` the segmentation that is left to the adaptor; `None` if there is
/// none.
#[inline]
pub(crate) fn offload_of(vnet: &[u8; VNET_BYTES]) -> Option<Offload> {
    let [_, kind, _, _, size_low, size_high, start_low, start_high, _, _] = *vnet;
    let size = u16::from_ne_bytes([size_low, size_high]);
    (kind != 0).then(|| Offload { kind, size, transport: u16::from_ne_bytes([start_low, start_high]) })
}

/// Completes a checksum in place (RFC 1071). Returns false, and changes nothing, if it would lie outside the
/// frame.
pub(crate) fn complete(frame: &mut [u8], unfinished: Unfinished) -> bool {
    let Some(covered) = frame.get_mut(unfinished.start..) else { return false };
    let sum = !folded_sum(covered);
    let Some(field) = covered.get_mut(unfinished.offset..).and_then(|rest| rest.first_chunk_mut()) else {
        return false;
    };
    // In UDP zero means "no checksum", and all ones is the same number (RFC 768). Other protocols accept
    // both.
    *field = (if sum == 0 { 0xffff } else { sum }).to_be_bytes();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_checksum_is_completed() {
        // IPv4 pseudo-header 10.0.0.1 to 10.0.0.2, UDP, length 11: 0x0a00+0x0001+0x0a00+0x0002+0x0011+0x000b
        // = 0x141f.
        let datagram = [0x30, 0x39, 0, 7, 0, 11, 0x14, 0x1f, b'a', b'b', b'c'];
        let mut frame = [&[0; 34][..], &datagram].concat();
        assert!(complete(&mut frame, Unfinished { start: 34, offset: 6 }));
        let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 11];
        assert_eq!(
            folded_sum(&[&pseudo[..], &frame[34..]].concat()),
            0xffff,
            "RFC 1071: the whole sums to minus zero"
        );
    }

    #[test]
    fn what_is_undone_is_a_checksum_of_plain_packets_only_where_theirs_is() {
        let v4 = |protocol| [&[0; 12][..], &[8, 0, 0x45], &[0; 8], &[protocol], &[0; 40]].concat();
        let v6 = |protocol| [&[0; 12][..], &[0x86, 0xdd, 0x60], &[0; 5], &[protocol], &[0; 60]].concat();
        let plain = |frame: &[u8], start, offset| Unfinished { start, offset }.is_plain_in(frame);
        for (start, frame_of) in [(34, &v4 as &dyn Fn(u8) -> Vec<u8>), (54, &v6)] {
            for (protocol, offset) in [(17, 6), (6, 16)] {
                let frame = frame_of(protocol);
                let end = start + offset + 2;
                assert!(plain(&frame, start, offset) && plain(&frame[..end], start, offset));
                assert!(!plain(&frame[..end - 1], start, offset), "it is not in the frame");
                assert!(!plain(&frame, start, 22 - offset), "that of the other protocol");
                assert!(!plain(&frame, start - 4, offset) && !plain(&frame, 88 - start, offset));
            }
            assert!(!plain(&frame_of(1), start, 6), "ICMP");
        }
        let mut options = v4(17);
        options[14] = 0x46;
        assert!(!plain(&options, 34, 6) && !plain(&[0; 80], 34, 6) && !plain(&[], 34, 6));
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_all_ones() {
        let mut frame = [0xff, 0xff, 0, 0];
        assert!(complete(&mut frame, Unfinished { start: 0, offset: 2 }));
        assert_eq!(frame, [0xff; 4]);
    }

    #[test]
    fn a_checksum_outside_the_frame_changes_nothing() {
        let mut frame = [9; 40];
        for (start, offset) in [(41, 0), (40, 0), (34, 5), (0, 39), (65_535, 65_535)] {
            assert!(!complete(&mut frame, Unfinished { start, offset }), "{start} {offset}");
        }
        assert_eq!(frame, [9; 40]);
    }
}
