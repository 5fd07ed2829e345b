//! The network adaptor in front of an end: steering or demultiplexing on the one side, the rings of its host
//! on the other.

use core::sync::atomic::Ordering;
use core::task::Waker;
use std::sync::{Arc, OnceLock, mpsc};

use rtrb::{Consumer, Producer, RingBuffer};

use super::armed::Armed;
use super::options::Options;
use super::ring::{RingConsumer, RingProducer, ring};
use super::transmit::{Completion, Left, TransmitRing};
use crate::demux::{Change, Class, DemuxTable, steering_hash};
use crate::frame::Pool;
use crate::id::ChannelId;
use crate::interface::{Arrived, Demultiplexer, Opened};

/// Channels that an adaptor which demultiplexes can have. Each rings its bell once per arming, so the bell
/// has room for all.
const CHANNELS_MAX: usize = 1 << 16;

/// A command from a host to the adaptor that demultiplexes for it.
#[derive(Debug)]
enum Command {
    Open(ChannelId, RingProducer),
    Watch(ChannelId, Arrived),
    Close(ChannelId),
    Update(Change),
}

/// The demultiplexer on the adaptor: its own copy of the host's table, and the rings of the host's channels.
#[derive(Debug)]
pub(super) struct Demux {
    table: DemuxTable,
    pub(super) channels: Vec<Option<RingProducer>>,
    control: mpsc::Receiver<Command>,
    doorbell: Producer<ChannelId>,
    pub(super) closed: Closed,
}

/// Counters of the channels that have been closed.
#[derive(Debug, Default)]
pub(super) struct Closed {
    pub(super) missed: u64,
    /// Frames that were in the ring of a channel when it was closed.
    pub(super) unread: u64,
}

impl Demux {
    pub(super) fn follow(&mut self) {
        while let Ok(command) = self.control.try_recv() {
            match command {
                Command::Open(ChannelId(id), inlet) => {
                    let index = id as usize;
                    if self.channels.len() <= index {
                        self.channels.resize_with(index + 1, || None);
                    }
                    self.channels[index] = Some(inlet);
                }
                Command::Watch(ChannelId(id), arrived) => {
                    if let Some(inlet) = self.channels.get_mut(id as usize).and_then(Option::as_mut) {
                        inlet.arrived = Some(arrived);
                    }
                }
                Command::Close(ChannelId(id)) => {
                    if let Some(inlet) = self.channels.get_mut(id as usize).and_then(Option::take) {
                        self.closed.missed += inlet.shared.missed.0.load(Ordering::Relaxed);
                        self.closed.unread += inlet.unread();
                    }
                }
                Command::Update(change) => self.table.apply(change),
            }
        }
    }

    fn channel(&mut self, bytes: &[u8]) -> Option<(u32, &mut RingProducer)> {
        let id = match self.table.classify(bytes) {
            Class::Channel(id) => id,
            Class::FirstFragment(id, key) => {
                self.table.record_fragment(key, id);
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
pub(super) struct Adaptor {
    pub(super) mtu: usize,
    pub(super) queues: Vec<RingProducer>,
    /// Rings that got frames since the doorbells were last rung; channels are counted after the queues.
    touched: Vec<u32>,
    pub(super) demultiplexer: Option<Demux>,
    waker: Arc<OnceLock<Waker>>,
    pub(super) discarded: u64,
    pub(super) accepted: u64,
    /// Frames from there that have left.
    left: Left,
}

impl Adaptor {
    pub(super) fn deliver(&mut self, bytes: &[u8]) -> bool {
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
        if let Some(arrived) = &inlet.arrived {
            arrived.set();
        }
        if accepted && !core::mem::replace(&mut inlet.touched, true) {
            self.touched.push(number);
        }
        accepted
    }

    /// Counts frames of the end behind this adaptor that have left, and wakes that end's host if it asked
    /// for interrupts.
    pub(super) fn complete(&self, count: u64) {
        self.left.0.fetch_add(count, Ordering::Release);
        Armed::published();
        // A host asks for the interrupts of all its rings when it halts; one whose adaptor demultiplexes asks
        // by channel.
        let asked =
            self.demultiplexer.is_some() | self.queues.iter().fold(false, |any, q| any | q.interrupt());
        if let (true, Some(waker)) = (asked, self.waker.get()) {
            waker.wake_by_ref();
        }
    }

    /// Raises the interrupts of rings that got frames and whose receiver asked for one.
    pub(super) fn ring_doorbells(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        Armed::published();
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
                    // A channel rings once per arming and the host arms only what it has answered, so there
                    // is room.
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
pub(super) struct Rings {
    pub(super) queues: Vec<RingConsumer>,
    pub(super) control: Option<Control>,
    pub(super) waker: Arc<OnceLock<Waker>>,
    pub(super) transmit: Option<TransmitRing>,
}

#[derive(Debug)]
pub(super) struct Control {
    control: mpsc::Sender<Command>,
    doorbell: Consumer<ChannelId>,
}

impl Control {
    fn tell(&mut self, command: Command) {
        // An adaptor whose other end is gone has nobody to hear of frames from.
        let _ = self.control.send(command);
    }
}

impl Demultiplexer for Control {
    fn open(&mut self, channel: ChannelId, capacity_pkts: usize, pool: &mut Pool) -> Opened {
        if channel.0 as usize >= CHANNELS_MAX {
            return Opened::Refused;
        }
        let (inlet, mut outlet) = ring(capacity_pkts);
        outlet.refill(pool);
        self.tell(Command::Open(channel, inlet));
        Opened::Own(Box::new(outlet))
    }

    fn watch(&mut self, channel: ChannelId, arrived: Arrived) {
        self.tell(Command::Watch(channel, arrived));
    }

    fn close(&mut self, channel: ChannelId) {
        self.tell(Command::Close(channel));
    }

    fn update(&mut self, change: Change) {
        self.tell(Command::Update(change));
    }

    fn has_interrupt(&self) -> bool {
        !self.doorbell.is_empty()
    }

    fn interrupt(&mut self) -> Option<ChannelId> {
        self.doorbell.pop().ok()
    }
}

pub(super) fn adaptor(options: &Options) -> (Adaptor, Rings) {
    let waker = Arc::new(OnceLock::new());
    let (outside, inside): (Vec<_>, Vec<_>) =
        (0..options.queues.max(1)).map(|_| ring(options.ring_pkts)).unzip();
    let (demultiplexer, control) = if options.demultiplexes {
        // Commands are few and none may be lost; frames are many and never allocate.
        let (send, receive) = mpsc::channel();
        let (ring, doorbell) = RingBuffer::new(CHANNELS_MAX);
        let table = Demux {
            // Both ends of a cable are ours, so nobody on it is to be kept from guessing.
            table: DemuxTable::new(0),
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
