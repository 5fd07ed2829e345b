//! The transmit ring of an adaptor that reports when frames have left.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use super::ring::OwnLine;
use crate::frame::{Frame, Pool};

/// The moment at which a frame that was handed to an adaptor has left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completion {
    /// At once: there is neither a transmit ring nor a transmit interrupt.
    #[default]
    AtOnce,
    /// On a call of [`End::complete`](super::End::complete) at the other end. Until then, and until the host
    /// has reclaimed it, the frame's buffer occupies a descriptor of the transmit ring.
    ByPeer,
}

/// Frames that have left so far; counted by both threads of a cable.
pub(super) type Left = Arc<OwnLine<AtomicU64>>;

/// Descriptors in use, and the buffers they hold.
#[derive(Debug)]
pub(super) struct TransmitRing {
    frames: VecDeque<Frame>,
    capacity_pkts: usize,
    reclaimed: u64,
    left: Left,
}

impl TransmitRing {
    pub(super) fn new(capacity_pkts: usize, left: Left) -> Self {
        let capacity_pkts = capacity_pkts.max(1);
        Self { frames: VecDeque::with_capacity(capacity_pkts), capacity_pkts, reclaimed: 0, left }
    }

    pub(super) const fn capacity_pkts(&self) -> usize {
        self.capacity_pkts
    }

    /// Descriptors that are free.
    pub(super) fn room(&self) -> usize {
        self.capacity_pkts.saturating_sub(self.frames.len())
    }

    /// Keeps the buffer until the frame has left and is reclaimed. A frame that has not `arrived` was lost
    /// on the wire. It counts as having left, as the other end cannot report it.
    pub(super) fn push(&mut self, frame: Frame, arrived: bool) {
        self.frames.push_back(frame);
        if !arrived {
            self.left.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn unreclaimed(&self) -> usize {
        let left = self.left.0.load(Ordering::Acquire).saturating_sub(self.reclaimed);
        self.frames.len().min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    pub(super) fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        let count = self.unreclaimed().min(limit_pkts);
        self.frames.drain(..count).for_each(|frame| pool.recycle(frame));
        self.reclaimed += count as u64;
        count
    }
}
