//! The questions that device work asks of the sockets while a frame lies in its ring.

use crate::capture::Tapped;
use crate::channel::{ChannelTable, SegmentKind};
use crate::context::Cx;
use crate::demux::DemuxTable;
use crate::id::ChannelId;
use crate::poll::Sources;
use crate::tcp::{Flags, FourTuple};
use crate::time::Instant;

/// The questions that device work asks of the sockets about a frame that lies in its ring.
pub(crate) trait SocketFloor {
    /// Returns whether packet monitors see all frames.
    fn is_watched(&self) -> bool;

    /// Shows a frame to the packet monitors. Those that fall behind pause `sources`.
    fn watch(&mut self, tapped: &Tapped<'_>, sources: Sources, cx: &mut Cx<'_>);

    /// Returns the channel of a segment. `None` if no socket has it.
    fn segment_channel(
        &mut self,
        tuple: &FourTuple,
        opens: bool,
        channels: &mut ChannelTable,
        table: &DemuxTable,
    ) -> Option<ChannelId>;

    /// Returns the channel of a plain segment, with early discard: a segment that belongs to no socket and
    /// would not even be answered has none.
    fn plain_segment_channel(
        &mut self,
        tuple: &FourTuple,
        flags: Flags,
        channels: &mut ChannelTable,
        table: &DemuxTable,
        now: Instant,
    ) -> Option<ChannelId>;

    /// Returns whether a channel of TCP has room for a segment. If not, the channel counts it as refused.
    fn has_room_for_segment(
        &mut self,
        id: ChannelId,
        segments_for: SegmentKind,
        channels: &mut ChannelTable,
    ) -> bool;

    /// Records that a segment was put into a channel of TCP.
    fn count_held(&mut self, segments_for: SegmentKind);
}
