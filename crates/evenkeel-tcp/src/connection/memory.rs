//! The part of the shared memory that a connection's buffers own, and the measures against scarcity.
//!
//! Scarcity never stops a connection for good: one with nothing to send may take a segment to send, and
//! one with nothing to read may take the next segment.

use super::tcb::{Allowance, Connection};
use crate::buffer::Spares;
use crate::counters::Counter;
use crate::seq::SeqRange;
use crate::table::Id;

impl Connection {
    /// Returns the bytes of memory that the connection's buffers own: for data to be sent, acknowledged or
    /// read, and spare room besides.
    #[must_use]
    #[inline]
    pub fn held(&self) -> usize {
        self.snd.buffer.capacity() + self.rcv.buffer.capacity()
    }

    /// Takes memory from `spares` for `more` bytes that the user is about to write. `id` names the
    /// connection.
    pub(crate) fn borrow_to_send(&mut self, spares: &mut Spares, more: usize, id: Id) {
        self.snd.buffer.borrow_from(spares, more, id);
    }

    /// Takes memory from `spares` for a segment that has come with `more` bytes of payload. `id` names the
    /// connection.
    #[inline]
    pub(crate) fn borrow_to_receive(&mut self, spares: &mut Spares, more: usize, id: Id) {
        self.rcv.buffer.borrow_from(spares, more, id);
    }

    /// Returns whether one of the connection's buffers is empty and owns memory.
    #[inline]
    pub(crate) fn has_idle_memory(&self) -> bool {
        let (snd, rcv) = (&self.snd.buffer, &self.rcv.buffer);
        snd.capacity() > 0 && snd.is_empty() || rcv.capacity() > 0 && rcv.is_empty()
    }

    /// Gives the memory of empty buffers to `spares`: see [`Spares::take`].
    #[inline]
    pub(crate) fn give_to(&mut self, spares: &mut Spares, id: Id) {
        self.snd.buffer.give_to(spares, id);
        self.rcv.buffer.give_to(spares, id);
    }

    /// Frees the memory of empty buffers, unless an endpoint has taken it before. So an idle connection
    /// owns no memory once the caller has sent all of its segments.
    #[inline]
    pub(super) fn release_idle_memory(&mut self) {
        if self.has_idle_memory() {
            self.snd.buffer.release();
            self.rcv.buffer.release();
        }
    }

    /// Returns whether data has come out of order. It takes memory up to where it belongs.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        self.rcv.buffer.has_holes()
    }

    /// Discards data that has come out of order, and frees its memory for others.
    pub fn renege(&mut self) {
        self.tally.note_if(self.has_holes(), Counter::OfoPruned);
        self.rcv.buffer.renege();
        self.rcv.dsack = None;
    }

    /// Sets how much more memory the connection may take. If others share the memory, the caller sets it
    /// before every call.
    pub const fn set_allowance(&mut self, allowance: Allowance) {
        self.allowance = allowance;
    }

    const fn left(&self) -> usize {
        self.allowance.left as usize
    }

    /// Returns the bytes that the user may write now.
    pub(super) fn send_room(&self) -> usize {
        let waiting = self.snd.buffer.len();
        let least = if waiting == 0 { usize::from(self.snd.mss) } else { 0 };
        self.send_limit().saturating_sub(waiting).min(self.left().max(least))
    }

    /// Returns the bytes of payload that there is memory for.
    pub fn receive_room(&self) -> usize {
        let waiting = self.rcv.buffer.readable();
        let least = if waiting == 0 { usize::from(self.rcv.mss) } else { 0 };
        (self.rcv.limit as usize).saturating_sub(waiting).min(self.left().max(least))
    }

    /// Returns the part of `payload`, which lies in the window, that is accepted: all of it, or an empty
    /// range if memory is too scarce.
    pub(super) fn admit(&mut self, payload: SeqRange) -> SeqRange {
        let nxt = self.rcv.nxt();
        let refused = if payload.start.after(nxt) {
            self.allowance.pressed || payload.len() > self.allowance.left
        } else {
            let new = payload.end.max(nxt).since(nxt);
            self.rcv.buffer.readable() > 0 && new > self.allowance.left
        };
        self.tally.note_if(refused && payload.start.after(nxt), Counter::OfoDrop);
        if refused { SeqRange::at(payload.start, 0) } else { payload }
    }
}
