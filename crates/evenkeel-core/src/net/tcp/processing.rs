//! Channels of TCP, and asynchronous protocol processing (Druschel and Banga, OSDI 1996, section 3.4).
//!
//! Under the lazy architectures segments wait in channels until the process that they are for processes them:
//! not in its receive calls, because the sender waits for acknowledgments, but whenever the scheduler would
//! run it, at its priority and on its bill. A process that uses too much of the processor falls behind, its
//! channels fill up, and the excess dies there.
//!
//! A listener has two channels. SYNs have one of their own, which is left alone while the listener can take
//! no more connections: a flood of them then ends there. Whatever else comes for its port (the last ACK of a
//! handshake) has the other. A connection has a channel while segments wait for it; with an adaptor that
//! demultiplexes, from when it has a socket until it ends, if the adaptor has one to spare, or else its
//! listener's. All connections in TIME-WAIT have one channel together: they are nobody's any more, so the
//! daemon for control traffic minds it. An adaptor does not know them, and has what comes for them go where
//! other segments for nobody go: to the listener of the port, or else to that daemon.

use super::super::state::Net;
use super::state::{FreeList, Owner, Processing};
use crate::channel::{Channel, SegmentKind, Waiting};
use crate::config::{CHANNEL_SHARE, Config};
use crate::demux::{Binding, Change};
use crate::frame::PoolLimit;
use crate::id::{ChannelId, ProcessId, QueueId, SocketId};
use crate::poll::{Gate, Sources};
use crate::socket::{Descriptor, ListenError};
use crate::stack::Received;
use crate::tcp::endpoint::{ListenAt, Match, Routes};
use crate::tcp::table::Id;
use crate::tcp::{Flags, FourTuple};
use crate::time::Instant;

impl Net {
    pub(super) fn processing_of(&mut self, process: ProcessId) -> &mut Processing {
        let index = process.0 as usize;
        if index >= self.tcp.processing.len() {
            self.tcp.processing.resize_with(index + 1, Processing::default);
        }
        &mut self.tcp.processing[index]
    }

    /// Returns whether the process has segments that wait for protocol processing.
    pub(crate) fn has_segments(&self, process: ProcessId) -> bool {
        self.tcp.processing.get(process.0 as usize).is_some_and(|processing| !processing.active.is_empty())
    }

    // --- Channels ---

    /// Under the lazy architectures a listener has channels.
    pub(super) fn open_listener_channels(
        &mut self,
        socket: SocketId,
        at: ListenAt,
    ) -> Result<(), ListenError> {
        if !self.plan.is_lazy() {
            return Ok(());
        }
        self.reserve_segments().map_err(ListenError::NoMemory)?;
        let ListenAt { address, port } = at;
        let syns = self
            .open_segment_channel(Binding::Tcp { address, port, opens: true }, SegmentKind::Syns(socket))?;
        let binding = Binding::Tcp { address, port, opens: false };
        let handshakes = match self.open_segment_channel(binding, SegmentKind::Handshakes(socket)) {
            Ok(channel) => channel,
            Err(error) => {
                self.close_channel(syns, Binding::Tcp { address, port, opens: true }, Instant::ZERO);
                return Err(error);
            }
        };
        if let Some(Descriptor::Listener(listener)) = self.descriptor_mut(socket) {
            (listener.syns, listener.handshakes) = (Some(syns), Some(handshakes));
        }
        Ok(())
    }

    fn open_segment_channel(
        &mut self,
        binding: Binding,
        segments_for: SegmentKind,
    ) -> Result<ChannelId, ListenError> {
        let id = self.open_channel(binding)?;
        if let Some(channel) = self.channel_mut(id) {
            channel.segments_for = Some(segments_for);
        }
        self.set_gate(id, matches!(segments_for, SegmentKind::Syns(_)));
        self.arm_segment_channel(id);
        Ok(id)
    }

    /// Sets whether a channel of TCP gives feedback. A channel of SYNs does, unless its listener can take
    /// none: a ring then keeps a burst of SYNs on a core that keeps up, because each lost SYN costs its
    /// sender a second. Other senders are paced by windows. If one is not, its excess segments end in the
    /// channel, and are no reason to pause other traffic of the ring.
    fn set_gate(&mut self, id: ChannelId, gives_feedback: bool) {
        let separates = self.config.separates();
        let Some(channel) = self.channels.get(id) else { return };
        let gate =
            if gives_feedback && separates { self.gate(channel.capacity_pkts()) } else { Gate::open() };
        self.poller.forget(QueueId::Channel(id));
        if let Some(channel) = self.channel_mut(id) {
            channel.gate = gate;
        }
    }

    /// Arms a channel on an adaptor, so that its next segment interrupts. If a segment is there already,
    /// the interrupt is raised at once.
    pub(in crate::net) fn arm_segment_channel(&mut self, id: ChannelId) {
        if self.channel_mut(id).is_some_and(|channel| channel.has_rings() && channel.arm()) {
            self.channels.raise(id);
        }
    }

    /// Returns whether the host puts segments into channels, or will once it has an interface.
    pub(super) fn fills_channels(&self) -> bool {
        self.plan.is_lazy() && (!self.plan.is_on_interface() || self.links.has_host_channels())
    }

    /// The buffers of all channels of connections, and of those in TIME-WAIT, reserved when the first socket
    /// needs them.
    pub(super) fn reserve_segments(&mut self) -> Result<(), PoolLimit> {
        if self.fills_channels() { self.reserve_channels_of_connections() } else { Ok(()) }
    }

    pub(in crate::net) fn reserve_channels_of_connections(&mut self) -> Result<(), PoolLimit> {
        if self.tcp.free_list.time_wait.is_some() {
            return Ok(());
        }
        let Config { segment_pkts, channel_pkts, .. } = self.config;
        self.pool.grow(segment_pkts + channel_pkts)?;
        self.tcp.free_list.reserved = segment_pkts;
        let mut channel = Channel::without_rings(channel_pkts);
        channel.segments_for = Some(SegmentKind::TimeWait);
        self.tcp.free_list.time_wait = Some(self.channels.insert(channel));
        Ok(())
    }

    /// A ring for a connection on each adaptor that demultiplexes, if there are any to spare, and if its
    /// segments leave by one of these. Without one they come by its listener's.
    pub(super) fn open_connection_ring(&mut self, id: Id) {
        if !self.links.has_demultiplexer() || self.tcp.owner(id).is_none_or(|owner| owner.channel.is_some()) {
            return;
        }
        let route = self.tcp.endpoint.route(id, &*self.stack);
        let egress = route.and_then(|route| self.stack.egress(&route));
        if egress.is_none_or(|egress| !self.links.demultiplexes(egress)) {
            return;
        }
        let Some(&tuple) = self.tcp.endpoint.tuple(id) else { return };
        let channel = match self.tcp.free_list.ringed.pop() {
            Some(channel) => {
                self.update(Change::Bind(Binding::Connection(tuple), channel));
                channel
            }
            None if self.tcp.free_list.rings < self.config.connection_rings => {
                let mut channel = Channel::growing(self.held_max(), self.config.channel_pkts);
                if self.reserve_channel(&mut channel).is_err() {
                    return;
                }
                if !channel.has_rings() {
                    // Shared rings are no better than its listener's.
                    return self.give_up_channel(&channel);
                }
                self.tcp.free_list.rings += 1;
                self.install(channel, Binding::Connection(tuple))
            }
            None => return,
        };
        if let Some(channel) = self.channel_mut(channel) {
            channel.segments_for = Some(SegmentKind::Connection(id));
        }
        self.tcp.set_channel(id, Some(channel));
        self.arm_segment_channel(channel);
    }

    /// A connection has ended, or goes on in TIME-WAIT, where it has no channel. If it had one on an adaptor,
    /// that is another's now. What is left in it is processed like any other segment.
    pub(super) fn release_ring(&mut self, id: Id, tuple: FourTuple) {
        let Some(channel) = self.tcp.owner(id).and_then(|owner| owner.channel) else { return };
        if !self.channel(channel).is_some_and(Channel::has_rings) {
            return;
        }
        self.tcp.set_channel(id, None);
        self.update(Change::Unbind(Binding::Connection(tuple)));
        self.tcp.free_list.ringed.push(channel);
    }

    /// Returns the channel of a segment for this host: its connection's, that of all connections in
    /// TIME-WAIT, or the one that the demultiplexing table names for all others.
    #[inline]
    pub(in crate::net) fn segment_channel(&mut self, tuple: &FourTuple, opens: bool) -> Option<ChannelId> {
        match self.tcp.endpoint.whose(tuple, opens) {
            Match::Connection(id) => self.connection_channel(id, tuple),
            Match::TimeWait => self.tcp.free_list.time_wait,
            Match::None => self.table.segments_for_nobody(tuple, opens),
        }
    }

    /// Returns the channel of a plain segment, with early discard: a segment that belongs to no socket and
    /// would not even be answered has none.
    pub(in crate::net) fn plain_segment_channel(
        &mut self,
        tuple: &FourTuple,
        flags: Flags,
        now: Instant,
    ) -> Option<ChannelId> {
        let channel = self.segment_channel(tuple, flags.opens());
        let is_nobodys = channel == self.channels.daemons().control;
        if is_nobodys && self.tcp.endpoint.drops_unanswered(&tuple.remote.addr, flags, now) {
            return None;
        }
        channel
    }

    #[inline]
    fn connection_channel(&mut self, id: Id, tuple: &FourTuple) -> Option<ChannelId> {
        let owner = match self.tcp.owner(id) {
            Some(owner) => owner,
            None => {
                let process = self.listening_process(tuple);
                let owner = Owner { id, process, socket: None, channel: None };
                self.tcp.set_owner(owner);
                owner
            }
        };
        if owner.channel.is_some() {
            return owner.channel;
        }
        let channel = self.tcp.free_list.channels.pop().unwrap_or_else(|| self.make_channel());
        if let Some(channel) = self.channel_mut(channel) {
            channel.segments_for = Some(SegmentKind::Connection(id));
        }
        self.tcp.set_channel(id, Some(channel));
        Some(channel)
    }

    /// There are about as many as there are buffers for: all that have a connection hold something. How much
    /// one may hold, [`Net::segments_held_max`] says each time: a window is many more frames than a queue of
    /// datagrams needs.
    fn make_channel(&mut self) -> ChannelId {
        let channel = Channel::growing(self.held_max(), 0);
        self.channels.insert(channel)
    }

    /// Returns the number of segments that a connection's channel may hold in the host's memory if no other
    /// holds any.
    fn held_max(&self) -> usize {
        self.config.segment_pkts.div_ceil(CHANNEL_SHARE)
    }

    fn listening_process(&self, tuple: &FourTuple) -> Option<ProcessId> {
        let at = self.tcp.endpoint.listener_for(&tuple.local)?;
        self.descriptor(*self.tcp.listeners.get(&at)?)?.owner()
    }

    /// Returns the number of segments that a channel of a connection may hold.
    ///
    /// They share their buffers: each may have half of those that are free, so that one can take a whole
    /// window, and when several are flooded there is room left for others ("Dynamic queue length thresholds
    /// for shared-memory packet switches", Choudhury and Hahne, 1998).
    pub(in crate::net) fn segments_held_max(&self) -> usize {
        let FreeList { reserved, queued, .. } = &self.tcp.free_list;
        reserved.saturating_sub(*queued).div_ceil(CHANNEL_SHARE)
    }

    pub(crate) const fn segments_waiting(&self) -> usize {
        self.tcp.free_list.queued
    }

    pub(in crate::net) fn count_held(&mut self, segments_for: SegmentKind) {
        if matches!(segments_for, SegmentKind::Connection(_)) {
            self.tcp.free_list.queued += 1;
        }
    }

    pub(in crate::net) fn count_taken(&mut self, segments_for: Option<SegmentKind>) {
        if matches!(segments_for, Some(SegmentKind::Connection(_))) {
            self.tcp.free_list.queued = self.tcp.free_list.queued.saturating_sub(1);
        }
    }

    // --- Processing ---

    /// Activates a channel of TCP that has segments, so that its process processes them.
    pub(in crate::net) fn activate(&mut self, id: ChannelId, segments_for: SegmentKind) {
        if self.channel_mut(id).is_none_or(|channel| core::mem::replace(&mut channel.listed, true)) {
            return;
        }
        let process = self.process_for(segments_for);
        self.processing_of(process).active.push_back(id);
        self.tcp.called.push(process);
    }

    /// Whose business a channel is. What is nobody's, and what is left of the connections of a process that
    /// has ended, the daemon for control traffic minds.
    fn process_for(&mut self, segments_for: SegmentKind) -> ProcessId {
        let process = self.owner_for(segments_for);
        process.filter(|&process| !self.processing_of(process).ended).unwrap_or_else(|| self.orphan_owner())
    }

    /// Returns the process that has the socket or the connection which the segments are for.
    pub(in crate::net) fn owner_for(&self, segments_for: SegmentKind) -> Option<ProcessId> {
        match segments_for {
            SegmentKind::Syns(socket) | SegmentKind::Handshakes(socket) => {
                self.descriptor(socket).and_then(Descriptor::owner)
            }
            SegmentKind::Connection(id) => self.tcp.owner(id).and_then(|owner| owner.process),
            SegmentKind::TimeWait => None,
        }
    }

    /// There always is one under the lazy architectures, which alone have channels.
    fn orphan_owner(&self) -> ProcessId {
        self.channels.daemons().control_reader().unwrap_or(ProcessId(0))
    }

    /// Runs one step of protocol processing for a process: segments of its channels, one of each in turn.
    pub(crate) fn process_segments(&mut self, process: ProcessId, now: Instant) {
        for _ in 0..self.config.batch_pkts {
            let Some(id) = self.processing_of(process).active.pop_front() else { return };
            match self.next_segment(id, now) {
                Some(waiting) => {
                    let channel = self.channel(id);
                    let segments_for = channel.and_then(|channel| channel.segments_for);
                    // Most have one segment at a time: another visit would find nothing.
                    if channel.is_some_and(|channel| !channel.has_rings() && channel.is_empty()) {
                        self.settle_channel(id);
                    } else {
                        self.processing_of(process).active.push_back(id);
                    }
                    self.input_from(segments_for, waiting, now);
                }
                None => self.settle_channel(id),
            }
        }
    }

    /// Processes a frame from a channel of TCP. A connection's channel predicts the connection of the
    /// segment.
    fn input_from(&mut self, segments_for: Option<SegmentKind>, waiting: Waiting, now: Instant) {
        self.keep_order(now);
        match (self.input_frame(waiting, now), segments_for) {
            (Some(Received::Segment(packet)), Some(SegmentKind::Connection(id))) => {
                self.input_segment(packet, Some(id), now);
            }
            (received, _) => self.take_up(received, Sources::NONE, now),
        }
    }

    fn next_segment(&mut self, id: ChannelId, now: Instant) -> Option<Waiting> {
        if let Some(SegmentKind::Syns(socket)) = self.channel(id)?.segments_for
            && self.is_overloaded(socket)
        {
            return None;
        }
        self.take_from_channel(id, now)
    }

    /// Returns whether a listener can take no more connections, so that its SYNs stay in their channel.
    fn is_overloaded(&self, socket: SocketId) -> bool {
        matches!(self.descriptor(socket), Some(Descriptor::Listener(l)) if !self.tcp.endpoint.accepts(&l.at))
    }

    /// A channel has nothing to process: it waits for its next segment, for room in the accept queue, or for
    /// its next connection.
    fn settle_channel(&mut self, id: ChannelId) {
        let Some(channel) = self.channel_mut(id) else { return };
        channel.listed = false;
        let (segments_for, left) = (channel.segments_for, !channel.is_empty());
        match segments_for {
            Some(SegmentKind::Syns(socket)) if left => {
                self.set_gate(id, false);
                self.tcp.stop(socket);
            }
            Some(segments_for) if self.channel_mut(id).is_some_and(|c| c.has_rings() && c.arm()) => {
                // One came between the last look and the arming.
                self.activate(id, segments_for);
            }
            Some(SegmentKind::Connection(connection)) => self.give_back(id, connection),
            _ => {}
        }
    }

    /// A connection's channel is empty. One on an adaptor stays with its connection.
    pub(in crate::net) fn give_back(&mut self, channel: ChannelId, connection: Id) {
        if self.channel(channel).is_some_and(Channel::has_rings) {
            return;
        }
        if self.tcp.owner(connection).is_some_and(|owner| owner.channel == Some(channel)) {
            self.tcp.set_channel(connection, None);
        }
        self.tcp.free_list.channels.push(channel);
    }

    /// Listeners whose accept queue has room again.
    pub(super) fn resume_listeners(&mut self) {
        let mut index = 0;
        while let Some(&socket) = self.tcp.stopped.get(index) {
            if self.is_overloaded(socket) {
                index += 1;
                continue;
            }
            self.tcp.stopped.remove(index);
            if let Some(Descriptor::Listener(listener)) = self.descriptor(socket)
                && let Some(syns) = listener.syns
            {
                self.set_gate(syns, true);
                self.activate(syns, SegmentKind::Syns(socket));
            }
        }
    }

    /// Removes a channel from the active ones of a process.
    pub(super) fn deactivate(&mut self, channel: ChannelId, process: ProcessId) {
        self.processing_of(process).active.retain(|&other| other != channel);
    }

    /// Records that a process has ended, and passes its channels with segments to the daemon of control
    /// traffic.
    pub(crate) fn end_processing(&mut self, process: ProcessId) {
        let processing = self.processing_of(process);
        processing.ended = true;
        let left = core::mem::take(&mut processing.active);
        if !left.is_empty() {
            let orphan_owner = self.orphan_owner();
            self.processing_of(orphan_owner).active.extend(left);
            self.tcp.called.push(orphan_owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::InterfaceId;
    use crate::receive::Architecture;
    use crate::slab::tests::LOOKS;
    use crate::tcp::ListenerConfig;
    use crate::wire::{IpAddress, IpEndpoint};

    /// Descriptors and channels looked at when programs are notified on a host with so many listeners.
    fn looks(listeners: u16) -> u64 {
        let small = Config { channel_pkts: 1, ..Config::of(Architecture::SoftLrp) };
        let mut net = Net::new(small).unwrap();
        for port in 1..=listeners {
            let at = ListenAt { address: None, port };
            net.listen(ProcessId(5), at, &ListenerConfig::default(), None).unwrap();
        }
        let before = LOOKS.get();
        net.tcp.pending = true;
        net.notify_programs();
        LOOKS.get() - before
    }

    #[test]
    fn a_listener_that_is_not_stopped_is_not_looked_at() {
        assert_eq!(looks(1_000), looks(1));
    }

    /// As it does when its accept queue is full, and has room again.
    #[test]
    fn a_listener_that_stops_gives_no_feedback_until_it_goes_on() {
        let mut net = Net::new(Config::of(Architecture::SoftLrp)).unwrap();
        let at = ListenAt { address: None, port: 80 };
        let socket = net.listen(ProcessId(5), at, &ListenerConfig::default(), None).unwrap();
        let Some(Descriptor::Listener(listener)) = net.descriptor(socket) else { panic!() };
        let syns = listener.syns.unwrap();
        let frame = net.pool.take().unwrap();
        net.channel_mut(syns).unwrap().push(InterfaceId(0), frame).unwrap();
        net.activate(syns, SegmentKind::Syns(socket));
        let gives_feedback = |net: &Net| net.channel(syns).unwrap().gate != Gate::open();
        assert!(gives_feedback(&net));
        net.settle_channel(syns);
        assert!(!gives_feedback(&net));
        net.resume_listeners();
        assert!(gives_feedback(&net));
    }

    /// Its channel is free for others at once, and stays where it is while a second segment waits.
    #[test]
    fn a_connection_with_one_segment_is_visited_once() {
        let mut net = Net::new(Config { batch_pkts: 1, ..Config::of(Architecture::SoftLrp) }).unwrap();
        net.reserve_segments().unwrap();
        let end = |last, port| IpEndpoint::new(IpAddress::v4(10, 0, 0, last), port);
        let tuple = FourTuple::new(end(1, 1_000), end(2, 7));
        let id = net.tcp.endpoint.connect(tuple, 1_460, Instant::ZERO).unwrap();
        let program = ProcessId(5);
        net.tcp.set_owner(Owner { id, process: Some(program), socket: None, channel: None });
        let channel = net.segment_channel(&tuple, false).unwrap();
        for _ in 0..2 {
            let frame = net.pool.take().unwrap();
            net.channel_mut(channel).unwrap().push(InterfaceId(0), frame).unwrap();
            net.count_held(SegmentKind::Connection(id));
        }
        net.activate(channel, SegmentKind::Connection(id));
        let state = |net: &Net| {
            let has = net.tcp.owner(id).unwrap().channel;
            (net.has_segments(program), has, net.tcp.free_list.channels.len(), net.segments_waiting())
        };
        net.process_segments(program, Instant::ZERO);
        assert_eq!(state(&net), (true, Some(channel), 0, 1));
        net.process_segments(program, Instant::ZERO);
        assert_eq!(state(&net), (false, None, 1, 0));
    }

    /// It had no segments before it ended; then some came for what is left of its connections.
    #[test]
    fn what_comes_for_a_process_that_has_ended_is_the_daemons() {
        let mut net = Net::new(Config::of(Architecture::SoftLrp)).unwrap();
        let daemon = ProcessId(1);
        net.set_daemon(net.channels.daemons().control.unwrap(), daemon);
        let end = |last, port| IpEndpoint::new(IpAddress::v4(10, 0, 0, last), port);
        let tuple = FourTuple::new(end(1, 1_000), end(2, 7));
        let id = net.tcp.endpoint.connect(tuple, 1_460, Instant::ZERO).unwrap();
        let program = ProcessId(5);
        net.tcp.set_owner(Owner { id, process: Some(program), socket: None, channel: None });
        net.end_processing(program);
        assert_eq!(net.process_for(SegmentKind::Connection(id)), daemon);
    }
}
