//! Transmit queues: a bounded queue in front of each interface's transmit ring.

use std::collections::VecDeque;

use crate::frame::{Frame, Pool};
use crate::interface::Interface;
use crate::poll::Gate;
use crate::tcp::endpoint::Lanes;

/// When frames are handed to an interface that is still sending others (TOCS 1997, section 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transmit {
    /// At once, as long as it has descriptors.
    #[default]
    Latency,
    /// When it has said that earlier ones have left: 4.2BSD's *active* flag. Fewer calls of the driver for more frames each; under
    /// polling a frame waits until the transmit side gets its turn.
    Throughput,
}

/// How soon buffers of frames that have left are taken back: three ways in which transmitting can starve (TOCS 1997, section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransmitService {
    /// Transmit interrupts take turns with those of receive rings.
    #[default]
    InTurn,
    /// At the same level, but only when no receive ring interrupts.
    ReceiveFirst,
    /// At a lower level than receive interrupts and the protocol work they cause.
    LowerLevel,
}

/// The output queue of an interface.
#[derive(Debug)]
pub(crate) struct TransmitQueue {
    pub(crate) queue: VecDeque<Frame>,
    pub(crate) limit_pkts: usize,
    /// The interface is sending, and will say when it has sent.
    pub(crate) active: bool,
    pub(crate) gate: Gate,
    pub(crate) traffic: Traffic,
}

/// What room there is in output queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputRoom {
    /// Interfaces that have none.
    pub(crate) full: Lanes,
    /// Frames for which each of the others has room, whichever they are for. None, if there are no others.
    pub(crate) pkts: usize,
}

/// What has passed through an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Frames taken from its receive rings.
    pub received: u64,
    /// Frames handed to it.
    pub transmitted: u64,
    /// Frames that found its output queue full.
    pub dropped: u64,
    /// Frames in its output queue now.
    pub queued: u64,
}

impl TransmitQueue {
    pub(crate) fn new(limit_pkts: usize, gate: Gate) -> Self {
        Self {
            queue: VecDeque::with_capacity(limit_pkts),
            limit_pkts,
            active: false,
            gate,
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn reopen(&mut self) -> bool {
        self.gate.reopen(self.queue.len())
    }

    /// Hands over what the interface has descriptors for. Says how many frames.
    pub(crate) fn hand_over(&mut self, interface: &mut dyn Interface, pool: &mut Pool) -> usize {
        let mut count = 0;
        while let Some(frame) = self.queue.pop_front() {
            if let Err(frame) = interface.transmit(frame, pool) {
                self.queue.push_front(frame);
                break;
            }
            count += 1;
        }
        count
    }
}
