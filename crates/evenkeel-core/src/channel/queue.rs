//! One channel: a queue in the host's memory, and rings on interfaces.

use std::collections::VecDeque;

use super::allowances::{Allowances, Fill};
use crate::frame::{Frame, Metadata, Pool};
use crate::id::{InterfaceId, SocketId};
use crate::interface::{Burst, RxQueue, Seen};
use crate::plain::Plain;
use crate::poll::Gate;
use crate::refuser::Allowance;
use crate::tcp::table::Id;
use crate::time::Instant;

/// The segments that a channel of TCP holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// SYNs for a listener.
    Syns(SocketId),
    /// All other segments for the port of a listener.
    Handshakes(SocketId),
    /// A connection.
    Connection(Id),
    /// All connections in TIME-WAIT.
    TimeWait,
}

/// The states of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The channel is empty, and no receiver waits: an arrival is stored without further action.
    Quiet,
    /// Empty, and a receiver sleeps: the next arrival raises one interrupt.
    Armed,
    /// Holds frames.
    Nonempty,
    /// Holds as many frames as it may: arrivals are discarded and counted.
    Full,
}

/// The actions that the arrival of a frame asks of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The channel was armed: wake its receiver. The channel is no longer armed.
    pub interrupt: bool,
    /// Whether the channel was empty before.
    pub first: bool,
}

/// Counters of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Frames that came for this channel.
    pub arrived: u64,
    /// Frames discarded because it was full.
    pub discarded: u64,
    /// Most frames it ever held.
    pub high_water_pkts: usize,
}

/// A frame that waits, and what the demultiplexing function has found out about it.
#[derive(Debug)]
pub struct Waiting {
    /// The frame, from the Ethernet header on.
    pub frame: Frame,
    /// By which interface it came.
    pub interface: InterfaceId,
    pub(crate) verdict: Option<Verdict>,
}

impl Waiting {
    /// Returns the offsets and lengths of a plain UDP datagram. The result is `None` for any other frame,
    /// and for one that a demultiplexing table of another `generation` led here.
    #[inline]
    pub(crate) fn plain_datagram(&self, generation: u32) -> Option<Plain> {
        let Verdict { plain, generation: found } = self.verdict?;
        (plain.is_udp() && found == generation).then_some(plain)
    }
}

/// The result of demultiplexing a plain frame, which saves protocol input from parsing it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    pub(crate) plain: Plain,
    /// Of the demultiplexing table that led it here.
    pub(crate) generation: u32,
}

/// Frames on their way from a ring on an interface to the channel's queue.
struct Drawn<'a, V> {
    pool: &'a mut Pool,
    queue: &'a mut VecDeque<Waiting>,
    interface: InterfaceId,
    verdict: V,
}

impl<V: FnMut(&[u8]) -> Option<Verdict>> Burst for Drawn<'_, V> {
    fn pool(&mut self) -> &mut Pool {
        self.pool
    }

    fn records(&self) -> bool {
        false
    }

    fn see(&mut self, _bytes: &[u8], _metadata: &Metadata) -> Seen {
        Seen::Take
    }

    fn take(&mut self, frame: Frame) -> bool {
        let verdict = (self.verdict)(frame.bytes());
        self.queue.push_back(Waiting { frame, interface: self.interface, verdict });
        true
    }
}

/// A bounded queue of received frames, not yet processed by any protocol.
#[derive(Debug)]
pub struct Channel {
    queue: VecDeque<Waiting>,
    capacity_pkts: usize,
    armed: bool,
    /// The capacity of each of the channel's rings on interfaces, in frames. 0 if it has no rings.
    ring_pkts: usize,
    /// Whether the buffers of its queue are reserved apart, to several together.
    reserved_apart: bool,
    /// Rings of this channel on interfaces that demultiplex themselves.
    rings: Vec<(InterfaceId, Box<dyn RxQueue>)>,
    next_ring: usize,
    /// The frames that interfaces may still put into the rings that channels share, if they refuse others.
    allowances: Allowances,
    counters: ChannelCounters,
    /// Feedback to the polling thread.
    pub(crate) gate: Gate,
    /// The sockets that receive from it: one, or the members of a multicast group.
    pub(crate) members: Vec<SocketId>,
    /// Whether it stands in the host's list of channels with work for the idle level.
    pub(crate) listed: bool,
    /// The number of times that all its segments have been processed, modulo 2^32. An entry in a list of
    /// channels that has another number is out of date.
    pub(crate) turn: u32,
    /// The SYNs that interfaces have answered with cookies, as far as the listener knows.
    answered_syns: u64,
    /// Of TCP: what it holds segments for.
    pub(crate) segments_for: Option<SegmentKind>,
}

impl Channel {
    /// Creates an empty, quiet channel that holds at most `capacity_pkts` frames. Allocates its queue here,
    /// never later.
    #[must_use]
    pub fn new(capacity_pkts: usize, gate: Gate) -> Self {
        Self {
            queue: VecDeque::with_capacity(capacity_pkts),
            capacity_pkts,
            armed: false,
            ring_pkts: capacity_pkts,
            reserved_apart: false,
            rings: Vec::new(),
            next_ring: 0,
            allowances: Allowances::default(),
            counters: ChannelCounters::default(),
            gate,
            members: Vec::new(),
            listed: false,
            turn: 0,
            answered_syns: 0,
            segments_for: None,
        }
    }

    /// Creates a channel whose queue grows as needed, up to `capacity_pkts` frames, and never shrinks; its
    /// buffers are reserved separately. The channel has rings of `ring_pkts` frames, or none if that is 0.
    /// It gives no feedback.
    pub(crate) fn growing(capacity_pkts: usize, ring_pkts: usize) -> Self {
        Self { capacity_pkts, ring_pkts, reserved_apart: true, ..Self::new(0, Gate::open()) }
    }

    /// Creates a channel without rings, whatever interfaces there are; its buffers are reserved separately.
    /// It gives no feedback.
    pub(crate) fn without_rings(capacity_pkts: usize) -> Self {
        Self { ring_pkts: 0, reserved_apart: true, ..Self::new(capacity_pkts, Gate::open()) }
    }

    /// Returns the capacity of each of the channel's rings on interfaces, in frames; 0 if it is to have
    /// none.
    pub(crate) const fn ring_pkts(&self) -> usize {
        self.ring_pkts
    }

    /// Buffers to be reserved for it: every ring has its own, and so has the queue in the host's memory if
    /// there is an interface that leaves demultiplexing to the host.
    pub(crate) const fn reserved_pkts(&self, (in_host, rings): (bool, usize)) -> usize {
        let queue_pkts = if in_host && !self.reserved_apart { self.capacity_pkts } else { 0 };
        queue_pkts + rings * self.ring_pkts
    }

    /// Counts frames that came and found no room, here or in what all channels share.
    pub(crate) const fn refuse(&mut self, frames: usize) {
        self.counters.arrived += frames as u64;
        self.counters.discarded += frames as u64;
    }

    /// Adds the channel's ring on an interface that demultiplexes.
    pub fn add_ring(&mut self, interface: InterfaceId, ring: Box<dyn RxQueue>) {
        self.rings.push((interface, ring));
    }

    /// Returns an iterator over the channel's rings on interfaces.
    pub(crate) fn rings(&self) -> impl Iterator<Item = (InterfaceId, &dyn RxQueue)> {
        self.rings.iter().map(|(interface, ring)| (*interface, &**ring))
    }

    /// Sets what an interface may put into its rings for the channel, in place of an earlier device's.
    pub(crate) fn set_allowance(&mut self, interface: InterfaceId, allowance: Option<Box<dyn Allowance>>) {
        self.allowances.put(interface, allowance);
    }

    /// Has interfaces refuse what comes for the channel, as that is full, until frames are taken from it.
    pub(crate) fn limit(&mut self) {
        self.allowances.limit(self.fill());
    }

    /// Has interfaces refuse nothing any more.
    pub(crate) fn lift_limit(&mut self) {
        self.allowances.lift();
    }

    /// Records that frames were taken from the queue. Returns whether input that is paused for the channel
    /// may resume.
    #[inline]
    pub(crate) fn dequeued(&mut self) -> bool {
        self.allowances.dequeued(self.fill());
        self.gate.on_dequeue(self.queue.len())
    }

    fn fill(&self) -> Fill {
        Fill { queued: self.queue.len(), capacity_pkts: self.capacity_pkts, arrived: self.counters.arrived }
    }

    /// Stores a frame that arrived, from the Ethernet header on. It is not copied. Never allocates.
    ///
    /// # Errors
    /// Gives the frame back if the channel is full; it has counted the discard, and the caller drops the
    /// frame. Device work decides this before it takes a frame (`rx/early_discard.rs`).
    pub fn push(&mut self, interface: InterfaceId, frame: Frame) -> Result<Arrival, Frame> {
        if self.is_full() {
            self.refuse(1);
            return Err(frame);
        }
        Ok(self.append(Waiting { frame, interface, verdict: None }))
    }

    /// Returns whether the queue holds as many frames as its capacity allows.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.capacity_pkts
    }

    /// Returns the number of frames that the channel has room for while it holds fewer than `pkts`.
    #[inline]
    pub(crate) fn room(&self, pkts: usize) -> usize {
        pkts.saturating_sub(1).min(self.capacity_pkts).saturating_sub(self.queue.len())
    }

    /// Stores a frame for which there is room.
    #[inline]
    pub(crate) fn append(&mut self, waiting: Waiting) -> Arrival {
        self.append_uncounted(waiting);
        self.appended(1)
    }

    /// Stores a frame without counting it. The caller counts several at once with `appended`.
    #[inline(always)]
    pub(crate) fn append_uncounted(&mut self, waiting: Waiting) {
        self.queue.push_back(waiting);
    }

    /// Counts frames that have been appended. Returns the actions that their arrival asks for.
    #[inline]
    pub(crate) fn appended(&mut self, frames: usize) -> Arrival {
        let queued = self.queue.len();
        self.counters.arrived += frames as u64;
        self.counters.high_water_pkts = self.counters.high_water_pkts.max(queued);
        Arrival { interrupt: core::mem::take(&mut self.armed), first: queued == frames }
    }

    /// Takes the oldest frame of the host's own queue.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.queue.pop_front()
    }

    /// Moves the oldest frames of a ring into the queue: at most `limit`, and at most as many as the queue
    /// may hold. Rings are served round robin. Each frame gets the result of `verdict`. Never allocates.
    ///
    /// Returns the interface of the ring and the number of frames, which have not been counted as received
    /// yet. The result is `None` if the queue is not empty, or no ring has a frame.
    pub(crate) fn draw(
        &mut self,
        limit: usize,
        pool: &mut Pool,
        mut verdict: impl FnMut(&[u8]) -> Option<Verdict>,
    ) -> Option<(InterfaceId, usize)> {
        if !self.queue.is_empty() {
            return None;
        }
        let limit = limit.min(self.capacity_pkts);
        for _ in 0..self.rings.len() {
            let (interface, ring) = self.rings.get_mut(self.next_ring)?;
            let (queue, interface) = (&mut self.queue, *interface);
            ring.receive(limit, &mut Drawn { pool: &mut *pool, queue, interface, verdict: &mut verdict });
            self.next_ring = (self.next_ring + 1) % self.rings.len();
            if !self.queue.is_empty() {
                return Some((interface, self.queue.len()));
            }
        }
        None
    }

    /// Returns an iterator over the frames of the queue, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.queue.iter()
    }

    /// Takes the oldest frame. Rings on interfaces are served round robin, after the host's own queue.
    ///
    /// The second part says whether the frame comes from an interface's ring, and so has not been counted as
    /// received yet.
    pub fn take(&mut self, pool: &mut Pool) -> Option<(Waiting, bool)> {
        if let Some(waiting) = self.queue.pop_front() {
            return Some((waiting, false));
        }
        for _ in 0..self.rings.len() {
            let (interface, ring) = self.rings.get_mut(self.next_ring)?;
            let waiting = |frame| Waiting { frame, interface: *interface, verdict: None };
            let taken = ring.take(pool).map(|frame| (waiting(frame), true));
            self.next_ring = (self.next_ring + 1) % self.rings.len();
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Asks for one interrupt at the next arrival. Returns whether frames wait already: tested after arming,
    /// so that an arrival in between is never missed.
    pub fn arm(&mut self) -> bool {
        self.armed = self.queue.is_empty();
        let waiting = self.rings.iter_mut().fold(false, |waiting, (_, ring)| ring.arm() || waiting);
        waiting || !self.queue.is_empty()
    }

    pub(crate) fn reopen(&mut self) -> bool {
        self.gate.reopen(self.queue.len())
    }

    /// Returns the number of frames that wait in the host's memory. Frames in interface rings belong to the
    /// interface until they are taken.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of frames that wait, in the host's memory or in rings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len() + self.rings.iter().map(|(_, ring)| ring.pending()).sum::<usize>()
    }

    /// Returns the number of frames that may wait: in its rings, or without rings in the host's memory.
    pub(crate) fn limit_pkts(&self) -> usize {
        if self.rings.is_empty() { self.capacity_pkts } else { self.rings.len() * self.ring_pkts }
    }

    /// Returns whether no frame waits, in the queue or in any ring on an interface.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.rings.iter().all(|(_, ring)| ring.pending() == 0)
    }

    /// Returns the number of frames that the channel's queue may hold.
    #[must_use]
    pub fn capacity_pkts(&self) -> usize {
        self.capacity_pkts
    }

    /// Returns the state of the channel: quiet, armed, nonempty or full.
    #[must_use]
    pub fn state(&self) -> State {
        match self.len() {
            0 if self.armed => State::Armed,
            0 => State::Quiet,
            n if n >= self.capacity_pkts => State::Full,
            _ => State::Nonempty,
        }
    }

    /// Returns the channel's counters, with the discards by interfaces included.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        let in_rings: u64 = self.rings.iter().map(|(_, ring)| ring.missed()).sum();
        let missed = in_rings + self.allowances.refused();
        ChannelCounters {
            arrived: self.counters.arrived + missed,
            discarded: self.counters.discarded + missed,
            ..self.counters
        }
    }

    /// Lets interfaces answer SYNs for the channel's rings with cookies, for some seconds after `now`, or no
    /// longer.
    pub(crate) fn answer_syns(&mut self, now: Option<Instant>) {
        self.rings.iter_mut().for_each(|(_, ring)| ring.answer_syns(now));
    }

    /// Lets interfaces drop segments for the channel's rings that bring no good cookie, for some seconds
    /// after `now`, or no longer.
    pub(crate) fn refuse_acks(&mut self, now: Option<Instant>) {
        self.rings.iter_mut().for_each(|(_, ring)| ring.refuse_acks(now));
    }

    /// Returns the number of SYNs that interfaces have answered since the last call.
    pub(crate) fn take_answered_syns(&mut self) -> u64 {
        let all = self.rings.iter().map(|(_, ring)| ring.answered_syns()).sum();
        all - core::mem::replace(&mut self.answered_syns, all)
    }

    /// Returns whether the channel has rings on interfaces.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        !self.rings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{Effort, Frames, RxCounters};

    const IF: InterfaceId = InterfaceId(0);

    fn channel(capacity: usize) -> (Channel, Pool) {
        (Channel::new(capacity, Gate::open()), Pool::new(8))
    }

    #[test]
    fn passes_through_its_four_states() {
        let (mut channel, mut pool) = channel(2);
        assert_eq!(channel.state(), State::Quiet);
        assert!(!channel.arm());
        assert_eq!(channel.state(), State::Armed);
        let arrival = channel.push(IF, pool.take().unwrap()).unwrap();
        assert_eq!(arrival, Arrival { interrupt: true, first: true });
        assert_eq!(channel.state(), State::Nonempty);
        let arrival = channel.push(IF, pool.take().unwrap()).unwrap();
        assert_eq!(arrival, Arrival { interrupt: false, first: false });
        assert_eq!(channel.state(), State::Full);
        assert!(channel.push(IF, pool.take().unwrap()).is_err());
        assert_eq!(channel.counters(), ChannelCounters { arrived: 3, discarded: 1, high_water_pkts: 2 });
    }

    #[test]
    fn arming_a_channel_with_frames_says_so_and_raises_nothing() {
        let (mut channel, mut pool) = channel(2);
        channel.push(IF, pool.take().unwrap()).unwrap();
        assert!(channel.arm());
        assert!(!channel.push(IF, pool.take().unwrap()).unwrap().interrupt);
    }

    #[test]
    fn several_frames_arrive_as_one_does() {
        let (mut channel, mut pool) = channel(4);
        channel.arm();
        for (frames, interrupt, first) in [(3, true, true), (1, false, false)] {
            for _ in 0..frames {
                let frame = pool.take().unwrap();
                channel.append_uncounted(Waiting { frame, interface: IF, verdict: None });
            }
            assert_eq!(channel.appended(frames), Arrival { interrupt, first });
            assert_eq!(channel.room(3), 0, "while it holds fewer than three");
        }
        assert!(channel.is_full() && channel.room(usize::MAX) == 0);
        channel.refuse(5);
        assert_eq!(channel.counters(), ChannelCounters { arrived: 9, discarded: 5, high_water_pkts: 4 });
        channel.take(&mut pool);
        channel.take(&mut pool);
        assert_eq!((channel.room(usize::MAX), channel.room(4), channel.room(3)), (2, 1, 0));
    }

    #[test]
    fn an_interrupt_is_raised_once() {
        let (mut channel, mut pool) = channel(4);
        channel.arm();
        assert!(channel.push(IF, pool.take().unwrap()).unwrap().interrupt);
        while channel.take(&mut pool).is_some() {}
        assert!(!channel.push(IF, pool.take().unwrap()).unwrap().interrupt);
    }

    /// A ring of an adaptor that has shed so many frames.
    #[derive(Debug)]
    struct Ring(u64);

    impl RxQueue for Ring {
        fn pending(&self) -> usize {
            0
        }

        fn receive(&mut self, _: usize, _: &mut dyn Burst) -> usize {
            0
        }

        fn arm(&mut self) -> bool {
            false
        }

        fn counters(&self, _: Effort) -> Option<RxCounters> {
            Some(RxCounters::missed(self.0))
        }
    }

    /// A ring with frames of an adaptor.
    #[derive(Debug)]
    struct Filled(VecDeque<Frame>);

    impl RxQueue for Filled {
        fn pending(&self) -> usize {
            self.0.len()
        }

        fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
            burst.take_vector(&mut Frames::first(&mut self.0, limit), &mut Vec::new())
        }

        fn arm(&mut self) -> bool {
            !self.0.is_empty()
        }

        fn counters(&self, _: Effort) -> Option<RxCounters> {
            Some(RxCounters::missed(0))
        }
    }

    #[test]
    fn frames_are_drawn_from_rings_in_turn_and_wait_in_order() {
        let (mut channel, mut pool) = (Channel::new(4, Gate::open()), Pool::new(16));
        let frame = |pool: &mut Pool, byte: u8| {
            let mut frame = pool.take().unwrap();
            assert!(frame.resize(1));
            frame.bytes_mut()[0] = byte;
            frame
        };
        for ring in [0, 10] {
            let frames = (ring..ring + 6).map(|byte| frame(&mut pool, byte)).collect();
            channel.add_ring(InterfaceId(ring), Box::new(Filled(frames)));
        }
        assert_eq!(channel.draw(2, &mut pool, |_| None), Some((InterfaceId(0), 2)));
        assert_eq!((channel.queued(), channel.len()), (2, 12));
        assert_eq!(channel.draw(2, &mut pool, |_| None), None, "frames wait already");
        let mut take = || channel.take(&mut pool).map(|(waiting, new)| (waiting.frame.bytes()[0], new));
        assert_eq!([take(), take()], [Some((0, false)), Some((1, false))]);
        assert_eq!(channel.draw(64, &mut pool, |_| None), Some((InterfaceId(10), 4)), "the capacity");
        while channel.pop().is_some() {}
        assert_eq!(channel.draw(64, &mut pool, |_| None), Some((InterfaceId(0), 4)));
        while channel.pop().is_some() {}
        assert_eq!(channel.draw(64, &mut pool, |_| None), Some((InterfaceId(10), 2)));
        while channel.pop().is_some() {}
        assert_eq!(channel.draw(64, &mut pool, |_| None), None);
    }

    #[test]
    fn what_its_rings_shed_arrived_and_was_discarded() {
        let (mut channel, mut pool) = channel(1);
        assert!(!channel.has_rings());
        channel.push(IF, pool.take().unwrap()).unwrap();
        channel.add_ring(IF, Box::new(Ring(3)));
        channel.add_ring(IF, Box::new(Ring(4)));
        assert!(channel.has_rings());
        assert_eq!(channel.counters(), ChannelCounters { arrived: 8, discarded: 7, high_water_pkts: 1 });
    }

    #[test]
    fn a_frame_that_others_left_no_room_for_arrived_and_was_discarded() {
        let mut channel = Channel::growing(4, 0);
        channel.refuse(1);
        assert_eq!(channel.counters(), ChannelCounters { arrived: 1, discarded: 1, high_water_pkts: 0 });
    }
}
