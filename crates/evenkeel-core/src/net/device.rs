//! Units of device work: interrupts, the polling thread, and what frames that were taken from a ring lead to.

use super::state::Net;
use super::tcp::Tcp;
use crate::capture::Tapped;
use crate::channel::{ChannelTable, SegmentKind};
use crate::context::Cx;
use crate::demux::{Class, DemuxTable};
use crate::drop::QueueDrop;
use crate::frame::Frame;
use crate::id::{ChannelId, ProcessId};
use crate::link::{Port, Side, Taken};
use crate::poll::{SourceId, Sources};
use crate::receive::{AfterDevice, DeviceWork};
use crate::rx::{Arrived, BurstPolicy, SocketFloor};
use crate::sockets::Sockets;
use crate::tcp::{Flags, FourTuple};
use crate::time::{Duration, Instant};
use crate::work::Work;

impl Net {
    /// Handles the device interrupt: does all device work here, or only records it for the polling thread.
    pub(crate) fn device_interrupt(&mut self, index: usize, now: Instant) {
        let (links, mut cx) = self.links(now);
        let Some(port) = links.interrupt(index, &mut cx) else { return };
        self.device_work(port, self.config.batch_pkts, now);
        let (links, mut cx) = self.links(now);
        links.interrupt_served(port, &mut cx);
    }

    /// Runs one turn of the polling thread: part of the callback of one source, at most its quota.
    /// Interfaces take turns, and so do the receive and transmit sides of each.
    pub(crate) fn poll(&mut self, now: Instant) {
        let (links, mut cx) = self.links(now);
        let Some((port, left)) = links.begin_poll(&mut cx) else { return };
        let limit = left.min(self.config.batch_pkts);
        let taken = self.device_work(port, limit, now);
        let (links, mut cx) = self.links(now);
        links.end_poll(port, left, limit, taken, &mut cx);
    }

    /// Returns what of the time that has passed in a turn of the polling thread it spent on frames that were
    /// discarded: from which source they came, how long, and the process that they were for.
    pub(crate) fn spent_on_discards(
        &self,
        elapsed: Duration,
    ) -> Option<(SourceId, Duration, Option<ProcessId>)> {
        let (source, spent, full) = self.links.spent_on_discards(elapsed)?;
        Some((
            source,
            spent,
            full.and_then(|id| self.tcp.receiver(id, &self.rx.channels, &self.sockets.descriptors)),
        ))
    }

    /// Does device work of a port for at most `limit` frames. Returns how many there were.
    fn device_work(&mut self, port: Port, limit: usize, now: Instant) -> Taken {
        match port.side {
            Side::Receive(queue) => self.receive_from(port, queue, limit, now),
            Side::Transmit => {
                let (links, mut cx) = self.links(now);
                Taken { done: links.reclaim(port.interface, limit, &mut cx), ..Taken::default() }
            }
        }
    }

    /// Takes at most `limit` frames from a ring, and has the floors above do their part. Stops after a frame
    /// that fills a queue for which the ring is paused. Returns how many frames there were.
    fn receive_from(&mut self, port: Port, queue: usize, limit: usize, now: Instant) -> Taken {
        let policy = self.burst_policy(port);
        // No queue overflows for a pause that comes at the end of a burst.
        let each = if policy.is_notified_late() { self.rx.headroom_pkts } else { limit };
        let mut all = Taken::default();
        loop {
            let most = each.min(limit.saturating_sub(all.done));
            let taken = self.take_burst(policy, queue, most, now);
            all.add(taken);
            self.take_handover(port, now);
            if taken.done < most || all.done >= limit || self.links.stops(port, &self.poller) {
                break;
            }
        }
        self.links.count_received(port.interface, all.done as u64, &mut self.ledger);
        all
    }

    fn burst_policy(&self, port: Port) -> BurstPolicy {
        BurstPolicy {
            port,
            sources: self.config.scope(Sources::one(port.source)),
            // What interrupts discard nobody is charged for.
            per_channel_feedback: port.plan.device == DeviceWork::Polled
                && self.config.per_channel_feedback(),
            is_limited: !self.links.throttled(port).is_empty(),
            listen_only: self.config.listen_only,
        }
    }

    fn take_burst(&mut self, policy: BurstPolicy, queue: usize, limit: usize, now: Instant) -> Taken {
        let Self { links, rx, tcp, sockets, pool, ledger, work, poller, .. } = self;
        let Some((ring, traffic)) = links.ring(policy.port, queue) else { return Taken::default() };
        let above = Above { tcp, sockets };
        rx.take_burst(ring, traffic, above, policy, limit, Cx { now, pool, ledger, work, poller })
    }

    /// Does what a burst has left to do: wakes receivers, and processes frames by protocol input.
    fn take_handover(&mut self, port: Port, now: Instant) {
        while let Some(arrived) = self.rx.handover.arrived.pop_front() {
            match arrived {
                Arrived::Wake(id) => self.sockets.wake_receivers(id, &self.rx.channels),
                Arrived::Activate(id, segments_for) => self.activation().activate(id, segments_for),
            }
        }
        while let Some(frame) = self.rx.handover.frames.pop_front() {
            match port.plan.after_device {
                AfterDevice::DemultiplexThenIpQueue => self.demultiplex_then_enqueue(port, frame, now),
                _ => self.input(port.interface, frame, Sources::one(port.source), now),
            }
        }
    }

    fn demultiplex_then_enqueue(&mut self, port: Port, frame: Frame, now: Instant) {
        self.work.add(Work::Demultiplex);
        let channel = match self.rx.table.classify(frame.bytes()) {
            Class::Channel(channel) | Class::FirstFragment(channel, _) => Some(channel),
            Class::Segment { tuple, opens, .. } => {
                if self.tcp.is_segment_unwelcome(&tuple, opens) {
                    return self.drop_input(frame, QueueDrop::Socket);
                }
                None
            }
            // What has no socket is left to protocol input, which knows what to answer.
            Class::Discard(_) => None,
        };
        let members = channel.and_then(|c| self.rx.channels.get(c)).map(|c| c.members.as_slice());
        let members = members.unwrap_or_default();
        let full = !members.is_empty()
            && members.iter().all(|&m| self.sockets.descriptors.udp(m).is_some_and(|s| !s.has_room()));
        if full {
            self.drop_input(frame, QueueDrop::Socket);
        } else if channel.is_some()
            && channel == self.rx.channels.daemons().forward
            && self.sockets.screen_is_full()
        {
            self.drop_input(frame, QueueDrop::Screen);
        } else {
            let sources = self.config.scope(Sources::one(port.source));
            let Self { rx, pool, ledger, work, poller, .. } = self;
            rx.enqueue_ip(port.interface, frame, sources, &mut Cx { now, pool, ledger, work, poller });
        }
    }

    /// Handles the interrupt of a channel on an interface: wakes its receiver, nothing more.
    pub(crate) fn channel_interrupt(&mut self) {
        self.work.add(Work::Interrupt);
        let next = self.rx.channels.next_interrupt().or_else(|| self.links.next_channel_interrupt());
        let Some(id) = next else { return };
        if let Some(segments_for) = self.rx.channels.get(id).and_then(|channel| channel.segments_for) {
            return self.activation().activate(id, segments_for);
        }
        self.rx.channels.disarm(id);
        self.rx.channels.list(id);
        self.sockets.wake_receivers(id, &self.rx.channels);
    }
}

/// The sockets and connections of a host, as device work sees them.
struct Above<'a> {
    tcp: &'a mut Tcp,
    sockets: &'a mut Sockets,
}

impl SocketFloor for Above<'_> {
    fn is_watched(&self) -> bool {
        self.sockets.is_watched()
    }

    fn watch(&mut self, tapped: &Tapped<'_>, sources: Sources, cx: &mut Cx<'_>) {
        self.sockets.watch(tapped, sources, cx);
    }

    #[inline]
    fn segment_channel(
        &mut self,
        tuple: &FourTuple,
        opens: bool,
        channels: &mut ChannelTable,
        table: &DemuxTable,
    ) -> Option<ChannelId> {
        self.tcp.segment_channel(tuple, opens, channels, table)
    }

    #[inline]
    fn plain_segment_channel(
        &mut self,
        tuple: &FourTuple,
        flags: Flags,
        channels: &mut ChannelTable,
        table: &DemuxTable,
        now: Instant,
    ) -> Option<ChannelId> {
        self.tcp.plain_segment_channel(tuple, flags, channels, table, now)
    }

    fn has_room_for_segment(
        &mut self,
        id: ChannelId,
        segments_for: SegmentKind,
        channels: &mut ChannelTable,
    ) -> bool {
        self.tcp.has_room_for_segment(id, segments_for, channels)
    }

    fn count_held(&mut self, segments_for: SegmentKind) {
        self.tcp.segments.count_held(segments_for);
    }
}
