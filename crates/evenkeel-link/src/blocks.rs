//! The memory-mapped receive ring of a packet socket in blocks (`TPACKET_V3`), over any memory.
//!
//! ```text
//!   block 0                          block 1           block 2
//!  +--------+-------+-------+------+-----------------+--------------------
//!  | status | frame | frame | room | status: user    | status: kernel ...
//!  +--------+-------+-------+------+-----------------+--------------------
//!            next ^                                    ^ kernel's
//!
//!   one frame
//!  +--------+---------+------------+-------+
//!  | header | address | virtio_net | bytes |
//!  +--------+---------+------------+-------+
//!  0        48                     tp_mac
//! ```
//!
//! The status word tells the owner of a block. The kernel puts frames into its own blocks, one directly after
//! the other. It stores `TP_STATUS_USER` when no more frames fit, or after a timeout. We read the block and
//! then store `TP_STATUS_KERNEL`. In this way many frames change owner at once, and small ones share cache
//! lines and pages. Layouts: linux/if_packet.h and Documentation/networking/packet_mmap.rst.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, Ordering};

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket3_hdr};

use crate::received::{InBlock, Memory, Slot, parse};

/// A ring of blocks of equal size, read frame by frame.
#[derive(Debug)]
pub(crate) struct Blocks<M> {
    memory: M,
    blocks: usize,
    block_bytes: usize,
    /// The block being read, or the next block from the kernel.
    block: usize,
    /// Frames of the block that have not been passed.
    left: u32,
    /// The offset in the block of the next frame to read.
    at: usize,
}

const STATUS_AT: usize = offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, block_status);
const COUNT_AT: usize = offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST_AT: usize = offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);
/// The offset in a block, after its status word, from which it is read as plain bytes.
const SKIPPED: usize = STATUS_AT + size_of::<u32>();

impl<M: Memory> Blocks<M> {
    /// Creates a ring of as many blocks of `block_bytes` as fit. Returns `None` if no block fits, or if
    /// blocks would not be aligned to 16.
    pub(crate) fn new(memory: M, block_bytes: usize) -> Option<Self> {
        let blocks = memory.len().checked_div(block_bytes)?;
        let sound =
            blocks > 0 && block_bytes >= size_of::<tpacket_block_desc>() && block_bytes.is_multiple_of(16);
        sound.then_some(Self { memory, blocks, block_bytes, block: 0, left: 0, at: 0 })
    }

    /// Returns whether a frame waits. Needs at most one load.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.left > 0 || self.is_ours()
    }

    /// Returns the number of frames known to wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        if self.left > 0 { self.left as usize } else { usize::from(self.is_ours()) }
    }

    /// Returns the frame at the front.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<Slot<'_>> {
        if self.left == 0 && !self.enter() {
            return None;
        }
        let frame = self.bytes(self.at);
        let status = word(frame, offset_of!(tpacket3_hdr, tp_status));
        Some(parse::<InBlock>(frame, status).map_or(Slot::Malformed, Slot::Frame))
    }

    /// Passes the frame at the front. The last frame of a block returns the block to the kernel. Returns the
    /// number of frames passed: one, or all that were left if the block does not give the place of the next
    /// one. The kernel writes no such blocks.
    #[inline]
    pub(crate) fn release(&mut self) -> u64 {
        if self.left == 0 {
            return 0;
        }
        self.left -= 1;
        if self.left == 0 {
            self.give_back();
            return 1;
        }
        let distance = word(self.bytes(self.at), offset_of!(tpacket3_hdr, tp_next_offset)) as usize;
        self.at = self.at.saturating_add(distance);
        if distance > 0 && self.at < self.block_bytes {
            return 1;
        }
        let lost = core::mem::take(&mut self.left);
        self.give_back();
        1 + u64::from(lost)
    }

    /// Begins with the next block, if we own it. A block without frames is returned to the kernel.
    fn enter(&mut self) -> bool {
        while self.is_ours() {
            self.left = word(self.bytes(COUNT_AT), 0);
            self.at = word(self.bytes(FIRST_AT), 0) as usize;
            if self.left > 0 {
                return true;
            }
            self.give_back();
        }
        false
    }

    fn give_back(&mut self) {
        // Release: our reads of the block come before the kernel's next write to it.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = if self.block + 1 == self.blocks { 0 } else { self.block + 1 };
    }

    #[inline]
    fn is_ours(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Returns the bytes of the block from `offset`, which counts from its beginning. Returns no bytes if
    /// some of them would lie before the end of its status word.
    ///
    /// Call this only while we own the block.
    #[inline]
    fn bytes(&self, offset: usize) -> &[u8] {
        // SAFETY: `block` is less than `blocks`, so the block lies inside the memory (`new`), which outlives
        // the borrow of `self`. Its status was read with acquire ordering and shows that the kernel is done
        // with it. `give_back` returns the block to the kernel; it takes `&mut self`, so it cannot be called
        // while this borrow lasts. The status word is left out of the slice.
        let rest =
            unsafe { core::slice::from_raw_parts(self.base().add(SKIPPED), self.block_bytes - SKIPPED) };
        offset.checked_sub(SKIPPED).and_then(|at| rest.get(at..)).unwrap_or_default()
    }

    #[inline]
    fn base(&self) -> *mut u8 {
        // SAFETY: `block < blocks`, and `blocks * block_bytes` bytes are inside the memory.
        unsafe { self.memory.base().add(self.block * self.block_bytes) }
    }

    #[inline]
    fn status(&self) -> &AtomicU32 {
        const { assert!(STATUS_AT.is_multiple_of(align_of::<AtomicU32>())) };
        // SAFETY: the word is in bounds and aligned, as every block is (`new`). The kernel also accesses it
        // only by single loads and stores.
        unsafe { AtomicU32::from_ptr(self.base().add(STATUS_AT).cast()) }
    }
}

/// Returns the word at `at`; zero if there are too few bytes.
#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::{Received, Unfinished, VNET_BYTES, VNET_NEEDS_CSUM};
    use crate::ring::tests::Plain;

    const BLOCK: usize = 1024;

    fn ring(blocks: usize) -> Blocks<Plain> {
        Blocks::new(Plain::new(blocks * BLOCK / 16), BLOCK).unwrap()
    }

    impl Blocks<Plain> {
        /// Fills a block and then stores its status, as the kernel does.
        fn fill(&mut self, index: usize, block: &[u8]) {
            assert!(index < self.blocks && block.len() <= BLOCK);
            // SAFETY: in bounds; no other reference to the memory is alive.
            unsafe {
                let to = self.memory.base().add(index * BLOCK);
                core::ptr::copy_nonoverlapping(block.as_ptr(), to, block.len());
                AtomicU32::from_ptr(to.add(STATUS_AT).cast()).store(libc::TP_STATUS_USER, Ordering::Release);
            }
        }

        fn status_of(&self, index: usize) -> u32 {
            assert!(index < self.blocks);
            // SAFETY: in bounds and aligned.
            unsafe { AtomicU32::from_ptr(self.memory.base().add(index * BLOCK + STATUS_AT).cast()) }
                .load(Ordering::Acquire)
        }

        fn frame(&mut self) -> Received<'_> {
            match self.front() {
                Some(Slot::Frame(received)) => received,
                other => panic!("{other:?}"),
            }
        }
    }

    const FIRST: usize = size_of::<tpacket_block_desc>();
    const MAC: usize = 92;

    /// Returns a frame in the kernel's layout, without the distance to the next one.
    fn frame(bytes: &[u8], status: u32, vnet: [u8; VNET_BYTES], vlan: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![0; MAC];
        frame[4..8].copy_from_slice(&1_900_000_000_u32.to_ne_bytes());
        frame[8..12].copy_from_slice(&999_999_999_u32.to_ne_bytes());
        frame[12..16].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
        frame[16..20].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
        frame[20..24].copy_from_slice(&status.to_ne_bytes());
        frame[24..26].copy_from_slice(&(MAC as u16).to_ne_bytes());
        frame[32..36].copy_from_slice(&u32::from(vlan[0]).to_ne_bytes());
        frame[36..38].copy_from_slice(&vlan[1].to_ne_bytes());
        frame[MAC - VNET_BYTES..].copy_from_slice(&vnet);
        frame.extend_from_slice(bytes);
        frame
    }

    fn plain(bytes: &[u8]) -> Vec<u8> {
        frame(bytes, 0, [0; VNET_BYTES], [0; 2])
    }

    fn block(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut block = vec![0; FIRST];
        block[COUNT_AT..COUNT_AT + 4].copy_from_slice(&(frames.len() as u32).to_ne_bytes());
        block[FIRST_AT..FIRST_AT + 4].copy_from_slice(&(FIRST as u32).to_ne_bytes());
        for (index, frame) in frames.iter().enumerate() {
            let distance = frame.len().next_multiple_of(8);
            let start = block.len();
            block.extend_from_slice(frame);
            block.resize(start + distance, 0);
            // The kernel leaves the distance of the last frame at zero.
            let next = if index + 1 < frames.len() { distance as u32 } else { 0 };
            block[start..start + 4].copy_from_slice(&next.to_ne_bytes());
        }
        block
    }

    #[test]
    fn frames_come_out_in_order_round_and_round() {
        let mut ring = ring(3);
        let mut number = 0_u8;
        for turn in 0..10_usize {
            assert!(!ring.ready() && ring.front().is_none());
            let frames: Vec<_> = (0..=turn % 4).map(|n| plain(&vec![number + n as u8; 60 + n])).collect();
            ring.fill(turn % 3, &block(&frames));
            for n in 0..frames.len() {
                assert_eq!(ring.waiting(), if n == 0 { 1 } else { frames.len() - n });
                let received = ring.frame();
                assert_eq!((received.bytes, received.whole), (&vec![number; 60 + n][..], 60 + n));
                assert_eq!(received.stamp_nanos, 1_900_000_000_999_999_999);
                assert!(received.vlan.is_none() && received.unfinished.is_none() && !received.sent);
                assert_eq!(ring.status_of(turn % 3), libc::TP_STATUS_USER, "ours until the last is passed");
                assert_eq!(ring.release(), 1);
                number += 1;
            }
            assert_eq!(ring.status_of(turn % 3), libc::TP_STATUS_KERNEL);
        }
    }

    #[test]
    fn what_the_kernel_took_out_or_left_undone_is_reported() {
        let mut ring = ring(1);
        let start_and_offset = [34_u16.to_ne_bytes(), 6_u16.to_ne_bytes()].concat();
        let vnet = [&[VNET_NEEDS_CSUM, 0, 0, 0, 0, 0][..], &start_and_offset].concat().try_into().unwrap();
        let status = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let mut outgoing = frame(&[1; 60], status, vnet, [0x2007, 0x88a8]);
        outgoing[48 + 10] = libc::PACKET_OUTGOING;
        ring.fill(0, &block(&[outgoing]));
        let received = ring.frame();
        assert_eq!(received.unfinished, Some(Unfinished { start: 34, offset: 6 }));
        assert_eq!((received.vlan, received.sent), (Some([0x88, 0xa8, 0x20, 0x07]), true));
    }

    #[test]
    fn a_block_without_frames_is_given_back() {
        let mut ring = ring(2);
        ring.fill(0, &block(&[]));
        assert!(ring.front().is_none());
        assert_eq!((ring.status_of(0), ring.release()), (libc::TP_STATUS_KERNEL, 0));
        ring.fill(1, &block(&[plain(&[7; 60])]));
        assert_eq!(ring.frame().bytes, [7; 60]);
    }

    #[test]
    fn a_broken_chain_costs_the_rest_of_its_block_and_no_more() {
        let mut ring = ring(2);
        let frames: Vec<_> = (0..3).map(|n| plain(&[n; 60])).collect();
        let mut broken = block(&frames);
        broken[FIRST..FIRST + 4].copy_from_slice(&(BLOCK as u32).to_ne_bytes());
        ring.fill(0, &broken);
        ring.fill(1, &block(&frames));
        assert_eq!(ring.frame().bytes, [0; 60]);
        assert_eq!(ring.release(), 3);
        for n in 0..3 {
            assert_eq!(ring.frame().bytes, [n; 60]);
            assert_eq!(ring.release(), 1);
        }
    }

    /// Every value of every header byte, and many random blocks, must give a result inside the block.
    #[test]
    fn hostile_blocks_are_read_without_harm() {
        let mut ring = ring(1);
        let read = |ring: &mut Blocks<Plain>| {
            for _ in 0..100 {
                let Some(slot) = ring.front() else { return };
                if let Slot::Frame(received) = slot {
                    assert!(received.bytes.len() <= BLOCK);
                }
                ring.release();
            }
            // This block claims more frames than it can hold, so the ring continues with the next block.
            ring.left = 0;
            ring.give_back();
        };
        let good = block(&[plain(&[7; 100]), plain(&[8; 100])]);
        for at in SKIPPED..FIRST + MAC {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                ring.fill(0, &bad);
                read(&mut ring);
            }
        }
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let noise: [u8; BLOCK] = core::array::from_fn(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            });
            ring.fill(0, &noise);
            read(&mut ring);
        }
    }

    #[test]
    fn lengths_that_leave_the_block_are_malformed() {
        let mut ring = ring(1);
        let mut bad = block(&[plain(&[7; 100])]);
        bad[FIRST + 12..FIRST + 16].copy_from_slice(&(BLOCK as u32).to_ne_bytes());
        ring.fill(0, &bad);
        assert_eq!(ring.front(), Some(Slot::Malformed));
        assert_eq!(ring.release(), 1);
    }

    #[test]
    fn a_ring_needs_room_and_alignment() {
        assert!(Blocks::new(Plain::new(4), 128).is_none(), "less than one block");
        assert!(Blocks::new(Plain::new(40), 72).is_none(), "not aligned");
        assert!(Blocks::new(Plain::new(4), 0).is_none());
        assert!(Blocks::new(Plain::new(4), 32).is_none(), "no room for the header");
    }
}
