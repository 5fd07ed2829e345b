//! Demultiplexing in software: the channel that a frame leads to.

use super::sockets::SocketFloor;
use super::state::Receive;
use crate::demux::Class;
use crate::drop::{Reason, TcpDrop};
use crate::id::ChannelId;
use crate::plain::Plain;
use crate::time::Instant;

impl Receive {
    /// Returns the channel that a frame leads to, or the reason why it has none.
    #[inline]
    pub(super) fn channel_of(
        &mut self,
        bytes: &[u8],
        plain: Option<Plain>,
        sockets: &mut impl SocketFloor,
        now: Instant,
    ) -> Result<ChannelId, Reason> {
        let Self { table, channels, .. } = self;
        if let Some(plain) = plain {
            if let Some(id) = table.classify_plain(bytes, plain) {
                return Ok(id);
            }
            if let Some((tuple, flags)) = table.plain_segment(bytes, plain) {
                let channel = sockets.plain_segment_channel(&tuple, flags, channels, table, now);
                return channel.ok_or(TcpDrop::NoSocket.into());
            }
        }
        match table.classify(bytes) {
            Class::Channel(id) => Ok(id),
            Class::FirstFragment(id, key) => {
                table.record_fragment(key, id);
                Ok(id)
            }
            Class::Segment { tuple, opens, .. } => {
                sockets.segment_channel(&tuple, opens, channels, table).ok_or(TcpDrop::NoSocket.into())
            }
            Class::Discard(reason) => Err(reason),
        }
    }
}
