//! Units of device work: interrupts, the polling thread, demultiplexing into channels.

use super::state::Net;
use crate::capture::Tapped;
use crate::channel::{Arrival, SegmentKind, Verdict, Waiting};
use crate::demux::{Class, LastClass};
use crate::drop::{QueueDrop, Reason, TcpDrop, UdpDrop};
use crate::frame::{Frame, Metadata, Pool};
use crate::id::{ChannelId, ProcessId, QueueId};
use crate::interface::{Burst, Frames, RxQueue, Seen, see_then_take};
use crate::link::{Port, Side, Taken};
use crate::plain::Plain;
use crate::poll::{SourceId, Sources};
use crate::ready::Kinds;
use crate::receive::{AfterDevice, DeviceWork};
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
        Some((source, spent, full.and_then(|id| self.receiver(id))))
    }

    /// Returns the process that receives from a channel; of several, the first.
    fn receiver(&self, id: ChannelId) -> Option<ProcessId> {
        let channel = self.channel(id)?;
        if let Some(segments_for) = channel.segments_for {
            return self.owner_for(segments_for);
        }
        let member = channel.members.first().and_then(|&member| self.descriptor(member)?.owner());
        member.or_else(|| self.channels.daemons().reader(id))
    }

    /// Does device work of a port for at most `limit` frames. Returns how many there were.
    fn device_work(&mut self, port: Port, limit: usize, now: Instant) -> Taken {
        match port.side {
            Side::Receive(queue) => self.receive_from(port, queue, limit, now),
            Side::Transmit => {
                let (links, mut cx) = self.links(now);
                Taken { done: links.reclaim(port.interface, limit, &mut cx), discarded: 0, full: None }
            }
        }
    }

    /// Takes at most `limit` frames from a ring and processes each. Stops after a frame that fills a queue
    /// for which the ring is paused. Returns how many frames there were.
    fn receive_from(&mut self, port: Port, queue: usize, limit: usize, now: Instant) -> Taken {
        let Some(mut interface) = self.links.lend(port.interface) else {
            return Taken { done: 0, discarded: 0, full: None };
        };
        let mut burst = DeviceBurst::new(self, port, interface.queue(queue), now);
        let done = interface.queue_mut(queue).receive(limit, &mut burst);
        let DeviceBurst { separates, demultiplexed, taken, discarded, full, last, generation, .. } = burst;
        let stops = separates && self.poller.stops(port.source);
        if let Some(carried) = self.links.carried(port) {
            carried.keep_class(last, generation);
            if separates {
                carried.taken(interface.queue(queue).pending() == 0, discarded > 0, now);
            }
            if stops {
                carried.held_back(interface.queue(queue).missed_by_now());
            }
        }
        self.links.put_back(port.interface, interface);
        self.links.count_received(port.interface, done as u64, &mut self.ledger);
        self.ledger.drop_input(QueueDrop::Channel, u64::from(discarded));
        self.work.add_times(Work::Receive, done as u32);
        self.work.add_times(Work::Demultiplex, demultiplexed);
        self.work.add_times(Work::Enqueue, taken + discarded);
        Taken { done, discarded: (demultiplexed - taken) as usize, full }
    }

    pub(super) fn after_device(&mut self, port: Port, frame: Frame, now: Instant) {
        match port.plan.then {
            AfterDevice::IpQueue => self.enqueue_ip(port, frame, now),
            AfterDevice::DemultiplexThenIpQueue => self.demultiplex_then_enqueue(port, frame, now),
            AfterDevice::Input => {
                self.input(port.interface, frame, Sources::one(port.source), now);
            }
            // It was demultiplexed where it lay, and found no channel.
            AfterDevice::Channel => self.drop_input(frame, UdpDrop::NoSocket),
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

    /// Returns the channel that a frame leads to, or the reason why it has none.
    #[inline]
    fn channel_of(&mut self, bytes: &[u8], plain: Option<Plain>, now: Instant) -> Result<ChannelId, Reason> {
        if let Some(plain) = plain {
            if let Some(id) = self.table.classify_plain(bytes, plain) {
                return Ok(id);
            }
            if let Some((tuple, flags)) = self.table.plain_segment(bytes, plain) {
                return self.plain_segment_channel(&tuple, flags, now).ok_or(TcpDrop::NoSocket.into());
            }
        }
        match self.table.classify(bytes) {
            Class::Channel(id) => Ok(id),
            Class::FirstFragment(id, key) => {
                self.table.note_fragment(key, id);
                Ok(id)
            }
            Class::Segment { tuple, opens, .. } => {
                self.segment_channel(&tuple, opens).ok_or(TcpDrop::NoSocket.into())
            }
            Class::Discard(reason) => Err(reason),
        }
    }

    /// Decides whether the channel of a frame has room for it. If not, the channel counts the frame as
    /// refused.
    #[inline(always)]
    fn offer(&mut self, id: ChannelId, fed_by: Sources, now: Instant) -> Offered {
        let Some(channel) = self.channels.get_mut(id) else { return Offered::NoChannel };
        match channel.segments_for {
            None if !channel.is_full() => Offered::Taken,
            None => {
                channel.refuse(1);
                let waiting = channel.queued();
                let stops =
                    self.poller.enqueued(QueueId::Channel(id), &mut channel.gate, waiting, fed_by, now);
                Offered::Discarded { stops }
            }
            Some(segments_for) => self.offer_segment(id, segments_for),
        }
    }

    /// Decides whether a channel of TCP has room for a segment. A full one pauses no ring.
    fn offer_segment(&mut self, id: ChannelId, segments_for: SegmentKind) -> Offered {
        let shared = self.segments_held_max();
        let Some(channel) = self.channels.get_mut(id) else { return Offered::NoChannel };
        let SegmentKind::Connection(connection) = segments_for else {
            if !channel.is_full() {
                return Offered::Taken;
            }
            channel.refuse(1);
            return Offered::Discarded { stops: false };
        };
        if !channel.is_full() && channel.queued() < shared {
            return Offered::Taken;
        }
        channel.refuse(1);
        if channel.is_empty() && !channel.listed {
            // It was taken for this frame.
            self.give_back(id, connection);
        }
        Offered::Discarded { stops: false }
    }

    /// Puts a frame into a channel, which has room for it. Returns whether the ring may be paused for that.
    #[inline(always)]
    fn put_into_channel(&mut self, id: ChannelId, waiting: Waiting, fed_by: Sources, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(id) else {
            self.drop_input(waiting.frame, UdpDrop::NoSocket);
            return false;
        };
        let arrival = channel.append(waiting);
        let queued = channel.queued();
        let stops = self.poller.enqueued(QueueId::Channel(id), &mut channel.gate, queued, fed_by, now);
        if arrival.first || arrival.interrupt {
            self.arrived(id, arrival);
        } else if let Some(segments_for) = channel.segments_for {
            self.count_held(segments_for);
        }
        stops
    }

    /// Acts on an arrival in a channel: activates or lists a channel that was empty before, and wakes a
    /// receiver that waits.
    fn arrived(&mut self, id: ChannelId, arrival: Arrival) {
        if let Some(segments_for) = self.channel(id).and_then(|channel| channel.segments_for) {
            self.count_held(segments_for);
            return if arrival.first {
                self.activate(id, segments_for)
            };
        }
        if arrival.first {
            self.channels.list(id);
            if self.channels.daemons().is_ahead(id) {
                self.ahead.expect();
            }
        }
        if arrival.interrupt {
            self.wake_receivers(id);
        }
    }

    pub(super) fn wake_receivers(&mut self, id: ChannelId) {
        if self.is_screened(id) {
            // Whoever screens looks into the channel before it sleeps.
            let screen = self.descriptors.screen_id().into_iter();
            return screen.for_each(|screen| self.ready.raise(screen, Kinds::READABLE));
        }
        if let Some(daemon) = self.channels.daemons().reader(id) {
            return self.ready.wake_process(daemon);
        }
        for &member in self.channels.get(id).map_or(&[][..], |channel| &channel.members) {
            self.ready.raise(member, Kinds::READABLE);
        }
    }

    /// Returns whether any channel, of the host or on an interface, interrupts.
    pub(crate) fn has_channel_interrupt(&self) -> bool {
        self.channels.has_interrupt() || self.links.has_channel_interrupt()
    }

    /// Handles the interrupt of a channel on an interface: wakes its receiver, nothing more.
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

/// Device work on a burst of frames from one ring.
struct DeviceBurst<'a> {
    net: &'a mut Net,
    port: Port,
    now: Instant,
    /// The sources to inhibit for a queue that frames of this ring fill, unless the ring also feeds other
    /// receivers.
    fed_by: Sources,
    /// Whether it matters if they do: discarding has a bound.
    separates: bool,
    /// Whether it matters now: more comes than a burst.
    is_flooded: bool,
    /// The sources to inhibit for the queue of the current frame.
    feeds: Sources,
    /// Whether anything may hold this ring back.
    is_limited: bool,
    is_watched: bool,
    /// Nothing is to be done with a frame but to demultiplex it.
    only_demultiplexes: bool,
    /// Of the demultiplexing table, which does not change meanwhile.
    generation: u32,
    /// The channel of the current frame, and its verdict if the frame is plain. `None` if it has no
    /// channel.
    to: Option<(ChannelId, Option<Verdict>)>,
    /// The class of the last frame, if it was a plain datagram.
    last: Option<LastClass>,
    /// Whether a frame of this burst has led there, so that `feeds` fits.
    is_noted: bool,
    demultiplexed: u32,
    /// Put into a channel.
    taken: u32,
    /// Found their channel full.
    discarded: u32,
    /// The last channel that was full.
    full: Option<ChannelId>,
}

impl<'a> DeviceBurst<'a> {
    fn new(net: &'a mut Net, port: Port, ring: &dyn RxQueue, now: Instant) -> Self {
        let fed_by = net.config.scope(Sources::one(port.source));
        // What interrupts discard nobody is charged for.
        let separates = port.plan.device == DeviceWork::Polled && net.config.separates();
        let generation = net.table.generation();
        let mut carried = net.links.carried(port);
        let last = carried.as_ref().and_then(|carried| carried.last_class(generation));
        let missed = || ring.missed_by_now();
        let is_flooded = separates && carried.as_mut().is_some_and(|it| it.is_flooded(now, missed));
        let is_limited = !net.links.held_back(port).is_empty();
        let is_watched = !net.descriptors.captures().is_empty();
        let only_demultiplexes = port.plan.is_lazy() && !is_watched && !net.config.listen_only;
        Self {
            net,
            port,
            now,
            fed_by,
            separates,
            is_flooded,
            feeds: fed_by,
            is_limited,
            is_watched,
            only_demultiplexes,
            generation,
            to: None,
            last,
            is_noted: false,
            demultiplexed: 0,
            taken: 0,
            discarded: 0,
            full: None,
        }
    }

    /// Returns whether the burst may go on with another frame.
    #[inline]
    fn goes_on(&self) -> bool {
        !self.is_limited || !self.net.poller.stops(self.port.source)
    }

    #[inline]
    fn discarded(&self) -> Seen {
        if self.goes_on() { Seen::Discard } else { Seen::DiscardLast }
    }

    /// Demultiplexes a frame in place, with early discard.
    #[inline]
    fn demultiplex(&mut self, bytes: &[u8]) -> Seen {
        self.demultiplexed += 1;
        if let Some((last, plain)) = self.last.and_then(|last| Some((last, last.next(bytes)?))) {
            if !self.is_noted {
                self.note(last.channel());
            }
            return self.offer(last.channel(), Some(plain));
        }
        let plain = Plain::of(bytes);
        match self.net.channel_of(bytes, plain, self.now) {
            Ok(id) => {
                self.last = plain.and_then(|plain| LastClass::of(bytes, plain, id));
                self.note(id);
                self.offer(id, plain)
            }
            Err(reason) => self.dropped(reason),
        }
    }

    /// Offers a frame to the channel that it leads to.
    #[inline(always)]
    fn offer(&mut self, id: ChannelId, plain: Option<Plain>) -> Seen {
        match self.net.offer(id, self.feeds, self.now) {
            Offered::Taken => {
                let generation = self.generation;
                self.to = Some((id, plain.map(|plain| Verdict { plain, generation })));
                Seen::Take
            }
            Offered::Discarded { stops } => {
                self.discarded += 1;
                self.full = Some(id);
                if stops || self.is_watched { self.discarded() } else { Seen::Discard }
            }
            Offered::NoChannel => self.dropped(UdpDrop::NoSocket.into()),
        }
    }

    /// Does what is to be done about a frame, and all that follow it to the same place, if that is where the
    /// last one went and it is the same for each: they are appended, or discarded, and the channel's gate has
    /// nothing to say. Counts them in `done`, and says which comes next.
    ///
    /// # Errors
    /// Gives the frame back for which there is more to be decided.
    #[inline(always)]
    fn take_run(
        &mut self,
        mut frame: Frame,
        frames: &mut Frames<'_>,
        spare: &mut Vec<Frame>,
        done: &mut usize,
    ) -> Result<Option<Frame>, Frame> {
        let Some(last) = self.last.filter(|_| self.only_demultiplexes) else { return Err(frame) };
        let Some(mut plain) = last.next(frame.bytes()) else { return Err(frame) };
        if !self.is_noted {
            self.note(last.channel());
        }
        let net = &mut *self.net;
        let Some(channel) = net.channels.get_mut(last.channel()) else { return Err(frame) };
        let silent_pkts = channel.gate.silent_pkts(self.feeds);
        let discards = channel.is_full() && channel.queued() < silent_pkts;
        let room = if discards { usize::MAX } else { channel.room(silent_pkts) };
        if room == 0 || net.poller.is_told_of_lengths() {
            return Err(frame);
        }
        let (interface, generation) = (self.port.interface, self.generation);
        let mut run = 0;
        let next = loop {
            run += 1;
            if discards {
                spare.push(frame);
            } else {
                let verdict = Some(Verdict { plain, generation });
                channel.append_uncounted(Waiting { frame, interface, verdict });
            }
            let Some(next) = frames.next() else { break None };
            match last.next(next.bytes()).filter(|_| run < room) {
                Some(found) => (frame, plain) = (next, found),
                None => break Some(next),
            }
        };
        *done += run - 1 + usize::from(next.is_some());
        self.demultiplexed += run as u32;
        if discards {
            channel.refuse(run);
            self.discarded += run as u32;
            self.full = Some(last.channel());
        } else {
            self.taken += run as u32;
            let arrival = channel.appended(run);
            if arrival.first || arrival.interrupt {
                net.arrived(last.channel(), arrival);
            }
        }
        Ok(next)
    }

    /// A frame leads to a channel, and it is not known yet whether others receive by this ring.
    #[inline]
    fn note(&mut self, id: ChannelId) {
        let carried = self.net.links.carried(self.port);
        let others_receive = carried.is_some_and(|carried| carried.note(id, self.now)) && self.is_flooded;
        self.feeds = if others_receive { Sources::NONE } else { self.fed_by };
        self.is_noted = true;
    }

    /// Counts a frame that leads to no channel.
    fn dropped(&mut self, reason: Reason) -> Seen {
        self.net.ledger.drop_input(reason, 1);
        if self.is_watched { self.discarded() } else { Seen::Discard }
    }
}

/// The outcome of offering a frame to its channel.
enum Offered {
    Taken,
    /// The channel is full. `stops` says whether the ring may be paused for it.
    Discarded {
        stops: bool,
    },
    NoChannel,
}

impl Burst for DeviceBurst<'_> {
    fn pool(&mut self) -> &mut Pool {
        &mut self.net.pool
    }

    fn records(&self) -> bool {
        self.is_watched
    }

    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen {
        if self.is_watched {
            let (at, interface) = (self.now, self.port.interface);
            let tapped = Tapped { interface, at, sent: false, bytes, metadata };
            self.net.monitors().see(&tapped, Sources::one(self.port.source));
        }
        if self.net.config.listen_only {
            self.net.ledger.consumed += 1;
            return self.discarded();
        }
        if self.port.plan.is_lazy() { self.demultiplex(bytes) } else { Seen::Take }
    }

    fn take(&mut self, frame: Frame) -> bool {
        match self.to.take() {
            Some((id, verdict)) => {
                let waiting = Waiting { frame, interface: self.port.interface, verdict };
                self.taken += 1;
                let stops = self.net.put_into_channel(id, waiting, self.feeds, self.now);
                !(stops || self.is_watched) || self.goes_on()
            }
            None => {
                self.net.after_device(self.port, frame, self.now);
                self.goes_on()
            }
        }
    }

    fn take_vector(&mut self, frames: &mut Frames<'_>, spare: &mut Vec<Frame>) -> usize {
        let mut next = frames.next();
        let mut done = usize::from(next.is_some());
        while let Some(frame) = next.take() {
            match self.take_run(frame, frames, spare, &mut done) {
                Ok(other) => next = other,
                Err(frame) => {
                    if !see_then_take(self, frame, spare) {
                        break;
                    }
                    next = frames.next();
                    done += usize::from(next.is_some());
                }
            }
        }
        done
    }
}
