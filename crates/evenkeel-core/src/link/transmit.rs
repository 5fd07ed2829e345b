//! Transmit queues: a bounded queue in front of each interface's transmit ring.

use std::collections::VecDeque;

use crate::config::Transmit;
use crate::frame::{Frame, Pool};
use crate::interface::Interface;
use crate::poll::Gate;
use crate::tcp::endpoint::EgressSet;

/// The transmit queue of an interface.
#[derive(Debug)]
pub(super) struct TransmitQueue {
    queue: VecDeque<Frame>,
    limit_pkts: usize,
    /// Whether the interface is sending and will report when it has sent. `None` if the host does not track
    /// this.
    active: Option<bool>,
    /// The interface could not send all, and will not say when it can.
    stalled: bool,
    gate: Gate,
    transmitted: u64,
    dropped: u64,
}

/// The room in the transmit queues of all interfaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputRoom {
    /// Interfaces that have none.
    pub(crate) full: EgressSet,
    /// Frames for which each of the others has room, whichever they are for. None, if there are no others.
    pub(crate) pkts: usize,
}

/// The frames that have passed through an interface, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Frames taken from its receive rings.
    pub received: u64,
    /// Frames handed to it.
    pub transmitted: u64,
    /// Frames that found its transmit queue full.
    pub dropped: u64,
    /// Frames in its transmit queue now.
    pub queued: u64,
}

impl TransmitQueue {
    pub(super) fn new(limit_pkts: usize, gate: Gate, transmit: Transmit) -> Self {
        Self {
            queue: VecDeque::with_capacity(limit_pkts),
            limit_pkts,
            active: (transmit == Transmit::Throughput).then_some(false),
            stalled: false,
            gate,
            transmitted: 0,
            dropped: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= self.limit_pkts
    }

    pub(super) const fn limit_pkts(&self) -> usize {
        self.limit_pkts
    }

    pub(super) const fn gate(&mut self) -> &mut Gate {
        &mut self.gate
    }

    pub(super) fn reopen(&mut self) -> bool {
        self.gate.reopen(self.queue.len())
    }

    /// Returns the counters of transmitted, dropped and queued frames. The caller adds received frames.
    pub(super) fn traffic(&self) -> Traffic {
        let queued = self.queue.len() as u64;
        Traffic { transmitted: self.transmitted, dropped: self.dropped, queued, ..Traffic::default() }
    }

    /// Appends a frame, or counts that there was no room for it and gives it back.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.is_full() {
            self.dropped += 1;
            return Err(frame);
        }
        self.queue.push_back(frame);
        Ok(())
    }

    /// Returns whether the interface must not be called until it has reported that frames have left.
    pub(super) fn is_active(&self) -> bool {
        self.active == Some(true)
    }

    /// Returns whether the interface is to be tried again, because it does not report when it can send.
    pub(super) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Records the interface's report that frames have left.
    pub(super) fn sent(&mut self) {
        self.active = self.active.map(|_| false);
    }

    /// Hands over as many frames as the interface has descriptors for. Returns their number, and whether
    /// input may resume now that they are gone.
    pub(super) fn hand_over(&mut self, interface: &mut dyn Interface, pool: &mut Pool) -> (usize, bool) {
        let count = interface.transmit(&mut self.queue, pool);
        self.transmitted += count as u64;
        let reports_sent = interface.unreclaimed().is_some();
        self.stalled = !self.queue.is_empty() && !reports_sent;
        if let Some(active) = &mut self.active {
            *active |= count > 0 && reports_sent;
        }
        (count, self.gate.on_dequeue(self.queue.len()))
    }
}
