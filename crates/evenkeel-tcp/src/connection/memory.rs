//! What a connection's buffers own of the memory that all share, and what it does when there is little.
//!
//! A connection is never stopped for good, however little there is: what has nothing to send may take a
//! segment to send, and what has nothing to read may take the next segment.

use super::tcb::{Allowance, Connection};
use crate::buffer::Spares;
use crate::counters::Counter;
use crate::seq::SeqRange;
use crate::table::Id;

impl Connection {
    /// Bytes of memory that its buffers own: what waits to be sent, to be acknowledged, to be read, and room
    /// they keep besides.
    #[must_use]
    #[inline]
    pub fn held(&self) -> usize {
        self.snd.buffer.capacity() + self.rcv.buffer.capacity()
    }

    /// The user is about to write so many bytes. It is called `id`.
    pub(crate) fn borrow_to_send(&mut self, spares: &mut Spares, more: usize, id: Id) {
        self.snd.buffer.borrow_from(spares, more, id);
    }

    /// A segment with so much payload has come.
    #[inline]
    pub(crate) fn borrow_to_receive(&mut self, spares: &mut Spares, more: usize, id: Id) {
        self.rcv.buffer.borrow_from(spares, more, id);
    }

    /// One of its buffers holds nothing, and has memory for something.
    #[inline]
    pub(crate) fn has_idle_memory(&self) -> bool {
        let (snd, rcv) = (&self.snd.buffer, &self.rcv.buffer);
        snd.capacity() > 0 && snd.is_empty() || rcv.capacity() > 0 && rcv.is_empty()
    }

    /// What holds nothing gives its memory to `spares`: see [`Spares::take`].
    #[inline]
    pub(crate) fn give_to(&mut self, spares: &mut Spares, id: Id) {
        self.snd.buffer.give_to(spares, id);
        self.rcv.buffer.give_to(spares, id);
    }

    /// What holds nothing gives its memory back, unless an endpoint has taken it before: so an idle
    /// connection owns none, if it was asked for all it had to send.
    #[inline]
    pub(super) fn release_idle_memory(&mut self) {
        if self.has_idle_memory() {
            self.snd.buffer.release();
            self.rcv.buffer.release();
        }
    }

    /// Something has come out of order, and takes memory up to where it belongs.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        self.rcv.buffer.has_holes()
    }

    /// Gives back the memory of what has come out of order: others need it more.
    pub fn renege(&mut self) {
        self.tally.note_if(self.has_holes(), Counter::OfoPruned);
        self.rcv.buffer.renege();
        self.rcv.dsack = None;
    }

    /// From now on it may take so much more. To be said before every call, if others take of the same memory.
    pub const fn set_allowance(&mut self, allowance: Allowance) {
        self.allowance = allowance;
    }

    const fn left(&self) -> usize {
        self.allowance.left as usize
    }

    /// Bytes the user may write now.
    pub(super) fn send_room(&self) -> usize {
        let waiting = self.snd.buffer.len();
        let least = if waiting == 0 { usize::from(self.snd.mss) } else { 0 };
        self.send_limit().saturating_sub(waiting).min(self.left().max(least))
    }

    /// Bytes of payload there is memory for.
    pub fn receive_room(&self) -> usize {
        let waiting = self.rcv.buffer.readable();
        let least = if waiting == 0 { usize::from(self.rcv.mss) } else { 0 };
        (self.rcv.limit as usize).saturating_sub(waiting).min(self.left().max(least))
    }

    /// What of a payload that lies in the window is taken: all, or nothing.
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
