//! Units of protocol input, wherever the architecture does it: software interrupt, polling thread, receive
//! call, daemon, idle level.

use super::state::Net;
use crate::drop::{LinkDrop, QueueDrop, UdpDrop};
use crate::frame::Frame;
use crate::id::{ChannelId, InterfaceId, QueueId, SocketId};
use crate::poll::Sources;
use crate::ready::Ready;
use crate::socket::Socket;
use crate::stack::{Datagram, IpEndpoint, Received};
use crate::time::Instant;
use crate::work::Work;

/// Frames of a channel that one receive call looks at, at most: a flood of frames that deliver nothing must
/// not make it endless.
const FRAMES_PER_RECEIVE: usize = 64;

impl Net {
    pub(crate) fn has_ip_queue(&self) -> bool {
        !self.ip_queue.is_empty()
    }

    /// The software interrupt: protocol input for frames of the shared IP queue.
    pub(crate) fn soft_interrupt(&mut self, dispatch: bool, now: Instant) {
        if dispatch {
            self.work.add(Work::SoftInterrupt);
        }
        for _ in 0..self.config.batch_pkts {
            let Some(((interface, frame), resume)) = self.ip_queue.pop() else { break };
            if resume {
                self.poller.resume(QueueId::IpQueue);
            }
            // From which ring it came is not known any more, so whatever it fills holds back all.
            self.input(interface, frame, Sources::ALL, now);
        }
    }

    /// IP input of one frame, to completion.
    pub(super) fn input(&mut self, interface: InterfaceId, frame: Frame, fed_by: Sources, now: Instant) {
        let received = self.input_frame(interface, frame, now);
        self.take_up(received, fed_by, now);
    }

    /// What IP input has left to do.
    pub(super) fn take_up(&mut self, received: Option<Received>, fed_by: Sources, now: Instant) {
        match received {
            Some(Received::Datagram(datagram)) => self.dispatch(datagram, fed_by, now),
            Some(Received::Segment(packet)) => self.input_segment(packet, None, now),
            Some(Received::IcmpError(error)) => self.input_icmp_error(error, now),
            Some(Received::Transit(transit)) => self.transit(transit, fed_by, now),
            None => {}
        }
    }

    pub(super) fn input_frame(
        &mut self,
        interface: InterfaceId,
        frame: Frame,
        now: Instant,
    ) -> Option<Received> {
        if self.config.listen_only {
            // Under `ni-lrp` a frame gets as far as this before the host sees it.
            self.ledger.consumed += 1;
            self.pool.recycle(frame);
            return None;
        }
        let consumed = self.ledger.consumed;
        let received = self.with_stack(now, |stack, io| stack.input(interface, frame, io));
        self.work.add(if self.ledger.consumed > consumed { Work::Control } else { Work::Input });
        received
    }

    /// Appends a datagram to the queues of the sockets it is for.
    pub(super) fn dispatch(&mut self, datagram: Datagram, fed_by: Sources, now: Instant) {
        let IpEndpoint { addr, port } = datagram.destination;
        let channel = self.table.udp(&addr, port);
        let members = channel.and_then(|c| self.channel(c)).map_or(0, |c| c.members.len());
        let (Some(channel), true) = (channel, members > 0) else {
            self.with_stack(now, |stack, io| stack.port_unreachable(&datagram, io));
            self.ledger.drop_input(UdpDrop::NoSocket, datagram.frames());
            datagram.recycle(&mut self.pool);
            return;
        };
        // The members of a multicast group but the last get copies.
        for nth in 0..members.saturating_sub(1) {
            let Some(member) = self.channel(channel).and_then(|c| c.members.get(nth).copied()) else {
                continue;
            };
            match datagram.duplicate(&mut self.pool) {
                Some(copy) => {
                    self.ledger.duplicated += copy.frames();
                    self.append(member, copy, fed_by, now);
                }
                None => {
                    self.ledger.duplicated += 1;
                    self.ledger.drop_input(LinkDrop::NoBuffer, 1);
                }
            }
        }
        if let Some(member) = self.channel(channel).and_then(|c| c.members.last().copied()) {
            self.append(member, datagram, fed_by, now);
        }
    }

    pub(super) fn append(&mut self, id: SocketId, datagram: Datagram, fed_by: Sources, now: Instant) {
        self.work.add(Work::Append);
        let fed_by = self.config.scope(fed_by);
        let Some(socket) = self.descriptors.udp_mut(id) else { return };
        if !socket.ready.has_room() {
            socket.counters.dropped += 1;
            self.ledger.drop_input(QueueDrop::Socket, datagram.frames());
            datagram.recycle(&mut self.pool);
        } else {
            socket.ready.push(datagram);
            self.ready.raise(id, Ready::READABLE);
        }
        let (gate, waiting) = socket.ready.gate();
        self.poller.enqueued(QueueId::Socket(id), gate, waiting, fed_by, now);
    }

    /// The receive call. Under the lazy architectures protocol input happens here.
    pub(crate) fn receive(&mut self, id: SocketId, now: Instant) -> Option<Datagram> {
        self.last_read = Some(id);
        if self.plan.is_lazy() && self.socket(id)?.ready.is_empty() {
            self.input_for(id, now);
        }
        let socket = self.socket_mut(id)?;
        let (datagram, resume) = socket.ready.pop()?;
        socket.counters.received += 1;
        self.ledger.delivered += datagram.frames();
        self.work.add(Work::Deliver);
        if resume {
            self.poller.resume(QueueId::Socket(id));
        }
        Some(datagram)
    }

    /// Protocol input for the socket's channels, round robin, until a datagram is ready.
    pub(super) fn input_for(&mut self, id: SocketId, now: Instant) {
        for _ in 0..FRAMES_PER_RECEIVE {
            let Some((interface, frame)) = self.take_for_socket(id, now) else { return };
            self.input(interface, frame, Sources::NONE, now);
            if self.stack.reassembling() > 0 {
                self.input_fragments(now);
            }
            if self.socket(id).is_none_or(|s| !s.ready.is_empty()) {
                return;
            }
        }
    }

    pub(super) fn take_for_socket(&mut self, id: SocketId, now: Instant) -> Option<(InterfaceId, Frame)> {
        let channels = self.socket(id)?.channels.len();
        for _ in 0..channels {
            let socket = self.socket_mut(id)?;
            let (channel, _) = socket.channels.get(socket.next_channel % channels).copied()?;
            socket.next_channel = (socket.next_channel + 1) % channels;
            if let Some(taken) = self.take_from_channel(channel, now) {
                return Some(taken);
            }
        }
        None
    }

    pub(super) fn take_from_channel(&mut self, id: ChannelId, now: Instant) -> Option<(InterfaceId, Frame)> {
        let channel = self.channels.get_mut(id)?;
        let (interface, frame, from_ring) = channel.take(&mut self.pool)?;
        let segments_for = channel.segments_for;
        if channel.gate.on_dequeue(channel.queued()) {
            self.poller.resume(QueueId::Channel(id));
        }
        if !from_ring {
            self.count_taken(segments_for);
        } else {
            self.links.count_received(interface, 1, &mut self.ledger);
            self.work.add(Work::Receive);
            self.tap_received(interface, &frame, Sources::NONE, now);
        }
        Some((interface, frame))
    }

    /// One step of a proxy daemon: protocol input for frames of its channel.
    pub(crate) fn daemon_step(&mut self, id: ChannelId, now: Instant) {
        for _ in 0..self.config.batch_pkts {
            if self.is_screened(id) {
                return;
            }
            let Some((interface, frame)) = self.take_from_channel(id, now) else { return };
            self.input(interface, frame, Sources::NONE, now);
        }
    }

    /// Looks into the special channel for fragments whose first part has come meanwhile.
    pub(super) fn input_fragments(&mut self, now: Instant) {
        let Some(id) = self.channels.daemons().fragment else { return };
        for _ in 0..self.config.channel_pkts {
            let Some((interface, frame)) = self.take_from_channel(id, now) else { return };
            self.input(interface, frame, Sources::NONE, now);
        }
    }

    pub(crate) fn has_idle_work(&self) -> bool {
        self.channels.has_listed()
    }

    /// Idle-level processing: protocol input for one frame, so that laziness adds no delay when the core has
    /// nothing else to do.
    pub(crate) fn idle_input(&mut self, now: Instant) {
        let Some(id) = self.channels.next_listed() else { return };
        let room = self
            .channel(id)
            .is_some_and(|c| c.members.iter().all(|&m| self.socket(m).is_none_or(Socket::has_room)));
        let taken = if room { self.take_from_channel(id, now) } else { None };
        match taken {
            Some((interface, frame)) => {
                self.channels.keep_listed(id);
                self.input(interface, frame, Sources::NONE, now);
            }
            // Empty, or its receiver is behind: then the receiver itself will find the rest.
            None => self.channels.unlist(id),
        }
    }
}
