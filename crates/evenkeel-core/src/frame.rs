//! Frames and the pool they come from.

use core::fmt;

use crate::tcp::Fault;

/// Room for one Ethernet frame of a 1500-byte MTU, a VLAN tag, and headers put in front of it.
pub const BUFFER_BYTES: usize = 2048;

/// Bytes left free in front of a new frame's bytes, for headers that are added on the way down.
pub const HEADROOM: usize = 128;

/// One link-layer frame in a buffer of its own, from the Ethernet header on, without FCS.
///
/// A frame is moved, never copied, between the link and the socket; its buffer came from a [`Pool`] and goes
/// back there. A frame that is merely dropped gives its memory back to the allocator, not to its pool, which
/// then is one short: every path hands its frames on or recycles them, and the conservation check finds the
/// one that does not.
pub struct Frame {
    buffer: Box<[u8]>,
    start: u32,
    end: u32,
}

/// What a device knows of a frame beyond its bytes: for packet monitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// When it passed, in nanoseconds since 1970; 0 if the device does not say.
    pub stamp_nanos: u64,
    /// Bytes that were cut off its end: by a snapshot length, or because no buffer is that large.
    pub cut_bytes: u32,
    /// Sent by the operating system that this device is shared with, not received.
    pub sent: bool,
}

impl Metadata {
    /// The device knows nothing.
    pub const NONE: Self = Self { stamp_nanos: 0, cut_bytes: 0, sent: false };
}

impl Frame {
    /// The frame's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// The frame's bytes, to be changed in place.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Bytes in the frame.
    #[must_use]
    pub const fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the frame has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes that [`Frame::resize`] could give at most.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.buffer.len() - self.start as usize
    }

    /// Sets the length to `len` bytes, keeping the start. Bytes that come into view keep what the buffer
    /// held.
    ///
    /// Returns false, and changes nothing, if the buffer has no room.
    #[must_use]
    pub fn resize(&mut self, len: usize) -> bool {
        let fits = len <= self.capacity();
        if fits {
            self.end = self.start + len as u32;
        }
        fits
    }

    /// Takes `len` bytes off the front (a header that has been read). Returns false if the frame is shorter.
    #[must_use]
    pub fn strip(&mut self, len: usize) -> bool {
        let fits = len <= self.len();
        if fits {
            self.start += len as u32;
        }
        fits
    }

    /// Opens `len` bytes in front (a header to be written). Returns false if the headroom is used up.
    #[must_use]
    pub fn prepend(&mut self, len: usize) -> bool {
        let fits = len <= self.start as usize;
        if fits {
            self.start -= len as u32;
        }
        fits
    }

    /// Declares bytes `start..start + len` of the buffer to be the frame. Returns false if they are not
    /// inside it.
    #[must_use]
    pub fn set(&mut self, start: usize, len: usize) -> bool {
        let fits = start.checked_add(len).is_some_and(|end| end <= self.buffer.len());
        if fits {
            self.start = start as u32;
            self.end = (start + len) as u32;
        }
        fits
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} B)", self.len())
    }
}

/// Frame buffers of one host. Nothing is allocated per frame once the pool has grown to its size.
///
/// The pool's size is the sum of what was reserved for rings, channels and queues ([`Pool::grow`]), so memory
/// is bounded by configuration and a full queue cannot starve another of buffers.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Box<[u8]>>,
    capacity: usize,
    limit: usize,
    buffer_bytes: usize,
    exhausted: u64,
}

/// The pool may not grow by as much as was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimit {
    /// Frames asked for.
    pub asked_pkts: usize,
    /// Frames the pool could still grow by.
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

impl PoolLimit {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Limit
    }
}

impl Pool {
    /// A pool of no buffers that may grow to `limit_pkts`.
    #[must_use]
    pub fn with_limit(limit_pkts: usize) -> Self {
        Self { free: Vec::new(), capacity: 0, limit: limit_pkts, buffer_bytes: BUFFER_BYTES, exhausted: 0 }
    }

    /// A pool of `pkts` buffers that grows no further.
    #[must_use]
    pub fn new(pkts: usize) -> Self {
        let mut pool = Self::with_limit(pkts);
        // A pool may always grow to its own limit.
        let _ = pool.grow(pkts);
        pool
    }

    /// Adds `pkts` buffers: reserved when a ring, channel or queue of that size comes into being.
    /// Allocates.
    ///
    /// # Errors
    /// [`PoolLimit`] if the limit given at the start would be passed; nothing is added then.
    pub fn grow(&mut self, pkts: usize) -> Result<(), PoolLimit> {
        let left_pkts = self.limit - self.capacity;
        if pkts > left_pkts {
            return Err(PoolLimit { asked_pkts: pkts, left_pkts });
        }
        self.free.reserve(self.capacity + pkts - self.free.len());
        self.free.extend((0..pkts).map(|_| vec![0; self.buffer_bytes].into_boxed_slice()));
        self.capacity += pkts;
        Ok(())
    }

    /// Takes back `pkts` buffers reserved by [`Pool::grow`]. Buffers now in use are freed as they
    /// come back.
    pub fn shrink(&mut self, pkts: usize) {
        self.capacity = self.capacity.saturating_sub(pkts);
        let surplus = self.free.len().saturating_sub(self.capacity);
        self.free.truncate(self.free.len() - surplus.min(pkts));
    }

    /// Sets aside the memory of `pkts` buffers, for a queue that keeps its bytes elsewhere: reserved like
    /// those of [`Pool::grow`].
    ///
    /// # Errors
    /// [`PoolLimit`] as there.
    pub fn set_aside(&mut self, pkts: usize) -> Result<(), PoolLimit> {
        let left_pkts = self.limit - self.capacity;
        if pkts > left_pkts {
            return Err(PoolLimit { asked_pkts: pkts, left_pkts });
        }
        self.limit -= pkts;
        Ok(())
    }

    /// What was [set aside](Pool::set_aside) is needed no more.
    pub const fn take_back(&mut self, pkts: usize) {
        self.limit += pkts;
    }

    /// An empty frame with [`HEADROOM`] in front, or `None` (counted) if all buffers are in use. Never
    /// allocates.
    #[must_use]
    pub fn take(&mut self) -> Option<Frame> {
        let Some(buffer) = self.free.pop() else {
            self.exhausted += 1;
            return None;
        };
        let start = HEADROOM.min(buffer.len()) as u32;
        Some(Frame { buffer, start, end: start })
    }

    /// A frame with a copy of `bytes`, or `None` if no buffer is free or `bytes` is longer than one.
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

    /// Gives a frame's buffer back.
    pub fn recycle(&mut self, frame: Frame) {
        if self.free.len() < self.capacity {
            self.free.push(frame.buffer);
        }
    }

    /// Buffers free now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Buffers reserved, in use or free.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// How often [`Pool::take`] found nothing.
    #[must_use]
    pub const fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn shrinking_frees_buffers_in_use_when_they_come_back() {
        let mut pool = Pool::with_limit(4);
        pool.grow(4).unwrap();
        let held: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
        pool.shrink(2);
        for frame in held {
            pool.recycle(frame);
        }
        assert_eq!((pool.available(), pool.capacity()), (2, 2));
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
    }
}
