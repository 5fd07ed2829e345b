//! A packet that the kernel left to segment, and that is cut here, one segment a call.

use evenkeel_core::frame::{Frame, Metadata};
use evenkeel_core::interface::Burst;
use evenkeel_core::segmentation::{Cuts, Offload};

use crate::shown::{Next, buffer, done};

/// A packet, and the progress of its segmentation.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    packet: Vec<u8>,
    cuts: Cuts,
}

impl Segments {
    /// Loads a packet to split, from its Ethernet header on, that lies in several parts. Returns false if it
    /// cannot be split.
    pub(crate) fn load(&mut self, parts: &[&[u8]], offload: Offload) -> bool {
        self.packet.clear();
        parts.iter().for_each(|part| self.packet.extend_from_slice(part));
        self.cuts = Cuts::of(&self.packet, offload).unwrap_or_default();
        self.is_loaded()
    }

    /// Returns whether segments of a packet are left.
    pub(crate) fn is_loaded(&self) -> bool {
        self.cuts.next_len().is_some()
    }

    /// Shows the next segment to `burst`. `None` if there is no buffer for it.
    pub(crate) fn show(&mut self, burst: &mut dyn Burst, spare: &mut Option<Frame>) -> Option<Next> {
        let mut frame = buffer(burst, spare)?;
        let len = self.cuts.next_len().unwrap_or_default();
        if frame.resize(len) && self.cuts.next(&self.packet, frame.bytes_mut()) {
            let seen = burst.see(frame.bytes(), &Metadata::NONE);
            return Some(done(seen, frame, burst, spare));
        }
        self.cuts = Cuts::default();
        *spare = Some(frame);
        Some(Next::Unusable)
    }
}
