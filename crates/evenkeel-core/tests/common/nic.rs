//! A driver of an adaptor that demultiplexes, written on public traits only: it has buffers of its own, hands
//! frames over by the vector, and may have fewer rings than the host has channels.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use evenkeel_core::cable::End;
use evenkeel_core::demux::{Change, Class, DemuxTable};
use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::id::ChannelId;
use evenkeel_core::interface::{
    Arrived, Burst, Demultiplexer, Effort, Frames, Interface, Opened, Properties, RxCounters, RxQueue,
    TxQueue,
};
use evenkeel_core::time::Instant;

/// Frames that each ring holds.
pub(crate) const RING_PKTS: usize = 64;
/// Buffers of the adaptor's own.
pub(crate) const BUFFERS: usize = 512;

/// An event in the order in which the host brought it about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    /// A channel was opened, with a ring of its own or without.
    Open(ChannelId, bool),
    Close(ChannelId),
    Update(Change),
}

/// The adaptor, with the cable that it is connected to.
#[derive(Debug)]
pub(crate) struct Adaptor {
    wire: End,
    pub(crate) pool: Pool,
    /// `None` if it does not demultiplex: all frames go to the shared ring.
    table: Option<DemuxTable>,
    shared: Ring,
    rings: BTreeMap<ChannelId, Ring>,
    rings_max: usize,
    interrupts: VecDeque<ChannelId>,
    pub(crate) events: Vec<Event>,
    /// Whether frames reach the rings of channels just after a look that has found nothing there.
    pub(crate) late: bool,
}

#[derive(Debug, Default)]
struct Ring {
    frames: VecDeque<Frame>,
    /// Frames that come after the next look in vain.
    late: VecDeque<Frame>,
    armed: bool,
    arrived: Option<Arrived>,
    missed: u64,
    /// The host's time at which it last let the adaptor answer SYNs.
    answers: Option<Instant>,
    /// The host's time at which it last let the adaptor drop segments of no connection.
    refuses: Option<Instant>,
    /// SYNs that were answered.
    answered: u64,
}

impl Ring {
    /// Returns whether the frame is to raise an interrupt.
    fn put(&mut self, frame: Frame) -> bool {
        if self.frames.len() >= RING_PKTS {
            self.missed += 1;
            return false;
        }
        self.frames.push_back(frame);
        self.arrived.iter().for_each(Arrived::set);
        core::mem::take(&mut self.armed)
    }
}

impl Adaptor {
    /// Puts the frames that have come into the rings of their channels.
    fn demultiplex(&mut self) {
        while let Some(frame) = self.wire.queue_mut(0).take(&mut self.pool) {
            let Some(table) = &mut self.table else {
                self.shared.put(frame);
                continue;
            };
            let channel = match table.classify(frame.bytes()) {
                Class::Channel(id) => id,
                Class::FirstFragment(id, key) => {
                    table.record_fragment(key, id);
                    id
                }
                Class::Segment { channel: Some(id), .. } => id,
                Class::Segment { channel: None, .. } | Class::Discard(_) => continue,
            };
            // The interrupt of the shared ring is that of its host.
            if !self.rings.contains_key(&channel) {
                self.shared.put(frame);
            } else if let Some(ring) = self.rings.get_mut(&channel).filter(|_| self.late) {
                ring.late.push_back(frame);
            } else if self.rings.get_mut(&channel).is_some_and(|ring| ring.put(frame)) {
                self.interrupts.push_back(channel);
            }
        }
    }

    fn ring(&mut self, channel: Option<ChannelId>) -> Option<&mut Ring> {
        self.demultiplex();
        match channel {
            Some(id) => self.rings.get_mut(&id),
            None => Some(&mut self.shared),
        }
    }

    /// Returns when the host last let the adaptor answer the SYNs of a channel; `None` if it must not.
    pub(crate) fn answers(&self, channel: ChannelId) -> Option<Instant> {
        self.rings.get(&channel).unwrap().answers
    }

    /// Returns when the host last let the adaptor drop segments of no connection for a channel; `None` if it
    /// must not.
    pub(crate) fn refuses(&self, channel: ChannelId) -> Option<Instant> {
        self.rings.get(&channel).unwrap().refuses
    }

    /// Counts SYNs of a channel as answered.
    pub(crate) fn answer(&mut self, channel: ChannelId, syns: u64) {
        self.rings.get_mut(&channel).unwrap().answered += syns;
    }

    /// Puts what has come into rings. Returns the number of frames that wait there.
    pub(crate) fn looks(&mut self) -> usize {
        self.demultiplex();
        self.rings.values().map(|ring| ring.frames.len()).sum()
    }

    /// Returns the number of rings that channels have.
    pub(crate) fn rings(&self) -> usize {
        self.rings.len()
    }
}

/// A driver of an [`Adaptor`].
#[derive(Debug)]
pub(crate) struct Nic {
    properties: Properties,
    adaptor: Arc<Mutex<Adaptor>>,
    shared: NicRing,
}

impl Nic {
    /// Creates an adaptor at the end of a cable, of which so many channels can have a ring of their own.
    pub(crate) fn new(mut wire: End, rings_max: usize) -> Self {
        let mut pool = Pool::with_limit(BUFFERS);
        let properties = Properties { buffers: 0, ..wire.properties().clone() };
        wire.attach(&mut pool).unwrap();
        pool.grow(BUFFERS - RING_PKTS).unwrap();
        let adaptor = Adaptor {
            wire,
            pool,
            table: None,
            shared: Ring::default(),
            rings: BTreeMap::new(),
            rings_max,
            interrupts: VecDeque::new(),
            events: Vec::new(),
            late: false,
        };
        let adaptor = Arc::new(Mutex::new(adaptor));
        Self { properties, shared: NicRing::new(&adaptor, None), adaptor }
    }

    pub(crate) fn adaptor(&self) -> Arc<Mutex<Adaptor>> {
        Arc::clone(&self.adaptor)
    }
}

impl TxQueue for Nic {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let mut adaptor = self.adaptor.lock().unwrap();
        let count = frames.len();
        for frame in frames.drain(..) {
            adaptor.wire.send(frame.bytes());
            pool.recycle(frame);
        }
        count
    }
}

impl Interface for Nic {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        &self.shared
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        &mut self.shared
    }

    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        self.adaptor.lock().unwrap().table = Some(DemuxTable::new(0));
        Some(Box::new(NicDemultiplexer(self.adaptor())))
    }
}

/// A ring of the adaptor: that of a channel, or the shared one.
#[derive(Debug)]
struct NicRing {
    adaptor: Arc<Mutex<Adaptor>>,
    channel: Option<ChannelId>,
    /// Frames taken from the adaptor and not yet passed on, as its ring is not to be locked for long.
    taken: VecDeque<Frame>,
    spare: Vec<Frame>,
}

impl NicRing {
    fn new(adaptor: &Arc<Mutex<Adaptor>>, channel: Option<ChannelId>) -> Self {
        Self { adaptor: Arc::clone(adaptor), channel, taken: VecDeque::new(), spare: Vec::new() }
    }

    fn with<T: Default>(&self, ask: impl FnOnce(&mut Ring) -> T) -> T {
        self.adaptor.lock().unwrap().ring(self.channel).map(ask).unwrap_or_default()
    }
}

impl RxQueue for NicRing {
    fn pending(&self) -> usize {
        self.taken.len() + self.with(|ring| ring.frames.len())
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let more = self.with(|ring| core::mem::take(&mut ring.frames));
        if more.is_empty() && self.taken.is_empty() {
            self.with(|ring| core::mem::take(&mut ring.late).into_iter().for_each(|late| _ = ring.put(late)));
        }
        self.taken.extend(more);
        let done = burst.take_vector(&mut Frames::first(&mut self.taken, limit), &mut self.spare);
        let mut adaptor = self.adaptor.lock().unwrap();
        self.spare.drain(..).for_each(|frame| adaptor.pool.recycle(frame));
        done
    }

    fn arm(&mut self) -> bool {
        let waiting = self.with(|ring| {
            ring.armed = ring.frames.is_empty();
            !ring.armed
        });
        waiting || !self.taken.is_empty()
    }

    fn counters(&self, _effort: Effort) -> Option<RxCounters> {
        Some(RxCounters::missed(self.with(|ring| ring.missed)))
    }

    fn answer_syns(&mut self, now: Option<Instant>) {
        self.with(|ring| ring.answers = now);
    }

    fn refuse_acks(&mut self, now: Option<Instant>) {
        self.with(|ring| ring.refuses = now);
    }

    fn answered_syns(&self) -> u64 {
        self.with(|ring| ring.answered)
    }
}

/// The demultiplexer. Without it the adaptor does not demultiplex.
#[derive(Debug)]
struct NicDemultiplexer(Arc<Mutex<Adaptor>>);

impl NicDemultiplexer {
    fn adaptor(&self) -> MutexGuard<'_, Adaptor> {
        self.0.lock().unwrap()
    }
}

impl Drop for NicDemultiplexer {
    fn drop(&mut self) {
        self.adaptor().table = None;
    }
}

impl Demultiplexer for NicDemultiplexer {
    fn open(&mut self, channel: ChannelId, _capacity_pkts: usize, _pool: &mut Pool) -> Opened {
        let mut adaptor = self.adaptor();
        let has_ring = adaptor.rings.len() < adaptor.rings_max;
        adaptor.events.push(Event::Open(channel, has_ring));
        if !has_ring {
            return Opened::Shared;
        }
        adaptor.rings.insert(channel, Ring::default());
        drop(adaptor);
        Opened::Own(Box::new(NicRing::new(&self.0, Some(channel))))
    }

    fn watch(&mut self, channel: ChannelId, arrived: Arrived) {
        if let Some(ring) = self.adaptor().rings.get_mut(&channel) {
            ring.arrived = Some(arrived);
        }
    }

    fn close(&mut self, channel: ChannelId) {
        let mut adaptor = self.adaptor();
        adaptor.events.push(Event::Close(channel));
        adaptor.rings.remove(&channel);
    }

    fn update(&mut self, change: Change) {
        let mut adaptor = self.adaptor();
        adaptor.events.push(Event::Update(change));
        adaptor.table.iter_mut().for_each(|table| table.apply(change));
    }

    fn has_interrupt(&self) -> bool {
        let mut adaptor = self.adaptor();
        adaptor.demultiplex();
        !adaptor.interrupts.is_empty()
    }

    fn interrupt(&mut self) -> Option<ChannelId> {
        self.adaptor().interrupts.pop_front()
    }
}
