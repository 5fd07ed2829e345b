//! Units of device work: interrupts, the polling thread, demultiplexing into channels.

use super::state::Net;
use crate::capture::Tapped;
use crate::channel::SegmentKind;
use crate::demux::Class;
use crate::drop::{QueueDrop, TcpDrop, UdpDrop};
use crate::frame::Frame;
use crate::id::{ChannelId, QueueId};
use crate::link::{Port, Side};
use crate::poll::Sources;
use crate::ready::Ready;
use crate::receive::AfterDevice;
use crate::time::Instant;
use crate::work::Work;

impl Net {
    /// The device interrupt: all device work here, or only a note for the polling thread.
    pub(crate) fn device_interrupt(&mut self, index: usize, now: Instant) {
        let (links, mut cx) = self.links(now);
        let Some(port) = links.interrupt(index, &mut cx) else { return };
        self.device_work(port, self.config.batch_pkts, now);
        let (links, mut cx) = self.links(now);
        links.interrupt_served(port, &mut cx);
    }

    /// One turn of the polling thread: part of the callback of one source, at most its quota. Interfaces take
    /// turns, and so do the receive and transmit sides of each.
    pub(crate) fn poll(&mut self, now: Instant) {
        let (links, mut cx) = self.links(now);
        let Some((port, left)) = links.begin_poll(&mut cx) else { return };
        let limit = left.min(self.config.batch_pkts);
        let done = self.device_work(port, limit, now);
        let (links, mut cx) = self.links(now);
        links.end_poll(port, left, limit, done, &mut cx);
    }

    /// Does at most `limit` frames' work of a port; says how many there were.
    fn device_work(&mut self, port: Port, limit: usize, now: Instant) -> usize {
        match port.side {
            Side::Receive(queue) => {
                if self.config.listen_only {
                    let seen = self.tap_ring(port, queue, limit, now);
                    if seen > 0 {
                        return seen;
                    }
                }
                for taken in 0..limit {
                    if taken > 0 && self.links.stops(port, &self.poller) {
                        return taken;
                    }
                    if !self.take_frame(port, queue, now) {
                        return taken;
                    }
                }
                limit
            }
            Side::Transmit => {
                let (links, mut cx) = self.links(now);
                links.reclaim(port.interface, limit, &mut cx)
            }
        }
    }

    /// Takes a frame from a ring, and does what is to be done about it; false if there was none.
    fn take_frame(&mut self, port: Port, queue: usize, now: Instant) -> bool {
        let (links, mut cx) = self.links(now);
        let Some(frame) = links.take(port.interface, queue, &mut cx) else { return false };
        if !self.descriptors.captures().is_empty() {
            self.tap_received(port.interface, &frame, Sources::one(port.source), now);
        }
        self.after_device(port, frame, now);
        true
    }

    /// Shows at most `limit` frames of a ring to the packet monitors where they lie, and drops them: all
    /// there is to do for a host that only listens. Says how many there were; none, also, if the ring shows
    /// nothing.
    fn tap_ring(&mut self, port: Port, queue: usize, limit: usize, now: Instant) -> usize {
        let fed_by = Sources::one(port.source);
        let held_back = self.links.held_back(port);
        let (links, mut monitors) = self.monitors();
        let Some(ring) = links.ring_mut(port.interface, queue) else { return 0 };
        let seen = ring.look(limit, &mut |bytes, metadata| {
            monitors.work.add(Work::Receive);
            let tapped = Tapped { interface: port.interface, at: now, sent: false, bytes, metadata };
            monitors.see(&tapped, fed_by);
            held_back.is_empty() || !monitors.poller.stops(port.source)
        });
        self.links.count_received(port.interface, seen as u64, &mut self.ledger);
        self.ledger.consumed += seen as u64;
        seen
    }

    pub(super) fn after_device(&mut self, port: Port, frame: Frame, now: Instant) {
        if self.config.listen_only {
            self.ledger.consumed += 1;
            return self.pool.recycle(frame);
        }
        match port.plan.then {
            AfterDevice::IpQueue => self.enqueue_ip(port, frame, now),
            AfterDevice::DemultiplexThenIpQueue => self.demultiplex_then_enqueue(port, frame, now),
            AfterDevice::Input => {
                self.input(port.interface, frame, Sources::one(port.source), now);
            }
            AfterDevice::Channel => self.demultiplex(port, frame, now),
        }
    }

    pub(super) fn enqueue_ip(&mut self, port: Port, frame: Frame, now: Instant) {
        self.work.add(Work::Enqueue);
        if self.ip_queue.has_room() {
            self.ip_queue.push((port.interface, frame));
        } else {
            self.drop_input(frame, QueueDrop::IpQueue);
        }
        let fed_by = self.config.scope(Sources::one(port.source));
        let (gate, waiting) = self.ip_queue.gate();
        self.poller.enqueued(QueueId::IpQueue, gate, waiting, fed_by, now);
    }

    pub(super) fn demultiplex_then_enqueue(&mut self, port: Port, frame: Frame, now: Instant) {
        self.work.add(Work::Demultiplex);
        let channel = match self.table.classify(frame.bytes()) {
            Class::Channel(channel) | Class::FirstFragment(channel, _) => Some(channel),
            Class::Segment { tuple, opens, .. } => {
                if self.is_segment_unwelcome(&tuple, opens) {
                    return self.drop_input(frame, QueueDrop::Socket);
                }
                None
            }
            // What has no socket is left to protocol input, which knows what to answer.
            Class::Discard(_) => None,
        };
        let members = channel.and_then(|c| self.channel(c)).map(|c| c.members.as_slice()).unwrap_or_default();
        let full =
            !members.is_empty() && members.iter().all(|&m| self.socket(m).is_some_and(|s| !s.has_room()));
        if full {
            self.drop_input(frame, QueueDrop::Socket);
        } else if channel.is_some() && channel == self.channels.daemons().forward && self.screen_is_full() {
            self.drop_input(frame, QueueDrop::Screen);
        } else {
            self.enqueue_ip(port, frame, now);
        }
    }

    /// Early demultiplexing into a channel, with early discard.
    pub(super) fn demultiplex(&mut self, port: Port, frame: Frame, now: Instant) {
        self.work.add(Work::Demultiplex);
        let id = match self.table.classify(frame.bytes()) {
            Class::Channel(id) => id,
            Class::FirstFragment(id, key) => {
                self.table.note_fragment(key, id);
                id
            }
            Class::Segment { tuple, opens, channel } => match self.segment_channel(&tuple, opens, channel) {
                Some(id) => id,
                None => return self.drop_input(frame, TcpDrop::NoSocket),
            },
            Class::Discard(reason) => return self.drop_input(frame, reason),
        };
        let shared = self.segments_held_max();
        let Some(channel) = self.channels.get_mut(id) else {
            return self.drop_input(frame, UdpDrop::NoSocket);
        };
        self.work.add(Work::Enqueue);
        let segments_for = channel.segments_for;
        if let Some(SegmentKind::Connection(connection)) = segments_for
            && channel.queued() >= shared
        {
            channel.refuse();
            if channel.is_empty() && !channel.listed {
                // It was taken for this frame.
                self.give_back(id, connection);
            }
            return self.drop_input(frame, QueueDrop::Channel);
        }
        let pushed = channel.push(port.interface, frame);
        let (waiting, fed_by) = (channel.queued(), self.config.scope(Sources::one(port.source)));
        self.poller.enqueued(QueueId::Channel(id), &mut channel.gate, waiting, fed_by, now);
        match pushed {
            Ok(arrival) if let Some(segments_for) = segments_for => {
                self.count_held(segments_for);
                if arrival.first {
                    self.activate(id, segments_for);
                }
            }
            Ok(arrival) => {
                if arrival.first {
                    self.channels.list(id);
                }
                if arrival.interrupt {
                    self.wake_receivers(id);
                }
            }
            Err(frame) => self.drop_input(frame, QueueDrop::Channel),
        }
    }

    pub(super) fn wake_receivers(&mut self, id: ChannelId) {
        if self.is_screened(id) {
            // Whoever screens looks into the channel before it sleeps.
            let screen = self.descriptors.screen_id().into_iter();
            return screen.for_each(|screen| self.ready.raise(screen, Ready::READABLE));
        }
        if let Some(daemon) = self.channels.daemons().reader(id) {
            return self.ready.wake_process(daemon);
        }
        for &member in self.channels.get(id).map_or(&[][..], |channel| &channel.members) {
            self.ready.raise(member, Ready::READABLE);
        }
    }

    /// Whether a channel on an interface interrupts.
    pub(crate) fn has_channel_interrupt(&self) -> bool {
        self.channels.has_interrupt() || self.links.has_channel_interrupt()
    }

    /// The interrupt of a channel on an interface: wakes its receiver, nothing more.
    pub(crate) fn channel_interrupt(&mut self) {
        self.work.add(Work::Interrupt);
        let next = self.channels.next_interrupt().or_else(|| self.links.next_channel_interrupt());
        let Some(id) = next else { return };
        if let Some(segments_for) = self.channel(id).and_then(|channel| channel.segments_for) {
            return self.activate(id, segments_for);
        }
        self.channels.disarm(id);
        self.channels.list(id);
        self.wake_receivers(id);
    }
}
