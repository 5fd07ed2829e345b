//! The memory-mapped receive ring of a packet socket (`TPACKET_V2`), walked over any memory it is handed.
//!
//! ```text
//!   slot 0           slot 1           slot 2                   one slot:
//!  ┌───────────────┬────────────────┬────────────────┬──       ┌────────┬────────┬─────────┬────────────┬────────┬──────┐
//!  │ status: user  │ status: user   │ status: kernel │         │ status │ header │ address │ virtio_net │ frame  │ room │
//!  └───────────────┴────────────────┴────────────────┴──       └────────┴────────┴─────────┴────────────┴────────┴──────┘
//!       ▲ next                           ▲ kernel's            0        4        32                     tp_mac
//! ```
//!
//! The status word says whose a slot is. The kernel fills a slot of its own and then stores `TP_STATUS_USER`; we read the slot
//! and then store `TP_STATUS_KERNEL`. Layouts: linux/if_packet.h and Documentation/networking/packet_mmap.rst.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr;

use crate::segment::Offload;

/// Memory that a ring lies in.
///
/// # Safety
/// `base` points to `len` readable and writable octets, aligned to 16, for as long as the value lives, moved or not. Nobody else touches
/// them but a kernel that keeps to the ring's protocol.
pub(crate) unsafe trait Memory {
    fn base(&self) -> *mut u8;
    fn len(&self) -> usize;
}

/// A ring of slots of equal size, read in order.
#[derive(Debug)]
pub(crate) struct Ring<M> {
    memory: M,
    slots: usize,
    slot_bytes: usize,
    next: usize,
}

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    /// A frame.
    Frame(Received<'a>),
    /// Lengths that point outside the slot. The kernel does not write such.
    Malformed,
}

/// A frame in its slot, and what the kernel took out of it or left undone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received<'a> {
    /// What is in the slot: all of it, unless it is larger than the slot, or was cut to a snapshot length.
    pub(crate) bytes: &'a [u8],
    /// Octets it had, without the VLAN tag.
    pub(crate) whole: usize,
    /// The sender left it to the adaptor to split it into several (segmentation offload).
    pub(crate) to_be_segmented: Option<Offload>,
    /// It is larger than the slot, and waits as a whole in the socket's queue.
    pub(crate) is_queued: bool,
    /// When it passed, in nanoseconds since 1970.
    pub(crate) stamp_nanos: u64,
    /// On its way out.
    pub(crate) sent: bool,
    /// The VLAN tag that stood after the source address: TPID and TCI.
    pub(crate) vlan: Option<[u8; 4]>,
    /// A checksum that the sender left to the adaptor.
    pub(crate) unfinished: Option<Unfinished>,
}

/// A checksum still to be completed: the sum over everything from `start` to the end goes to `start + offset`, where the sum of the
/// pseudo-header stands already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) start: usize,
    pub(crate) offset: usize,
}

/// Octets of `struct virtio_net_hdr`, which `PACKET_VNET_HDR` puts in front of the frame.
pub(crate) const VNET_BYTES: usize = 10;
const VNET_NEEDS_CSUM: u8 = 1;

/// What the kernel puts into a slot before the frame at most: header, address, virtio_net_hdr, and their alignment.
pub(crate) const SLOT_OVERHEAD: usize = 96;

impl<M: Memory> Ring<M> {
    /// A ring of as many slots of `slot_bytes` as fit. `None` if that is less than one, or slots would not be aligned to 16.
    pub(crate) fn new(memory: M, slot_bytes: usize) -> Option<Self> {
        let slots = memory.len().checked_div(slot_bytes)?;
        let sound = slots > 0 && slot_bytes >= size_of::<tpacket2_hdr>() && slot_bytes.is_multiple_of(16);
        sound.then_some(Self { memory, slots, slot_bytes, next: 0 })
    }

    /// Whether the next slot has been filled. One load.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// What the next slot holds, if it has been filled.
    pub(crate) fn front(&self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        const STATUS_BYTES: usize = size_of::<u32>();
        // SAFETY: `next` is less than `slots`, so the slot lies inside the memory (`new`), which outlives the borrow of `self`. Its status,
        // read with acquire ordering, says that the kernel is done with it, and the slot goes back to the kernel by `release`,
        // which takes `&mut self` and so cannot be called while this borrow lasts. The status word is left out of the slice.
        let rest = unsafe {
            core::slice::from_raw_parts(self.slot().add(STATUS_BYTES), self.slot_bytes - STATUS_BYTES)
        };
        Some(parse(rest, STATUS_BYTES, status).unwrap_or(Slot::Malformed))
    }

    /// Gives the slot at the front back to the kernel.
    pub(crate) fn release(&mut self) {
        // Release: our reads of the slot come before the kernel's next write to it.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }

    fn slot(&self) -> *mut u8 {
        // SAFETY: `next < slots`, and `slots * slot_bytes` octets are inside the memory.
        unsafe { self.memory.base().add(self.next * self.slot_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        const { assert!(offset_of!(tpacket2_hdr, tp_status) == 0) };
        // SAFETY: in bounds and aligned as every slot is (`new`); the kernel too accesses this word only by single loads and stores.
        unsafe { AtomicU32::from_ptr(self.slot().cast()) }
    }
}

/// Reads a slot whose octets from `skipped` on are `rest`. `None` if its lengths point outside.
fn parse(rest: &[u8], skipped: usize, status: u32) -> Option<Slot<'_>> {
    let field = |offset: usize| rest.get(offset.checked_sub(skipped)?..);
    let u16_at = |offset| Some(u16::from_ne_bytes(*field(offset)?.first_chunk()?));
    let u32_at = |offset| Some(u32::from_ne_bytes(*field(offset)?.first_chunk()?) as usize);

    let whole = u32_at(offset_of!(tpacket2_hdr, tp_len))?;
    let captured = u32_at(offset_of!(tpacket2_hdr, tp_snaplen))?;
    let mac = usize::from(u16_at(offset_of!(tpacket2_hdr, tp_mac))?);
    let vnet: &[u8; VNET_BYTES] = field(mac.checked_sub(VNET_BYTES)?)?.first_chunk()?;
    let bytes = field(mac)?.get(..captured)?;

    let [flags, _, _, _, _, _, start_low, start_high, offset_low, offset_high] = *vnet;
    let unfinished = (flags & VNET_NEEDS_CSUM != 0).then(|| Unfinished {
        start: u16::from_ne_bytes([start_low, start_high]).into(),
        offset: u16::from_ne_bytes([offset_low, offset_high]).into(),
    });
    let vlan = if status & libc::TP_STATUS_VLAN_VALID != 0 {
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tpid = if known { u16_at(offset_of!(tpacket2_hdr, tp_vlan_tpid))? } else { TPID_8021Q };
        let ([a, b], [c, d]) =
            (tpid.to_be_bytes(), u16_at(offset_of!(tpacket2_hdr, tp_vlan_tci))?.to_be_bytes());
        Some([a, b, c, d])
    } else {
        None
    };
    let seconds = u32_at(offset_of!(tpacket2_hdr, tp_sec))? as u64;
    let nanos = u32_at(offset_of!(tpacket2_hdr, tp_nsec))? as u64;
    let packet_type = *field(ADDRESS_AT + offset_of!(libc::sockaddr_ll, sll_pkttype))?.first()?;
    Some(Slot::Frame(Received {
        bytes,
        whole,
        to_be_segmented: offload_of(vnet),
        is_queued: status & libc::TP_STATUS_COPY != 0,
        stamp_nanos: seconds * 1_000_000_000 + nanos,
        sent: packet_type == libc::PACKET_OUTGOING,
        vlan,
        unfinished,
    }))
}

/// What is left to the adaptor, by `struct virtio_net_hdr`.
pub(crate) fn offload_of(vnet: &[u8; VNET_BYTES]) -> Option<Offload> {
    let [_, kind, _, _, size_low, size_high, start_low, start_high, _, _] = *vnet;
    let size = u16::from_ne_bytes([size_low, size_high]);
    (kind != 0).then(|| Offload { kind, size, transport: u16::from_ne_bytes([start_low, start_high]) })
}

const TPID_8021Q: u16 = 0x8100;

/// Where the address lies in a slot: `TPACKET_ALIGN(sizeof(struct tpacket2_hdr))`.
const ADDRESS_AT: usize = size_of::<tpacket2_hdr>().next_multiple_of(16);

/// Completes a checksum in place (RFC 1071). Returns false, and changes nothing, if it would lie outside the frame.
pub(crate) fn complete(frame: &mut [u8], unfinished: Unfinished) -> bool {
    let Some(covered) = frame.get_mut(unfinished.start..) else { return false };
    let sum = !folded_sum(covered);
    let Some(field) = covered.get_mut(unfinished.offset..).and_then(|rest| rest.first_chunk_mut()) else {
        return false;
    };
    // UDP's zero means "no checksum"; all ones is the same number (RFC 768). Others do not mind.
    *field = (if sum == 0 { 0xffff } else { sum }).to_be_bytes();
    true
}

/// The ones' complement sum of 16-bit words, an odd octet at the end padded with zero.
pub(crate) fn folded_sum(octets: &[u8]) -> u16 {
    let (words, odd) = octets.as_chunks::<4>();
    let words: u64 = words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).sum();
    let mut rest = [0; 4];
    for (to, &from) in rest.iter_mut().zip(odd) {
        *to = from;
    }
    // 2^32 sums of 32 bits fit; a frame has less. Sums of 32-bit words fold to the sum of their halves.
    let mut sum = words + u64::from(u32::from_be_bytes(rest));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: usize = 256;

    /// Plain memory, in units that are aligned to 16. Owned by pointer, as a mapping is.
    #[derive(Debug)]
    struct Plain {
        base: *mut u128,
        words: usize,
    }

    impl Plain {
        fn new(words: usize) -> Self {
            let memory: Box<[u128]> = vec![0; words].into();
            Self { base: Box::into_raw(memory).cast(), words }
        }
    }

    impl Drop for Plain {
        fn drop(&mut self) {
            let memory = core::ptr::slice_from_raw_parts_mut(self.base, self.words);
            // SAFETY: what `new` took out of the box; nothing borrowed from it is alive.
            drop(unsafe { Box::from_raw(memory) });
        }
    }

    // SAFETY: allocated from `new` to `drop`, aligned as its unit is, and known to nobody else.
    unsafe impl Memory for Plain {
        fn base(&self) -> *mut u8 {
            self.base.cast()
        }
        fn len(&self) -> usize {
            self.words * size_of::<u128>()
        }
    }

    fn ring(slots: usize) -> Ring<Plain> {
        Ring::new(Plain::new(slots * SLOT / 16), SLOT).unwrap()
    }

    impl Ring<Plain> {
        /// What the kernel does: fills slot `index`, then stores the status.
        fn fill(&mut self, index: usize, slot: &[u8], status: u32) {
            assert!(index < self.slots && slot.len() <= SLOT);
            // SAFETY: in bounds; no other reference to the memory is alive.
            unsafe {
                let to = self.memory.base().add(index * SLOT);
                core::ptr::copy_nonoverlapping(slot.as_ptr(), to, slot.len());
                AtomicU32::from_ptr(to.cast()).store(status, Ordering::Release);
            }
        }
    }

    /// A slot as the kernel lays it out.
    fn slot(frame: &[u8], whole: u32, vnet: [u8; VNET_BYTES], vlan: [u16; 2]) -> Vec<u8> {
        const MAC: usize = 80;
        let mut slot = vec![0; MAC];
        slot[4..8].copy_from_slice(&whole.to_ne_bytes());
        slot[8..12].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        slot[12..14].copy_from_slice(&(MAC as u16).to_ne_bytes());
        slot[24..26].copy_from_slice(&vlan[0].to_ne_bytes());
        slot[26..28].copy_from_slice(&vlan[1].to_ne_bytes());
        slot[MAC - VNET_BYTES..].copy_from_slice(&vnet);
        slot.extend_from_slice(frame);
        slot
    }

    fn plain(frame: &[u8]) -> Vec<u8> {
        slot(frame, frame.len() as u32, [0; VNET_BYTES], [0; 2])
    }

    #[test]
    fn frames_come_out_in_order_round_and_round() {
        let mut ring = ring(3);
        for turn in 0..10_u8 {
            assert!(!ring.ready() && ring.front().is_none());
            ring.fill(usize::from(turn) % 3, &plain(&[turn; 60]), libc::TP_STATUS_USER);
            let Some(Slot::Frame(received)) = ring.front() else { panic!("no frame") };
            assert_eq!((received.bytes, received.whole), (&[turn; 60][..], 60));
            assert!(
                received.vlan.is_none()
                    && received.unfinished.is_none()
                    && received.to_be_segmented.is_none()
            );
            ring.release();
        }
    }

    #[test]
    fn a_full_ring_is_read_slot_by_slot() {
        let mut ring = ring(4);
        for index in 0..4 {
            ring.fill(index, &plain(&[index as u8; 14]), libc::TP_STATUS_USER | libc::TP_STATUS_LOSING);
        }
        for index in 0..4 {
            assert!(
                matches!(ring.front(), Some(Slot::Frame(received)) if received.bytes == [index as u8; 14])
            );
            ring.release();
        }
        assert!(!ring.ready());
    }

    #[test]
    fn what_the_kernel_took_out_or_left_undone_is_reported() {
        let mut ring = ring(1);
        let start_and_offset = [34_u16.to_ne_bytes(), 6_u16.to_ne_bytes()].concat();
        let vnet = [&[VNET_NEEDS_CSUM, 0, 0, 0, 0, 0][..], &start_and_offset].concat().try_into().unwrap();
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        ring.fill(0, &slot(&[1; 60], 60, vnet, [0x2007, 0x88a8]), status);
        let Some(Slot::Frame(received)) = ring.front() else { panic!("no frame") };
        assert_eq!(received.unfinished, Some(Unfinished { start: 34, offset: 6 }));
        assert_eq!(received.vlan, Some([0x88, 0xa8, 0x20, 0x07]));
    }

    #[test]
    fn cut_off_and_unsegmented_frames_are_told_apart() {
        let mut ring = ring(2);
        ring.fill(0, &slot(&[0; 100], 3000, [0; VNET_BYTES], [0; 2]), libc::TP_STATUS_USER);
        ring.fill(1, &slot(&[0; 100], 100, [1, 5, 0, 0, 0, 0, 0, 0, 0, 0], [0; 2]), libc::TP_STATUS_USER);
        let Some(Slot::Frame(oversized)) = ring.front() else { panic!("no frame") };
        assert_eq!((oversized.bytes.len(), oversized.whole, oversized.to_be_segmented), (100, 3000, None));
        ring.release();
        assert!(
            matches!(ring.front(), Some(Slot::Frame(unsegmented)) if unsegmented.to_be_segmented.is_some())
        );
    }

    #[test]
    fn time_and_direction_are_those_of_the_slot() {
        let mut ring = ring(1);
        let mut outgoing = plain(&[7; 60]);
        outgoing[16..20].copy_from_slice(&2_000_000_000_u32.to_ne_bytes());
        outgoing[20..24].copy_from_slice(&999_999_999_u32.to_ne_bytes());
        outgoing[32 + 10] = libc::PACKET_OUTGOING;
        ring.fill(0, &outgoing, libc::TP_STATUS_USER);
        let Some(Slot::Frame(received)) = ring.front() else { panic!("no frame") };
        assert_eq!((received.stamp_nanos, received.sent), (2_000_000_000_999_999_999, true));
    }

    /// Every single value of every octet of the header, and many random slots: an answer, and inside the slot.
    #[test]
    fn hostile_slots_are_read_without_harm() {
        let mut ring = ring(1);
        let good = plain(&[7; 100]);
        for at in 4..80 {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                ring.fill(0, &bad, libc::TP_STATUS_USER);
                let _ = ring.front().unwrap();
            }
        }
        let mut seed = 1_u64;
        for _ in 0..100_000 {
            let noise: [u8; SLOT] = core::array::from_fn(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            });
            ring.fill(0, &noise, u32::MAX);
            if let Some(Slot::Frame(received)) = ring.front() {
                let mut frame = received.bytes.to_vec();
                received.unfinished.map(|unfinished| complete(&mut frame, unfinished));
            }
        }
    }

    #[test]
    fn lengths_that_leave_the_slot_are_malformed() {
        let mut ring = ring(1);
        let mut bad = plain(&[7; 100]);
        bad[8..12].copy_from_slice(&(SLOT as u32).to_ne_bytes());
        ring.fill(0, &bad, libc::TP_STATUS_USER);
        assert_eq!(ring.front(), Some(Slot::Malformed));
    }

    #[test]
    fn a_ring_needs_room_and_alignment() {
        assert!(Ring::new(Plain::new(4), 128).is_none(), "less than one slot");
        assert!(Ring::new(Plain::new(40), 40).is_none(), "not aligned");
        assert!(Ring::new(Plain::new(4), 0).is_none());
        assert!(Ring::new(Plain::new(4), 16).is_none(), "no room for the header");
    }

    #[test]
    fn an_unfinished_checksum_is_completed() {
        // IPv4 pseudo-header 10.0.0.1 to 10.0.0.2, UDP, length 11: 0x0a00+0x0001+0x0a00+0x0002+0x0011+0x000b = 0x141f.
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
