//! The frame buffers of a host.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;

use crate::frame::{BUFFER_BYTES, Cut, Frame, Owner};
use crate::memory::Heap;

/// The largest buffers that a pool can have: a frame counts its bytes in 16 bits.
const BUFFER_BYTES_MAX: usize = (1 << 16) - BUFFER_UNIT;
/// The number of usual buffers that take as much memory as a large one.
const LARGE_BUFFERS: usize = (1 << 16) / BUFFER_BYTES;
/// Buffers are a multiple of this.
const BUFFER_UNIT: usize = 128;

/// Returns how a pool's regions are cut into buffers of at least so many bytes, if there are such. Chunks are
/// an odd number of cache lines apart: at a power of two the headers of all frames would share a few sets of
/// the cache.
const fn cut(buffer_bytes: usize) -> Cut {
    let asked = if buffer_bytes < BUFFER_BYTES_MAX { buffer_bytes } else { BUFFER_BYTES_MAX };
    let chunk_bytes = asked.next_multiple_of(BUFFER_UNIT);
    Cut { stride: chunk_bytes + 64, chunk_bytes, has_segments: false }
}

/// Frame buffers with a limit on their memory. Nothing is allocated for a frame once the pool has grown.
///
/// The pool's size is the sum of what rings and queues have reserved ([`Pool::grow`]). So memory is bounded
/// by configuration, and a full queue takes no buffers from another.
///
/// Each growth allocates one region. A region is freed when all of its buffers are free and the pool needs
/// fewer. The pool checks this now and then, so that it costs little. Until then it keeps the buffers for its
/// next growth.
///
/// ```
/// use evenkeel_frame::Pool;
///
/// let mut pool = Pool::with_limit(1_000);
/// pool.grow(256)?; // a receive ring
/// pool.grow(256)?; // a socket's queue
/// assert_eq!(pool.available(), 512);
/// assert!(pool.grow(1_000).is_err(), "the limit");
///
/// let frame = pool.take();
/// assert_eq!(pool.available(), 511);
/// drop(frame);
/// pool.shrink(256);
/// assert_eq!((pool.available(), pool.capacity()), (256, 256));
/// # Ok::<(), evenkeel_frame::PoolLimit>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    /// No more than the capacity.
    free: Vec<Frame>,
    /// Free, too, and more than the capacity: for the next growth.
    spare: Vec<Frame>,
    owner: Owner,
    cut: Cut,
    capacity: usize,
    limit: usize,
    /// Buffers that there is memory for, in use or free or spare.
    allocated: usize,
    /// With more spare ones than these it is looked whether a region can be freed.
    spare_max: usize,
    exhausted: u64,
    /// The large buffers, if any are reserved.
    large: Option<Box<Self>>,
}

/// The error of a growth beyond the limit of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimit {
    /// The number of frames that were requested.
    pub asked_pkts: usize,
    /// The number of frames by which the pool can still grow.
    pub left_pkts: usize,
}

impl fmt::Display for PoolLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no room for {} more frame buffers ({} left of the pool's limit)",
            self.asked_pkts, self.left_pkts
        )
    }
}

impl core::error::Error for PoolLimit {}

impl Pool {
    /// Creates a pool of no buffers that may grow to `limit_pkts`, of [`BUFFER_BYTES`] each.
    #[must_use]
    pub fn with_limit(limit_pkts: usize) -> Self {
        Self::of_buffers(BUFFER_BYTES, limit_pkts)
    }

    /// Creates a pool of no buffers that may grow to `limit_pkts`, each of at least `buffer_bytes`,
    /// headroom included, as far as a frame can be so large (65 408 bytes).
    #[must_use]
    pub fn of_buffers(buffer_bytes: usize, limit_pkts: usize) -> Self {
        Self {
            free: Vec::new(),
            spare: Vec::new(),
            owner: Owner::new(),
            cut: cut(buffer_bytes),
            capacity: 0,
            limit: limit_pkts,
            allocated: 0,
            spare_max: 0,
            exhausted: 0,
            large: None,
        }
    }

    /// Makes all buffers that are free from now on at least `buffer_bytes` large, headroom included, as
    /// [`Pool::of_buffers`] does. Larger ones stay as they are. Frames in use keep their buffers, whose
    /// memory is freed when they return. Allocates.
    ///
    /// ```
    /// use evenkeel_frame::{BUFFER_BYTES, HEADROOM, Pool};
    ///
    /// let mut pool = Pool::new(2);
    /// let small = pool.take().expect("the pool has two frames");
    /// pool.fit(9_216);
    /// assert_eq!(small.capacity(), BUFFER_BYTES - HEADROOM);
    /// let large = pool.take().expect("the pool has two other frames");
    /// assert_eq!((large.capacity(), pool.buffer_bytes()), (9_216 - HEADROOM, 9_216));
    /// ```
    pub fn fit(&mut self, buffer_bytes: usize) {
        if cut(buffer_bytes).chunk_bytes <= self.cut.chunk_bytes {
            return;
        }
        let (capacity, exhausted) = (self.capacity, self.exhausted);
        let large = self.large.take();
        *self = Self { exhausted, large, ..Self::of_buffers(buffer_bytes, self.limit) };
        // There is as much room below the limit as before.
        let _ = self.grow(capacity);
    }

    /// Returns the size of the pool's buffers in bytes, headroom included.
    #[must_use]
    pub const fn buffer_bytes(&self) -> usize {
        self.cut.chunk_bytes
    }

    /// Creates a pool of `pkts` buffers that grows no further.
    #[must_use]
    pub fn new(pkts: usize) -> Self {
        let mut pool = Self::with_limit(pkts);
        // A pool may always grow to its own limit.
        let _ = pool.grow(pkts);
        pool
    }

    /// Adds `pkts` buffers, for a new ring or queue of that size. Allocates.
    ///
    /// # Errors
    /// [`PoolLimit`] if the pool would exceed its limit. Nothing is added then.
    pub fn grow(&mut self, pkts: usize) -> Result<(), PoolLimit> {
        let left_pkts = self.limit - self.capacity;
        let refused = PoolLimit { asked_pkts: pkts, left_pkts };
        if pkts > left_pkts {
            return Err(refused);
        }
        self.collect();
        let spare = pkts.min(self.spare.len());
        if pkts > spare {
            self.allocate(pkts - spare).ok_or(refused)?;
        }
        self.capacity += pkts;
        self.free.extend(self.spare.drain(self.spare.len() - spare..));
        self.spare_max = self.spare_max.min(self.next_spare_max());
        Ok(())
    }

    /// Adds a region. Lists have room for all frames then, so that nothing is allocated later on.
    fn allocate(&mut self, pkts: usize) -> Option<()> {
        let memory = Heap::new(pkts.checked_mul(self.cut.stride)?)?;
        self.allocated += pkts;
        self.free.reserve(self.allocated - self.free.len());
        self.spare.reserve(self.allocated - self.spare.len());
        self.owner.cover(memory, self.cut, &mut self.free);
        Some(())
    }

    /// Removes `pkts` buffers that [`Pool::grow`] has added. Buffers that are in use are removed when they
    /// return.
    pub fn shrink(&mut self, pkts: usize) {
        self.collect();
        self.capacity = self.capacity.saturating_sub(pkts);
        let surplus = self.free.len().saturating_sub(self.capacity);
        self.spare.extend(self.free.drain(self.free.len() - surplus..));
        self.trim();
    }

    /// Lowers the limit by `pkts` buffers, for a queue that keeps its bytes elsewhere.
    ///
    /// # Errors
    /// [`PoolLimit`] if fewer than `pkts` buffers are left of the limit.
    pub const fn set_aside(&mut self, pkts: usize) -> Result<(), PoolLimit> {
        let left_pkts = self.limit - self.capacity;
        if pkts > left_pkts {
            return Err(PoolLimit { asked_pkts: pkts, left_pkts });
        }
        self.limit -= pkts;
        Ok(())
    }

    /// Adds `pkts` buffers that were [set aside](Pool::set_aside) back to the limit of the pool.
    pub const fn take_back(&mut self, pkts: usize) {
        self.limit += pkts;
    }

    /// Adds `pkts` [large](Pool::take_large) buffers, whose memory counts towards the limit. Allocates.
    ///
    /// # Errors
    /// [`PoolLimit`] if the limit leaves no memory for them. Nothing is added then.
    pub fn grow_large(&mut self, pkts: usize) -> Result<(), PoolLimit> {
        let refused = PoolLimit { asked_pkts: pkts, left_pkts: 0 };
        self.set_aside(pkts.checked_mul(LARGE_BUFFERS).ok_or(refused)?)?;
        let large = self.large.get_or_insert_with(|| {
            let mut large = Self::of_buffers(BUFFER_BYTES_MAX, usize::MAX);
            large.cut.has_segments = true;
            Box::new(large)
        });
        large.grow(pkts)
    }

    /// Takes an empty frame that holds a packet of almost 64 KiB, and can have a
    /// [size of segments](Frame::segment_bytes). Returns `None` if none is free, or none was reserved. Never
    /// allocates.
    ///
    /// ```
    /// use core::num::NonZeroU16;
    ///
    /// use evenkeel_frame::Pool;
    ///
    /// let mut pool = Pool::with_limit(1_000);
    /// assert!(pool.take_large().is_none(), "none is reserved");
    /// pool.grow_large(2)?;
    /// let mut large = pool.take_large().expect("there are two");
    /// assert!(large.resize(65_226) && large.set_segment_bytes(NonZeroU16::new(1_448)));
    /// pool.recycle(large);
    /// let again = pool.take_large().expect("there are two");
    /// assert_eq!((again.len(), again.segment_bytes()), (0, None));
    /// # Ok::<(), evenkeel_frame::PoolLimit>(())
    /// ```
    #[must_use]
    pub fn take_large(&mut self) -> Option<Frame> {
        let mut frame = self.large.as_mut()?.take()?;
        let _ = frame.set_segment_bytes(None);
        Some(frame)
    }

    /// Returns whether large buffers are reserved. They may all be in use.
    #[must_use]
    pub const fn has_large(&self) -> bool {
        self.large.is_some()
    }

    /// Takes an empty frame with [`HEADROOM`](crate::HEADROOM) in front. Returns `None`, and counts that,
    /// if all buffers are in use. Never allocates.
    #[must_use]
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        match self.free.pop() {
            Some(frame) => Some(frame),
            None => self.take_returned(),
        }
    }

    /// Takes one of the frames that were dropped.
    #[cold]
    fn take_returned(&mut self) -> Option<Frame> {
        self.collect();
        let frame = self.free.pop();
        self.exhausted += u64::from(frame.is_none());
        frame
    }

    /// Returns a frame with a copy of `bytes`, or `None` if no buffer is free or `bytes` is longer than
    /// one.
    #[must_use]
    pub fn take_copy(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.take()?;
        if !frame.resize(bytes.len()) {
            self.recycle(frame);
            return None;
        }
        frame.bytes_mut().copy_from_slice(bytes);
        Some(frame)
    }

    /// Takes a frame's buffer back, faster than by dropping the frame. A frame of another owner returns to
    /// that owner.
    #[inline]
    pub fn recycle(&mut self, frame: Frame) {
        if self.owner.has(&frame) {
            return self.keep(frame);
        }
        self.recycle_other(frame);
    }

    /// Takes back a large frame, or drops the frame of another owner.
    #[cold]
    fn recycle_other(&mut self, frame: Frame) {
        if let Some(large) = &mut self.large {
            large.recycle(frame);
        }
    }

    #[inline]
    fn keep(&mut self, mut frame: Frame) {
        frame.empty();
        if self.free.len() >= self.capacity {
            self.keep_spare(frame);
        } else if self.free.len() < self.free.capacity() {
            // There always is room. Who says so spares the compiler the way to make some.
            self.free.push(frame);
        }
    }

    #[cold]
    fn keep_spare(&mut self, frame: Frame) {
        self.spare.push(frame);
        self.trim();
    }

    /// Takes in what was dropped.
    fn collect(&mut self) {
        for frame in self.owner.collect() {
            self.keep(frame);
        }
    }

    /// Frees regions all of whose buffers are free, while there are enough spare ones, if there may be such a
    /// region again.
    fn trim(&mut self) {
        if self.spare.len() <= self.spare_max {
            return;
        }
        let free = self.free.len();
        self.spare.append(&mut self.free);
        self.spare.iter().for_each(|frame| frame.tally().store(0, Ordering::Relaxed));
        for frame in &self.spare {
            frame.tally().fetch_add(1, Ordering::Relaxed);
        }
        let mut surplus = self.spare.len() - free;
        let mut kept = 0;
        for at in 0..self.spare.len() {
            if !is_needless(&self.spare[at], &mut surplus) {
                self.spare.swap(kept, at);
                kept += 1;
            }
        }
        self.allocated -= self.spare.len() - kept;
        self.spare.drain(kept..).for_each(Frame::retire);
        self.free.extend(self.spare.drain(self.spare.len() - free..));
        self.spare_max = self.next_spare_max();
    }

    /// Each look takes time for all buffers, so some must have become spare between two; fewer, the fewer
    /// are left, so that the last region is not kept for ever.
    fn next_spare_max(&self) -> usize {
        self.spare.len() + (self.allocated - self.spare.len()) / 8
    }

    /// Returns the number of free buffers. A frame that another thread is about to drop may count already.
    #[must_use]
    pub fn available(&self) -> usize {
        (self.free.len() + self.owner.returned()).min(self.capacity)
    }

    /// Returns the number of reserved buffers, in use or free.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of allocated buffers: the reserved ones, and those that have not been freed yet.
    #[must_use]
    pub const fn allocated(&self) -> usize {
        self.allocated
    }

    /// Returns how often [`Pool::take`] found no free buffer.
    #[must_use]
    pub const fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

/// Stands for the number of free buffers of a region that is being freed.
const LEAVING: u32 = u32::MAX;

/// Returns whether the region of a free frame is to be freed. If all its chunks are free and `surplus` is
/// at least their number, marks the region as leaving and subtracts them from `surplus`.
fn is_needless(frame: &Frame, surplus: &mut usize) -> bool {
    let (free, all) = (frame.tally().load(Ordering::Relaxed), frame.chunks());
    if free == all && all as usize <= *surplus {
        *surplus -= all as usize;
        frame.tally().store(LEAVING, Ordering::Relaxed);
    }
    frame.tally().load(Ordering::Relaxed) == LEAVING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::HEADROOM;

    #[test]
    fn larger_buffers_take_the_place_of_free_ones_and_of_those_that_return() {
        let mut pool = Pool::with_limit(5);
        pool.grow(4).unwrap();
        let [mut used, dropped] = [(); 2].map(|()| pool.take().unwrap());
        pool.fit(4_000);
        assert_eq!((pool.available(), pool.capacity(), pool.allocated()), (4, 4, 4));
        assert_eq!(pool.buffer_bytes(), 4_096);
        // What was in use before goes on in its own memory, and never returns.
        assert!(used.resize(100) && !used.resize(2_000));
        used.bytes_mut().fill(7);
        pool.recycle(used);
        drop(dropped);
        assert_eq!(pool.available(), 4);
        let frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(frames.len(), 4);
        assert!(frames.iter().all(|frame| frame.capacity() == 4_096 - HEADROOM));
        assert_eq!(pool.exhausted(), 1);
        pool.fit(1_000);
        assert_eq!(pool.buffer_bytes(), 4_096, "buffers never shrink");
        drop(frames);
        assert_eq!((pool.available(), pool.grow(2).is_err(), pool.grow(1).is_ok()), (4, true, true));
    }

    #[test]
    fn pool_is_bounded_and_gets_its_buffers_back() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take_copy(&[1, 2, 3]).unwrap());
        assert!(pool.take().is_none());
        assert_eq!(pool.exhausted(), 1);
        assert_eq!(b.bytes(), [1, 2, 3]);
        pool.recycle(a);
        pool.recycle(b);
        assert_eq!(pool.available(), 2);
        assert!(pool.grow(1).is_err());
    }

    #[test]
    fn buffers_are_as_large_as_was_asked_for_and_a_frame_can_be() {
        for (asked, room) in [(1, 128), (2_048, 2_048), (9_100, 9_216), (65_408, 65_408), (1 << 20, 65_408)] {
            let mut pool = Pool::of_buffers(asked, 2);
            pool.grow(2).unwrap();
            let [mut one, mut other] = [(); 2].map(|()| pool.take().unwrap());
            for (frame, byte) in [(&mut one, 1), (&mut other, 2)] {
                assert!(!frame.set(0, room + 1) && frame.set(0, room), "{asked}");
                frame.bytes_mut().fill(byte);
            }
            assert!(one.bytes().iter().all(|byte| *byte == 1), "buffers do not overlap");
            drop(one);
            pool.recycle(other);
            assert_eq!(pool.available(), 2);
        }
    }

    #[test]
    fn what_is_dropped_is_available_again() {
        let mut pool = Pool::new(2);
        for _ in 0..5 {
            let held = (pool.take().unwrap(), pool.take().unwrap());
            assert_eq!(pool.available(), 0);
            drop(held);
            assert_eq!(pool.available(), 2);
        }
        assert_eq!(pool.exhausted(), 0);
    }

    #[test]
    fn a_frame_recycled_elsewhere_goes_home() {
        let (mut here, mut there) = (Pool::new(1), Pool::new(1));
        there.recycle(here.take().unwrap());
        assert_eq!((here.available(), there.available()), (1, 1));
        let _other = there.take().unwrap();
        assert!(there.take().is_none());
        assert!(here.take().is_some());
    }

    #[test]
    fn a_frame_outlives_its_pool() {
        let mut pool = Pool::new(3);
        let (mut held, dropped) = (pool.take_copy(&[7; 60]).unwrap(), pool.take().unwrap());
        drop(dropped);
        drop(pool);
        assert_eq!(held.bytes(), [7; 60]);
        held.bytes_mut().fill(8);
        assert_eq!(held.bytes(), [8; 60]);
    }

    #[test]
    fn what_is_set_aside_is_not_grown_by_until_it_is_taken_back() {
        let mut pool = Pool::with_limit(4);
        pool.set_aside(3).unwrap();
        assert_eq!(pool.grow(2), Err(PoolLimit { asked_pkts: 2, left_pkts: 1 }));
        assert_eq!(pool.set_aside(2), Err(PoolLimit { asked_pkts: 2, left_pkts: 1 }));
        pool.take_back(3);
        pool.grow(4).unwrap();
        assert!(pool.set_aside(1).is_err());
    }

    #[test]
    fn more_than_an_address_space_is_refused() {
        let mut pool = Pool::with_limit(usize::MAX);
        let asked_pkts = usize::MAX / BUFFER_BYTES;
        assert_eq!(pool.grow(asked_pkts), Err(PoolLimit { asked_pkts, left_pkts: usize::MAX }));
        assert_eq!((pool.capacity(), pool.allocated(), pool.available()), (0, 0, 0));
    }

    #[test]
    fn shrinking_frees_buffers_in_use_when_they_come_back() {
        let mut pool = Pool::with_limit(4);
        pool.grow(2).unwrap();
        pool.grow(2).unwrap();
        let held: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
        pool.shrink(2);
        assert_eq!(pool.allocated(), 4);
        for frame in held {
            pool.recycle(frame);
        }
        assert_eq!((pool.available(), pool.capacity(), pool.allocated()), (2, 2, 2));
    }

    #[test]
    fn memory_falls_when_what_was_grown_is_given_up() {
        let mut pool = Pool::with_limit(10_000);
        pool.grow(64).unwrap();
        let ring: Vec<_> = (0..32).map(|_| pool.take().unwrap()).collect();
        for pkts in (1..=9).map(|n| 16 * n) {
            pool.grow(pkts).unwrap();
        }
        assert_eq!(pool.allocated(), pool.capacity());
        for pkts in (1..=9).map(|n| 16 * n) {
            pool.shrink(pkts);
        }
        assert_eq!(pool.capacity(), 64);
        // As many as are promised, those in use, and what is left of a region.
        assert!(pool.allocated() <= 64 + 32 + 144, "{} of 784", pool.allocated());
        drop(ring);
        pool.shrink(64);
        assert_eq!((pool.available(), pool.allocated()), (0, 0));
    }

    #[test]
    fn what_was_given_up_is_used_before_more_is_allocated() {
        let mut pool = Pool::with_limit(1_000);
        pool.grow(100).unwrap();
        // The region is never wholly free. What a pool does not know is whose this one is: if it is of those
        // that are given up, there has to be another when they are wanted again.
        let _held = pool.take().unwrap();
        for pkts in 1..60 {
            pool.shrink(pkts);
            pool.grow(pkts).unwrap();
            assert_eq!((pool.capacity(), pool.allocated(), pool.available()), (100, 101, 100));
        }
    }

    #[test]
    fn headers_come_off_and_go_on_in_place() {
        let mut pool = Pool::new(1);
        let mut frame = pool.take_copy(&[9; 60]).unwrap();
        assert!(frame.strip(14));
        assert_eq!(frame.len(), 46);
        assert!(frame.prepend(14));
        assert!(!frame.prepend(HEADROOM + 1));
        assert!(!frame.strip(61));
        assert!(!frame.resize(BUFFER_BYTES));
        assert_eq!(frame.bytes(), [9; 60]);
    }

    #[test]
    fn a_frame_stays_inside_its_buffer() {
        let mut pool = Pool::new(3);
        let mut frame = pool.take_copy(&[9; 60]).unwrap();
        for (start, len) in [(0, BUFFER_BYTES + 1), (BUFFER_BYTES, 1), (BUFFER_BYTES + 1, 0), (9, usize::MAX)]
        {
            assert!(!frame.set(start, len), "{start} {len}");
        }
        assert!(!frame.resize(frame.capacity() + 1) && !frame.resize(usize::MAX));
        assert_eq!(frame.bytes(), [9; 60], "nothing changed");
        let (before, after) = (pool.take().unwrap(), pool.take().unwrap());
        for mut frame in [before, frame, after] {
            assert!(frame.set(0, BUFFER_BYTES));
            frame.bytes_mut().fill(1);
            assert!(frame.set(BUFFER_BYTES, 0) && frame.prepend(BUFFER_BYTES));
            assert_eq!(frame.bytes(), [1; BUFFER_BYTES]);
        }
    }

    #[test]
    fn the_next_user_of_a_buffer_sees_no_lengths_of_the_last() {
        let mut pool = Pool::new(1);
        for dropped in [true, false, true] {
            let mut frame = pool.take().unwrap();
            assert_eq!(frame.len(), 0);
            assert!(frame.prepend(HEADROOM) && !frame.prepend(1) && frame.resize(100));
            if dropped { drop(frame) } else { pool.recycle(frame) }
        }
    }
}
