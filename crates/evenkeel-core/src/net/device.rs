//! Units of device work: interrupts, the polling thread, demultiplexing into channels.

use super::{Net, Port, Side};
use crate::capture::Sighting;
use crate::channel::SegmentKind;
use crate::demux::Class;
use crate::drop::{QueueDrop, TcpDrop, UdpDrop};
use crate::frame::Frame;
use crate::id::{ChannelId, QueueId};
use crate::poll::{SourceId, Sources};
use crate::ready::Ready;
use crate::receive::{AfterDevice, DeviceWork};
use crate::time::Instant;
use crate::work::Work;

/// A turn of the polling thread whose time is not over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polled {
    port: Port,
    /// Frames it took.
    done: usize,
    end: End,
}

/// How a turn left its callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The quota is used.
    UsedUp,
    /// There was nothing more to take.
    Empty,
    /// It may go on, now or when nothing inhibits it.
    Open,
}

impl Net {
    /// A port among `sources` that may interrupt and has something to do. Ports take turns.
    pub(crate) fn interrupting_port(&self, sources: Sources) -> Option<usize> {
        let mut asked = sources.and(self.may_interrupt());
        while let Some(source) = asked.next(self.next_port_served) {
            let index = usize::from(source.0);
            if self.ports.get(index).copied().is_some_and(|port| self.asks(port)) {
                return Some(index);
            }
            asked = asked.without(Sources::one(source));
        }
        None
    }

    fn may_interrupt(&self) -> Sources {
        let sources = self.enabled();
        if self.config.clocked_interrupts.is_some() { sources.and(self.ticked) } else { sources }
    }

    /// The sources whose interrupts are enabled: what is polled only between two episodes, and nothing holds back drivers that do not poll.
    pub(super) fn enabled(&self) -> Sources {
        self.poller.may_interrupt().union(self.unlimited)
    }

    /// The tick of clocked interrupts: every source that has something may interrupt until it is found empty. What comes to the others waits
    /// for the next tick.
    pub(super) fn tick(&mut self, now: Instant) {
        let Some(period) = self.config.clocked_interrupts else { return };
        if now >= self.next_tick {
            let asking = self.ports.iter().filter(|&&port| self.asks(port));
            self.ticked = asking.fold(Sources::NONE, |all, port| all.union(Sources::one(port.source)));
            self.entered = Sources::NONE;
            self.next_tick = now + period;
        }
    }

    fn pending(&self, port: Port) -> bool {
        self.waiting(port) > 0
    }

    /// Frames that a port has work with.
    fn waiting(&self, port: Port) -> usize {
        let Some(interface) = self.interfaces.get(usize::from(port.interface.0)) else { return 0 };
        match port.side {
            Side::Receive(queue) => interface.queue(queue).pending(),
            Side::Transmit => interface.unreclaimed(),
        }
    }

    /// Whether a port has a reason to interrupt: work, or for a handler that only sets a flag, something new.
    fn asks(&self, port: Port) -> bool {
        if self.sets_flags(port) { self.come(port) > port.noted } else { self.pending(port) }
    }

    /// Whether the handler of the port only sets a flag, and its interrupt stays enabled.
    fn sets_flags(&self, port: Port) -> bool {
        self.config.real_time_tasks.is_some() && port.plan.device == DeviceWork::Polled
    }

    /// What has come to a port and not been taken from it: what waits, and what its ring has shed. Both are reasons to interrupt.
    fn come(&self, port: Port) -> u64 {
        self.waiting(port) as u64 + self.shed(port)
    }

    fn shed(&self, port: Port) -> u64 {
        match (port.side, self.interfaces.get(usize::from(port.interface.0))) {
            (Side::Receive(queue), Some(interface)) => interface.queue(queue).shed(),
            _ => 0,
        }
    }

    /// Notes what has come to a port whose handler only sets a flag.
    fn note(&mut self, source: SourceId, come: impl FnOnce(u64) -> u64) {
        if let Some(port) = self.ports.get_mut(usize::from(source.0)) {
            port.noted = come(port.noted);
        }
    }

    /// Whether the interrupt of a port only starts the polling thread.
    pub(crate) fn is_polled(&self, index: usize) -> bool {
        self.ports.get(index).is_some_and(|port| port.plan.device == DeviceWork::Polled)
    }

    /// The device interrupt: all device work here, or only a note for the polling thread.
    pub(crate) fn device_interrupt(&mut self, index: usize, now: Instant) {
        let Some(&port) = self.ports.get(index) else { return };
        self.next_port_served = port.source.0 + 1;
        // Under clocked interrupts a handler that goes on with its ring is the same interrupt still.
        let entered = self.entered.contains(port.source);
        if self.config.clocked_interrupts.is_some() {
            self.entered = self.entered.union(Sources::one(port.source));
        }
        if !entered {
            self.work.add(Work::Interrupt);
            self.interrupts += 1;
        }
        if port.plan.device == DeviceWork::Polled {
            self.ticked = self.ticked.without(Sources::one(port.source));
            self.poller.interrupt(port.source);
            if self.sets_flags(port) {
                let come = self.come(port);
                self.note(port.source, |_| come);
            }
        } else {
            self.interrupting = Some(port);
            self.device_work(port, self.config.batch_pkts, now);
            if port.side == Side::Transmit {
                self.restart_output(port.interface);
            }
            self.poller.callback_over(port.source);
        }
    }

    /// The handler returns. Under clocked interrupts, what comes to a source from the time it is found empty waits for the next tick.
    pub(crate) fn finish_interrupt(&mut self) {
        if let Some(port) = self.interrupting.take()
            && self.config.clocked_interrupts.is_some()
            && !self.asks(port)
        {
            self.ticked = self.ticked.without(Sources::one(port.source));
        }
    }

    /// One turn of the polling thread: part of the callback of one source, at most its quota. Interfaces take turns, and so do
    /// the receive and transmit sides of each.
    pub(crate) fn poll(&mut self, now: Instant) {
        let Some((source, left, begins)) = self.poller.turn(now) else { return };
        if begins {
            self.work.add(Work::PollRound);
        }
        let Some(&port) = self.ports.get(usize::from(source.0)) else { return };
        let limit = left.min(self.config.batch_pkts);
        let done = self.device_work(port, limit, now);
        let end = if done == left {
            End::UsedUp
        } else if done == limit || self.stops(port) {
            End::Open
        } else {
            End::Empty
        };
        if port.side == Side::Transmit && (end != End::Open || !self.pending(port)) {
            self.restart_output(port.interface);
        }
        self.note(source, |noted| noted.saturating_sub(done as u64));
        self.polled = Some(Polled { port, done, end });
    }

    /// The turn is over. A callback that used its quota stays marked (TOCS 1997, section 6.4), and so does one that an inhibition ended. Else
    /// the interrupt comes back when nothing waits by now.
    pub(crate) fn finish_poll(&mut self, now: Instant) {
        let Some(Polled { port, done, end }) = self.polled.take() else { return };
        let more = end == End::UsedUp || (end == End::Open && self.pending(port));
        // Asking what was shed may take a system call.
        if !more && self.sets_flags(port) {
            // The flag is cleared: what has come since it was looked at interrupts again.
            let shed = self.shed(port);
            self.note(port.source, |_| shed);
        }
        self.poller.served(port.source, done, more, now);
    }

    /// Does at most `limit` frames' work of a port; says how many there were.
    fn device_work(&mut self, port: Port, limit: usize, now: Instant) -> usize {
        match port.side {
            Side::Receive(queue) => {
                if self.config.listen_only {
                    let seen = self.look_in(port, queue, limit, now);
                    if seen > 0 {
                        return seen;
                    }
                }
                for taken in 0..limit {
                    if taken > 0 && self.stops(port) {
                        return taken;
                    }
                    if !self.take_in(port, queue, now) {
                        return taken;
                    }
                }
                limit
            }
            Side::Transmit => self.reclaim_output(port.interface, limit),
        }
    }

    /// Whether what was taken has filled a queue, so that no more is to be taken.
    fn stops(&self, port: Port) -> bool {
        self.poller.stops(port.source) && !self.unlimited.contains(port.source)
    }

    /// Takes a frame from a ring, and does what is to be done about it; false if there was none.
    fn take_in(&mut self, port: Port, queue: usize, now: Instant) -> bool {
        let Some(interface) = self.interfaces.get_mut(usize::from(port.interface.0)) else { return false };
        let Some(frame) = interface.queue_mut(queue).take(&mut self.pool) else { return false };
        self.count_received(port.interface, 1);
        self.work.add(Work::Receive);
        if !self.captures.is_empty() {
            self.sight_received(port.interface, &frame, Sources::one(port.source), now);
        }
        self.after_device(port, frame, now);
        true
    }

    /// Shows at most `limit` frames of a ring to the packet monitors where they lie, and drops them: all there is to do for a host that only
    /// listens. Says how many there were; none, also, if the ring shows nothing.
    fn look_in(&mut self, port: Port, queue: usize, limit: usize, now: Instant) -> usize {
        let fed_by = Sources::one(port.source);
        let held_back = fed_by.without(self.unlimited);
        let (interfaces, mut monitors) = self.monitors();
        let Some(interface) = interfaces.get_mut(usize::from(port.interface.0)) else { return 0 };
        let seen = interface.queue_mut(queue).look(limit, &mut |bytes, note| {
            monitors.work.add(Work::Receive);
            let sighting = Sighting { interface: port.interface, at: now, sent: false, bytes, note };
            monitors.see(&sighting, fed_by);
            held_back.is_empty() || !monitors.poller.stops(port.source)
        });
        self.count_received(port.interface, seen as u64);
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
        if self.ip_queue.len() >= self.config.ip_queue_pkts {
            self.drop_input(frame, QueueDrop::IpQueue);
        } else {
            self.ip_queue.push_back((port.interface, frame));
        }
        let fed_by = self.config.scope(Sources::one(port.source));
        self.poller.enqueued(QueueId::IpQueue, &mut self.ip_queue_gate, self.ip_queue.len(), fed_by, now);
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
        } else if channel.is_some() && channel == self.forward_channel && self.screen_is_full() {
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
        let Some(channel) = self.channels.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return self.drop_input(frame, UdpDrop::NoSocket);
        };
        self.work.add(Work::Enqueue);
        let feed = channel.feed;
        if let Some(SegmentKind::Connection(connection)) = feed
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
            Ok(arrival) if let Some(feed) = feed => {
                self.count_held(feed);
                if arrival.first {
                    self.activate(id, feed);
                }
            }
            Ok(arrival) => {
                if arrival.first {
                    self.list(id);
                }
                if arrival.interrupt {
                    self.wake_receivers(id);
                }
            }
            Err(frame) => self.drop_input(frame, QueueDrop::Channel),
        }
    }

    /// Puts a channel on the list that the idle level works through.
    pub(super) fn list(&mut self, id: ChannelId) {
        if self.daemon(id).is_some() {
            return;
        }
        if let Some(channel) = self.channel_mut(id)
            && !core::mem::replace(&mut channel.listed, true)
        {
            self.active.push_back(id);
        }
    }

    pub(super) fn wake_receivers(&mut self, id: ChannelId) {
        if self.is_screened(id) {
            // Whoever screens looks into the channel before it sleeps.
            return self.screen.into_iter().for_each(|screen| self.ready.raise(screen, Ready::READABLE));
        }
        if let Some(daemon) = self.daemon(id) {
            return self.ready.wake_process(daemon);
        }
        let channel = self.channels.get(id.0 as usize).and_then(Option::as_ref);
        for &member in channel.map_or(&[][..], |channel| &channel.members) {
            self.ready.raise(member, Ready::READABLE);
        }
    }

    /// Whether a channel on an interface interrupts.
    pub(crate) fn has_channel_interrupt(&self) -> bool {
        !self.rung.is_empty()
            || self.plan.device == DeviceWork::None
                && self.interfaces.iter().any(|interface| interface.channel_interrupts())
    }

    /// The next channel that interrupts; interfaces take turns.
    fn next_channel_interrupt(&mut self) -> Option<ChannelId> {
        if let Some(id) = self.rung.pop_front() {
            return Some(id);
        }
        let interfaces = self.interfaces.len();
        for _ in 0..interfaces {
            let next = self.next_interface_served % interfaces;
            self.next_interface_served = next + 1;
            let interrupt = self.interfaces.get_mut(next)?.demultiplexer().and_then(|d| d.interrupt());
            if interrupt.is_some() {
                return interrupt;
            }
        }
        None
    }

    /// The interrupt of a channel on an interface: wakes its receiver, nothing more.
    pub(crate) fn channel_interrupt(&mut self) {
        self.work.add(Work::Interrupt);
        let Some(id) = self.next_channel_interrupt() else { return };
        if let Some(feed) = self.channel(id).and_then(|channel| channel.feed) {
            return self.activate(id, feed);
        }
        self.disarmed.push(id);
        self.list(id);
        self.wake_receivers(id);
    }
}
