//! Which process is to process the segments in a channel, and which program hears of what came of it.

use crate::channel::SegmentKind;
use crate::config::Config;
use crate::id::{ChannelId, ProcessId, QueueId, SocketId};
use crate::interface::CONSENT;
use crate::poll::{Gate, Poller};
use crate::ready::{Kinds, kinds_of};
use crate::rx::Receive;
use crate::socket::{Descriptor, StreamError};
use crate::sockets::Sockets;
use crate::tcp::endpoint::{EndpointEvent, ListenAt, Readiness};
use crate::tcp::table::Id;
use crate::time::Instant;

use super::segment_channels::Active;
use super::state::{Endpoint, Tcp};

/// TCP, with the channels where segments wait, and the sockets of the processes that they are for.
pub(crate) struct Activation<'a> {
    pub(crate) tcp: &'a mut Tcp,
    pub(crate) rx: &'a mut Receive,
    pub(crate) sockets: &'a mut Sockets,
    pub(crate) poller: &'a mut Poller<QueueId>,
    pub(crate) config: &'a Config,
}

impl Activation<'_> {
    /// Sets whether a channel of TCP gives feedback. A channel of SYNs does, unless its listener can take
    /// none: a ring then keeps a burst of SYNs on a core that keeps up, because each lost SYN costs its
    /// sender a second. Other senders are paced by windows. If one is not, its excess segments end in the
    /// channel, and are no reason to pause other traffic of the ring.
    pub(crate) fn set_gate(&mut self, id: ChannelId, gives_feedback: bool) {
        let per_channel_feedback = self.config.per_channel_feedback();
        let Some(channel) = self.rx.channels.get(id) else { return };
        let gate = if gives_feedback && per_channel_feedback {
            self.rx.gate(channel.capacity_pkts(), self.config)
        } else {
            Gate::open()
        };
        self.poller.forget(QueueId::Channel(id));
        if let Some(channel) = self.rx.channels.get_mut(id) {
            channel.gate = gate;
        }
    }

    /// Arms a channel on an adaptor, so that its next segment interrupts. If a segment is there already,
    /// the interrupt is raised at once.
    pub(crate) fn arm_segment_channel(&mut self, id: ChannelId) {
        if self.rx.channels.get_mut(id).is_some_and(|channel| channel.has_rings() && channel.arm()) {
            self.rx.channels.raise(id);
        }
    }

    /// Activates a channel of TCP that has segments, so that its process processes them.
    pub(crate) fn activate(&mut self, id: ChannelId, segments_for: SegmentKind) {
        let Some(channel) = self.rx.channels.get_mut(id) else { return };
        if core::mem::replace(&mut channel.listed, true) {
            return;
        }
        let active = Active { channel: id, turn: channel.turn };
        let process = self.process_for(segments_for);
        let processing = self.tcp.processing_of(process);
        if processing.in_calls {
            return self.call(active, segments_for, process);
        }
        processing.active.push_back(active);
        self.tcp.called.push(process);
    }

    /// Leaves segments to the next call on their socket, and wakes one of those who wait for it.
    fn call(&mut self, active: Active, segments_for: SegmentKind, process: ProcessId) {
        let (socket, opens) = self.tcp.called_for(segments_for);
        let processing = self.tcp.processing_of(process);
        if opens { &mut processing.opening } else { &mut processing.active }.push_back(active);
        if let Some(socket) = socket {
            self.sockets.ready.call(socket);
        }
    }

    /// Returns the process that processes the segments of a channel. The daemon for control traffic has those
    /// without an owner, and those of connections whose process has ended.
    pub(crate) fn process_for(&mut self, segments_for: SegmentKind) -> ProcessId {
        let process = self.tcp.owner_for(segments_for, &self.sockets.descriptors);
        process
            .filter(|&process| !self.tcp.processing_of(process).ended)
            .unwrap_or_else(|| self.orphan_owner())
    }

    /// There always is one under the lazy architectures, which alone have channels.
    fn orphan_owner(&self) -> ProcessId {
        self.rx.channels.daemons().control_reader().unwrap_or(ProcessId(0))
    }

    /// Returns whether a listener can take no more connections, so that its SYNs stay in their channel.
    pub(crate) fn is_overloaded(&self, socket: SocketId) -> bool {
        let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get(socket) else { return false };
        !self.tcp.endpoint.accepts(&listener.at)
    }

    /// Lets interfaces answer the SYNs of a channel with cookies, as long as the listener can take
    /// connections. Returns whether it can.
    pub(crate) fn answer_syns(&mut self, id: ChannelId, socket: SocketId, now: Instant) -> bool {
        let accepts = !self.is_overloaded(socket);
        if let Some(channel) = self.rx.channels.get_mut(id).filter(|channel| channel.has_rings()) {
            channel.answer_syns(accepts.then_some(now));
            self.expect_cookies(socket, now);
        }
        accepts
    }

    /// Lets interfaces drop segments for a channel that the listener would refuse, because they bring no good
    /// cookie.
    pub(crate) fn refuse_acks(&mut self, id: ChannelId, socket: SocketId, now: Instant) {
        self.expect_cookies(socket, now);
        let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get(socket) else { return };
        let refuses = self.tcp.endpoint.refuses_acks_until(&listener.at, now + 2 * CONSENT);
        if let Some(channel) = self.rx.channels.get_mut(id).filter(|channel| channel.has_rings()) {
            channel.refuse_acks(refuses.then_some(now));
        }
    }

    /// Has a listener expect the cookies with which interfaces have answered its SYNs.
    pub(crate) fn expect_cookies(&mut self, socket: SocketId, now: Instant) {
        let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get(socket) else { return };
        let Some(syns) = listener.syns.and_then(|id| self.rx.channels.get_mut(id)) else { return };
        let cookies = syns.take_answered_syns();
        if cookies > 0 {
            self.tcp.endpoint.expect_cookies(&listener.at, cookies, now);
        }
    }

    /// Lets a channel wait that has nothing to process: for its next segment, for its next connection, or if
    /// it `stops` for room in the accept queue.
    pub(crate) fn settle_channel(&mut self, id: ChannelId, stops: bool) {
        let Some(channel) = self.rx.channels.get_mut(id) else { return };
        channel.listed = false;
        channel.turn = channel.turn.wrapping_add(1);
        let (segments_for, left) = (channel.segments_for, !channel.is_empty());
        match segments_for {
            Some(SegmentKind::Syns(socket)) if stops && left => {
                self.set_gate(id, false);
                self.tcp.stop(socket);
            }
            Some(segments_for) if self.rx.channels.get_mut(id).is_some_and(|c| c.has_rings() && c.arm()) => {
                // One came between the last look and the arming.
                self.activate(id, segments_for);
            }
            Some(SegmentKind::Connection(connection)) => {
                self.tcp.give_back(id, connection, &self.rx.channels)
            }
            _ => {}
        }
    }

    /// Listeners whose accept queue has room again.
    pub(crate) fn resume_listeners(&mut self) {
        let mut index = 0;
        while let Some(&socket) = self.tcp.stopped.get(index) {
            if self.is_overloaded(socket) {
                index += 1;
                continue;
            }
            self.tcp.stopped.remove(index);
            if let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get(socket)
                && let Some(syns) = listener.syns
            {
                self.set_gate(syns, true);
                self.activate(syns, SegmentKind::Syns(socket));
            }
        }
    }

    /// Removes a channel from the active ones of a process.
    pub(crate) fn deactivate(&mut self, channel: ChannelId, process: ProcessId) {
        self.tcp.processing_of(process).remove(channel);
    }

    /// Records that a process has ended, and passes its channels with segments to the daemon of control
    /// traffic.
    pub(crate) fn end_processing(&mut self, process: ProcessId) {
        let processing = self.tcp.processing_of(process);
        processing.ended = true;
        let mut left = core::mem::take(&mut processing.opening);
        left.append(&mut processing.active);
        if !left.is_empty() {
            let orphan_owner = self.orphan_owner();
            self.tcp.processing_of(orphan_owner).active.extend(left);
            self.tcp.called.push(orphan_owner);
        }
    }

    #[inline]
    pub(crate) fn notify_all(&mut self) {
        while let Some(event) = self.tcp.endpoint.poll_event() {
            match event {
                EndpointEvent::Acceptable(at) => self.notify_listener(&at),
                EndpointEvent::Connection(id, ready) => self.notify_stream(id, ready),
            }
        }
    }

    fn notify_listener(&mut self, at: &ListenAt) {
        let Some(listening) = self.tcp.listeners.get(at) else { return };
        self.sockets.ready.raise(listening.socket, Kinds::READABLE);
    }

    fn notify_stream(&mut self, id: Id, ready: Readiness) {
        let Some(socket) = self.tcp.owner(id).and_then(|owner| owner.socket) else { return };
        self.sockets.ready.raise(socket, kinds_of(ready));
    }

    /// Aborts a stream, and tells those who have a descriptor of it.
    pub(crate) fn abort_stream(&mut self, id: Id) -> Result<(), StreamError> {
        let aborted = self.tcp.change_stream(id, Endpoint::abort);
        // TCP tells nobody any more. Whoever has another descriptor of it is to hear of its end.
        if let (_, Some(socket)) = self.tcp.owner_of(id) {
            self.sockets.ready.raise(socket, Kinds::READABLE.union(Kinds::HANG_UP));
        }
        aborted
    }
}
