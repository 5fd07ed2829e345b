//! One of the four rings of an AF_XDP socket, in memory that is shared with the kernel.
//!
//! ```text
//!   consumer          producer
//!      v                 v
//!  +---+---+---+---+---+---+---+---+
//!  |   | x | x | x | x |   |   |   |   entries, a power of two
//!  +---+---+---+---+---+---+---+---+
//! ```
//!
//! Both counters only grow, modulo 2^32. The producer writes entries and then stores its counter. The
//! consumer reads them and then stores its own. The process consumes the receive and the completion ring. It
//! produces for the fill and the transmit ring. Layouts: linux/if_xdp.h and
//! Documentation/networking/af_xdp.rst.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};

use crate::received::Memory as _;
use crate::sys::Mapping;

/// An entry of a ring: plain data of which every bit pattern is valid.
///
/// # Safety
/// The type has no padding, and the kernel has it in this ring.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: an offset into the shared memory, in the fill and the completion ring.
unsafe impl Entry for u64 {}
// SAFETY: three integers without padding, in the receive and the transmit ring.
unsafe impl Entry for XdpDesc {}

/// The memory of a ring, which a [`Consumer`] or [`Producer`] and those who look at it share.
#[derive(Debug)]
pub(super) struct Shared {
    memory: Mapping,
    offsets: XdpRingOffset,
    entries: u32,
}

// SAFETY: threads reach the memory through atomic counters, and through entries that only the one consumer or
// producer accesses.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the ring of `entries` entries that lies at `page` of a socket.
    fn map<T: Entry>(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: XdpRingOffset,
        entries: u32,
    ) -> io::Result<Arc<Self>> {
        let len = offsets.desc as usize + entries as usize * size_of::<T>();
        let words = [Some(offsets.producer), Some(offsets.consumer), offsets.flags];
        let is_inside = |at: &u64| at.is_multiple_of(4) && *at + 4 <= len as u64;
        let is_aligned = (offsets.desc as usize).is_multiple_of(align_of::<T>());
        if !entries.is_power_of_two() || !is_aligned || !words.iter().flatten().all(is_inside) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Arc::new(Self { memory: Mapping::at(socket, page, len)?, offsets, entries }))
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word is in the mapping and aligned, and both sides access it
        // only by single loads and stores.
        unsafe { AtomicU32::from_ptr(self.memory.base().add(at as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Returns the place of the entry with this number, which is in the mapping whatever the number is.
    fn entry<T: Entry>(&self, number: u32) -> *mut T {
        let index = number & (self.entries - 1);
        // SAFETY: the index is less than `entries`, for which `map` has made room, aligned for `T`.
        unsafe { self.memory.base().add(self.offsets.desc as usize).cast::<T>().add(index as usize) }
    }

    /// Returns the number of entries that the producer has written so far, modulo 2^32.
    pub(super) fn arrivals(&self) -> u32 {
        self.producer().load(Ordering::Acquire)
    }

    /// Returns whether the ring has no entry that its consumer has not released.
    pub(super) fn is_empty(&self) -> bool {
        self.producer().load(Ordering::Acquire) == self.consumer().load(Ordering::Relaxed)
    }
}

/// The process's end of a ring that the kernel fills.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    shared: Arc<Shared>,
    next: u32,
    /// The producer's counter when it was last read.
    known: u32,
    entry: PhantomData<T>,
}

impl<T: Entry> Consumer<T> {
    /// Maps the ring that lies at `page` of a socket.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        let shared = Shared::map::<T>(socket, page, offsets, entries)?;
        Ok(Self { shared, next: 0, known: 0, entry: PhantomData })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Returns the number of the entry that is read next.
    pub(super) const fn next(&self) -> u32 {
        self.next
    }

    /// Calls `see` for each entry that can be read, from the one with the number `from`, which has not been
    /// released. Returns the number of the next one.
    pub(super) fn look_from(&self, from: u32, mut see: impl FnMut(T)) -> u32 {
        let end = self.shared.producer().load(Ordering::Acquire);
        let mut number = from;
        while number != end {
            // SAFETY: as for `read`. The caller has not released the entry.
            see(unsafe { self.shared.entry::<T>(number).read() });
            number = number.wrapping_add(1);
        }
        end
    }

    /// Returns the number of entries that can be read.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.shared.producer().load(Ordering::Acquire).wrapping_sub(self.next) as usize
    }

    /// Reads the oldest entry. The kernel may use its place after [`Consumer::release`].
    #[inline]
    pub(super) fn read(&mut self) -> Option<T> {
        if self.next == self.known {
            self.known = self.shared.producer().load(Ordering::Acquire);
            if self.next == self.known {
                return None;
            }
        }
        // SAFETY: the place is in the mapping, and the producer's counter, read with acquire ordering, says
        // that the kernel has written the entry. It leaves it alone until `release` stores our counter.
        let entry = unsafe { self.shared.entry::<T>(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Returns the places of all entries that were read to the kernel. Returns their number.
    #[inline]
    pub(super) fn release(&mut self) -> u32 {
        let before = self.shared.consumer().load(Ordering::Relaxed);
        self.shared.consumer().store(self.next, Ordering::Release);
        self.next.wrapping_sub(before)
    }
}

/// The process's end of a ring that the kernel empties.
#[derive(Debug)]
pub(super) struct Producer<T> {
    shared: Arc<Shared>,
    next: u32,
    /// The number up to which there was room when the consumer's counter was last read.
    end: u32,
    entry: PhantomData<T>,
}

impl<T: Entry> Producer<T> {
    /// Maps the ring that lies at `page` of a socket.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        let shared = Shared::map::<T>(socket, page, offsets, entries)?;
        Ok(Self { shared, next: 0, end: entries, entry: PhantomData })
    }

    /// Returns whether another entry can be written.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.has_room_for(1)
    }

    /// Returns whether so many entries can be written.
    #[inline]
    pub(super) fn has_room_for(&mut self, entries: usize) -> bool {
        if (self.end.wrapping_sub(self.next) as usize) < entries {
            self.end = self.shared.consumer().load(Ordering::Acquire).wrapping_add(self.shared.entries);
        }
        self.end.wrapping_sub(self.next) as usize >= entries
    }

    /// Writes an entry, which the kernel sees after [`Producer::publish`]. Returns false if there is no room.
    #[inline]
    pub(super) fn write(&mut self, entry: T) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: the place is in the mapping, and the consumer's counter, read with acquire ordering, says
        // that the kernel is done with it. It reads it only after `publish` has stored our counter.
        unsafe { self.shared.entry::<T>(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Hands over to the kernel all entries that were written.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Returns the number of entries that the kernel has not taken.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire)) as usize
    }

    /// Returns whether the kernel has taken all entries.
    pub(super) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns whether the kernel wants a system call before it looks at the ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        // The flag is read after the producer's counter has become visible, as the kernel sets it before it
        // looks at the counter once more.
        core::sync::atomic::fence(Ordering::SeqCst);
        let flags = self.shared.offsets.flags.map_or(0, |at| self.shared.word(at).load(Ordering::Relaxed));
        flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}
