//! Frames, and the regions that they are chunks of.
//!
//! A region counts the frames that there are of it, those at home included. A frame is taken, passed on and
//! given back without that count: only its end ([`Frame::retire`]) changes it, and the last one frees the
//! region. A frame that is dropped goes into the list of its owner, who takes it from there; if there is no
//! owner any more, it ends.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::num::NonZeroU16;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering, fence};

use crate::list::{Link, List, Taken};
use crate::memory::Memory;

/// The size of a pool's usual buffer: room for an Ethernet frame of a 1500-byte MTU, a VLAN tag, and headers
/// in front.
pub const BUFFER_BYTES: usize = 2048;

/// The number of bytes left free in front of a new frame, for headers that are added later.
pub const HEADROOM: usize = 128;

/// One link-layer frame in a buffer of its own, from the Ethernet header on, without FCS.
///
/// A frame is moved, never copied, between the link and the socket. A dropped frame returns its buffer to the
/// owner of the buffer, from any thread. [`Pool::recycle`](crate::Pool::recycle) does so faster.
///
/// ```
/// use evenkeel_frame::Pool;
///
/// let mut pool = Pool::new(1);
/// let mut frame = pool.take().expect("the pool has one frame");
/// assert!(frame.is_empty() && frame.resize(60));
/// frame.bytes_mut().fill(0xff);
/// assert!(frame.strip(14));
/// assert_eq!(frame.bytes(), [0xff; 46]);
/// pool.recycle(frame);
/// ```
pub struct Frame {
    region: NonNull<Shared>,
    /// Inside a chunk of the region.
    place: Place,
}

/// Chunk, start and length, in one word: so a frame, and an `Option` of one, is handed over in two registers.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    const fn new(chunk: u32, start: u16, len: u16) -> Self {
        Self((len as u64) << 48 | (start as u64) << 32 | chunk as u64)
    }

    const fn chunk(self) -> u32 {
        self.0 as u32
    }

    const fn start(self) -> u16 {
        (self.0 >> 32) as u16
    }

    const fn len(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Returns another place in this chunk.
    const fn at(self, start: u16, len: u16) -> Self {
        Self::new(self.chunk(), start, len)
    }
}

/// The data that a device has about a frame in addition to its bytes. Packet monitors use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The time at which the frame passed the device, in nanoseconds since 1970; 0 if the device does not
    /// report it.
    pub stamp_nanos: u64,
    /// The number of bytes that were cut off its end, by a snapshot length or for lack of a larger buffer.
    pub cut_bytes: u32,
    /// Whether the operating system that shares the device has sent the frame. If not, it was received.
    pub sent: bool,
    /// The type of the frame's link layer, which determines its first header.
    pub link_type: LinkType,
}

impl Metadata {
    /// The metadata of an Ethernet frame of which the device reports nothing.
    pub const NONE: Self = Self { stamp_nanos: 0, cut_bytes: 0, sent: false, link_type: LinkType::ETHERNET };
}

/// The kind of header that a frame begins with, by its number in capture files (`LINKTYPE_` of
/// draft-ietf-opsawg-pcaplinktype).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet frames without FCS.
    pub const ETHERNET: Self = Self(1);
    /// No header: the frame is a packet of IPv4 or IPv6.
    pub const RAW: Self = Self(101);
}

impl Default for LinkType {
    fn default() -> Self {
        Self::ETHERNET
    }
}

/// A region, as all of its frames see it.
struct Shared {
    base: NonNull<u8>,
    /// Bytes from one chunk to the next.
    stride: usize,
    /// Bytes of a chunk that a frame may use; no more than the stride.
    chunk_bytes: usize,
    /// Of an empty frame over the first chunk.
    empty: Place,
    /// The owner's list.
    home: Arc<List<Frame>>,
    /// One for each chunk, for whoever has its frame.
    links: Box<[UnsafeCell<Link<Frame>>]>,
    /// The [segment sizes](Frame::segment_bytes) of the chunks, if there are any: only whoever has a frame
    /// uses that of its chunk.
    segment_bytes: Box<[AtomicU16]>,
    /// Frames that have not ended.
    live: AtomicUsize,
    /// The owner counts in it.
    tally: AtomicU32,
    _memory: Box<dyn Memory>,
}

// SAFETY: whoever has a frame has its chunk and its link alone. The rest of a region is never changed, or
// atomic, and any thread may free it.
unsafe impl Send for Frame {}
// SAFETY: a frame that is shared is only read.
unsafe impl Sync for Frame {}

impl Frame {
    #[inline]
    const fn region(&self) -> &Shared {
        // SAFETY: a region lives as long as any frame of it.
        unsafe { self.region.as_ref() }
    }

    const fn link(&self) -> *mut Link<Self> {
        // SAFETY: there are as many links as chunks.
        UnsafeCell::raw_get(unsafe { self.region().links.as_ptr().add(self.place.chunk() as usize) })
    }

    #[inline]
    const fn first(&self) -> *mut u8 {
        let (region, place) = (self.region(), self.place);
        // SAFETY: a frame is inside its chunk, and that inside the memory.
        unsafe { region.base.as_ptr().add(place.chunk() as usize * region.stride + place.start() as usize) }
    }

    /// Returns the bytes of the frame.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: as in `first`; they are initialized, and nobody but this frame reaches them.
        unsafe { core::slice::from_raw_parts(self.first(), self.len()) }
    }

    /// Returns the frame's bytes, to be changed in place.
    #[must_use]
    #[inline]
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and this frame is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.first(), self.len()) }
    }

    /// Returns the number of bytes in the frame.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.place.len() as usize
    }

    /// Returns whether the frame has no bytes.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.place.len() == 0
    }

    /// Returns the largest length that [`Frame::resize`] can give the frame, in bytes.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> usize {
        self.region().chunk_bytes - self.place.start() as usize
    }

    /// Sets the length to `len` bytes, keeping the start. Bytes that come into view keep what the buffer
    /// held.
    ///
    /// Returns false, and changes nothing, if the buffer has no room.
    #[must_use]
    #[inline]
    pub const fn resize(&mut self, len: usize) -> bool {
        let fits = len <= self.capacity();
        if fits {
            self.place = self.place.at(self.place.start(), len as u16);
        }
        fits
    }

    /// Removes `len` bytes from the front, such as a header that has been read. Returns false, and changes
    /// nothing, if the frame is shorter.
    #[must_use]
    #[inline]
    pub const fn strip(&mut self, len: usize) -> bool {
        let fits = len <= self.len();
        if fits {
            self.place = self.place.at(self.place.start() + len as u16, self.place.len() - len as u16);
        }
        fits
    }

    /// Adds `len` bytes in front, such as a header to be written. Returns false, and changes nothing, if the
    /// headroom is used up.
    #[must_use]
    #[inline]
    pub const fn prepend(&mut self, len: usize) -> bool {
        let fits = len <= self.place.start() as usize;
        if fits {
            self.place = self.place.at(self.place.start() - len as u16, self.place.len() + len as u16);
        }
        fits
    }

    /// Sets the frame to bytes `start..start + len` of its buffer. Returns false, and changes nothing, if
    /// they are not inside it.
    #[must_use]
    #[inline]
    pub const fn set(&mut self, start: usize, len: usize) -> bool {
        let room = self.region().chunk_bytes;
        let fits = start <= room && len <= room - start;
        if fits {
            self.place = self.place.at(start as u16, len as u16);
        }
        fits
    }

    /// Returns the number of bytes of payload in each segment (the last may have fewer) if the frame holds a
    /// packet that is still to be cut into TCP segments. The checksum of TCP in such a frame is unfinished,
    /// or was verified by the device.
    #[must_use]
    #[inline]
    pub fn segment_bytes(&self) -> Option<NonZeroU16> {
        let bytes = self.region().segment_bytes.get(self.place.chunk() as usize)?;
        NonZeroU16::new(bytes.load(Ordering::Relaxed))
    }

    /// Sets the [size of segments](Frame::segment_bytes), or none. Returns false, and changes nothing, if the
    /// frame is not a [large](crate::Pool::take_large) one.
    #[must_use]
    #[inline]
    pub fn set_segment_bytes(&mut self, bytes: Option<NonZeroU16>) -> bool {
        let cell = self.region().segment_bytes.get(self.place.chunk() as usize);
        cell.map(|cell| cell.store(bytes.map_or(0, NonZeroU16::get), Ordering::Relaxed)).is_some()
    }

    /// Empties it, for its next user: with [`HEADROOM`] in front, if the buffer has that much.
    #[inline]
    pub(crate) const fn empty(&mut self) {
        self.place = Place(self.region().empty.0 | self.place.chunk() as u64);
    }

    /// Returns the number of the frame's chunk in its region.
    pub(crate) const fn chunk(&self) -> u32 {
        self.place.chunk()
    }

    /// Chunks of its region.
    pub(crate) const fn chunks(&self) -> u32 {
        self.region().links.len() as u32
    }

    /// For the owner, to count in.
    pub(crate) const fn tally(&self) -> &AtomicU32 {
        &self.region().tally
    }

    /// Ends the frame: its chunk is never used again. The last one frees the region.
    pub(crate) fn retire(self) {
        // SAFETY: it is not dropped, so it ends here only.
        unsafe { end(ManuallyDrop::new(self).region) };
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} B)", self.len())
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nobody uses a frame after its drop.
        come_home(unsafe { ptr::read(self) });
    }
}

#[inline(never)]
fn come_home(frame: Frame) {
    let frame = ManuallyDrop::new(frame);
    let region = frame.region;
    // SAFETY: the frame keeps its region, that the owner's list, and the frame has its link alone. Once it is
    // in the list nothing of this is touched, and if it is not it ends.
    unsafe {
        let home = Arc::as_ptr(&(*region.as_ptr()).home);
        if !List::push(home, frame.link(), &raw const *frame) {
            end(region);
        }
    }
}

/// # Safety
/// A frame of the region ends here, and is not used afterwards.
unsafe fn end(region: NonNull<Shared>) {
    // SAFETY: the frame has kept the region until now. What was done with it happens before it is freed.
    if unsafe { (*region.as_ptr()).live.fetch_sub(1, Ordering::Release) } == 1 {
        fence(Ordering::Acquire);
        // SAFETY: it was leaked out of a box, and no frame of it is left.
        drop(unsafe { Box::from_raw(region.as_ptr()) });
    }
}

/// The division of a memory region into chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Bytes from one chunk to the next.
    pub(crate) stride: usize,
    /// Bytes of a chunk that a frame may use.
    pub(crate) chunk_bytes: usize,
    /// Whether chunks may hold packets that are still to be cut into segments.
    pub(crate) has_segments: bool,
}

/// Whom frames come home to.
pub(crate) struct Owner(Arc<List<Frame>>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({} returned)", self.returned())
    }
}

impl Owner {
    pub(crate) fn new() -> Self {
        Self(Arc::new(List::new()))
    }

    /// Makes a region of `memory`. The frames of its chunks are put into `frames`, in their order.
    pub(crate) fn cover(&self, memory: impl Memory, cut: Cut, frames: &mut Vec<Frame>) {
        let bytes = memory.bytes();
        let chunks = bytes.len().checked_div(cut.stride).map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
        if chunks == 0 {
            return;
        }
        // A frame's lengths have 16 bits.
        let chunk_bytes = cut.chunk_bytes.min(cut.stride).min(u16::MAX.into());
        let empty = Place::new(0, HEADROOM.min(chunk_bytes) as u16, 0);
        let region = Box::leak(Box::new(Shared {
            base: bytes.cast(),
            stride: cut.stride,
            chunk_bytes,
            empty,
            home: Arc::clone(&self.0),
            links: (0..chunks).map(|_| UnsafeCell::new(Link::new())).collect(),
            segment_bytes: (0..if cut.has_segments { chunks } else { 0 })
                .map(|_| AtomicU16::new(0))
                .collect(),
            live: AtomicUsize::new(chunks as usize),
            tally: AtomicU32::new(0),
            _memory: Box::new(memory),
        }));
        let region = NonNull::from(region);
        frames.extend((0..chunks).map(|chunk| Frame { region, place: Place(empty.0 | u64::from(chunk)) }));
    }

    /// Returns whether `frame` returns to this owner when it is dropped.
    #[inline]
    pub(crate) fn has(&self, frame: &Frame) -> bool {
        Arc::ptr_eq(&frame.region().home, &self.0)
    }

    /// Returns the number of frames that were dropped since the owner last collected. It may include a
    /// frame that another thread is about to drop.
    #[inline]
    pub(crate) fn returned(&self) -> usize {
        self.0.len()
    }

    /// Takes the frames that were dropped.
    pub(crate) fn collect(&mut self) -> Taken<Frame> {
        // SAFETY: a frame keeps its link, in the list, too. The list is closed when there is no owner.
        unsafe { self.0.take_all() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Those in the list are dropped once more, and end now.
        // SAFETY: a frame keeps its link, in the list, too.
        drop(unsafe { self.0.close() });
    }
}

const _: () = assert!(size_of::<Option<Frame>>() == size_of::<(NonNull<Shared>, Place)>());
