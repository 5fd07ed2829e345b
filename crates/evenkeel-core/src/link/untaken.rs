//! Frames that came to an interface and that the host did not take.

use std::collections::BTreeMap;

use crate::drop::{LinkDrop, QueueDrop, Reason};
use crate::interface::{Effort, RxQueue};

/// The frames that came to an interface and that the host has not taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Untaken {
    /// Frames in the receive rings and the rings of channels, as far as they show without being taken.
    pub in_rings: u64,
    /// Frames that the interface dropped, by reason: its rings shed them, or the interface itself did. Frames
    /// of a replaced device are included if its receive rings did not shed them.
    pub dropped: BTreeMap<Reason, u64>,
    /// Packets that the interface has [forwarded by itself](crate::offload).
    pub forwarded: u64,
    /// Packets that the interface has dropped by itself, because screening drops their flows.
    pub refused: u64,
}

impl Untaken {
    /// Returns the number of frames that found a ring full, or no buffer.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let is_missed = |reason: &Reason| {
            matches!(
                reason,
                Reason::Link(LinkDrop::RingFull | LinkDrop::NoBuffer) | Reason::Queue(QueueDrop::Channel)
            )
        };
        self.dropped.iter().filter(|(reason, _)| is_missed(reason)).map(|(_, frames)| frames).sum()
    }

    pub(super) fn drop(&mut self, reason: impl Into<Reason>, frames: u64) {
        if frames > 0 {
            *self.dropped.entry(reason.into()).or_default() += frames;
        }
    }

    /// Adds a receive ring of the interface.
    pub(super) fn add_ring(&mut self, ring: &dyn RxQueue) {
        self.in_rings += ring.pending() as u64;
        self.add_losses(ring, LinkDrop::RingFull.into());
    }

    /// Adds the ring of a channel.
    pub(crate) fn add_channel_ring(&mut self, ring: &dyn RxQueue) {
        self.in_rings += ring.pending() as u64;
        self.add_losses(ring, QueueDrop::Channel.into());
    }

    /// Adds the ring of a channel that is closed: frames that came after the channel was drained are lost.
    pub(super) fn add_closed_ring(&mut self, ring: &dyn RxQueue) {
        self.add_losses(ring, QueueDrop::Channel.into());
        self.drop(QueueDrop::Closed, ring.pending() as u64);
    }

    fn add_losses(&mut self, ring: &dyn RxQueue, full: Reason) {
        let counters = ring.counters(Effort::SystemCall).unwrap_or_default();
        self.drop(LinkDrop::NoBuffer, counters.no_buffer);
        self.drop(full, counters.missed - counters.no_buffer);
    }
}
