//! The memory-mapped receive ring of a packet socket (`TPACKET_V2`), over any memory.
//!
//! ```text
//!   slot 0          slot 1         slot 2
//!  +---------------+--------------+--------------------
//!  | status: user  | status: user | status: kernel ...
//!  +---------------+--------------+--------------------
//!       ^ next                         ^ kernel's
//!
//!   one slot
//!  +--------+--------+---------+------------+-------+------+
//!  | status | header | address | virtio_net | frame | room |
//!  +--------+--------+---------+------------+-------+------+
//!  0        4        32                     tp_mac
//! ```
//!
//! The status word tells the owner of a slot. The kernel fills its own slots and then stores
//! `TP_STATUS_USER`. We read the slot and then store `TP_STATUS_KERNEL`. Layouts: linux/if_packet.h and
//! Documentation/networking/packet_mmap.rst.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr;

use crate::received::{InSlot, Layout as _, Memory, Slot, parse};

/// A ring of slots of equal size, read in order.
#[derive(Debug)]
pub(crate) struct Ring<M> {
    memory: M,
    slots: usize,
    slot_bytes: usize,
    next: usize,
}

/// The most bytes that the kernel puts into a slot before the frame: header, address, virtio_net_hdr, and
/// their alignment.
pub(crate) const SLOT_OVERHEAD: usize = 96;

impl<M: Memory> Ring<M> {
    /// Creates a ring of as many slots of `slot_bytes` as fit. Returns `None` if no slot fits, or if slots
    /// would not be aligned to 16.
    pub(crate) fn new(memory: M, slot_bytes: usize) -> Option<Self> {
        let slots = memory.len().checked_div(slot_bytes)?;
        let sound = slots > 0 && slot_bytes >= size_of::<tpacket2_hdr>() && slot_bytes.is_multiple_of(16);
        sound.then_some(Self { memory, slots, slot_bytes, next: 0 })
    }

    /// Returns whether the kernel has filled the next slot. Needs one load.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the content of the next slot; `None` if the kernel has not filled it.
    pub(crate) fn front(&self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        const STATUS_BYTES: usize = InSlot::SKIPPED;
        // SAFETY: `next` is less than `slots`, so the slot lies inside the memory (`new`), which outlives the
        // borrow of `self`. Its status, read with acquire ordering, says that the kernel is done with it, and
        // the slot goes back to the kernel by `release`, which takes `&mut self` and so cannot be called
        // while this borrow lasts. The status word is left out of the slice.
        let rest = unsafe {
            core::slice::from_raw_parts(self.slot().add(STATUS_BYTES), self.slot_bytes - STATUS_BYTES)
        };
        Some(parse::<InSlot>(rest, status).map_or(Slot::Malformed, Slot::Frame))
    }

    /// Returns the slot at the front to the kernel.
    pub(crate) fn release(&mut self) {
        // Release: our reads of the slot come before the kernel's next write to it.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }

    fn slot(&self) -> *mut u8 {
        // SAFETY: `next < slots`, and `slots * slot_bytes` bytes are inside the memory.
        unsafe { self.memory.base().add(self.next * self.slot_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        const { assert!(offset_of!(tpacket2_hdr, tp_status) == 0) };
        // SAFETY: the word is in bounds and aligned, as every slot is (`new`). The kernel also accesses it
        // only by single loads and stores.
        unsafe { AtomicU32::from_ptr(self.slot().cast()) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::received::{Unfinished, VNET_BYTES, VNET_NEEDS_CSUM, complete};

    const SLOT: usize = 256;

    /// Plain memory, in units that are aligned to 16, owned through a pointer like a mapping.
    #[derive(Debug)]
    pub(crate) struct Plain {
        base: *mut u128,
        words: usize,
    }

    impl Plain {
        pub(crate) fn new(words: usize) -> Self {
            let memory: Box<[u128]> = vec![0; words].into();
            Self { base: Box::into_raw(memory).cast(), words }
        }
    }

    impl Drop for Plain {
        fn drop(&mut self) {
            let memory = core::ptr::slice_from_raw_parts_mut(self.base, self.words);
            // SAFETY: this is the memory that `new` took out of the box; nothing borrowed from it is alive.
            drop(unsafe { Box::from_raw(memory) });
        }
    }

    // SAFETY: the memory is allocated from `new` to `drop`, aligned as its unit, and has no other owner.
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
        /// Fills slot `index` and then stores its status, as the kernel does.
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

    /// Returns a slot in the kernel's layout.
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

    /// Every value of every header byte, and many random slots, must give a result inside the slot.
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
}
