//! The channels of TCP open and close: those of listeners, and the rings of connections on adaptors that
//! demultiplex.

use super::activation::Activation;
use super::state::Tcp;
use crate::channel::{Channel, SegmentKind};
use crate::config::Config;
use crate::demux::{Binding, Change};
use crate::frame::PoolLimit;
use crate::id::{ChannelId, QueueId, SocketId};
use crate::poll::Poller;
use crate::rx::Channels;
use crate::socket::{Descriptor, ListenError};
use crate::sockets::Sockets;
use crate::stack::Stack;
use crate::tcp::FourTuple;
use crate::tcp::endpoint::{ListenAt, Routes};
use crate::tcp::table::Id;
use crate::timed::Timed;

/// TCP, and the floor below whose channels it opens.
pub(crate) struct TcpChannels<'a> {
    pub(crate) tcp: &'a mut Tcp,
    pub(crate) sockets: &'a mut Sockets,
    pub(crate) stack: &'a mut Timed<Stack>,
    pub(crate) poller: &'a mut Poller<QueueId>,
    pub(crate) below: Channels<'a>,
}

impl TcpChannels<'_> {
    #[inline(always)]
    fn activation(&mut self) -> Activation<'_> {
        let Channels { rx, config, .. } = &mut self.below;
        Activation { tcp: self.tcp, rx, sockets: self.sockets, poller: self.poller, config }
    }

    /// Adapts TCP to whether the host or an adaptor demultiplexes. To be called when that has changed.
    ///
    /// If the host demultiplexes, a window is at most as large as the capacity of a channel. All of the
    /// window may arrive before the process runs, and data that the peer was allowed to send must not be
    /// dropped.
    pub(crate) fn adapt_endpoint(&mut self) {
        if self.below.links.has_demultiplexer() {
            self.tcp.endpoint.report_ends();
            let records = self.below.links.demultiplexers().filter_map(|(_, it)| it.known_ends());
            records.for_each(|record| self.tcp.endpoint.record_ends(&record));
        }
        if self.fills_channels() {
            let most = self.below.config.window_held_max();
            self.tcp.endpoint.limit_receive_buffers(most);
        }
    }

    /// Opens the channels that a listener has under the lazy architectures, and enters them with its
    /// descriptor. On error, those that were opened stay there for the caller to close.
    pub(crate) fn open_for_listener(&mut self, socket: SocketId, at: ListenAt) -> Result<(), ListenError> {
        if !self.below.plan.is_lazy() {
            return Ok(());
        }
        self.reserve_segments().map_err(ListenError::NoMemory)?;
        let (address, port) = (at.address.map(Into::into), at.port);
        for (opens, segments_for) in
            [(true, SegmentKind::Syns(socket)), (false, SegmentKind::Handshakes(socket))]
        {
            let channel = self.open(Binding::Tcp { address, port, opens }, segments_for)?;
            if let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get_mut(socket) {
                *(if opens { &mut listener.syns } else { &mut listener.handshakes }) = Some(channel);
            }
        }
        self.offer_cookies(socket);
        Ok(())
    }

    /// Has interfaces that demultiplex know with which SYN cookies they may answer for a listener.
    pub(crate) fn offer_cookies(&mut self, socket: SocketId) {
        let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get(socket) else { return };
        let offer = self.tcp.endpoint.cookie_offer(&listener.at, self.below.config.stack.hop_limit);
        if let Some((syns, offer)) = listener.syns.zip(offer) {
            self.below.update(Change::AnswerSyns(syns, offer));
        }
    }

    fn open(&mut self, binding: Binding, segments_for: SegmentKind) -> Result<ChannelId, ListenError> {
        let id = self.below.open(binding)?;
        if let Some(channel) = self.below.rx.channels.get_mut(id) {
            channel.segments_for = Some(segments_for);
        }
        self.activation().set_gate(id, matches!(segments_for, SegmentKind::Syns(_)));
        self.activation().arm_segment_channel(id);
        Ok(id)
    }

    /// Returns whether the host puts segments into channels, or will once it has an interface.
    fn fills_channels(&self) -> bool {
        self.below.plan.is_lazy()
            && (!self.below.plan.is_on_interface() || self.below.links.has_host_channels())
    }

    /// Reserves the buffers of all channels of connections, and of those in TIME-WAIT, when the first socket
    /// needs them.
    pub(crate) fn reserve_segments(&mut self) -> Result<(), PoolLimit> {
        if self.fills_channels() { self.reserve_channels_of_connections() } else { Ok(()) }
    }

    pub(crate) fn reserve_channels_of_connections(&mut self) -> Result<(), PoolLimit> {
        if self.tcp.segments.time_wait.is_some() {
            return Ok(());
        }
        let &Config { segment_pkts, channel_pkts, .. } = self.below.config;
        self.below.pool.grow(segment_pkts + channel_pkts)?;
        self.tcp.segments.reserved_pkts = segment_pkts;
        let mut channel = Channel::without_rings(channel_pkts);
        channel.segments_for = Some(SegmentKind::TimeWait);
        self.tcp.segments.time_wait = Some(self.below.rx.channels.insert(channel));
        Ok(())
    }

    /// Opens a ring for a connection on each adaptor that demultiplexes, if there are any to spare, and if
    /// its segments leave by one of these. Without one they come by its listener's.
    pub(crate) fn open_ring(&mut self, id: Id) {
        if !self.below.links.has_demultiplexer()
            || self.tcp.owner(id).is_none_or(|owner| owner.channel.is_some())
        {
            return;
        }
        let route = self.tcp.endpoint.route(id, &**self.stack);
        let egress = route.and_then(|route| self.stack.egress(&route));
        if egress.is_none_or(|egress| !self.below.links.demultiplexes(egress)) {
            return;
        }
        let Some(&tuple) = self.tcp.endpoint.tuple(id) else { return };
        let channel = match self.tcp.segments.ringed.pop() {
            Some(channel) => {
                self.below.update(Change::Bind(Binding::Connection(tuple), channel));
                channel
            }
            None if self.tcp.segments.rings < self.below.config.connection_rings => {
                let mut channel =
                    Channel::growing(self.tcp.segments.held_max_pkts, self.below.config.channel_pkts);
                if self.below.reserve(&mut channel).is_err() {
                    return;
                }
                if !channel.has_rings() {
                    // Shared rings are no better than its listener's.
                    return self.below.give_up(&channel);
                }
                self.tcp.segments.rings += 1;
                self.below.install(channel, Binding::Connection(tuple))
            }
            None => return,
        };
        if let Some(channel) = self.below.rx.channels.get_mut(channel) {
            channel.segments_for = Some(SegmentKind::Connection(id));
        }
        self.tcp.set_channel(id, Some(channel));
        self.activation().arm_segment_channel(channel);
    }

    /// Releases the ring of a connection that has ended or goes on in TIME-WAIT. The next connection may have
    /// it. Segments that are left in it are processed like any other.
    pub(crate) fn release_ring(&mut self, id: Id, tuple: FourTuple) {
        let Some(channel) = self.tcp.owner(id).and_then(|owner| owner.channel) else { return };
        if !self.below.rx.channels.get(channel).is_some_and(Channel::has_rings) {
            return;
        }
        self.tcp.set_channel(id, None);
        self.below.update(Change::Unbind(Binding::Connection(tuple)));
        self.tcp.segments.ringed.push(channel);
    }
}
