//! The parts of a host that protocol work needs.

use std::collections::VecDeque;

use super::packet::Payload;
use crate::drop::Reason;
use crate::frame::{Frame, Pool};
use crate::id::InterfaceId;
use crate::ledger::Ledger;
use crate::time::Instant;

/// The parts of a host that protocol work needs: time, buffers, counters, and the output queue.
///
/// Every frame put into `out` counts in [`Ledger::originated`] or [`Ledger::forwarded`] already; the host
/// counts [`Ledger::transmitted`] when an interface has taken it.
#[derive(Debug)]
pub struct Io<'a> {
    /// The time of this piece of work.
    pub now: Instant,
    /// The pool that frames are allocated from and recycled to.
    pub pool: &'a mut Pool,
    /// The ledger that accounts for every frame.
    pub ledger: &'a mut Ledger,
    /// Frames ready for transmission, Ethernet header included.
    pub out: &'a mut VecDeque<(InterfaceId, Frame)>,
}

impl Io<'_> {
    /// Ends a received frame as dropped.
    pub(super) fn drop_frame(&mut self, frame: Frame, reason: impl Into<Reason>) {
        self.ledger.drop_input(reason, 1);
        self.pool.recycle(frame);
    }

    /// Ends the frames of a received packet as dropped.
    pub(super) fn drop_payload(&mut self, payload: Payload, reason: impl Into<Reason>) {
        self.ledger.drop_input(reason, payload.frames());
        payload.recycle(self.pool);
    }

    /// Ends the frames of a received packet as consumed by the host itself.
    pub(super) fn consume(&mut self, payload: Payload) {
        self.ledger.consumed += payload.frames();
        payload.recycle(self.pool);
    }
}
