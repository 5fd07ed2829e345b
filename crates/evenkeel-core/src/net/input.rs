//! Units of protocol input, wherever the architecture does it: software interrupt, polling thread, receive
//! call, daemon, idle level.

use super::state::Net;
use crate::channel::{Verdict, Waiting};
use crate::drop::{LinkDrop, UdpDrop};
use crate::frame::Frame;
use crate::id::{ChannelId, InterfaceId, QueueId, SocketId};
use crate::poll::Sources;
use crate::stack::{Datagram, Io, IpEndpoint, Received, TakesDatagrams};
use crate::time::Instant;
use crate::work::Work;

/// Frames of a channel that one receive call looks at, at most: a flood of frames that deliver nothing must
/// not make it endless.
const FRAMES_PER_RECEIVE: usize = 64;

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
    pub(super) fn input_waiting(&mut self, waiting: Waiting, now: Instant) {
        let received = self.input_frame(waiting, now);
        self.take_up(received, Sources::NONE, now);
    }

    /// Processes one frame by IP input, to completion.
    pub(super) fn input(&mut self, interface: InterfaceId, frame: Frame, fed_by: Sources, now: Instant) {
        let received = self.input_frame(Waiting { frame, interface, verdict: None }, now);
        self.take_up(received, fed_by, now);
    }

    /// Processes the result of IP input: dispatches a datagram, passes a segment or an ICMP error to TCP,
    /// or forwards a packet in transit.
    pub(super) fn take_up(&mut self, received: Option<Received>, fed_by: Sources, now: Instant) {
        match received {
            Some(Received::Datagram(datagram)) => self.dispatch(datagram, fed_by, now),
            Some(Received::Segment(packet)) => self.segments(now).input(packet, None),
            Some(Received::IcmpError(error)) => self.segments(now).input_icmp_error(error),
            Some(Received::Transit(transit)) => self.transit(transit, fed_by, now),
            Some(Received::Control) | None => {}
        }
    }

    pub(super) fn input_frame(&mut self, waiting: Waiting, now: Instant) -> Option<Received> {
        let Waiting { frame, interface, verdict } = waiting;
        if self.config.listen_only {
            // Under `ni-lrp` a frame gets as far as this before the host sees it.
            self.ledger.consumed += 1;
            self.pool.recycle(frame);
            return None;
        }
        let received = self.with_stack(now, |stack, io| match verdict {
            Some(Verdict { plain, .. }) => match stack.input_plain(interface, frame, plain, io) {
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
    pub(super) fn dispatch(&mut self, datagram: Datagram, fed_by: Sources, now: Instant) {
        let fed_by = self.config.scope(fed_by);
        let IpEndpoint { addr, port } = datagram.destination();
        let channel = self.rx.table.udp(&addr, port);
        let members = channel.and_then(|c| self.rx.channels.get(c)).map_or(0, |c| c.members.len());
        let (Some(channel), true) = (channel, members > 0) else {
            self.with_stack(now, |stack, io| stack.port_unreachable(&datagram, io));
            self.ledger.drop_input(UdpDrop::NoSocket, datagram.frames());
            datagram.recycle(&mut self.pool);
            return;
        };
        // The members of a multicast group but the last get copies.
        for nth in 0..members.saturating_sub(1) {
            let Some(member) = self.rx.channels.get(channel).and_then(|c| c.members.get(nth).copied()) else {
                continue;
            };
            match datagram.duplicate(&mut self.pool) {
                Some(copy) => {
                    self.ledger.duplicated += copy.frames();
                    let (sockets, mut cx) = self.sockets(now);
                    sockets.append(member, copy, fed_by, &mut cx);
                }
                None => {
                    self.ledger.duplicated += 1;
                    self.ledger.drop_input(LinkDrop::NoBuffer, 1);
                }
            }
        }
        if let Some(member) = self.rx.channels.get(channel).and_then(|c| c.members.last().copied()) {
            let (sockets, mut cx) = self.sockets(now);
            sockets.append(member, datagram, fed_by, &mut cx);
        }
    }

    /// Receives a datagram for a socket. Under the lazy architectures protocol input happens here.
    pub(crate) fn receive(&mut self, id: SocketId, now: Instant) -> Option<Datagram> {
        let mut datagram = None;
        self.receive_into(id, &mut datagram, now);
        datagram
    }

    /// Hands over datagrams until `to` has no room for more, or there are none: first what waits in the
    /// socket's queue, then, under the lazy architectures, what waits in its channels.
    pub(crate) fn receive_into(&mut self, id: SocketId, to: &mut impl TakesDatagrams, now: Instant) {
        self.sockets.last_read = Some(id);
        self.keep_order(now);
        let (sockets, mut cx) = self.sockets(now);
        sockets.take_ready(id, to, &mut cx);
        if !self.plan.is_lazy() {
            return;
        }
        // A flood of frames that deliver nothing must not make it endless.
        let mut left = FRAMES_PER_RECEIVE;
        while left > 0 && to.has_room() {
            if self.input_plain_for(id, to, &mut left, now) {
                continue;
            }
            left -= 1;
            let Some(waiting) = self.take_for_socket(id, now) else {
                return self.readiness().found_empty(id);
            };
            self.input_for(id, waiting, to, now);
        }
        if left == 0 {
            // Nothing may have been delivered, and more wait.
            self.readiness().found_empty(id);
        }
    }

    /// Protocol input of a frame from a channel of a socket, and what of it is ready for the caller.
    // The loop over plain datagrams calls it for others only, and needs the registers itself.
    #[inline(never)]
    fn input_for(&mut self, id: SocketId, waiting: Waiting, to: &mut impl TakesDatagrams, now: Instant) {
        // An interface may have filled the channels since the call began.
        self.keep_order(now);
        self.input_waiting(waiting, now);
        // It may be the first fragment that later ones have waited for.
        if self.stack.reassembling() > 0 {
            self.input_fragments(now);
        }
        let (sockets, mut cx) = self.sockets(now);
        sockets.take_ready(id, to, &mut cx);
    }

    /// Hands over plain datagrams from the channel of a socket, straight, as long as they come one after the
    /// other: those that nobody else is to have, and of which the demultiplexing function has said that they
    /// are the socket's. Says whether there were any.
    fn input_plain_for(
        &mut self,
        id: SocketId,
        to: &mut impl TakesDatagrams,
        left: &mut usize,
        now: Instant,
    ) -> bool {
        let Some(socket) = self.sockets.descriptors.udp_mut(id) else { return false };
        let &[(channel_id, None)] = socket.channels.as_slice() else { return false };
        let Some(channel) = self.rx.channels.get_mut(channel_id) else { return false };
        if channel.members.len() != 1 || self.stack.reassembling() > 0 {
            return false;
        }
        let generation = self.rx.table.generation();
        let mut io = Io { now, pool: &mut self.pool, ledger: &mut self.ledger, out: self.links.out() };
        let (mut taken, mut delivered, mut refused) = (0, 0, None);
        while *left > 0
            && to.has_room()
            && let Some(waiting) = channel.pop()
        {
            *left -= 1;
            taken += 1;
            let Some(plain) = waiting.plain_datagram(generation) else {
                refused = Some(waiting);
                break;
            };
            let Waiting { frame, interface, .. } = waiting;
            match self.stack.input_plain_udp(interface, frame, plain, &mut io, to) {
                // Or it was dropped for its sum.
                Ok(whole) => delivered += u32::from(whole),
                Err(frame) => {
                    refused = Some(Waiting { frame, interface, verdict: None });
                    break;
                }
            }
        }
        if taken == 0 {
            return false;
        }
        let resume = channel.gate.on_dequeue(channel.queued());
        socket.counters.received += u64::from(delivered);
        self.ledger.delivered += u64::from(delivered);
        self.work.add_times(Work::Input, taken - u32::from(refused.is_some()));
        self.work.add_times(Work::Append, delivered);
        self.work.add_times(Work::Deliver, delivered);
        if resume {
            self.poller.resume(QueueId::Channel(channel_id));
        }
        if let Some(waiting) = refused {
            self.input_for(id, waiting, to, now);
        }
        true
    }

    /// Takes the next frame for a socket from one of its channels, which take turns.
    pub(super) fn take_for_socket(&mut self, id: SocketId, now: Instant) -> Option<Waiting> {
        let channels = self.sockets.descriptors.udp(id)?.channels.len();
        for _ in 0..channels {
            let socket = self.sockets.descriptors.udp_mut(id)?;
            let (channel, _) = socket.channels.get(socket.next_channel % channels).copied()?;
            socket.next_channel = (socket.next_channel + 1) % channels;
            if let Some(taken) = self.take_from_channel(channel, now) {
                return Some(taken);
            }
        }
        None
    }

    pub(super) fn take_from_channel(&mut self, id: ChannelId, now: Instant) -> Option<Waiting> {
        let channel = self.rx.channels.get_mut(id)?;
        let (waiting, from_ring) = channel.take(&mut self.pool)?;
        let segments_for = channel.segments_for;
        if channel.gate.on_dequeue(channel.queued()) {
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
    pub(super) fn input_fragments(&mut self, now: Instant) {
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
}
