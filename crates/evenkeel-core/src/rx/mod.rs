//! The receive floor: the way of a frame from a ring to a channel, to the shared IP queue, or to protocol
//! input.
//!
//! It knows rings, the demultiplexing table, channels, and the polling thread's feedback. It knows no socket
//! and no connection: what it must ask of these while a frame lies in its ring is [`SocketFloor`], and what
//! they have to do afterwards is returned ([`Handover`]).
//!
//! | concern | file |
//! |---|---|
//! | early discard, and what is done with a burst of frames | `burst.rs` |
//! | which channel a frame leads to | `demultiplex.rs` |
//! | the shared IP queue | `ip_queue.rs` |

mod burst;
mod demultiplex;
mod ip_queue;

use std::collections::VecDeque;

use crate::capture::Tapped;
use crate::channel::{Ahead, ChannelTable, SegmentKind};
use crate::config::Config;
use crate::context::Cx;
use crate::demux::DemuxTable;
use crate::frame::Frame;
use crate::id::{ChannelId, InterfaceId};
use crate::poll::{Gate, Sources};
use crate::queue::Queue;
use crate::tcp::{Flags, FourTuple};
use crate::time::Instant;

pub(crate) use burst::BurstPolicy;

/// What a host receives into, and the table that says where a frame goes.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) table: DemuxTable,
    pub(crate) channels: ChannelTable,
    /// The bound on messages that are processed ahead of other frames.
    pub(crate) ahead: Ahead,
    /// The queue that all IP traffic shares, under the architectures that have one.
    pub(crate) ip_queue: Queue<(InterfaceId, Frame)>,
    /// What the last burst has left for the floors above.
    pub(crate) handover: Handover,
}

/// What a burst leaves for the floors above to do.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// Frames for protocol input in the same work item, in the order in which they came.
    pub(crate) frames: VecDeque<Frame>,
    /// Channels in which something has arrived that their receivers wait for.
    pub(crate) arrived: VecDeque<Arrived>,
}

/// An arrival in a channel that its receiver is told of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrived {
    /// A receiver sleeps until something comes.
    Wake(ChannelId),
    /// Segments wait in a channel that was empty: its process is to process them.
    Activate(ChannelId, SegmentKind),
}

/// What device work asks of the sockets about a frame that lies in its ring.
pub(crate) trait SocketFloor {
    /// Returns whether packet monitors see all frames.
    fn is_watched(&self) -> bool;

    /// Shows a frame to the packet monitors. Those that fall behind pause `fed_by`.
    fn watch(&mut self, tapped: &Tapped<'_>, fed_by: Sources, cx: &mut Cx<'_>);

    /// Returns the channel of a segment. `None` if nobody has it.
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

impl Receive {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            table: DemuxTable::new(config.seed),
            channels: ChannelTable::new(),
            ahead: Ahead::new(),
            ip_queue: Queue::new(config.ip_queue_pkts, Gate::open()),
            handover: Handover::default(),
        }
    }
}
