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
use super::activation::Activation;
use crate::channel::{Channel, SegmentKind, Waiting};
use crate::config::Config;
use crate::demux::{Binding, Change};
use crate::frame::PoolLimit;
use crate::id::{ChannelId, ProcessId, SocketId};
use crate::poll::Sources;
use crate::socket::{Descriptor, ListenError};
use crate::stack::Received;
use crate::tcp::FourTuple;
use crate::tcp::endpoint::{ListenAt, Routes};
use crate::tcp::table::Id;
use crate::time::Instant;

impl Net {
    /// Returns TCP with what decides who processes its segments.
    #[inline(always)]
    pub(crate) fn activation(&mut self) -> Activation<'_> {
        let Self { tcp, rx, sockets, poller, config, .. } = self;
        Activation { tcp, rx, sockets, poller, config }
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
        if let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get_mut(socket) {
            (listener.syns, listener.handshakes) = (Some(syns), Some(handshakes));
        }
        Ok(())
    }

    fn open_segment_channel(
        &mut self,
        binding: Binding,
        segments_for: SegmentKind,
    ) -> Result<ChannelId, ListenError> {
        let id = self.channels().open(binding)?;
        if let Some(channel) = self.rx.channels.get_mut(id) {
            channel.segments_for = Some(segments_for);
        }
        self.activation().set_gate(id, matches!(segments_for, SegmentKind::Syns(_)));
        self.activation().arm_segment_channel(id);
        Ok(id)
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
        if self.tcp.segments.time_wait.is_some() {
            return Ok(());
        }
        let Config { segment_pkts, channel_pkts, .. } = self.config;
        self.pool.grow(segment_pkts + channel_pkts)?;
        self.tcp.segments.reserved_pkts = segment_pkts;
        let mut channel = Channel::without_rings(channel_pkts);
        channel.segments_for = Some(SegmentKind::TimeWait);
        self.tcp.segments.time_wait = Some(self.rx.channels.insert(channel));
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
        let channel = match self.tcp.segments.ringed.pop() {
            Some(channel) => {
                self.channels().update(Change::Bind(Binding::Connection(tuple), channel));
                channel
            }
            None if self.tcp.segments.rings < self.config.connection_rings => {
                let mut channel = Channel::growing(self.tcp.segments.held_max_pkts, self.config.channel_pkts);
                if self.channels().reserve(&mut channel).is_err() {
                    return;
                }
                if !channel.has_rings() {
                    // Shared rings are no better than its listener's.
                    return self.channels().give_up(&channel);
                }
                self.tcp.segments.rings += 1;
                self.channels().install(channel, Binding::Connection(tuple))
            }
            None => return,
        };
        if let Some(channel) = self.rx.channels.get_mut(channel) {
            channel.segments_for = Some(SegmentKind::Connection(id));
        }
        self.tcp.set_channel(id, Some(channel));
        self.activation().arm_segment_channel(channel);
    }

    /// A connection has ended, or goes on in TIME-WAIT, where it has no channel. If it had one on an adaptor,
    /// that is another's now. What is left in it is processed like any other segment.
    pub(super) fn release_ring(&mut self, id: Id, tuple: FourTuple) {
        let Some(channel) = self.tcp.owner(id).and_then(|owner| owner.channel) else { return };
        if !self.rx.channels.get(channel).is_some_and(Channel::has_rings) {
            return;
        }
        self.tcp.set_channel(id, None);
        self.channels().update(Change::Unbind(Binding::Connection(tuple)));
        self.tcp.segments.ringed.push(channel);
    }

    // --- Processing ---

    /// Runs one step of protocol processing for a process: segments of its channels, one of each in turn.
    pub(crate) fn process_segments(&mut self, process: ProcessId, now: Instant) {
        for _ in 0..self.config.batch_pkts {
            let Some(id) = self.tcp.processing_of(process).active.pop_front() else { return };
            match self.next_segment(id, now) {
                Some(waiting) => {
                    let channel = self.rx.channels.get(id);
                    let segments_for = channel.and_then(|channel| channel.segments_for);
                    // Most have one segment at a time: another visit would find nothing.
                    if channel.is_some_and(|channel| !channel.has_rings() && channel.is_empty()) {
                        self.activation().settle_channel(id);
                    } else {
                        self.tcp.processing_of(process).active.push_back(id);
                    }
                    self.input_from(segments_for, waiting, now);
                }
                None => self.activation().settle_channel(id),
            }
        }
    }

    /// Processes a frame from a channel of TCP. A connection's channel predicts the connection of the
    /// segment.
    fn input_from(&mut self, segments_for: Option<SegmentKind>, waiting: Waiting, now: Instant) {
        self.keep_order(now);
        match (self.input_frame(waiting, now), segments_for) {
            (Some(Received::Segment(packet)), Some(SegmentKind::Connection(id))) => {
                self.segments(now).input(packet, Some(id));
            }
            (received, _) => self.take_up(received, Sources::NONE, now),
        }
    }

    fn next_segment(&mut self, id: ChannelId, now: Instant) -> Option<Waiting> {
        if let Some(SegmentKind::Syns(socket)) = self.rx.channels.get(id)?.segments_for
            && self.activation().is_overloaded(socket)
        {
            return None;
        }
        self.take_from_channel(id, now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Owner;
    use super::*;
    use crate::id::InterfaceId;
    use crate::looks::LOOKS;
    use crate::poll::Gate;
    use crate::receive::Architecture;
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
        let Some(Descriptor::Listener(listener)) = net.sockets.descriptors.get(socket) else { panic!() };
        let syns = listener.syns.unwrap();
        let frame = net.pool.take().unwrap();
        net.rx.channels.get_mut(syns).unwrap().push(InterfaceId(0), frame).unwrap();
        net.activation().activate(syns, SegmentKind::Syns(socket));
        let gives_feedback = |net: &Net| net.rx.channels.get(syns).unwrap().gate != Gate::open();
        assert!(gives_feedback(&net));
        net.activation().settle_channel(syns);
        assert!(!gives_feedback(&net));
        net.activation().resume_listeners();
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
        let channel = net.tcp.segment_channel(&tuple, false, &mut net.rx.channels, &net.rx.table).unwrap();
        for _ in 0..2 {
            let frame = net.pool.take().unwrap();
            net.rx.channels.get_mut(channel).unwrap().push(InterfaceId(0), frame).unwrap();
            net.tcp.segments.count_held(SegmentKind::Connection(id));
        }
        net.activation().activate(channel, SegmentKind::Connection(id));
        let state = |net: &Net| {
            let has = net.tcp.owner(id).unwrap().channel;
            (net.tcp.has_segments(program), has, net.tcp.segments.free.len(), net.tcp.segments.held_pkts())
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
        let control = net.rx.channels.daemons().control.unwrap();
        net.rx.channels.set_reader(control, daemon);
        let end = |last, port| IpEndpoint::new(IpAddress::v4(10, 0, 0, last), port);
        let tuple = FourTuple::new(end(1, 1_000), end(2, 7));
        let id = net.tcp.endpoint.connect(tuple, 1_460, Instant::ZERO).unwrap();
        let program = ProcessId(5);
        net.tcp.set_owner(Owner { id, process: Some(program), socket: None, channel: None });
        net.activation().end_processing(program);
        assert_eq!(net.activation().process_for(SegmentKind::Connection(id)), daemon);
    }
}
