//! Frames over a driver's own memory.

use crate::frame::{Cut, Frame, Owner};
use crate::memory::Memory;
use alloc::vec::Vec;

/// Memory of a driver, cut into chunks. The driver takes a frame over a chunk, and later learns that it
/// returned.
///
/// A chunk whose frame is taken belongs to the holder of the frame. All other chunks belong to the driver,
/// which gives them to a device or an operating system.
///
/// ```
/// use core::ptr::NonNull;
/// use evenkeel_frame::{Memory, Region};
///
/// /// Memory of the heap. A real driver maps it, and unmaps it when it is dropped.
/// struct Ring(NonNull<[u8]>);
/// # impl Drop for Ring {
/// #     fn drop(&mut self) {
/// #         // SAFETY: it was leaked out of a box, and the last frame is gone.
/// #         drop(unsafe { Box::from_raw(self.0.as_ptr()) });
/// #     }
/// # }
/// // SAFETY: any thread may use the memory.
/// unsafe impl Send for Ring {}
/// // SAFETY: it is initialized, stays in place, and is reached through frames only.
/// unsafe impl Memory for Ring {
///     fn bytes(&self) -> NonNull<[u8]> {
///         self.0
///     }
/// }
///
/// let ring = Ring(NonNull::from(Box::leak(Box::new([7_u8; 4 * 2_048]))));
/// let mut region = Region::over(ring, 2_048);
/// assert_eq!(region.chunks(), 4);
///
/// // The device has written 60 bytes to the start of chunk 2.
/// let mut frame = region.take(2).expect("the chunk is home");
/// assert!(frame.set(0, 60));
/// assert_eq!(frame.bytes(), [7; 60]);
///
/// drop(frame);
/// let mut home = Vec::new();
/// region.returned(|chunk| home.push(chunk));
/// assert_eq!(home, [2]);
/// ```
#[derive(Debug)]
pub struct Region {
    /// The frames that are home, by chunk.
    home: Vec<Option<Frame>>,
    owner: Owner,
}

impl Region {
    /// Creates a region of all whole chunks of `chunk_bytes` in `memory`. A frame can use at most 65 535
    /// bytes of each.
    #[must_use]
    pub fn over(memory: impl Memory, chunk_bytes: usize) -> Self {
        let (owner, mut frames) = (Owner::new(), Vec::new());
        owner.cover(memory, Cut { stride: chunk_bytes, chunk_bytes, has_segments: false }, &mut frames);
        Self { home: frames.into_iter().map(Some).collect(), owner }
    }

    /// Returns the number of chunks of the region.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.home.len()
    }

    /// Takes the frame over a chunk, which is empty until its owner [sets](Frame::set) the place of its
    /// bytes. Returns `None` if the frame is in use, or there is no such chunk.
    #[must_use]
    pub fn take(&mut self, chunk: usize) -> Option<Frame> {
        let mut frame = self.home.get_mut(chunk)?.take()?;
        frame.empty();
        Some(frame)
    }

    /// Takes a frame back, faster than by dropping it, and returns its chunk. Returns `None` for a frame of
    /// another owner, to which it returns.
    pub fn recycle(&mut self, frame: Frame) -> Option<usize> {
        self.owner.has(&frame).then(|| keep(&mut self.home, frame))
    }

    /// Collects the frames that were dropped, and calls `each` with the chunk of each.
    pub fn returned(&mut self, mut each: impl FnMut(usize)) {
        for frame in self.owner.collect() {
            each(keep(&mut self.home, frame));
        }
    }
}

fn keep(home: &mut [Option<Frame>], frame: Frame) -> usize {
    let chunk = frame.chunk() as usize;
    if let Some(place) = home.get_mut(chunk) {
        *place = Some(frame);
    }
    chunk
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;
    use std::sync::Arc;

    use super::*;
    use crate::memory::Heap;
    use crate::pool::Pool;

    /// Memory that tells, by its token, when it is unmapped.
    struct Mapped(Heap, #[expect(dead_code, reason = "its drop tells")] Arc<()>);

    // SAFETY: as of the memory inside.
    unsafe impl Memory for Mapped {
        fn bytes(&self) -> NonNull<[u8]> {
            self.0.bytes()
        }
    }

    fn mapped(bytes: usize, chunk_bytes: usize) -> (Region, Arc<()>) {
        let token = Arc::new(());
        (Region::over(Mapped(Heap::new(bytes).unwrap(), Arc::clone(&token)), chunk_bytes), token)
    }

    fn returned(region: &mut Region) -> Vec<usize> {
        let mut chunks = Vec::new();
        region.returned(|chunk| chunks.push(chunk));
        chunks.sort_unstable();
        chunks
    }

    #[test]
    fn a_driver_hears_which_chunks_are_home() {
        let (mut region, _) = mapped(5 * 256 + 100, 256);
        assert_eq!(region.chunks(), 5);
        let mut frames: Vec<_> = (0..5).map(|chunk| region.take(chunk).unwrap()).collect();
        assert!(region.take(3).is_none() && region.take(5).is_none());
        for (n, frame) in frames.iter_mut().enumerate() {
            assert!(frame.set(16, 240) && !frame.set(16, 241));
            frame.bytes_mut().fill(n as u8);
        }
        let four = frames.pop().unwrap();
        assert_eq!(four.bytes(), [4; 240]);
        assert_eq!(region.recycle(four), Some(4));
        drop(frames.drain(1..3));
        assert_eq!(returned(&mut region), [1, 2]);
        assert_eq!(returned(&mut region), []);
        let mut one = region.take(1).unwrap();
        assert!(one.set(16, 240));
        assert_eq!(one.bytes(), [1; 240], "what a device wrote is where it wrote it");
    }

    #[test]
    fn memory_is_unmapped_when_its_last_frame_is_gone() {
        let (mut region, token) = mapped(4 * 256, 256);
        let (early, late) = (region.take(0).unwrap(), region.take(3).unwrap());
        drop(early);
        drop(region);
        assert_eq!(Arc::strong_count(&token), 2);
        std::thread::spawn(|| drop(late)).join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn a_frame_of_a_driver_passes_through_a_pool_and_goes_home() {
        let (mut region, _) = mapped(2 * 256, 256);
        let mut pool = Pool::new(1);
        pool.recycle(region.take(1).unwrap());
        assert_eq!(pool.available(), 1);
        assert_eq!(region.recycle(pool.take().unwrap()), None);
        assert_eq!(pool.available(), 1);
        assert_eq!(returned(&mut region), [1]);
    }

    #[test]
    fn chunks_may_be_small_or_large_or_none() {
        let (mut small, _) = mapped(3 * 32, 32);
        let mut frame = small.take(2).unwrap();
        assert!(frame.is_empty() && !frame.resize(1), "there is headroom, and nothing else");
        assert!(frame.set(0, 32));
        let (mut large, _) = mapped(2 << 16, 1 << 16);
        let mut frame = large.take(1).unwrap();
        assert!(frame.set(0, 65_535) && !frame.set(0, 65_536));
        for (bytes, chunk_bytes) in [(0, 256), (100, 256), (256, 0)] {
            let (mut region, token) = mapped(bytes, chunk_bytes);
            assert!(region.take(0).is_none());
            assert_eq!((region.chunks(), Arc::strong_count(&token)), (0, 1));
        }
    }
}
