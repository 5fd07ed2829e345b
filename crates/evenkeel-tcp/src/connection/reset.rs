//! Resets (RFC 9293, 3.5.2).

use super::super::segment::{Flags, Segment};
use super::super::seq::SeqNumber;

/// A reset that is due: the connection's last segment, or the answer to a segment that is not the
/// connection's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reset {
    pub(super) seq: SeqNumber,
    /// Whether it acknowledges what has come.
    pub(super) acknowledges: bool,
}

impl Reset {
    /// Returns the reset that ends a connection whose SND.NXT is `nxt`.
    pub(super) const fn abort(nxt: SeqNumber) -> Self {
        Self { seq: nxt, acknowledges: true }
    }

    /// Returns the answer to a segment that acknowledges what was never sent: `<SEQ=SEG.ACK><CTL=RST>`;
    /// `None` if the segment is a reset itself.
    pub(super) const fn answer_to(segment: &Segment<'_>) -> Option<Self> {
        if segment.header.flags.contains(Flags::RST) {
            return None;
        }
        Some(Self { seq: segment.header.ack, acknowledges: false })
    }
}
