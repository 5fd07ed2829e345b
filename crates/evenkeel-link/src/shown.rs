//! The end of a frame that was shown to a burst.

use evenkeel_core::frame::{Frame, Metadata};
use evenkeel_core::interface::{Burst, Seen};

/// The outcome for the oldest frame of a ring.
pub(crate) enum Next {
    /// The frame was malformed or incomplete.
    Unusable,
    /// The frame was larger than a buffer.
    TooLong,
    Seen {
        more: bool,
    },
}

/// Returns a buffer for the next frame: the spare one, or one of the pool.
pub(crate) fn buffer(burst: &mut dyn Burst, spare: &mut Option<Frame>) -> Option<Frame> {
    spare.take().or_else(|| burst.pool().take())
}

/// Does what is to be done about a frame that was seen.
pub(crate) fn done(seen: Seen, frame: Frame, burst: &mut dyn Burst, spare: &mut Option<Frame>) -> Next {
    let more = if seen == Seen::Take {
        burst.take(frame)
    } else {
        *spare = Some(frame);
        seen == Seen::Discard
    };
    Next::Seen { more }
}

/// Shows a large segment, which lies in its buffer already. A buffer that is spare then goes back to the
/// pool.
pub(crate) fn show_large(frame: Frame, metadata: &Metadata, burst: &mut dyn Burst) -> Next {
    let seen = burst.see(frame.bytes(), metadata);
    let mut spare = None;
    let next = done(seen, frame, burst, &mut spare);
    spare.into_iter().for_each(|frame| burst.pool().recycle(frame));
    next
}
