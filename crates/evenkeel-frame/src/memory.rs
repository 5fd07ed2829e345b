//! Memory that regions lie over.

use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use core::ptr::NonNull;

/// Memory that a region can lie over.
///
/// The value is dropped, on any thread, when the region and its last frame are gone.
/// [`Region`](crate::Region) has an example.
///
/// # Safety
/// `bytes` always returns one and the same initialized memory. It may be read and written from any thread. It
/// stays where it is until the value is dropped, even if the value is moved. While a frame lies over a chunk,
/// nothing else accesses that chunk, neither the operating system nor a device.
pub unsafe trait Memory: Send + 'static {
    /// Returns the whole memory.
    fn bytes(&self) -> NonNull<[u8]>;
}

/// The alignment of the memory in bytes. With it no frame shares a cache line with other data.
const ALIGNED: usize = 64;

/// Memory of the allocator's, zeroed.
#[derive(Debug)]
pub(crate) struct Heap {
    allocated: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is this value's alone, and any thread may free it.
unsafe impl Send for Heap {}

impl Heap {
    /// `None` if there cannot be so much.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        // More than the allocator aligns by itself is asked for by hand: it clears what it has to align, and
        // so would touch every page of a large pool.
        let layout = Layout::from_size_align(bytes.checked_add(ALIGNED)?, 1).ok()?;
        // SAFETY: the layout is not of size zero.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) });
        let Some(allocated) = allocated else { handle_alloc_error(layout) };
        Some(Self { allocated, layout })
    }
}

// SAFETY: allocated and initialized until the drop, not reachable by anybody else, and not part of the value.
unsafe impl Memory for Heap {
    fn bytes(&self) -> NonNull<[u8]> {
        let skipped = self.allocated.addr().get().next_multiple_of(ALIGNED) - self.allocated.addr().get();
        // SAFETY: less than what was allocated beyond what was asked for.
        let base = unsafe { self.allocated.add(skipped) };
        NonNull::slice_from_raw_parts(base, self.layout.size() - ALIGNED)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody uses it any more.
        unsafe { dealloc(self.allocated.as_ptr(), self.layout) };
    }
}
