//! The rings of channels: which of them have one, and which of these interrupts.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::demux::Change;
use evenkeel_core::frame::Pool;
use evenkeel_core::id::ChannelId;
use evenkeel_core::interface::{Arrived, Burst, Demultiplexer, Effort, Opened, RxCounters, RxQueue};
use evenkeel_core::tcp::KnownEnds;
use evenkeel_core::time::Instant;
use rustix::event::epoll;

use super::marks::SLOTS;
use super::program::Program;
use super::queue::{Ahead, Queue, Received, SharedUmem};
use super::ring::Shared;
use super::socket::{DeviceQueue, open_further};
use super::umem::Awake;
use crate::error::LinkError;

/// The smallest and the largest ring of a channel, in frames on each queue of the device.
const RING_PKTS_MIN: usize = 64;
const RING_PKTS_MAX: usize = 1024;
/// A ring holds this many times the frames of the channel's queue, for the time when its receiver waits for
/// the core.
const TIMES: usize = 4;
/// Each new ring takes at most this part of the room that is left, so that there is some for later ones.
const PART: usize = 8;

/// A queue of the device, as further sockets need it.
#[derive(Debug, Clone)]
pub(super) struct OnQueue {
    pub(super) at: DeviceQueue,
    pub(super) first: Arc<OwnedFd>,
    pub(super) umem: SharedUmem,
}

/// The state that a channel's ring and the demultiplexer share.
#[derive(Debug)]
struct Bell {
    armed: AtomicBool,
    /// The number of bells that are armed.
    count: Arc<AtomicUsize>,
    /// The rings whose bells are not.
    awake: Awake,
    /// The frames that the ring of each queue may hold.
    ring_pkts: usize,
    /// The rings, each with its number of arrivals when the bell was armed.
    rings: Vec<(Arc<Shared>, AtomicU32)>,
}

impl Bell {
    fn new(
        rings: impl Iterator<Item = Arc<Shared>>,
        ring_pkts: usize,
        count: Arc<AtomicUsize>,
        awake: Awake,
    ) -> Self {
        let rings = rings.map(|ring| (ring, AtomicU32::new(0))).collect();
        awake.add(ring_pkts);
        Self { armed: AtomicBool::new(false), count, awake, ring_pkts, rings }
    }

    /// Asks for an interrupt at the next arrival. One that was asked for before stays due: a frame may have
    /// come since.
    fn arm(&self) {
        if self.armed.swap(true, Ordering::Relaxed) {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.awake.remove(self.ring_pkts);
        for (ring, seen) in &self.rings {
            seen.store(ring.arrivals(), Ordering::Relaxed);
        }
    }

    fn disarm(&self) {
        if self.armed.swap(false, Ordering::Relaxed) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.awake.add(self.ring_pkts);
        }
    }

    /// Returns whether a frame has come since the bell was armed.
    fn rings(&self) -> bool {
        let has_come =
            |(ring, seen): &(Arc<Shared>, AtomicU32)| ring.arrivals() != seen.load(Ordering::Relaxed);
        self.armed.load(Ordering::Relaxed) && self.rings.iter().any(has_come)
    }
}

/// A channel with rings of its own.
#[derive(Debug)]
struct Own {
    channel: ChannelId,
    slot: u32,
    bell: Arc<Bell>,
}

/// The demultiplexer of a device: the XDP program, and the rings of channels.
#[derive(Debug)]
pub(super) struct Rings {
    program: Arc<Mutex<Program>>,
    queues: Vec<OnQueue>,
    own: Vec<Own>,
    /// Frames that further rings of a queue may hold together.
    room_pkts: usize,
    armed: Arc<AtomicUsize>,
    awake: Awake,
    ahead: Ahead,
    completes: bool,
    /// Readable when a channel's ring has got frames while the host slept.
    events: Arc<OwnedFd>,
    begun: bool,
    next: usize,
}

impl Rings {
    pub(super) fn new(
        program: Arc<Mutex<Program>>,
        queues: Vec<OnQueue>,
        room_pkts: usize,
        awake: Awake,
        ahead: Ahead,
        completes: bool,
        events: Arc<OwnedFd>,
    ) -> Self {
        let (own, armed) = (Vec::new(), Arc::default());
        Self {
            program,
            queues,
            own,
            room_pkts,
            armed,
            awake,
            ahead,
            completes,
            events,
            begun: false,
            next: 0,
        }
    }

    fn with_program<T>(&self, call: impl FnOnce(&mut Program) -> T) -> T {
        call(&mut self.program.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the program demultiplex, as soon as the host makes use of that.
    fn begin(&mut self) {
        if !self.begun {
            // Otherwise everything goes to the shared ring, where the host demultiplexes it.
            self.begun = self.with_program(Program::demultiplex).is_ok();
        }
    }

    fn free_slot(&self) -> Option<u32> {
        (1..SLOTS).find(|slot| self.own.iter().all(|own| own.slot != *slot))
    }

    /// Returns the length of the next ring: a part of the room that is left. `None` if that is too small.
    fn next_ring_pkts(&self, capacity_pkts: usize) -> Option<usize> {
        let wanted = (capacity_pkts * TIMES).clamp(RING_PKTS_MIN, RING_PKTS_MAX).next_power_of_two();
        let most = self.room_pkts / PART;
        let most = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
        let pkts = wanted.min(most);
        (pkts >= capacity_pkts.clamp(RING_PKTS_MIN, RING_PKTS_MAX).next_power_of_two()).then_some(pkts)
    }

    fn open_rings(
        &mut self,
        channel: ChannelId,
        slot: u32,
        ring_pkts: usize,
    ) -> Result<ChannelRing, LinkError> {
        let fail = |source| LinkError::Os { what: "open another AF_XDP socket".to_owned(), source };
        let mut rings = Vec::new();
        for OnQueue { at, first, umem } in &self.queues {
            let (socket, ring) = open_further(*at, first.as_fd(), ring_pkts as u32).map_err(fail)?;
            let socket = Arc::new(socket);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&self.events, &socket, epoll::EventData::new_u64(slot.into()), flags)
                .map_err(|error| fail(error.into()))?;
            let mark =
                self.with_program(|program| program.set_socket(at.queue, slot, socket.as_fd(), ring_pkts))?;
            let received = Received { ring, umem: umem.clone(), mark };
            rings.push(Queue::new(received, socket, self.ahead.clone(), self.completes));
        }
        let (shared, armed) = (rings.iter().map(Queue::shared), Arc::clone(&self.armed));
        let bell = Arc::new(Bell::new(shared, ring_pkts, armed, self.awake.clone()));
        self.own.push(Own { channel, slot, bell: Arc::clone(&bell) });
        self.room_pkts -= ring_pkts;
        self.with_program(|program| program.open(channel, slot));
        Ok(ChannelRing { rings, bell, next: 0 })
    }

    fn find(&self, channel: ChannelId) -> Option<&Own> {
        self.own.iter().find(|own| own.channel == channel)
    }
}

impl Demultiplexer for Rings {
    fn open(&mut self, channel: ChannelId, capacity_pkts: usize, _pool: &mut Pool) -> Opened {
        self.begin();
        let place = self.free_slot().zip(self.next_ring_pkts(capacity_pkts));
        let Some((slot, ring_pkts)) = place else { return Opened::Shared };
        // A kernel that has no room for another ring leaves the channel to the shared one.
        match self.open_rings(channel, slot, ring_pkts) {
            Ok(ring) => Opened::Own(Box::new(ring)),
            Err(_) => Opened::Shared,
        }
    }

    fn watch(&mut self, channel: ChannelId, arrived: Arrived) {
        if let Some(own) = self.find(channel) {
            self.ahead.watch(own.bell.rings.iter().map(|(ring, _)| Arc::clone(ring)), &arrived);
        }
    }

    fn close(&mut self, channel: ChannelId) {
        self.with_program(|program| program.close(channel));
        let Some(index) = self.own.iter().position(|own| own.channel == channel) else { return };
        let Own { slot, bell, .. } = self.own.swap_remove(index);
        bell.disarm();
        self.awake.remove(bell.ring_pkts);
        for queue in &self.queues {
            self.with_program(|program| program.remove_socket(queue.at.queue, slot));
        }
        self.room_pkts += bell.ring_pkts;
    }

    fn update(&mut self, change: Change) {
        self.begin();
        // A table of the program that is full leaves frames to the shared ring, where the host's own table
        // says where they belong.
        let _ = self.with_program(|program| program.apply(change));
    }

    fn known_ends(&self) -> Option<Arc<dyn KnownEnds>> {
        Some(self.with_program(|program| program.known_ends()))
    }

    fn has_interrupt(&self) -> bool {
        self.armed.load(Ordering::Relaxed) > 0 && self.own.iter().any(|own| own.bell.rings())
    }

    fn interrupt(&mut self) -> Option<ChannelId> {
        for _ in 0..self.own.len() {
            self.next = (self.next + 1) % self.own.len();
            let Some(own) = self.own.get(self.next).filter(|own| own.bell.rings()) else { continue };
            own.bell.disarm();
            return Some(own.channel);
        }
        None
    }
}

/// The rings of one channel: one on each queue of the device.
#[derive(Debug)]
struct ChannelRing {
    rings: Vec<Queue>,
    bell: Arc<Bell>,
    next: usize,
}

impl RxQueue for ChannelRing {
    fn pending(&self) -> usize {
        self.rings.iter().map(RxQueue::pending).sum()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        for _ in 0..self.rings.len() {
            let at = self.next;
            self.next = (at + 1) % self.rings.len();
            let done = self.rings.get_mut(at).map_or(0, |ring| ring.receive(limit, burst));
            if done > 0 {
                return done;
            }
        }
        0
    }

    fn arm(&mut self) -> bool {
        self.bell.arm();
        // Every ring is armed, also behind one that has frames.
        self.rings.iter_mut().map(RxQueue::arm).fold(false, |any, waiting| any | waiting)
    }

    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        let mut sum = RxCounters::default();
        for ring in &self.rings {
            let RxCounters { missed, no_buffer, .. } = ring.counters(effort)?;
            sum.missed += missed;
            sum.no_buffer += no_buffer;
        }
        Some(sum)
    }

    fn answer_syns(&mut self, now: Option<Instant>) {
        self.rings.iter_mut().for_each(|ring| ring.answer_syns(now));
    }

    fn refuse_acks(&mut self, now: Option<Instant>) {
        self.rings.iter_mut().for_each(|ring| ring.refuse_acks(now));
    }

    fn answered_syns(&self) -> u64 {
        self.rings.iter().map(RxQueue::answered_syns).sum()
    }
}
