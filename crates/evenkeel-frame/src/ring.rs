//! A receive ring between two threads, a sender and a receiver. The slots hold the buffers themselves.
//!
//! A slot changes hands as a descriptor of a network adaptor does. The receiver gives its buffer to the
//! sender, the sender fills it, and the receiver takes the frame out or discards it in place. A frame that is
//! discarded in place moves nothing, and the buffers of many such frames are given back with one store.
//!
//! Positions count up to twice the slots and begin again, so that a full ring differs from an empty one. They
//! divide the ring:
//!
//! ```text
//!      read       filled       given      read + slots
//!   -----+------------+------------+-------------+-----
//!         receiver's:   sender's:     receiver's:
//!         frames        buffers       vacant
//! ```

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::frame::Frame;

/// A position on cache lines of its own: one of the two threads writes it. Processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Position(AtomicUsize);

struct Shared {
    slots: Box<[UnsafeCell<MaybeUninit<Frame>>]>,
    /// Written by the receiver, for those who count.
    read: Position,
    /// Written by the sender.
    filled: Position,
    /// Written by the receiver.
    given: Position,
}

// SAFETY: the positions say which thread has a slot, and frames may go to any thread.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// Returns the slot of a position.
    #[inline]
    const fn slot(&self, position: usize) -> *mut Frame {
        let slots = self.slots.len();
        let index = if position < slots { position } else { position - slots };
        // SAFETY: a position is less than twice the number of slots. The pointer is to cells, and so may be
        // written through; cell and `MaybeUninit` are transparent.
        unsafe { self.slots.as_ptr().add(index).cast::<Frame>().cast_mut() }
    }

    /// Returns the position that many slots, at most all, after another.
    #[inline]
    const fn after(&self, position: usize, slots: usize) -> usize {
        let (next, end) = (position + slots, 2 * self.slots.len());
        if next < end { next } else { next - end }
    }

    /// Returns the number of slots from one position to a later one.
    #[inline]
    const fn between(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + 2 * self.slots.len() - from }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (mut position, given) = (*self.read.0.get_mut(), *self.given.0.get_mut());
        while position != given {
            // SAFETY: both halves are gone, and what was given and not read is initialized.
            unsafe { self.slot(position).drop_in_place() };
            position = self.after(position, 1);
        }
    }
}

/// Creates a ring of `slots`, at least one, without any buffer.
#[must_use]
pub fn ring(slots: usize) -> (RingSender, RingReceiver) {
    let vacant = |_| UnsafeCell::new(MaybeUninit::uninit());
    let shared = Arc::new(Shared {
        slots: (0..slots.max(1)).map(vacant).collect(),
        read: Position::default(),
        filled: Position::default(),
        given: Position::default(),
    });
    let sender = RingSender { shared: Arc::clone(&shared), filled: 0, given: 0 };
    (sender, RingReceiver { shared, read: 0, given: 0 })
}

/// The sender's half of a [`ring`]: it fills buffers that the receiver has given.
pub struct RingSender {
    shared: Arc<Shared>,
    filled: usize,
    /// The position up to which buffers were given, at least.
    given: usize,
}

impl RingSender {
    /// Fills the next buffer, whose bytes are those of an earlier frame, and sends it. Returns false if the
    /// ring has no buffer.
    #[inline]
    pub fn send(&mut self, fill: impl FnOnce(&mut Frame)) -> bool {
        if self.filled == self.given {
            self.given = self.shared.given.0.load(Ordering::Acquire);
            if self.filled == self.given {
                return false;
            }
        }
        // SAFETY: the buffer was given, and not sent yet: it is initialized, and this thread's alone.
        fill(unsafe { &mut *self.shared.slot(self.filled) });
        self.filled = self.shared.after(self.filled, 1);
        self.shared.filled.0.store(self.filled, Ordering::Release);
        true
    }

    /// Returns the number of frames that the receiver has not read yet.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.shared.between(self.shared.read.0.load(Ordering::Relaxed), self.filled)
    }
}

/// The receiver's half of a [`ring`]: it gives buffers, and takes frames or discards them.
///
/// ```
/// use evenkeel_frame::{Pool, ring};
///
/// let (mut sender, mut receiver) = ring(2);
/// let mut pool = Pool::new(2);
/// receiver.give(|| pool.take());
/// assert!(sender.send(|frame| assert!(frame.resize(60))));
/// assert_eq!(receiver.frames(16).0[0].len(), 60);
/// receiver.discard(1); // its buffer stays in the ring
/// assert!(receiver.take().is_none());
/// ```
pub struct RingReceiver {
    shared: Arc<Shared>,
    read: usize,
    given: usize,
}

impl RingReceiver {
    /// Returns the number of frames that wait.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.between(self.read, self.shared.filled.0.load(Ordering::Acquire))
    }

    /// Returns whether no frame waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots that have neither a frame nor a buffer.
    #[must_use]
    #[inline]
    pub fn vacant(&self) -> usize {
        self.shared.slots.len() - self.shared.between(self.read, self.given)
    }

    /// Returns the oldest frames, at most `limit`, in two parts: the ring may wrap around between them.
    #[must_use]
    #[inline]
    pub fn frames(&self, limit: usize) -> (&[Frame], &[Frame]) {
        let (len, slots) = (self.len().min(limit), self.shared.slots.len());
        let until_end = if self.read < slots { slots - self.read } else { 2 * slots - self.read };
        // SAFETY: these frames were filled and not read: they are initialized, and only this half, which is
        // borrowed, can change that. No part goes beyond the last slot.
        let part = |at, len| unsafe { slice::from_raw_parts(self.shared.slot(at).cast_const(), len) };
        (part(self.read, len.min(until_end)), part(0, len.saturating_sub(until_end)))
    }

    /// Takes the oldest frame out of its slot, which is vacant then.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the frame was filled and is this half's. It is read once, because it counts as read now.
        let frame = unsafe { self.shared.slot(self.read).read() };
        self.set_read(self.shared.after(self.read, 1));
        Some(frame)
    }

    /// Discards the oldest frames, at most `frames`, and gives their buffers to the sender. Moves nothing
    /// unless a slot is [vacant](Self::vacant).
    pub fn discard(&mut self, frames: usize) {
        let frames = frames.min(self.len());
        let at = |position, n| self.shared.after(position, n);
        // The slots of both positions are the same if none is vacant.
        let moves = if self.vacant() > 0 { frames } else { 0 };
        for n in 0..moves {
            let (from, to) = (self.shared.slot(at(self.read, n)), self.shared.slot(at(self.given, n)));
            // SAFETY: the frame is this half's, and the slot it goes to is vacant. The slot that it leaves is
            // vacant from now on.
            unsafe { to.write(from.read()) };
        }
        let (read, given) = (at(self.read, frames), at(self.given, frames));
        self.set_read(read);
        self.set_given(given);
    }

    /// Gives buffers to the sender, one for each vacant slot, as long as `next` has some.
    pub fn give(&mut self, mut next: impl FnMut() -> Option<Frame>) {
        let mut given = self.given;
        for _ in 0..self.vacant() {
            let Some(buffer) = next() else { break };
            // SAFETY: the slot is vacant.
            unsafe { self.shared.slot(given).write(buffer) };
            given = self.shared.after(given, 1);
        }
        self.set_given(given);
    }

    #[inline]
    fn set_read(&mut self, read: usize) {
        self.read = read;
        self.shared.read.0.store(read, Ordering::Relaxed);
    }

    #[inline]
    fn set_given(&mut self, given: usize) {
        self.given = given;
        self.shared.given.0.store(given, Ordering::Release);
    }
}

impl fmt::Debug for RingSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingSender").field("filled", &self.filled).finish_non_exhaustive()
    }
}

impl fmt::Debug for RingReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, given, .. } = self;
        f.debug_struct("RingReceiver").field("read", read).field("given", given).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::pool::Pool;

    fn send(sender: &mut RingSender, byte: u8) -> bool {
        sender.send(|frame| {
            assert!(frame.set(0, 1));
            frame.bytes_mut()[0] = byte;
        })
    }

    fn bytes((first, wrapped): (&[Frame], &[Frame])) -> Vec<u8> {
        first.iter().chain(wrapped).map(|frame| frame.bytes()[0]).collect()
    }

    #[test]
    fn frames_come_in_order_and_find_no_room_beyond_the_buffers() {
        for slots in [1, 2, 3, 5] {
            let (mut sender, mut receiver) = ring(slots);
            let mut pool = Pool::new(slots);
            assert!(!send(&mut sender, 0), "it has no buffer");
            receiver.give(|| pool.take());
            for round in 0..4 * slots as u8 {
                let sent = (0..=slots as u8).filter(|n| send(&mut sender, round + n)).count();
                assert_eq!((sent, receiver.len(), sender.unread()), (slots, slots, slots));
                assert_eq!(bytes(receiver.frames(usize::MAX)), Vec::from_iter(round..round + slots as u8));
                for n in 0..slots as u8 {
                    let frame = receiver.take().unwrap();
                    assert_eq!(frame.bytes(), [round + n]);
                    pool.recycle(frame);
                }
                assert!(receiver.take().is_none() && receiver.vacant() == slots && !send(&mut sender, 0));
                receiver.give(|| pool.take());
            }
        }
    }

    #[test]
    fn a_discarded_frame_leaves_its_buffer_also_where_slots_are_vacant() {
        let (mut sender, mut receiver) = ring(4);
        let mut pool = Pool::new(4);
        receiver.give(|| pool.take());
        let mut byte = 0;
        for taken in [0, 1, 2, 3, 0, 2, 1, 1] {
            while send(&mut sender, byte) {
                byte += 1;
            }
            let kept: Vec<_> = (0..taken).map_while(|_| receiver.take()).collect();
            assert_eq!(receiver.vacant(), taken);
            let rest = bytes(receiver.frames(9));
            receiver.discard(2);
            assert_eq!(bytes(receiver.frames(9)), rest.get(2..).unwrap_or_default());
            assert_eq!(receiver.vacant(), taken, "a discarded frame makes no slot vacant");
            receiver.discard(9);
            assert!(receiver.is_empty());
            kept.into_iter().for_each(|frame| pool.recycle(frame));
            receiver.give(|| pool.take());
            assert_eq!((receiver.vacant(), pool.available()), (0, 0));
        }
    }

    #[test]
    fn buffers_go_back_to_their_pool_when_both_halves_are_gone() {
        let (mut sender, mut receiver) = ring(3);
        let mut pool = Pool::new(3);
        receiver.give(|| pool.take());
        assert!(send(&mut sender, 1) && send(&mut sender, 2));
        drop(receiver.take());
        drop(receiver);
        assert_eq!((sender.unread(), pool.available()), (1, 1));
        drop(sender);
        assert_eq!(pool.available(), 3);
    }

    #[test]
    fn two_threads_lose_and_mix_up_nothing() {
        const FRAMES: usize = if cfg!(miri) { 50 } else { 100_000 };
        let (mut sender, mut receiver) = ring(7);
        let sent = thread::spawn(move || {
            for n in 0..FRAMES {
                while !send(&mut sender, n as u8) {
                    thread::yield_now();
                }
            }
        });
        let mut pool = Pool::new(7);
        let mut read = 0;
        while read < FRAMES {
            receiver.give(|| pool.take());
            let shown = bytes(receiver.frames(4));
            if shown.is_empty() {
                thread::yield_now();
                continue;
            }
            let expected = (read..read + shown.len()).map(|n| n as u8);
            assert!(expected.eq(shown.iter().copied()));
            match receiver.take().expect("a frame that was shown") {
                frame if read % 3 == 0 => pool.recycle(frame),
                frame => drop(frame),
            }
            receiver.discard(shown.len() - 1);
            read += shown.len();
        }
        sent.join().unwrap();
    }
}
