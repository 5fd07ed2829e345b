//! Marks: how full a receive ring is, for the XDP program.
//!
//! The kernel copies a frame before it finds the ring full. So the program counts the entries that it
//! fills of a ring, we count those that we take, and it drops what exceeds the length of the ring. A frame in
//! several chunks takes as many entries. Both counters
//! lie in maps that are memory of this process, too. To close a ring or to see its drops is no system call.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use evenkeel_core::time::Instant;

use crate::received::Memory as _;
use crate::sys::Mapping;

/// The number of rings that a receive queue of a device can have. Slot 0 is the ring that all channels
/// without their own share.
pub(super) const SLOTS: u32 = 64;
/// The number of receive queues of a device for which there is room.
const QUEUES: u32 = 16;
/// The entries of both maps.
const ENTRIES: usize = QUEUES as usize * SLOTS as usize;

/// The least time between two grants of answers. The program uses one for four seconds.
const GRANT_NANOS: u64 = 100_000_000;
/// The time by which the program's clock for timestamps is behind the host's, in nanoseconds. Until the next
/// grant, the clock of the machine may gain on the host's, and must not pass it.
const MARGIN_NANOS: u64 = 10_000_000;

/// An entry that the program writes: `struct arrivals` of `demux.c`.
#[derive(Debug)]
#[repr(C, align(64))]
struct Arrivals {
    /// The entries of the ring that were filled, modulo 2^32.
    entries: AtomicU32,
    /// The frames that were dropped because the ring was full.
    refused: AtomicU64,
    /// The SYNs that were answered with a cookie.
    answered: AtomicU64,
    /// The time on the machine's clock until which SYNs are.
    pressed_until: AtomicU64,
}

/// An entry that we write: `struct mark` of `demux.c`.
#[derive(Debug)]
#[repr(C, align(64))]
struct Limit {
    /// The entries that were taken from the ring, modulo 2^32.
    taken: AtomicU32,
    /// The most entries that may be in it; 0 if there is no ring.
    limit: AtomicU32,
    /// The difference between the machine's clock and the host's, in nanoseconds; 0 if no SYN is to be
    /// answered.
    behind: AtomicU64,
    /// The time on the machine's clock at which that was written.
    granted: AtomicU64,
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
        let Limit { limit, behind, .. } = self.limit(entry(queue, slot));
        limit.store(0, Ordering::Release);
        behind.store(0, Ordering::Release);
    }

    /// Returns whether a grant at `now`, on the machine's clock, is soon enough after the last one that it
    /// need not be written.
    fn is_granted(&self, at: usize, now: u64) -> bool {
        let Limit { behind, granted, .. } = self.limit(at);
        let since = now.saturating_sub(granted.load(Ordering::Relaxed));
        behind.load(Ordering::Relaxed) != 0 && since < GRANT_NANOS
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
    /// The SYNs for earlier rings of the slot that were answered.
    answered_before: u64,
}

impl Mark {
    /// Lets the program put frames into a ring of `ring_pkts` entries, which is empty.
    pub(super) fn open(marks: &Arc<Marks>, queue: u32, slot: u32, ring_pkts: usize) -> Self {
        let at = entry(queue, slot);
        let refused_before = marks.arrivals(at).refused.load(Ordering::Relaxed);
        let answered_before = marks.arrivals(at).answered.load(Ordering::Relaxed);
        let mark = Self { marks: Arc::clone(marks), at, refused_before, answered_before };
        mark.level();
        mark.answer_syns(None, || 0);
        marks.arrivals(at).pressed_until.store(0, Ordering::Relaxed);
        mark.marks.limit(at).limit.store(ring_pkts as u32, Ordering::Release);
        mark
    }

    /// Counts entries that were taken from the ring.
    #[inline]
    pub(super) fn take(&self, entries: u32) {
        let taken = &self.marks.limit(self.at).taken;
        // Nobody else writes it.
        taken.store(taken.load(Ordering::Relaxed).wrapping_add(entries), Ordering::Release);
    }

    /// Counts what has been put into the ring as taken. An empty ring has had everything taken, or the kernel
    /// has lost it on the way: without this, each lost frame would make the ring shorter for good.
    pub(super) fn level(&self) {
        let entries = self.marks.arrivals(self.at).entries.load(Ordering::Acquire);
        self.marks.limit(self.at).taken.store(entries, Ordering::Release);
    }

    /// Lets the program answer SYNs with cookies, for some seconds after `now`; or no longer. `clock` returns
    /// the time of the machine's clock.
    pub(super) fn answer_syns(&self, now: Option<Instant>, clock: impl FnOnce() -> u64) {
        let Limit { behind, granted, .. } = self.marks.limit(self.at);
        let Some(now) = now else { return behind.store(0, Ordering::Release) };
        let at = clock();
        if self.marks.is_granted(self.at, at) {
            return;
        }
        // The host's time was read before the machine's: the difference is too large, not too small.
        let difference = at.wrapping_sub(now.as_nanos()).wrapping_add(MARGIN_NANOS);
        behind.store(difference.max(1), Ordering::Release);
        granted.store(at, Ordering::Release);
    }

    /// Returns the number of SYNs that the program has answered.
    pub(super) fn answered(&self) -> u64 {
        self.marks.arrivals(self.at).answered.load(Ordering::Acquire) - self.answered_before
    }

    /// Returns the number of frames that found the ring full.
    pub(super) fn refused(&self) -> u64 {
        self.marks.arrivals(self.at).refused.load(Ordering::Relaxed) - self.refused_before
    }
}
