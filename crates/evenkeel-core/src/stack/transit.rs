//! A packet on its way through.

use super::header::ETHERNET;
use crate::frame::{Frame, Pool};
use crate::id::InterfaceId;

/// A packet for another host: checked, not yet forwarded.
///
/// Its frame is part of the counters: it ends in [`Stack::forward`](super::Stack::forward), in
/// [`Stack::refuse_transit`](super::Stack::refuse_transit), or with whoever counts it as dropped and recycles
/// it.
#[derive(Debug)]
pub struct Transit {
    pub(super) interface: InterfaceId,
    pub(super) frame: Frame,
}

impl Transit {
    /// Creates a packet of `len` bytes behind the Ethernet header of `frame`. Padding behind the packet is
    /// cut off.
    pub(super) fn new(interface: InterfaceId, mut frame: Frame, len: usize) -> Self {
        // The header's length has been checked against the frame's.
        let _ = frame.resize(ETHERNET + len);
        Self { interface, frame }
    }

    /// Returns the interface that the packet came in by.
    #[must_use]
    pub const fn interface(&self) -> InterfaceId {
        self.interface
    }

    /// Returns the packet, from the IP header to its end.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        self.frame.bytes().get(ETHERNET..).unwrap_or_default()
    }

    pub(super) fn packet_mut(&mut self) -> &mut [u8] {
        self.frame.bytes_mut().get_mut(ETHERNET..).unwrap_or_default()
    }

    /// Returns the whole frame, from the Ethernet header on; without padding.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.frame.bytes()
    }

    /// Gives its frame back, faster than by dropping it. It must have been counted.
    pub fn recycle(self, pool: &mut Pool) {
        pool.recycle(self.frame);
    }
}
