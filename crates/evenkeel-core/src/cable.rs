//! The cable: an in-memory Ethernet between two ends, each with a network adaptor in front of it.
//!
//! ```text
//!        end A                                end B
//!   ┌──────────────┐                    ┌──────────────┐
//!   │ transmit ────┼── copies into ────▶│ receive rings│──▶ host B takes frames, and gives
//!   │              │   B's own buffers  │ (or channels)│    empty buffers back for refill
//!   └──────────────┘                    └──────────────┘
//! ```
//!
//! The copy is the wire. It is made by whoever sends, as an adaptor's DMA would, into buffers that the receiving host has provided, so the
//! receiver's memory is its own and a frame that finds no room is shed without the receiver's doing anything.
//! The adaptor steers each flow to one of its receive rings by a hash of the destination (receive-side scaling), or, opened with
//! [`Options::demultiplexes`], to the ring of its channel: what `ni-lrp` asks of an adaptor.
//!
//! A frame has left its sender at once, unless the sender's adaptor was opened with [`Completion::ByPeer`]: then it occupies a descriptor of
//! the transmit ring until the other end, which knows when the wire was free, says that it has left, and the host has reclaimed it.
//!
//! The two ends may live on two threads. Rings have a single producer and a single consumer, and no locks.

mod bundle;
mod transmit;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use core::task::Waker;
use std::sync::{Arc, OnceLock, mpsc};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::demux::{Change, Class, Table, steering_hash};
use crate::frame::{Frame, HEADROOM, Pool, PoolLimit};
use crate::id::ChannelId;
use crate::interface::{Demultiplexer, Interface, RxQueue};
use crate::wire::EthernetAddress;

pub use bundle::{Bundle, bundle};
pub use transmit::Completion;
use transmit::{Left, TransmitRing};

/// Channels that an adaptor which demultiplexes can have. Each rings its bell once per arming, so the bell has room for all.
const CHANNELS_MAX: usize = 1 << 16;

/// Most buffers a receive ring gives back at a time.
const REFILL_BATCH_MAX: usize = 32;

/// One end of a cable.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name in reports.
    pub name: String,
    /// Hardware address.
    pub address: EthernetAddress,
    /// Largest IP packet in octets. Default 1500.
    pub mtu: usize,
    /// Receive rings. Default 1.
    pub queues: usize,
    /// Frames each receive ring holds. Default 256.
    pub ring_pkts: usize,
    /// Whether the adaptor demultiplexes to channels. Default false.
    pub demultiplexes: bool,
    /// When its frames have left. Default at once.
    pub completion: Completion,
    /// Descriptors of its transmit ring, with [`Completion::ByPeer`]. Default 256.
    pub transmit_ring_pkts: usize,
}

impl Options {
    /// The defaults, with a locally administered address made from `number`.
    #[must_use]
    pub fn new(name: &str, number: u8) -> Self {
        Self {
            name: name.to_owned(),
            address: EthernetAddress([0x02, 0, 0, 0, 0, number]),
            mtu: 1500,
            queues: 1,
            ring_pkts: 256,
            demultiplexes: false,
            completion: Completion::AtOnce,
            transmit_ring_pkts: 256,
        }
    }
}

/// What became of the frames sent towards one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Put into a ring, and taken from it or still there.
    pub accepted: u64,
    /// Shed because the ring was full, or left in a channel's ring when that was closed.
    pub shed: u64,
    /// Classified by the adaptor as nobody's.
    pub discarded: u64,
}

/// A new cable with its two ends.
#[must_use]
pub fn pair(a: Options, b: Options) -> (End, End) {
    let (into_a, rings_a) = adaptor(&a);
    let (into_b, rings_b) = adaptor(&b);
    (End::new(a, rings_a, into_b), End::new(b, rings_b, into_a))
}

fn adaptor(options: &Options) -> (Adaptor, Rings) {
    let waker = Arc::new(OnceLock::new());
    let (outside, inside): (Vec<_>, Vec<_>) =
        (0..options.queues.max(1)).map(|_| ring(options.ring_pkts)).unzip();
    let (demultiplexer, control) = if options.demultiplexes {
        // Commands are few and none may be lost; frames are many and never allocate.
        let (send, receive) = mpsc::channel();
        let (ring, doorbell) = RingBuffer::new(CHANNELS_MAX);
        let table = Demux {
            // Both ends of a cable are ours, so nobody on it is to be kept from guessing.
            table: Table::new(0),
            channels: Vec::new(),
            control: receive,
            doorbell: ring,
            closed: Closed::default(),
        };
        (Some(table), Some(Control { control: send, doorbell }))
    } else {
        (None, None)
    };
    let left = Left::default();
    let transmit = (options.completion == Completion::ByPeer)
        .then(|| TransmitRing::new(options.transmit_ring_pkts, Arc::clone(&left)));
    let adaptor = Adaptor {
        mtu: options.mtu,
        queues: outside,
        touched: Vec::new(),
        demultiplexer,
        waker: Arc::clone(&waker),
        discarded: 0,
        accepted: 0,
        left,
    };
    (adaptor, Rings { queues: inside, control, waker, transmit })
}

/// What the two halves of a ring share besides frames.
///
/// Each field has cache lines of its own: the sender counts what it sheds millions of times a second, and must not take from the
/// host's core a line that the host needs.
#[derive(Debug, Default)]
struct Shared {
    armed: OwnLine<AtomicBool>,
    shed: OwnLine<AtomicU64>,
}

/// Two lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

/// The sender's half of a receive ring.
#[derive(Debug)]
struct Inlet {
    ring: Producer<Frame>,
    fill: Consumer<Frame>,
    shared: Arc<Shared>,
    touched: bool,
}

/// The host's half of a receive ring.
#[derive(Debug)]
struct Outlet {
    ring: Consumer<Frame>,
    fill: Producer<Frame>,
    shared: Arc<Shared>,
    /// Frames whose headers are coming over, or have.
    fetched: usize,
    /// Buffers not given back yet.
    missing: usize,
    /// How many are given back at a time. Each time costs a cache line that the sender's core has, so it pays to do it seldom.
    refill_batch: usize,
}

fn ring(pkts: usize) -> (Inlet, Outlet) {
    let (frames_in, frames_out) = RingBuffer::new(pkts);
    let (fill_in, fill_out) = RingBuffer::new(pkts);
    let shared = Arc::new(Shared::default());
    (
        Inlet { ring: frames_in, fill: fill_out, shared: Arc::clone(&shared), touched: false },
        Outlet {
            ring: frames_out,
            fill: fill_in,
            shared,
            fetched: 0,
            missing: pkts,
            refill_batch: (pkts / 4).clamp(1, REFILL_BATCH_MAX),
        },
    )
}

impl Inlet {
    /// Copies a frame into one of the receiver's buffers. Returns whether there was one.
    fn put(&mut self, bytes: &[u8]) -> bool {
        let Ok(mut frame) = self.fill.pop() else {
            // Only this side writes the counter.
            self.shared.shed.0.store(self.shared.shed.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return false;
        };
        // A frame too long for a buffer arrives as an empty one, and is dropped as truncated.
        if frame.set(HEADROOM, bytes.len()) {
            frame.bytes_mut().copy_from_slice(bytes);
        }
        self.ring.push(frame).is_ok()
    }

    /// Frames in the ring.
    fn unread(&self) -> u64 {
        (self.ring.buffer().capacity() - self.ring.slots()) as u64
    }

    /// Whether the receiver asked for an interrupt, and frames are there. Clears the request. To be called after a fence.
    fn interrupt(&self) -> bool {
        self.shared.armed.0.load(Ordering::Relaxed) && self.shared.armed.0.swap(false, Ordering::Relaxed)
    }
}

impl Outlet {
    /// Gives the adaptor buffers for those that have come up as frames: all that are missing, or as many as `pool` has.
    fn refill(&mut self, pool: &mut Pool) {
        let give = self.missing.min(pool.available());
        // There is room: the ring and its buffers are as many as this ring is long.
        if let Ok(chunk) = self.fill.write_chunk_uninit(give) {
            self.missing -= chunk.fill_from_iter(core::iter::from_fn(|| pool.take()));
        }
    }
}

/// Frames whose headers are fetched at a time: a processor waits for no more lines at once.
const FETCH_PKTS: usize = 8;
/// Where the second of the cache lines that hold a frame's headers has begun: those of Ethernet, IPv4 and TCP with timestamps are 66 octets.
const HEADERS: usize = 64;

/// Loads octets of frames that the other core has written, and does nothing with them: their cache lines come over side by side, instead of one after the
/// other as each frame is handled.
fn begin_to_fetch(frames: &[Frame]) {
    for frame in frames {
        let bytes = frame.bytes();
        core::hint::black_box((bytes.first().copied(), bytes.get(HEADERS).copied()));
    }
}

impl RxQueue for Outlet {
    fn pending(&self) -> usize {
        self.ring.slots()
    }

    fn take(&mut self, pool: &mut Pool) -> Option<Frame> {
        if self.fetched == 0 {
            self.fetched = self.ring.slots().min(FETCH_PKTS);
            let chunk = self.ring.read_chunk(self.fetched).ok()?;
            let (first, wrapped) = chunk.as_slices();
            begin_to_fetch(first);
            begin_to_fetch(wrapped);
        }
        let frame = self.ring.pop().ok()?;
        // One that has come since is not among those fetched.
        self.fetched = self.fetched.saturating_sub(1);
        self.missing += 1;
        if self.missing >= self.refill_batch {
            self.refill(pool);
        }
        Some(frame)
    }

    fn arm(&mut self) -> bool {
        self.shared.armed.0.store(true, Ordering::Relaxed);
        // Pairs with the fence of `Adaptor::ring_doorbells`: either this side sees the frame or the other sees the flag.
        fence(Ordering::SeqCst);
        let waiting = !self.ring.is_empty();
        if waiting {
            self.shared.armed.0.store(false, Ordering::Relaxed);
        }
        waiting
    }

    fn shed(&self) -> u64 {
        self.shared.shed.0.load(Ordering::Relaxed)
    }
}

/// What a host tells the adaptor that demultiplexes for it.
#[derive(Debug)]
enum Command {
    Open(ChannelId, Inlet),
    Close(ChannelId),
    Update(Change),
}

/// The demultiplexer on the adaptor: its own copy of the host's table, and the rings of the host's channels.
#[derive(Debug)]
struct Demux {
    table: Table,
    channels: Vec<Option<Inlet>>,
    control: mpsc::Receiver<Command>,
    doorbell: Producer<ChannelId>,
    closed: Closed,
}

/// What is known of channels that are no more.
#[derive(Debug, Default)]
struct Closed {
    shed: u64,
    /// Put into the ring, but closed before the host took them.
    unread: u64,
}

impl Demux {
    fn follow(&mut self) {
        while let Ok(command) = self.control.try_recv() {
            match command {
                Command::Open(ChannelId(id), inlet) => {
                    let index = id as usize;
                    if self.channels.len() <= index {
                        self.channels.resize_with(index + 1, || None);
                    }
                    self.channels[index] = Some(inlet);
                }
                Command::Close(ChannelId(id)) => {
                    if let Some(inlet) = self.channels.get_mut(id as usize).and_then(Option::take) {
                        self.closed.shed += inlet.shared.shed.0.load(Ordering::Relaxed);
                        self.closed.unread += inlet.unread();
                    }
                }
                Command::Update(change) => self.table.apply(change),
            }
        }
    }

    fn channel(&mut self, bytes: &[u8]) -> Option<(u32, &mut Inlet)> {
        let id = match self.table.classify(bytes) {
            Class::Channel(id) => id,
            Class::FirstFragment(id, key) => {
                self.table.note_fragment(key, id);
                id
            }
            Class::Segment { channel, .. } => channel?,
            Class::Discard(_) => return None,
        };
        Some((id.0, self.channels.get_mut(id.0 as usize)?.as_mut()?))
    }
}

/// The adaptor in front of an end, as seen from the other end: frames are put in here.
#[derive(Debug)]
struct Adaptor {
    mtu: usize,
    queues: Vec<Inlet>,
    /// Rings that got frames since the doorbells were last rung; channels are counted after the queues.
    touched: Vec<u32>,
    demultiplexer: Option<Demux>,
    waker: Arc<OnceLock<Waker>>,
    discarded: u64,
    accepted: u64,
    /// Frames from there that have left.
    left: Left,
}

impl Adaptor {
    fn deliver(&mut self, bytes: &[u8]) -> bool {
        let (number, inlet) = if let Some(demultiplexer) = &mut self.demultiplexer {
            let Some((id, inlet)) = demultiplexer.channel(bytes) else {
                self.discarded += 1;
                return false;
            };
            (id, inlet)
        } else {
            let queues = self.queues.len();
            let queue = if queues == 1 { 0 } else { steering_hash(bytes) as usize % queues };
            match self.queues.get_mut(queue) {
                Some(inlet) => (queue as u32, inlet),
                None => return false,
            }
        };
        let accepted = inlet.put(bytes);
        self.accepted += u64::from(accepted);
        if accepted && !core::mem::replace(&mut inlet.touched, true) {
            self.touched.push(number);
        }
        accepted
    }

    /// Frames of the end behind this adaptor have left: wakes its host if that asked for interrupts.
    fn complete(&self, count: u64) {
        self.left.0.fetch_add(count, Ordering::Release);
        fence(Ordering::SeqCst);
        // A host asks for the interrupts of all its rings when it halts; one whose adaptor demultiplexes asks by channel.
        let asked =
            self.demultiplexer.is_some() | self.queues.iter().fold(false, |any, q| any | q.interrupt());
        if let (true, Some(waker)) = (asked, self.waker.get()) {
            waker.wake_by_ref();
        }
    }

    /// Raises the interrupts of rings that got frames and whose receiver asked for one.
    fn ring_doorbells(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        fence(Ordering::SeqCst);
        let mut wake = false;
        for number in self.touched.drain(..) {
            let inlet = match &mut self.demultiplexer {
                Some(demultiplexer) => {
                    demultiplexer.channels.get_mut(number as usize).and_then(Option::as_mut)
                }
                None => self.queues.get_mut(number as usize),
            };
            let Some(inlet) = inlet else { continue };
            inlet.touched = false;
            if inlet.interrupt() {
                wake = true;
                if let Some(demultiplexer) = &mut self.demultiplexer {
                    // A channel rings once per arming and the host arms only what it has answered, so there is room.
                    let _ = demultiplexer.doorbell.push(ChannelId(number));
                }
            }
        }
        if let (true, Some(waker)) = (wake, self.waker.get()) {
            waker.wake_by_ref();
        }
    }
}

/// The host's side of its adaptor.
#[derive(Debug)]
struct Rings {
    queues: Vec<Outlet>,
    control: Option<Control>,
    waker: Arc<OnceLock<Waker>>,
    transmit: Option<TransmitRing>,
}

#[derive(Debug)]
struct Control {
    control: mpsc::Sender<Command>,
    doorbell: Consumer<ChannelId>,
}

/// One end of a cable. A host takes it as an interface, or a load generator and a simulator use it directly.
#[derive(Debug)]
pub struct End {
    options: Options,
    rings: Rings,
    peer: Adaptor,
}

impl End {
    fn new(options: Options, rings: Rings, peer: Adaptor) -> Self {
        Self { options, rings, peer }
    }

    /// Sends one frame, from the Ethernet header on. Returns whether the other end had room for it.
    ///
    /// The other end is woken, if it asked to be, by [`Interface::flush`].
    pub fn send(&mut self, frame: &[u8]) -> bool {
        if let Some(demultiplexer) = &mut self.peer.demultiplexer {
            demultiplexer.follow();
        }
        if frame.len() > self.peer.mtu + 18 {
            self.peer.discarded += 1;
            return false;
        }
        self.peer.deliver(frame)
    }

    /// Says that `count` further frames that were received here have left the other end, if that was opened with [`Completion::ByPeer`].
    /// Its host is woken to reclaim them if it halts.
    pub fn complete(&mut self, count: u64) {
        self.peer.complete(count);
    }

    /// Who is woken when a frame arrives at an armed ring. Can be set once.
    pub fn set_waker(&self, waker: Waker) {
        let _ = self.rings.waker.set(waker);
    }

    /// What became of the frames sent from this end.
    #[must_use]
    pub fn sent(&self) -> WireCounters {
        let queues = self.peer.queues.iter();
        let channels = self.peer.demultiplexer.iter().flat_map(|d| d.channels.iter().flatten());
        let shed: u64 = queues.chain(channels).map(|inlet| inlet.shared.shed.0.load(Ordering::Relaxed)).sum();
        let closed = self.peer.demultiplexer.as_ref().map_or((0, 0), |d| (d.closed.shed, d.closed.unread));
        WireCounters {
            accepted: self.peer.accepted - closed.1,
            shed: shed + closed.0 + closed.1,
            discarded: self.peer.discarded,
        }
    }

    /// The ring of the other end that a frame would be steered to, if that end does not demultiplex.
    #[must_use]
    pub fn steers_to(&self, frame: &[u8]) -> usize {
        steering_hash(frame) as usize % self.peer.queues.len().max(1)
    }
}

impl Interface for End {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn address(&self) -> EthernetAddress {
        self.options.address
    }

    fn mtu(&self) -> usize {
        self.options.mtu
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        if let Some(ring) = &self.rings.transmit {
            ring.attach(pool)?;
        }
        if self.rings.control.is_some() {
            return Ok(());
        }
        for queue in &mut self.rings.queues {
            pool.grow(queue.missing)?;
            queue.refill(pool);
        }
        Ok(())
    }

    fn queues(&self) -> usize {
        self.rings.queues.len()
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        let last = self.rings.queues.len() - 1;
        &self.rings.queues[index.min(last)]
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        let last = self.rings.queues.len() - 1;
        &mut self.rings.queues[index.min(last)]
    }

    fn transmit(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), Frame> {
        if self.rings.transmit.as_ref().is_some_and(TransmitRing::is_full) {
            return Err(frame);
        }
        // What the other end has no room for is lost on the wire, and counted there.
        let arrived = self.send(frame.bytes());
        match &mut self.rings.transmit {
            Some(ring) => {
                ring.push(frame);
                if !arrived {
                    ring.lost();
                }
            }
            None => pool.recycle(frame),
        }
        Ok(())
    }

    fn reports_sent(&self) -> bool {
        self.rings.transmit.is_some()
    }

    fn unreclaimed(&self) -> usize {
        self.rings.transmit.as_ref().map_or(0, TransmitRing::unreclaimed)
    }

    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        self.rings.transmit.as_mut().map_or(0, |ring| ring.reclaim(pool, limit_pkts))
    }

    fn flush(&mut self) {
        self.peer.ring_doorbells();
    }

    fn channel_interrupts(&self) -> bool {
        self.rings.control.as_ref().is_some_and(|control| !control.doorbell.is_empty())
    }

    fn demultiplexer(&mut self) -> Option<&mut dyn Demultiplexer> {
        Some(self.rings.control.as_mut()?)
    }
}

impl Control {
    fn tell(&mut self, command: Command) {
        // An adaptor whose other end is gone has nobody to hear of frames from.
        let _ = self.control.send(command);
    }
}

impl Demultiplexer for Control {
    fn open(
        &mut self,
        channel: ChannelId,
        capacity_pkts: usize,
        pool: &mut Pool,
    ) -> Option<Box<dyn RxQueue>> {
        if channel.0 as usize >= CHANNELS_MAX {
            return None;
        }
        let (inlet, mut outlet) = ring(capacity_pkts);
        outlet.refill(pool);
        self.tell(Command::Open(channel, inlet));
        Some(Box::new(outlet))
    }

    fn close(&mut self, channel: ChannelId) {
        self.tell(Command::Close(channel));
    }

    fn update(&mut self, change: Change) {
        self.tell(Command::Update(change));
    }

    fn interrupt(&mut self) -> Option<ChannelId> {
        self.doorbell.pop().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame_to(port: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[37] = port;
        frame
    }

    #[test]
    fn frames_cross_and_a_full_ring_sheds() {
        let (mut a, mut b) = pair(Options::new("a", 1), Options { ring_pkts: 4, ..Options::new("b", 2) });
        let mut pool = Pool::with_limit(16);
        b.attach(&mut pool).unwrap();
        assert_eq!((0..6).filter(|_| a.send(&frame_to(7))).count(), 4);
        assert_eq!(a.sent(), WireCounters { accepted: 4, shed: 2, discarded: 0 });
        assert_eq!(b.queue(0).shed(), 2);
        let frame = b.queue_mut(0).take(&mut pool).unwrap();
        assert_eq!(frame.bytes(), frame_to(7));
        assert!(!a.send(&frame_to(7)), "the buffer has not come back");
        pool.recycle(frame);
        assert!(b.queue_mut(0).take(&mut pool).is_some());
        assert!(a.send(&frame_to(7)), "now it has");
    }

    #[test]
    fn a_flow_keeps_to_its_ring() {
        let (a, _b) = pair(Options::new("a", 1), Options { queues: 4, ..Options::new("b", 2) });
        assert_eq!(a.steers_to(&frame_to(7)), a.steers_to(&frame_to(7)));
        let used: std::collections::BTreeSet<_> = (0..32).map(|port| a.steers_to(&frame_to(port))).collect();
        assert_eq!(used.len(), 4, "32 ports spread over 4 rings");
    }

    #[test]
    fn a_descriptor_is_in_use_until_the_frame_has_left_and_is_reclaimed() {
        let by_peer =
            Options { completion: Completion::ByPeer, transmit_ring_pkts: 2, ..Options::new("a", 1) };
        let (mut a, mut b) = pair(by_peer, Options { ring_pkts: 3, ..Options::new("b", 2) });
        let (mut pool, mut far) = (Pool::with_limit(300), Pool::with_limit(8));
        a.attach(&mut pool).unwrap();
        b.attach(&mut far).unwrap();
        pool.grow(1).unwrap();
        let free = pool.available();
        let send = |a: &mut End, pool: &mut Pool| {
            let frame = pool.take_copy(&frame_to(7)).unwrap();
            a.transmit(frame, pool).map_err(|frame| pool.recycle(frame)).is_ok()
        };
        assert!(a.reports_sent() && !b.reports_sent());
        assert!(send(&mut a, &mut pool) && send(&mut a, &mut pool));
        assert!(!send(&mut a, &mut pool), "both descriptors are in use");
        assert_eq!((a.unreclaimed(), a.reclaim(&mut pool, 8)), (0, 0), "nothing has left");
        b.complete(1);
        assert_eq!(a.unreclaimed(), 1);
        assert!(!send(&mut a, &mut pool), "left, but not reclaimed");
        assert_eq!(a.reclaim(&mut pool, 8), 1);
        assert!(send(&mut a, &mut pool));
        b.complete(2);
        assert_eq!(a.reclaim(&mut pool, 1), 1, "no more than the limit");
        assert_eq!(a.reclaim(&mut pool, 8), 1);
        assert_eq!(pool.available(), free);
        assert!(send(&mut a, &mut pool));
        assert_eq!(
            a.unreclaimed(),
            1,
            "the other end had no room: lost on the wire, of which nobody will tell"
        );
    }

    #[test]
    fn a_host_that_halts_is_woken_when_a_frame_has_left() {
        #[derive(Default)]
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let woken = Arc::new(Count::default());
        let (mut a, mut b) =
            pair(Options { completion: Completion::ByPeer, ..Options::new("a", 1) }, Options::new("b", 2));
        a.set_waker(Waker::from(Arc::clone(&woken)));
        b.complete(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "it did not ask");
        assert!(!a.queue_mut(0).arm());
        b.complete(1);
        b.complete(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "once for each time it asked");
    }

    #[test]
    fn an_armed_ring_interrupts_once() {
        let (mut a, mut b) = pair(Options::new("a", 1), Options::new("b", 2));
        let mut pool = Pool::with_limit(256);
        b.attach(&mut pool).unwrap();
        assert!(!b.queue_mut(0).arm());
        a.send(&frame_to(7));
        a.flush();
        assert!(!b.rings.queues[0].shared.armed.0.load(Ordering::Relaxed));
        assert!(b.queue_mut(0).arm(), "a frame waits, so arming says so");
    }
}
