//! The receive ring of one socket.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::frame::Frame;
use evenkeel_core::interface::{Arrived, Burst, Effort, Frames, RxCounters, RxQueue};
use evenkeel_core::time::Instant;
use rustix::net::sockopt;
use rustix::net::xdp::XdpDesc;

use super::gather::{Gathered, Gathering, Waiting, goes_on};
use super::marks::Mark;
use super::ring::{Consumer, Shared};
use super::socket::wake_receive;
use super::umem::Umem;
use crate::clock::monotonic_nanos;
use crate::received::complete;
use crate::unfinished::unfinished_in;

/// The memory of a device's queue, which its rings share. They are all used by the thread of one host, or one
/// after the other, so nobody waits for the lock.
#[derive(Debug, Clone)]
pub(super) struct SharedUmem(Arc<Mutex<Umem>>);

impl SharedUmem {
    pub(super) fn new(umem: Umem) -> Self {
        Self(Arc::new(Mutex::new(umem)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Umem> {
        // Nothing that holds it panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rings whose frames are to be processed ahead of others', each with the flag to set for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ahead(Arc<Mutex<Vec<Flagged>>>);

/// A ring, and the flag to set when it has a frame.
type Flagged = (Arc<Shared>, Arrived);

impl Ahead {
    pub(super) fn watch(&self, rings: impl IntoIterator<Item = Arc<Shared>>, arrived: &Arrived) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.extend(rings.into_iter().map(|ring| (ring, arrived.clone())));
    }

    /// Sets the flags of the rings that have a frame. Called before a frame of any ring is looked at: what
    /// came earlier than that frame is seen.
    fn look(&self) {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().filter(|(ring, _)| !ring.is_empty()).for_each(|(_, arrived)| arrived.set());
    }
}

/// Frames that are taken from a ring at once, however few are asked for: locks and counters that the kernel
/// shares are touched once for them.
const VECTOR_PKTS: usize = 64;
/// The most frames in several chunks among them: each is copied to a buffer of the host's pool.
pub(super) const GATHERED_PKTS: usize = 4;

/// Frames in a receive ring. What is left at its end goes back to the memory of the queue.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) ring: Consumer<XdpDesc>,
    pub(super) umem: SharedUmem,
    pub(super) mark: Mark,
}

impl Drop for Received {
    fn drop(&mut self) {
        let mut umem = self.umem.lock();
        while let Some(descriptor) = self.ring.read() {
            if let Some(frame) = umem.receive(descriptor) {
                umem.take_back(frame);
            }
        }
    }
}

/// The receive ring of a socket, with the memory of its queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// Before what it receives: once it is closed, the kernel adds nothing to its ring.
    socket: Arc<OwnedFd>,
    received: Received,
    ahead: Ahead,
    /// Frames taken from the ring that the host has not taken yet.
    vector: VecDeque<Frame>,
    spare: Vec<Frame>,
    /// A frame in several chunks.
    gathering: Gathering,
    /// Frames in the ring; each has one entry if no device has several chunks for one.
    waiting: Option<Waiting>,
    /// Frames that were of no use.
    unusable: u64,
    completes: bool,
}

impl Queue {
    /// Creates the receive side of a socket. With `completes`, checksums that a sender of the same kernel
    /// left to an adaptor are completed.
    pub(super) fn new(received: Received, socket: Arc<OwnedFd>, ahead: Ahead, completes: bool) -> Self {
        let (vector, spare) = (VecDeque::new(), Vec::new());
        let waiting = (received.umem.lock().parts_max() > 1).then(Waiting::default);
        let gathering = Gathering::default();
        Self { socket, received, ahead, vector, spare, gathering, waiting, unusable: 0, completes }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.received.ring.shared()
    }

    pub(super) const fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Takes a vector of frames from the ring.
    fn draw(&mut self, burst: &mut dyn Burst) {
        let Received { ring, umem, mark } = &mut self.received;
        let mut umem = umem.lock();
        if umem.refill() {
            wake_receive(&self.socket);
        }
        let mut gathered = 0;
        while self.vector.len() < VECTOR_PKTS && gathered < GATHERED_PKTS {
            let number = ring.next();
            let Some(descriptor) = ring.read() else { break };
            let is_last = !goes_on(&descriptor);
            if let Some(waiting) = &self.waiting {
                waiting.read(number, is_last);
            }
            let chunk = umem.receive(descriptor);
            let is_part = !is_last || self.gathering.has_begun();
            let received = if is_part {
                let part = self.gathering.add(chunk.as_ref(), is_last, burst.pool());
                chunk.into_iter().for_each(|chunk| umem.take_back(chunk));
                match part {
                    Gathered::Part => continue,
                    Gathered::Whole(frame) => Some(frame),
                    Gathered::Lost => None,
                }
            } else {
                chunk
            };
            let Some(mut frame) = received else {
                self.unusable += 1;
                continue;
            };
            if self.completes
                && let Some(unfinished) = unfinished_in(frame.bytes())
            {
                complete(frame.bytes_mut(), unfinished);
            }
            if is_part {
                gathered += 1;
            } else if !umem.may_lend() {
                let copy = burst.pool().take_copy(frame.bytes());
                umem.take_back(frame);
                match copy {
                    Some(copy) => self.vector.push_back(copy),
                    None => self.unusable += 1,
                }
                continue;
            }
            self.vector.push_back(frame);
        }
        match ring.release() {
            0 => mark.level(),
            taken => mark.take(taken),
        }
    }
}

impl RxQueue for Queue {
    fn pending(&self) -> usize {
        let ring = &self.received.ring;
        self.vector.len() + self.waiting.as_ref().map_or_else(|| ring.len(), |waiting| waiting.count(ring))
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        if self.vector.is_empty() {
            self.ahead.look();
            self.draw(burst);
        }
        let done = burst.take_vector(&mut Frames::first(&mut self.vector, limit), &mut self.spare);
        if !self.spare.is_empty() {
            let mut umem = self.received.umem.lock();
            self.spare.drain(..).for_each(|frame| umem.take_back(frame));
        }
        done
    }

    fn arm(&mut self) -> bool {
        if self.received.umem.lock().refill() {
            wake_receive(&self.socket);
        }
        let waits = self.pending() > 0;
        if !waits {
            self.received.mark.level();
        }
        waits
    }

    /// The program counts the frames that found the ring full. The kernel counts those that found no free
    /// chunk, or the ring full because the program had not seen it yet.
    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        if effort == Effort::Memory {
            return None;
        }
        let counted = sockopt::xdp_statistics(&self.socket).ok();
        let (no_chunk, unseen) =
            counted.map_or((0, 0), |counted| (counted.rx_dropped, counted.rx_ring_full.unwrap_or(0)));
        let no_buffer = no_chunk + self.unusable;
        let missed = self.received.mark.refused() + unseen + no_buffer;
        Some(RxCounters { missed, no_buffer, ..RxCounters::default() })
    }

    fn answer_syns(&mut self, now: Option<Instant>) {
        self.received.mark.answer_syns(now, monotonic_nanos);
    }

    /// The program does both, each for the rings of its kind.
    fn refuse_acks(&mut self, now: Option<Instant>) {
        self.answer_syns(now);
    }

    fn answered_syns(&self) -> u64 {
        self.received.mark.answered()
    }
}
