//! The channels in which segments of connections wait, and the buffers that they share.

use std::collections::VecDeque;

use crate::channel::{Channel, ChannelTable, SegmentKind};
use crate::config::{CHANNEL_SHARE, Config};
use crate::id::ChannelId;

/// The channels that connections take when segments come for them, and give back empty, and the buffers that
/// all of them share.
#[derive(Debug)]
pub(crate) struct SegmentChannels {
    /// Channels that hold nothing and are no connection's.
    pub(crate) free: Vec<ChannelId>,
    /// Those of them that have rings on interfaces.
    pub(crate) ringed: Vec<ChannelId>,
    /// The number of channels with rings on interfaces.
    pub(crate) rings: usize,
    /// The channel of all connections in TIME-WAIT.
    pub(crate) time_wait: Option<ChannelId>,
    /// Buffers reserved for all channels of connections together. 0 until the first socket needs them.
    pub(crate) reserved_pkts: usize,
    /// The number of segments in these channels.
    held_pkts: usize,
    /// The number of segments that a channel may hold if no other holds any.
    pub(crate) held_max_pkts: usize,
}

/// A channel with segments, at one of its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) channel: ChannelId,
    pub(crate) turn: u32,
}

/// Segments that wait for a call of their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncalled(pub(crate) Active);

/// The protocol processing that a process has to do.
#[derive(Debug, Default)]
pub(crate) struct Processing {
    /// Channels with segments, served round robin.
    pub(crate) active: VecDeque<Active>,
    /// Of a process whose calls process segments: those channels of its listeners and of connections that
    /// are being opened. The next call on a listener processes them.
    pub(crate) opening: VecDeque<Active>,
    /// Whether the calls on a socket process its segments, and the host's scheduler does not.
    pub(crate) in_calls: bool,
    /// The process has ended.
    pub(crate) ended: bool,
}

impl Processing {
    /// Removes and returns the channel that is served next.
    pub(crate) fn next(&mut self) -> Option<Active> {
        self.opening.pop_front().or_else(|| self.active.pop_front())
    }

    /// Removes a channel from both lists.
    pub(crate) fn remove(&mut self, channel: ChannelId) {
        for list in [&mut self.active, &mut self.opening] {
            list.retain(|active| active.channel != channel);
        }
    }
}

impl SegmentChannels {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            free: Vec::new(),
            ringed: Vec::new(),
            rings: 0,
            time_wait: None,
            reserved_pkts: 0,
            held_pkts: 0,
            held_max_pkts: config.segment_pkts.div_ceil(CHANNEL_SHARE),
        }
    }

    /// Returns the number of segments that wait.
    pub(crate) const fn held_pkts(&self) -> usize {
        self.held_pkts
    }

    /// Returns the number of segments that a channel of a connection may hold at the moment.
    ///
    /// They share their buffers: each may have half of those that are free, so that one can take a whole
    /// window, and when several are flooded there is room left for others ("Dynamic queue length thresholds
    /// for shared-memory packet switches", Choudhury and Hahne, 1998).
    pub(crate) const fn share_pkts(&self) -> usize {
        self.reserved_pkts.saturating_sub(self.held_pkts).div_ceil(CHANNEL_SHARE)
    }

    /// Records that a segment was put into a channel.
    pub(crate) fn count_held(&mut self, segments_for: SegmentKind) {
        self.held_pkts += usize::from(matches!(segments_for, SegmentKind::Connection(_)));
    }

    /// Records that a frame was taken from a channel.
    pub(crate) fn count_taken(&mut self, segments_for: Option<SegmentKind>) {
        let taken = usize::from(matches!(segments_for, Some(SegmentKind::Connection(_))));
        self.held_pkts = self.held_pkts.saturating_sub(taken);
    }

    /// Returns a channel that holds nothing. There are about as many as there are buffers for: all that have
    /// a connection hold something. A channel may hold [its share](Self::share_pkts): a window is many more
    /// frames than a queue of datagrams needs.
    pub(crate) fn take(&mut self, channels: &mut ChannelTable) -> ChannelId {
        self.free.pop().unwrap_or_else(|| channels.insert(Channel::growing(self.held_max_pkts, 0)))
    }
}
