//! Device work on a burst of frames from one ring: demultiplexing where they lie, with early discard.

use super::sockets::SocketFloor;
use super::state::{Arrived, Receive};
use crate::capture::Tapped;
use crate::channel::{Arrival, Channel, SegmentKind, Verdict, Waiting};
use crate::context::Cx;
use crate::demux::LastClass;
use crate::drop::{QueueDrop, Reason, UdpDrop};
use crate::frame::{Frame, Metadata, Pool};
use crate::id::{ChannelId, QueueId};
use crate::interface::{Burst, Frames, RxQueue, Seen, see_then_take};
use crate::link::{Port, RingTraffic, Taken};
use crate::plain::Plain;
use crate::poll::Sources;
use crate::receive::AfterDevice;
use crate::work::Work;

/// The number of excess frames that a burst discards for each frame that it may take. To discard one costs
/// about an eighth of taking it, so no burst lasts longer for that.
const EXCESS_TIMES: usize = 8;

/// Returns the number of excess frames that a burst of at most `limit` frames discards. A burst of one frame
/// is one frame: the driver of the papers.
const fn excess_limit(limit: usize) -> usize {
    if limit > 1 { limit.saturating_mul(EXCESS_TIMES) } else { limit }
}

/// The choices that hold for all frames of a burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BurstPolicy {
    pub(crate) port: Port,
    /// The sources to pause for a queue that frames of this ring fill, unless the ring also feeds other
    /// receivers.
    pub(crate) sources: Sources,
    /// Whether other receivers of the ring are spared: discarding has a bound.
    pub(crate) per_channel_feedback: bool,
    /// Whether feedback or a limit may pause this ring.
    pub(crate) is_limited: bool,
    /// Whether nothing is done with a frame but to show it to the packet monitors.
    pub(crate) listen_only: bool,
}

impl BurstPolicy {
    /// Returns whether what becomes of the frames of a burst may pause the ring, but is known only after it.
    pub(crate) fn is_notified_late(&self) -> bool {
        let hands_over =
            matches!(self.port.plan.after_device, AfterDevice::Input | AfterDevice::DemultiplexThenIpQueue);
        hands_over && self.is_limited
    }
}

impl Receive {
    /// Takes at most `limit` frames from a ring and processes each as far as its channel, the shared IP
    /// queue, or [`Handover`](super::Handover). Stops after a frame that fills a queue for which the ring
    /// is paused.
    pub(crate) fn take_burst(
        &mut self,
        ring: &mut dyn RxQueue,
        traffic: &mut RingTraffic,
        sockets: impl SocketFloor,
        policy: BurstPolicy,
        limit: usize,
        cx: Cx<'_>,
    ) -> Taken {
        let generation = self.table.generation();
        let is_flooded = policy.per_channel_feedback && traffic.is_flooded(cx.now, || ring.missed_by_now());
        let is_watched = sockets.is_watched();
        let mut burst = DeviceBurst {
            only_demultiplexes: policy.port.plan.is_lazy() && !is_watched && !policy.listen_only,
            last: traffic.last_class(generation),
            rx: self,
            traffic,
            sockets,
            policy,
            cx,
            is_flooded,
            is_watched,
            feeds: None,
            generation,
            to: None,
            demultiplexed: 0,
            stored: 0,
            discarded: 0,
            full: None,
            excess_left: excess_limit(limit),
        };
        let done = ring.receive(limit, &mut burst);
        burst.finish(done, ring)
    }
}

/// Device work on a burst of frames from one ring.
struct DeviceBurst<'a, S> {
    rx: &'a mut Receive,
    traffic: &'a mut RingTraffic,
    sockets: S,
    cx: Cx<'a>,
    policy: BurstPolicy,
    /// Whether more comes by this ring than a burst, so that other receivers of it are spared.
    is_flooded: bool,
    is_watched: bool,
    /// Whether nothing is to be done with a frame but to demultiplex it.
    only_demultiplexes: bool,
    /// The sources that the channel of the last frame pauses when it is full. `None` until a frame has led to
    /// a channel.
    feeds: Option<Sources>,
    /// The generation of the demultiplexing table, which does not change meanwhile.
    generation: u32,
    /// The class of the last frame, if it was a plain datagram.
    last: Option<LastClass>,
    /// The channel of the current frame, and its verdict if the frame is plain. `None` if it has no
    /// channel.
    to: Option<(ChannelId, Option<Verdict>)>,
    demultiplexed: u32,
    /// Frames that were put into a channel.
    stored: u32,
    /// Frames that found their channel full.
    discarded: u32,
    /// The last channel that was full.
    full: Option<ChannelId>,
    /// The number of excess frames that may still be discarded. At 0, the burst wants no more frames.
    excess_left: usize,
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

impl<S: SocketFloor> DeviceBurst<'_, S> {
    /// Counts the frames of the burst, and records in the ring's traffic what its next burst must know.
    fn finish(self, done: usize, ring: &dyn RxQueue) -> Taken {
        let Self { rx, traffic, cx, policy, .. } = self;
        if let Some(id) = self.full.filter(|_| !self.is_watched) {
            rx.channels.get_mut(id).into_iter().for_each(Channel::limit);
        }
        traffic.keep_class(self.last, self.generation);
        if policy.per_channel_feedback {
            traffic.taken(ring.pending() == 0, self.discarded > 0, cx.now);
            if cx.poller.stops(policy.port.source) {
                traffic.throttled(ring.missed_by_now());
            }
        }
        cx.ledger.drop_input(QueueDrop::Channel, u64::from(self.discarded));
        cx.work.add_times(Work::Receive, done as u32);
        cx.work.add_times(Work::Demultiplex, self.demultiplexed);
        cx.work.add_times(Work::Enqueue, self.stored + self.discarded);
        Taken { done, discarded: (self.demultiplexed - self.stored) as usize, full: self.full }
    }

    /// Returns whether the burst may go on with another frame.
    #[inline]
    fn goes_on(&self) -> bool {
        !self.policy.is_limited || !self.cx.poller.stops(self.policy.port.source)
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
            let feeds = self.feeds_of_last(last);
            return self.offer(last.channel(), Some(plain), feeds);
        }
        let plain = Plain::of(bytes);
        match self.rx.channel_of(bytes, plain, &mut self.sockets, self.cx.now) {
            Ok(id) => {
                self.last = plain.and_then(|plain| self.rx.table.last_class(bytes, plain, id));
                let feeds = self.feed(id);
                self.offer(id, plain, feeds)
            }
            Err(reason) => self.dropped(reason),
        }
    }

    /// Offers a frame to the channel that it leads to.
    #[inline(always)]
    fn offer(&mut self, id: ChannelId, plain: Option<Plain>, feeds: Sources) -> Seen {
        match self.room_in(id, feeds) {
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

    /// Decides whether a channel has room for one more frame. If not, the channel counts the frame as
    /// refused. A full channel of TCP pauses no ring.
    #[inline(always)]
    fn room_in(&mut self, id: ChannelId, feeds: Sources) -> Offered {
        let Some(channel) = self.rx.channels.get_mut(id) else { return Offered::NoChannel };
        match channel.segments_for {
            None if !channel.is_full() => Offered::Taken,
            None => {
                channel.refuse(1);
                let (queue, waiting) = (QueueId::Channel(id), channel.queued());
                let stops = self.cx.poller.enqueued(queue, &mut channel.gate, waiting, feeds, self.cx.now);
                Offered::Discarded { stops }
            }
            Some(segments_for) => {
                match self.sockets.has_room_for_segment(id, segments_for, &mut self.rx.channels) {
                    true => Offered::Taken,
                    false => Offered::Discarded { stops: false },
                }
            }
        }
    }

    /// Puts a frame into its channel, which has room for it. Returns whether the ring may be paused for that.
    #[inline(always)]
    fn store(&mut self, id: ChannelId, frame: Frame, verdict: Option<Verdict>) -> bool {
        let feeds = self.feeds.unwrap_or(self.policy.sources);
        let Some(channel) = self.rx.channels.get_mut(id) else {
            self.drop_frame(frame);
            return false;
        };
        self.stored += 1;
        let waiting = Waiting { frame, interface: self.policy.port.interface, verdict };
        let arrival = channel.append(waiting);
        let (queue, queued) = (QueueId::Channel(id), channel.queued());
        let stops = self.cx.poller.enqueued(queue, &mut channel.gate, queued, feeds, self.cx.now);
        match channel.segments_for {
            Some(segments_for) => self.arrived_segment(id, segments_for, arrival),
            None if arrival.first || arrival.interrupt => self.rx.arrived(id, arrival),
            None => {}
        }
        stops
    }

    fn arrived_segment(&mut self, id: ChannelId, segments_for: SegmentKind, arrival: Arrival) {
        self.sockets.count_held(segments_for);
        if arrival.first {
            self.rx.handover.arrived.push_back(Arrived::Activate(id, segments_for));
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
        let feeds = self.feeds_of_last(last);
        let Some(channel) = self.rx.channels.get_mut(last.channel()) else { return Err(frame) };
        let watermark_pkts = channel.gate.watermark_pkts(feeds);
        let discards = channel.is_full() && channel.queued() < watermark_pkts;
        let room = if discards { usize::MAX } else { channel.room(watermark_pkts) };
        if room == 0 || self.cx.poller.uses_lengths() {
            return Err(frame);
        }
        let (interface, generation) = (self.policy.port.interface, self.generation);
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
            self.stored += run as u32;
            let arrival = channel.appended(run);
            if arrival.first || arrival.interrupt {
                self.rx.arrived(last.channel(), arrival);
            }
        }
        Ok(next)
    }

    /// Returns the class of a frame, if the frame is the excess of a full channel that pauses no ring.
    /// Records the class as that of the last frame.
    #[inline]
    fn excess_class(&mut self, frame: &[u8]) -> Option<LastClass> {
        let class = match self.last.filter(|last| last.is_of(frame)) {
            Some(last) => last,
            None => self.class_of_datagram(frame)?,
        };
        let feeds = self.feeds_of_last(class);
        let channel = self.rx.channels.get(class.channel())?;
        let is_excess = channel.is_full() && channel.queued() < channel.gate.watermark_pkts(feeds);
        is_excess.then_some(class)
    }

    /// Looks up the class of a plain datagram, and records it as that of the last frame.
    fn class_of_datagram(&mut self, frame: &[u8]) -> Option<LastClass> {
        let plain = Plain::of(frame)?;
        let id = self.rx.table.classify_plain(frame, plain)?;
        self.last = Some(self.rx.table.last_class(frame, plain, id)?);
        self.feed(id);
        self.last
    }

    /// Counts frames that found their channel full.
    fn refused(&mut self, id: ChannelId, frames: usize) {
        if let Some(channel) = self.rx.channels.get_mut(id) {
            channel.refuse(frames);
        }
        self.demultiplexed += frames as u32;
        self.discarded += frames as u32;
        self.full = Some(id);
    }

    /// Returns the sources that the channel of the last frame pauses, when another frame leads there.
    #[inline(always)]
    fn feeds_of_last(&mut self, last: LastClass) -> Sources {
        match self.feeds {
            Some(feeds) => feeds,
            None => self.feed(last.channel()),
        }
    }

    /// Records that a frame leads to a channel. Returns the sources which that pauses when it is full: none
    /// if the ring is flooded and others receive by it.
    #[inline]
    fn feed(&mut self, id: ChannelId) -> Sources {
        let others_receive = self.traffic.note(id, self.cx.now) && self.is_flooded;
        let feeds = if others_receive { Sources::NONE } else { self.policy.sources };
        self.feeds = Some(feeds);
        feeds
    }

    /// Counts a frame that leads to no channel.
    fn dropped(&mut self, reason: Reason) -> Seen {
        self.cx.ledger.drop_input(reason, 1);
        if self.is_watched { self.discarded() } else { Seen::Discard }
    }

    /// Passes a frame on that is not demultiplexed where it lies. Returns whether another one is wanted.
    fn pass_on(&mut self, frame: Frame) -> bool {
        let port = self.policy.port;
        match port.plan.after_device {
            AfterDevice::IpQueue => {
                self.rx.enqueue_ip(port.interface, frame, self.policy.sources, &mut self.cx);
                self.goes_on()
            }
            AfterDevice::Input | AfterDevice::DemultiplexThenIpQueue => {
                self.rx.handover.frames.push_back(frame);
                true
            }
            // It was demultiplexed where it lay, and found no channel.
            AfterDevice::Channel => {
                self.drop_frame(frame);
                self.goes_on()
            }
        }
    }

    #[cold]
    fn drop_frame(&mut self, frame: Frame) {
        self.cx.ledger.drop_input(UdpDrop::NoSocket, 1);
        self.cx.pool.recycle(frame);
    }
}

impl Receive {
    /// Acts on an arrival in a channel of datagrams or of a daemon: lists a channel that was empty for the
    /// idle level, and hands over that a receiver waits for it.
    fn arrived(&mut self, id: ChannelId, arrival: Arrival) {
        if arrival.first {
            self.channels.list(id);
            if self.channels.daemons().is_ahead(id) {
                self.ahead.expect();
            }
        }
        if arrival.interrupt {
            self.handover.arrived.push_back(Arrived::Wake(id));
        }
    }
}

impl<S: SocketFloor> Burst for DeviceBurst<'_, S> {
    fn pool(&mut self) -> &mut Pool {
        self.cx.pool
    }

    fn records(&self) -> bool {
        self.is_watched
    }

    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen {
        if self.is_watched {
            let (at, interface) = (self.cx.now, self.policy.port.interface);
            let tapped = Tapped { interface, at, sent: false, bytes, metadata };
            self.sockets.watch(&tapped, self.policy.sources, &mut self.cx);
        }
        if self.policy.listen_only {
            self.cx.ledger.consumed += 1;
            return self.discarded();
        }
        if self.policy.port.plan.is_lazy() { self.demultiplex(bytes) } else { Seen::Take }
    }

    fn take(&mut self, frame: Frame) -> bool {
        match self.to.take() {
            Some((id, verdict)) => {
                let stops = self.store(id, frame, verdict);
                !(stops || self.is_watched) || self.goes_on()
            }
            None => self.pass_on(frame),
        }
    }

    fn discard_excess(&mut self, frames: &[Frame]) -> usize {
        if !self.only_demultiplexes || self.cx.poller.uses_lengths() {
            return 0;
        }
        let shown = frames.get(..self.excess_left).unwrap_or(frames);
        let mut rest = shown;
        while let Some(class) = rest.first().and_then(|frame| self.excess_class(frame.bytes())) {
            let run = class.run_of(rest);
            self.refused(class.channel(), run);
            self.excess_left -= run;
            rest = &rest[run..];
        }
        shown.len() - rest.len()
    }

    fn take_vector(&mut self, frames: &mut Frames<'_>, spare: &mut Vec<Frame>) -> usize {
        if self.excess_left == 0 {
            return 0;
        }
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
