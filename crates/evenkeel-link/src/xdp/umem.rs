//! The memory of a queue of a device (UMEM): its chunks, and the two rings by which they come and go.
//!
//! ```text
//!        fill ring       receive rings
//!   free ---------> kernel -----------> lent to the host, as frames
//!    ^                                        |
//!    +----------------------------------------+
//!    ^  completion ring     transmit ring
//!    +------------- kernel <------------- free, or a frame that was lent
//! ```

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use evenkeel_core::frame::{Frame, Memory, Region};
use rustix::net::sockopt;
use rustix::net::xdp::{
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg,
    XdpUmemRegFlags,
};

use super::buffers::{Buffers, PARTS_MAX};
use super::ring::{Consumer, Producer};
use crate::received::Memory as _;
use crate::sys::Mapping;

/// Entries of the fill ring, and chunks for it: the most that all receive rings of the queue may hold.
pub(super) const FILL_PKTS: usize = 8192;
/// Chunks of the fill ring beyond what receive rings hold, so that there is always one for the next frame.
pub(super) const SPARE_PKTS: usize = 64;
/// Entries of the transmit and of the completion ring, and chunks that are kept for sending.
pub(super) const SEND_PKTS: usize = 2048;
/// Chunks that the host may hold. Beyond, frames are copied to the host's own buffers.
const LENT_PKTS: usize = 2048;
const CHUNKS: usize = FILL_PKTS + SEND_PKTS + LENT_PKTS;

/// Returns the memory of a queue in MiB.
pub(super) const fn mib(buffers: Buffers) -> usize {
    (CHUNKS * buffers.chunk_bytes()) >> 20
}

// SAFETY: the mapping is initialized, stays in place until it is dropped, and is reached through frames only.
// The kernel writes to a chunk only while it is in the fill ring, and reads it only while it is being sent:
// no frame lies over it then.
unsafe impl Memory for Mapping {
    fn bytes(&self) -> NonNull<[u8]> {
        let base = self.base();
        // SAFETY: a mapping is not at address zero.
        NonNull::slice_from_raw_parts(
            unsafe { NonNull::new_unchecked(base) },
            crate::received::Memory::len(self),
        )
    }
}

/// The frames that further rings of a queue may take before the host runs again. A ring whose receiver sleeps
/// does not count: its first frame wakes the host.
#[derive(Debug, Clone, Default)]
pub(super) struct Awake(Arc<AtomicUsize>);

impl Awake {
    /// Counts a ring of `ring_pkts` whose receiver is awake from now on.
    pub(super) fn add(&self, ring_pkts: usize) {
        self.0.fetch_add(ring_pkts, Ordering::Relaxed);
    }

    /// Counts a ring no longer.
    pub(super) fn remove(&self, ring_pkts: usize) {
        self.0.fetch_sub(ring_pkts, Ordering::Relaxed);
    }

    fn pkts(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The memory of a queue, and its fill and completion rings.
#[derive(Debug)]
pub(super) struct Umem {
    region: Region,
    buffers: Buffers,
    /// The address of the first chunk.
    base: usize,
    /// Chunks that neither the kernel nor the host has.
    free: Vec<u32>,
    /// The number of frames that the host has.
    lent: usize,
    /// The frames that the shared ring may hold.
    ring_pkts: usize,
    others: Awake,
    fill: Producer<u64>,
    completion: Consumer<u64>,
}

impl Umem {
    /// Allocates memory and registers it with a socket, whose receive ring of `ring_pkts` is the shared one.
    /// `others` are further rings.
    pub(super) fn register(
        socket: BorrowedFd<'_>,
        buffers: Buffers,
        ring_pkts: usize,
        others: Awake,
    ) -> io::Result<Self> {
        let chunk_bytes = buffers.chunk_bytes();
        let memory = Mapping::anonymous(CHUNKS * chunk_bytes)?;
        let base = memory.base() as usize;
        sockopt::set_xdp_umem_reg(
            socket,
            XdpUmemReg {
                addr: base as u64,
                len: (CHUNKS * chunk_bytes) as u64,
                chunk_size: chunk_bytes as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        sockopt::set_xdp_umem_fill_ring_size(socket, FILL_PKTS as u32)?;
        sockopt::set_xdp_umem_completion_ring_size(socket, SEND_PKTS as u32)?;
        let offsets = sockopt::xdp_mmap_offsets(socket)?;
        let fill = Producer::map(socket, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, FILL_PKTS as u32)?;
        let completion = Consumer::map(socket, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, SEND_PKTS as u32)?;
        let region = Region::over(memory, chunk_bytes);
        let free = (0..CHUNKS as u32).rev().collect();
        let mut umem = Self { region, buffers, base, free, lent: 0, ring_pkts, others, fill, completion };
        umem.refill();
        Ok(umem)
    }

    /// Collects chunks that the host and the kernel are done with. Gives the kernel as many as the receive
    /// rings may take before the host runs again. Returns whether it has to be woken for them.
    ///
    /// More chunks would only be colder: they take turns, and each costs the kernel cache lines and the
    /// translation of a page.
    pub(super) fn refill(&mut self) -> bool {
        let chunk_bytes = self.buffers.chunk_bytes();
        let Self { region, free, lent, .. } = self;
        region.returned(|chunk| {
            free.push(chunk as u32);
            *lent -= 1;
        });
        while let Some(offset) = self.completion.read() {
            free.push((offset as usize / chunk_bytes) as u32);
        }
        self.completion.release();
        let wanted = self.ring_pkts + SPARE_PKTS + self.others.pkts();
        let lacking = wanted.saturating_sub(self.fill.len()).min(free.len().saturating_sub(SEND_PKTS));
        // Neighbours follow each other, which the prefetchers of processors see.
        let from = free.len() - lacking;
        free[from..].sort_unstable();
        for chunk in free.drain(from..) {
            self.fill.write(u64::from(chunk) * chunk_bytes as u64);
        }
        if lacking > 0 {
            self.fill.publish();
        }
        lacking > 0 && self.fill.needs_wakeup()
    }

    /// Returns the most chunks of a frame.
    pub(super) const fn parts_max(&self) -> usize {
        self.buffers.parts_max()
    }

    /// Returns whether the host may have another chunk.
    #[inline]
    pub(super) const fn may_lend(&self) -> bool {
        self.lent < LENT_PKTS
    }

    /// Takes the chunk that a descriptor of a receive ring describes: a frame, or a part of one. Returns
    /// `None` if the descriptor is of no use; the chunk is free then.
    #[inline]
    pub(super) fn receive(&mut self, descriptor: XdpDesc) -> Option<Frame> {
        let (at, chunk_bytes) = (descriptor.addr as usize, self.buffers.chunk_bytes());
        let mut frame = self.region.take(at / chunk_bytes)?;
        self.lent += 1;
        if frame.set(at % chunk_bytes, descriptor.len as usize) {
            return Some(frame);
        }
        self.take_back(frame);
        None
    }

    /// Takes a frame back from the host. One of another memory returns to its owner.
    #[inline]
    pub(super) fn take_back(&mut self, frame: Frame) {
        if let Some(chunk) = self.region.recycle(frame) {
            self.lent -= 1;
            self.free.push(chunk as u32);
        }
    }

    /// Returns whether a frame is too long to be sent.
    pub(super) const fn is_too_long(&self, frame: &Frame) -> bool {
        frame.len() > self.parts_max() * self.buffers.chunk_bytes()
    }

    /// Writes a frame, which is not too long, to the transmit ring: where it lies if that is in this memory,
    /// or else in chunks to which it is copied. The frame stays with the caller in the second case. `Err`
    /// gives the frame back if there are not enough free chunks, or not enough room in the ring.
    pub(super) fn send(
        &mut self,
        frame: Frame,
        ring: &mut Producer<XdpDesc>,
    ) -> Result<Option<Frame>, Frame> {
        let at = (frame.bytes().as_ptr() as usize).wrapping_sub(self.base);
        if at >= CHUNKS * self.buffers.chunk_bytes() {
            return if self.send_copy(frame.bytes(), ring) { Ok(Some(frame)) } else { Err(frame) };
        }
        if !ring.has_room() {
            return Err(frame);
        }
        let len = frame.len();
        // From now on the chunk is the kernel's, until the completion ring has it.
        if self.region.recycle(frame).is_some() {
            self.lent -= 1;
        }
        ring.write(XdpDesc { addr: at as u64, len: len as u32, options: XdpDescOptions::empty() });
        Ok(None)
    }

    /// Copies a frame to chunks and writes them to the transmit ring. Returns false, and does neither, if
    /// there are not enough of them, or not enough room in the ring.
    fn send_copy(&mut self, bytes: &[u8], ring: &mut Producer<XdpDesc>) -> bool {
        let parts = bytes.chunks(self.buffers.chunk_bytes());
        let count = parts.len();
        if !ring.has_room_for(count) {
            return false;
        }
        let mut copies = [(0, 0); PARTS_MAX];
        for (number, (copy, part)) in copies.iter_mut().zip(parts).enumerate() {
            let Some(chunk) = self.copy(part) else {
                self.free.extend(copies[..number].iter().map(|&(chunk, _)| chunk));
                return false;
            };
            *copy = (chunk, part.len() as u32);
        }
        for (number, &(chunk, len)) in copies[..count.min(PARTS_MAX)].iter().enumerate() {
            let addr = u64::from(chunk) * self.buffers.chunk_bytes() as u64;
            let goes_on = number + 1 < count;
            let options = if goes_on { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
            ring.write(XdpDesc { addr, len, options });
        }
        true
    }

    /// Copies bytes, no more than a chunk holds, to a free chunk. Returns `None` if there is none.
    fn copy(&mut self, bytes: &[u8]) -> Option<u32> {
        let chunk = *self.free.last()?;
        let mut copy = self.region.take(chunk as usize)?;
        let fits = copy.set(0, bytes.len());
        if fits {
            copy.bytes_mut().copy_from_slice(bytes);
        }
        self.region.recycle(copy)?;
        if !fits {
            return None;
        }
        self.free.pop()
    }
}
