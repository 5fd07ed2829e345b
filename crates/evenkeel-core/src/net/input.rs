//! Units of protocol input, wherever the architecture does it: software interrupt, polling thread, receive
//! call, daemon, idle level.

use super::others::Others;
use super::state::Net;
use super::tcp::Tcp;
use crate::channel::{SegmentKind, Waiting};
use crate::demux::{Binding, Change};
use crate::drop::{LinkDrop, QueueDrop, UdpDrop};
use crate::frame::Frame;
use crate::id::{ChannelId, InterfaceId, ProcessId, QueueId};
use crate::poll::Sources;
use crate::ready::Kinds;
use crate::screen::Verdict;
use crate::stack::{Datagram, IpEndpoint, Received, Reply, Transit};
use crate::time::Instant;
use crate::work::Work;

impl Net {
    /// Runs the software interrupt: protocol input for frames of the shared IP queue.
    pub(crate) fn soft_interrupt(&mut self, dispatch: bool, now: Instant) {
        if dispatch {
            self.work.add(Work::SoftInterrupt);
        }
        for _ in 0..self.config.batch_pkts {
            let Some(((interface, frame), resume)) = self.rx.ip_queue.pop() else { break };
            if resume {
                self.poller.resume(QueueId::IpQueue);
            }
            // From which ring it came is not known any more, so whatever it fills holds back all.
            self.input(interface, frame, Sources::ALL, now);
        }
    }

    /// Processes one frame from a channel by IP input, to completion. No source is paused for the queues
    /// that this fills, because the receiving process fills its own queue.
    pub(crate) fn input_waiting(&mut self, waiting: Waiting, now: Instant) {
        let received = self.input_frame(waiting, now);
        self.take_up(received, Sources::NONE, now);
    }

    /// Processes one frame by IP input, to completion.
    pub(super) fn input(&mut self, interface: InterfaceId, frame: Frame, sources: Sources, now: Instant) {
        let received = self.input_frame(Waiting { frame, interface, verdict: None }, now);
        self.take_up(received, sources, now);
    }

    /// Processes the result of IP input: dispatches a datagram, passes a segment to TCP and an ICMP error to
    /// TCP or to its socket, or forwards a packet in transit.
    pub(crate) fn take_up(&mut self, received: Option<Received>, sources: Sources, now: Instant) {
        match received {
            Some(Received::Datagram(datagram)) => self.dispatch(datagram, sources, now),
            Some(Received::Segment(packet)) => self.segments(now).input(packet, None),
            Some(Received::IcmpError(error)) => Others::of(self).take_error(error, now),
            Some(Received::Transit(transit)) => self.transit(transit, sources, now),
            Some(Received::Control) | None => {}
        }
    }

    pub(crate) fn input_frame(&mut self, waiting: Waiting, now: Instant) -> Option<Received> {
        let Waiting { frame, interface, verdict } = waiting;
        if self.config.listen_only {
            // Under `ni-lrp` a frame gets as far as this before the host sees it.
            self.ledger.consumed += 1;
            self.pool.recycle(frame);
            return None;
        }
        let received = self.with_stack(now, |stack, io| match verdict.map(|verdict| verdict.plain) {
            Some(plain) => match stack.input_plain(interface, frame, plain, io) {
                Ok(received) => received,
                Err(frame) => stack.input_any(interface, frame, io),
            },
            None => stack.input(interface, frame, io),
        });
        let is_control = matches!(received, Some(Received::Control | Received::IcmpError(_)));
        self.work.add(if is_control { Work::Control } else { Work::Input });
        received
    }

    /// Appends a datagram to the queues of the sockets it is for.
    pub(super) fn dispatch(&mut self, datagram: Datagram, sources: Sources, now: Instant) {
        let sources = self.config.scope(sources);
        let IpEndpoint { addr, port } = datagram.destination();
        let channel = self.rx.table.udp(&addr, port);
        let members = channel.and_then(|c| self.rx.channels.get(c)).map_or(0, |c| c.members.len());
        let member = |net: &Self, nth| net.rx.channels.get(channel?)?.members.get(nth).copied();
        // The members of a multicast group but the last get copies.
        for nth in 0..members.saturating_sub(1) {
            let Some(member) = member(self, nth) else { continue };
            match datagram.duplicate(&mut self.pool) {
                Some(copy) => {
                    self.ledger.duplicated += copy.frames();
                    let (sockets, mut cx) = self.sockets(now);
                    if let Some(copy) = sockets.append(member, copy, sources, &mut cx) {
                        self.ledger.drop_input(UdpDrop::NoSocket, copy.frames());
                        copy.recycle(&mut self.pool);
                    }
                }
                None => {
                    self.ledger.duplicated += 1;
                    self.ledger.drop_input(LinkDrop::NoBuffer, 1);
                }
            }
        }
        let refused = match member(self, members.wrapping_sub(1)) {
            Some(member) => {
                let (sockets, mut cx) = self.sockets(now);
                sockets.append(member, datagram, sources, &mut cx)
            }
            None => Some(datagram),
        };
        if let Some(datagram) = refused {
            if !Others::of(self).hand_over(&datagram, now) {
                self.with_stack(now, |stack, io| stack.port_unreachable(&datagram, io));
                self.ledger.drop_input(UdpDrop::NoSocket, datagram.frames());
            }
            datagram.recycle(&mut self.pool);
        }
    }

    /// Runs one step of a proxy daemon: protocol input for frames of its channel, and of the other if it
    /// reads two.
    pub(crate) fn daemon_step(&mut self, id: ChannelId, now: Instant) {
        let daemons = self.rx.channels.daemons();
        let (other, keeps_order) = (daemons.read_along_with(id), !daemons.is_ahead(id));
        for _ in 0..self.config.batch_pkts {
            if self.sockets.screens(id, &self.rx.channels) {
                return;
            }
            if keeps_order {
                self.keep_order(now);
            }
            let other = other.and_then(|other| self.take_from_channel(other, now));
            let own = self.take_from_channel(id, now);
            if other.is_none() && own.is_none() {
                return;
            }
            other.into_iter().chain(own).for_each(|waiting| self.input_waiting(waiting, now));
        }
    }

    /// Looks into the special channel for fragments whose first part has come meanwhile.
    pub(crate) fn input_fragments(&mut self, now: Instant) {
        let Some(id) = self.rx.channels.daemons().fragment else { return };
        for _ in 0..self.config.channel_pkts {
            let Some(waiting) = self.take_from_channel(id, now) else { return };
            self.input_waiting(waiting, now);
        }
    }

    /// Runs idle-level processing: protocol input for one frame, so that laziness adds no delay when the
    /// core has nothing else to do.
    pub(crate) fn idle_input(&mut self, now: Instant) {
        let Some(id) = self.rx.channels.next_listed() else { return };
        let taken = if self.sockets.have_room(id, &self.rx.channels) {
            self.take_from_channel(id, now)
        } else {
            None
        };
        match taken {
            Some(waiting) => {
                self.rx.channels.keep_listed(id);
                self.input_waiting(waiting, now);
            }
            // Empty, or its receiver is behind: then the receiver itself will find the rest.
            None => self.rx.channels.unlist(id),
        }
    }

    // --- Order among channels ---

    /// Processes, within a bound, the waiting messages that change neighbours or path MTUs. Called before a
    /// frame is dequeued from a channel; the process that dequeues the frame is charged.
    #[inline(always)]
    pub(crate) fn keep_order(&mut self, now: Instant) {
        if self.rx.ahead.may_wait() {
            self.input_ahead(now);
        }
    }

    #[cold]
    fn input_ahead(&mut self, now: Instant) {
        // An interface may fill the channels meanwhile: then it says so again.
        self.rx.ahead.settle();
        let all = self.rx.channels.daemons().ahead();
        let waits = |id: &ChannelId| self.rx.channels.get(*id).is_some_and(|channel| !channel.is_empty());
        if !all.iter().flatten().any(waits) {
            return;
        }
        self.rx.ahead.begin(self.ledger.delivered + self.ledger.forwarded, now);
        for (kind, channel) in all.into_iter().enumerate() {
            let Some(id) = channel else { continue };
            while self.rx.channels.get(id).is_some_and(|channel| !channel.is_empty()) {
                if !self.rx.ahead.spend(kind) {
                    self.rx.ahead.counters.overtook += 1;
                    self.rx.ahead.expect();
                    break;
                }
                let Some(waiting) = self.take_from_channel(id, now) else { break };
                self.input_waiting(waiting, now);
            }
        }
    }

    // --- Segments ---

    /// Runs one step of protocol processing for a process: segments of its channels, one of each in turn.
    pub(crate) fn process_segments(&mut self, process: ProcessId, now: Instant) {
        for _ in 0..self.config.batch_pkts {
            let Some(active) = self.tcp.processing_of(process).next() else { return };
            if Tcp::is_current(active, &self.rx.channels) && self.process_segment(active.channel, now) {
                self.tcp.processing_of(process).active.push_back(active);
            }
        }
    }

    /// Processes one segment of a channel. Returns whether the channel may have more.
    pub(crate) fn process_segment(&mut self, id: ChannelId, now: Instant) -> bool {
        let segments_for = self.rx.channels.get(id).and_then(|channel| channel.segments_for);
        let stays = match segments_for {
            Some(SegmentKind::Syns(socket)) => !self.activation().answer_syns(id, socket, now),
            Some(SegmentKind::Handshakes(socket)) => {
                self.activation().refuse_acks(id, socket, now);
                false
            }
            _ => false,
        };
        let taken = if stays { None } else { self.take_from_channel(id, now) };
        let Some(waiting) = taken else {
            // A ring may fill again at any moment, without a reason to stop.
            self.activation().settle_channel(id, stays);
            return false;
        };
        let channel = self.rx.channels.get(id);
        // Most have one segment at a time: another visit would find nothing.
        let is_done = channel.is_some_and(|channel| !channel.has_rings() && channel.is_empty());
        if is_done {
            self.activation().settle_channel(id, false);
        }
        self.input_from(segments_for, waiting, now);
        !is_done
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

    // --- Packets in transit ---

    /// Forwards a packet for another host at once, or puts it into the screening queue.
    pub(crate) fn transit(&mut self, transit: Transit, sources: Sources, now: Instant) {
        if !self.sockets.screened {
            return self.forward(transit, now);
        }
        let sources = self.config.scope(sources);
        let Some((id, screen)) = self.sockets.descriptors.screen_mut() else {
            // Whoever asked for screening is gone. Nothing passes until somebody screens again.
            self.ledger.drop_input(QueueDrop::Unscreened, 1);
            return transit.recycle(&mut self.pool);
        };
        self.work.add(Work::Screen);
        if screen.queue.has_room() {
            screen.queue.push(transit);
            self.sockets.ready.raise(id, Kinds::READABLE);
        } else {
            screen.counters.dropped += 1;
            self.ledger.drop_input(QueueDrop::Screen, 1);
            transit.recycle(&mut self.pool);
        }
        let (gate, waiting) = screen.queue.gate();
        self.poller.enqueued(QueueId::Socket(id), gate, waiting, sources, now);
    }

    /// Does with a packet in transit as the verdict on it demands.
    pub(crate) fn execute(&mut self, transit: Transit, verdict: Verdict, now: Instant) {
        let reply = match verdict {
            Verdict::Pass => return self.forward(transit, now),
            Verdict::Drop => Reply::Silence,
            Verdict::Reject => Reply::Prohibited,
            Verdict::Unreachable(code) => Reply::Unreachable(code),
            Verdict::Reset => Reply::Reset,
        };
        self.with_stack(now, |stack, io| stack.refuse_transit(transit, reply, io));
    }

    pub(crate) fn forward(&mut self, transit: Transit, now: Instant) {
        self.work.add(Work::Forward);
        let screened = self.sockets.screened;
        let due = self.offloads.count(&transit, screened);
        let came_by = transit.interface();
        self.with_stack(now, |stack, io| stack.forward(transit, io));
        if let Some(destination) = due {
            self.offloads.hand_over((came_by, destination), (&self.stack, screened), &self.links, now);
        }
    }

    // --- Channels ---

    pub(crate) fn take_from_channel(&mut self, id: ChannelId, now: Instant) -> Option<Waiting> {
        let channel = self.rx.channels.get_mut(id)?;
        let (waiting, from_ring) = channel.take(&mut self.pool)?;
        let segments_for = channel.segments_for;
        if channel.dequeued() {
            self.poller.resume(QueueId::Channel(id));
        }
        if !from_ring {
            self.tcp.segments.count_taken(segments_for);
        } else {
            self.links.count_received(waiting.interface, 1, &mut self.ledger);
            self.work.add(Work::Receive);
            if self.sockets.is_watched() {
                let (sockets, mut cx) = self.sockets(now);
                sockets.watch_outside_rings(waiting.interface, &waiting.frame, false, &mut cx);
            }
        }
        Some(waiting)
    }

    pub(crate) fn close_channel(&mut self, id: ChannelId, binding: Binding, now: Instant) {
        self.channels().update(Change::Unbind(binding));
        while let Some(waiting) = self.take_from_channel(id, now) {
            self.drop_input(waiting.frame, QueueDrop::Closed);
        }
        self.channels().close(id);
        self.rx.sharing.release(&binding);
        self.poller.forget(QueueId::Channel(id));
    }
}
