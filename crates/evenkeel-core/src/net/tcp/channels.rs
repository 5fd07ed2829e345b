//! Whose a segment is, and the channel where it waits for protocol processing.

use super::segment_channels::{Active, Processing};
use super::state::{Owner, Tcp};
use crate::channel::{Channel, ChannelTable, SegmentKind};
use crate::demux::DemuxTable;
use crate::id::{ChannelId, ProcessId, SocketId};
use crate::socket::Descriptor;
use crate::sockets::DescriptorTable;
use crate::tcp::endpoint::Match;
use crate::tcp::state::State;
use crate::tcp::table::Id;
use crate::tcp::{Flags, FourTuple};
use crate::time::Instant;

impl Tcp {
    /// Returns the channel of a segment for this host: its connection's, that of all connections in
    /// TIME-WAIT, or the one that the demultiplexing table names for all others.
    #[inline]
    pub(crate) fn segment_channel(
        &mut self,
        tuple: &FourTuple,
        opens: bool,
        channels: &mut ChannelTable,
        table: &DemuxTable,
    ) -> Option<ChannelId> {
        match self.endpoint.whose(tuple, opens) {
            Match::Connection(id) => Some(self.connection_channel(id, tuple, channels)),
            Match::TimeWait => self.segments.time_wait,
            Match::None => table.segments_for_nobody(tuple, opens),
        }
    }

    /// Returns the channel of a plain segment, with early discard: a segment that belongs to no socket and
    /// would not even be answered has none.
    #[inline]
    pub(crate) fn plain_segment_channel(
        &mut self,
        tuple: &FourTuple,
        flags: Flags,
        channels: &mut ChannelTable,
        table: &DemuxTable,
        now: Instant,
    ) -> Option<ChannelId> {
        let channel = self.segment_channel(tuple, flags.opens(), channels, table);
        let is_nobodys = channel == channels.daemons().control && !self.endpoint.leaves_strays();
        if is_nobodys && self.endpoint.drops_unanswered(&tuple.remote.addr, flags, now) {
            return None;
        }
        channel
    }

    /// Returns the channel of a connection, which takes a free one if it has none.
    #[inline]
    fn connection_channel(&mut self, id: Id, tuple: &FourTuple, channels: &mut ChannelTable) -> ChannelId {
        let owner = match self.owner(id) {
            Some(owner) => owner,
            None => {
                let owner = Owner { id, process: self.listening_process(tuple), socket: None, channel: None };
                self.set_owner(owner);
                owner
            }
        };
        if let Some(channel) = owner.channel {
            return channel;
        }
        let taken = self.segments.take(channels);
        if let Some(channel) = channels.get_mut(taken) {
            channel.segments_for = Some(SegmentKind::Connection(id));
        }
        self.set_channel(id, Some(taken));
        taken
    }

    fn listening_process(&self, tuple: &FourTuple) -> Option<ProcessId> {
        let at = self.endpoint.listener_for(&tuple.local)?;
        Some(self.listeners.get(&at)?.owner)
    }

    /// Returns whether a channel of TCP has room for a segment. If not, the channel counts it as refused; one
    /// that was taken for this segment is free again.
    pub(crate) fn has_room_for_segment(
        &mut self,
        id: ChannelId,
        segments_for: SegmentKind,
        channels: &mut ChannelTable,
    ) -> bool {
        let share_pkts = self.segments.share_pkts();
        let Some(channel) = channels.get_mut(id) else { return false };
        let connection = match segments_for {
            SegmentKind::Connection(connection) => Some(connection),
            _ => None,
        };
        if !channel.is_full() && (connection.is_none() || channel.queued() < share_pkts) {
            return true;
        }
        channel.refuse(1);
        if let Some(connection) = connection.filter(|_| channel.is_empty() && !channel.listed) {
            self.give_back(id, connection, channels);
        }
        false
    }

    /// Frees the empty channel of a connection. One on an interface stays with its connection.
    pub(crate) fn give_back(&mut self, id: ChannelId, connection: Id, channels: &ChannelTable) {
        if channels.get(id).is_some_and(Channel::has_rings) {
            return;
        }
        if self.owner(connection).is_some_and(|owner| owner.channel == Some(id)) {
            self.set_channel(connection, None);
        }
        self.segments.free.push(id);
    }

    // --- Asynchronous protocol processing ---

    /// Returns the protocol processing of a process.
    pub(crate) fn processing_of(&mut self, process: ProcessId) -> &mut Processing {
        let index = process.0 as usize;
        if index >= self.processing.len() {
            self.processing.resize_with(index + 1, Processing::default);
        }
        &mut self.processing[index]
    }

    /// Returns whether the process has segments that wait for protocol processing.
    pub(crate) fn has_segments(&self, process: ProcessId) -> bool {
        let processing = self.processing.get(process.0 as usize);
        processing.is_some_and(|p| !p.active.is_empty() || !p.opening.is_empty())
    }

    /// Returns whether the calls of a process process its segments.
    pub(crate) fn processes_in_calls(&self, process: ProcessId) -> bool {
        self.processing.get(process.0 as usize).is_some_and(|processing| processing.in_calls)
    }

    /// Returns whether segments that open connections wait for a call on a listener of the process.
    pub(crate) fn has_opening(&self, process: ProcessId) -> bool {
        self.processing.get(process.0 as usize).is_some_and(|processing| !processing.opening.is_empty())
    }

    /// Returns the channel that waits longest for a call of the process, or for whoever stands in for it.
    pub(crate) fn first_uncalled(&mut self, process: ProcessId, channels: &ChannelTable) -> Option<Active> {
        let Processing { active, opening, .. } = self.processing.get_mut(process.0 as usize)?;
        for list in [opening, active] {
            while let Some(&first) = list.front() {
                if Self::is_current(first, channels) {
                    return Some(first);
                }
                list.pop_front();
            }
        }
        None
    }

    /// Returns the channel in which segments wait for a call on a connection's stream.
    pub(crate) fn channel_called_for(&self, id: Id, channels: &ChannelTable) -> Option<ChannelId> {
        let channel = self.owner(id)?.channel?;
        channels.get(channel)?.listed.then_some(channel)
    }

    /// Returns the socket whose next call processes segments, and whether they are to open a connection.
    /// Segments of a connection that its program has closed have none.
    pub(crate) fn called_for(&self, segments_for: SegmentKind) -> (Option<SocketId>, bool) {
        match segments_for {
            SegmentKind::Syns(socket) | SegmentKind::Handshakes(socket) => (Some(socket), true),
            SegmentKind::TimeWait => (None, false),
            SegmentKind::Connection(id) => {
                let opens = self.endpoint.connection(id).is_some_and(|it| it.state() == State::SynReceived);
                let socket = self.owner(id).and_then(|owner| owner.socket);
                (socket.or_else(|| if opens { self.listening_socket(id) } else { None }), opens)
            }
        }
    }

    /// Returns the socket of the listener that a connection came to.
    fn listening_socket(&self, id: Id) -> Option<SocketId> {
        let at = self.endpoint.listener_for(&self.endpoint.tuple(id)?.local)?;
        Some(self.listeners.get(&at)?.socket)
    }

    /// Returns whether an entry in a list of channels is up to date.
    pub(crate) fn is_current(active: Active, channels: &ChannelTable) -> bool {
        channels.get(active.channel).is_some_and(|channel| channel.listed && channel.turn == active.turn)
    }

    /// Returns the process that has the socket or the connection which the segments are for.
    pub(crate) fn owner_for(
        &self,
        segments_for: SegmentKind,
        descriptors: &DescriptorTable,
    ) -> Option<ProcessId> {
        match segments_for {
            SegmentKind::Syns(socket) | SegmentKind::Handshakes(socket) => {
                descriptors.get(socket).and_then(Descriptor::owner)
            }
            SegmentKind::Connection(id) => self.owner(id).and_then(|owner| owner.process),
            SegmentKind::TimeWait => None,
        }
    }

    /// Returns the process that receives from a channel; of several, the first.
    pub(crate) fn receiver(
        &self,
        id: ChannelId,
        channels: &ChannelTable,
        descriptors: &DescriptorTable,
    ) -> Option<ProcessId> {
        let channel = channels.get(id)?;
        if let Some(segments_for) = channel.segments_for {
            return self.owner_for(segments_for, descriptors);
        }
        let member = channel.members.first().and_then(|&member| descriptors.get(member)?.owner());
        member.or_else(|| channels.daemons().reader(id))
    }
}
