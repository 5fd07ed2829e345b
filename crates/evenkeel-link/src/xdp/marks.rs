//! Marks: how full a receive ring is, for the XDP program.
//!
//! The kernel copies a frame before it finds the ring full. So the program counts the frames that it puts
//! into a ring, we count those that we take, and it drops what exceeds the length of the ring. Both counters
//! lie in maps that are memory of this process, too. To close a ring or to see its drops is no system call.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::received::Memory as _;
use crate::sys::Mapping;

/// The number of rings that a receive queue of a device can have. Slot 0 is the ring that all channels
/// without their own share.
pub(super) const SLOTS: u32 = 64;
/// The number of receive queues of a device for which there is room.
const QUEUES: u32 = 16;
/// The entries of both maps.
const ENTRIES: usize = QUEUES as usize * SLOTS as usize;

/// An entry that the program writes: `struct arrivals` of `demux.c`.
#[derive(Debug)]
#[repr(C, align(64))]
struct Arrivals {
    /// The frames that were put into the ring, modulo 2^32.
    frames: AtomicU32,
    /// The frames that were dropped because the ring was full.
    refused: AtomicU64,
}

/// An entry that we write: `struct mark` of `demux.c`.
#[derive(Debug)]
#[repr(C, align(64))]
struct Limit {
    /// The frames that were taken from the ring, modulo 2^32.
    taken: AtomicU32,
    /// The most frames that may be in it; 0 if there is no ring.
    limit: AtomicU32,
}

/// The two maps, in memory.
#[derive(Debug)]
pub(super) struct Marks {
    arrivals: Mapping,
    limits: Mapping,
}

// SAFETY: the maps' entries are accessed by atomic loads and stores only.
unsafe impl Sync for Marks {}

impl Marks {
    /// Maps the memory of the maps `arrivals` and `marks`.
    pub(super) fn map(arrivals: BorrowedFd<'_>, limits: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        let arrivals = Mapping::at(arrivals, 0, ENTRIES * size_of::<Arrivals>())?;
        let limits = Mapping::at(limits, 0, ENTRIES * size_of::<Limit>())?;
        Ok(Arc::new(Self { arrivals, limits }))
    }

    /// Closes the ring of a slot: its frames go to the shared one.
    pub(super) fn close(&self, queue: u32, slot: u32) {
        self.limit(entry(queue, slot)).limit.store(0, Ordering::Release);
    }

    fn arrivals(&self, at: usize) -> &Arrivals {
        assert!(at < ENTRIES, "a queue or slot without an entry");
        // SAFETY: the mapping has as many entries and begins at a page. All its bytes are initialized, and
        // both sides access them only by single loads and stores.
        unsafe { &*self.arrivals.base().cast::<Arrivals>().add(at) }
    }

    fn limit(&self, at: usize) -> &Limit {
        assert!(at < ENTRIES, "a queue or slot without an entry");
        // SAFETY: as for `arrivals`.
        unsafe { &*self.limits.base().cast::<Limit>().add(at) }
    }
}

fn entry(queue: u32, slot: u32) -> usize {
    queue as usize * SLOTS as usize + slot as usize
}

/// The mark of one ring.
#[derive(Debug)]
pub(super) struct Mark {
    marks: Arc<Marks>,
    at: usize,
    /// The frames that earlier rings of the slot have refused.
    refused_before: u64,
}

impl Mark {
    /// Lets the program put frames into a ring of `ring_pkts`, which is empty.
    pub(super) fn open(marks: &Arc<Marks>, queue: u32, slot: u32, ring_pkts: usize) -> Self {
        let at = entry(queue, slot);
        let refused_before = marks.arrivals(at).refused.load(Ordering::Relaxed);
        let mark = Self { marks: Arc::clone(marks), at, refused_before };
        mark.level();
        mark.marks.limit(at).limit.store(ring_pkts as u32, Ordering::Release);
        mark
    }

    /// Counts frames that were taken from the ring.
    #[inline]
    pub(super) fn take(&self, frames: u32) {
        let taken = &self.marks.limit(self.at).taken;
        // Nobody else writes it.
        taken.store(taken.load(Ordering::Relaxed).wrapping_add(frames), Ordering::Release);
    }

    /// Counts what has been put into the ring as taken. An empty ring has had everything taken, or the kernel
    /// has lost it on the way: without this, each lost frame would make the ring shorter for good.
    pub(super) fn level(&self) {
        let frames = self.marks.arrivals(self.at).frames.load(Ordering::Acquire);
        self.marks.limit(self.at).taken.store(frames, Ordering::Release);
    }

    /// Returns the number of frames that found the ring full.
    pub(super) fn refused(&self) -> u64 {
        self.marks.arrivals(self.at).refused.load(Ordering::Relaxed) - self.refused_before
    }
}
