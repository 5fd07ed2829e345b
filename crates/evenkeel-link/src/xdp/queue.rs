//! The receive ring of one socket.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::frame::Frame;
use evenkeel_core::interface::{Arrived, Burst, Effort, Frames, RxCounters, RxQueue};
use rustix::net::sockopt;
use rustix::net::xdp::XdpDesc;

use super::ring::{Consumer, Shared};
use super::socket::wake_receive;
use super::umem::Umem;
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

/// The receive ring of a socket, with the memory of its queue.
#[derive(Debug)]
pub(super) struct Queue {
    ring: Consumer<XdpDesc>,
    umem: SharedUmem,
    socket: Arc<OwnedFd>,
    ahead: Ahead,
    /// Frames taken from the ring that the host has not taken yet.
    vector: VecDeque<Frame>,
    spare: Vec<Frame>,
    /// Frames that were of no use.
    unusable: u64,
    completes: bool,
}

impl Queue {
    /// Creates the receive side of a socket. With `completes`, checksums that a sender of the same kernel
    /// left to an adaptor are completed.
    pub(super) fn new(
        ring: Consumer<XdpDesc>,
        umem: SharedUmem,
        socket: Arc<OwnedFd>,
        ahead: Ahead,
        completes: bool,
    ) -> Self {
        let (vector, spare) = (VecDeque::new(), Vec::new());
        Self { ring, umem, socket, ahead, vector, spare, unusable: 0, completes }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.ring.shared()
    }

    pub(super) const fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Takes up to `limit` frames from the ring into the vector.
    fn draw(&mut self, limit: usize, burst: &mut dyn Burst) {
        let mut umem = self.umem.lock();
        if umem.refill() {
            wake_receive(&self.socket);
        }
        while self.vector.len() < limit {
            let Some(descriptor) = self.ring.read() else { break };
            let Some(mut frame) = umem.receive(descriptor) else {
                self.unusable += 1;
                continue;
            };
            if self.completes
                && let Some(unfinished) = unfinished_in(frame.bytes())
            {
                complete(frame.bytes_mut(), unfinished);
            }
            if !umem.may_lend() {
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
        self.ring.release();
    }
}

impl RxQueue for Queue {
    fn pending(&self) -> usize {
        self.vector.len() + self.ring.len()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        self.ahead.look();
        self.draw(limit, burst);
        let done = burst.take_vector(&mut Frames::first(&mut self.vector, limit), &mut self.spare);
        if !self.spare.is_empty() {
            let mut umem = self.umem.lock();
            self.spare.drain(..).for_each(|frame| umem.take_back(frame));
        }
        done
    }

    fn arm(&mut self) -> bool {
        if self.umem.lock().refill() {
            wake_receive(&self.socket);
        }
        self.pending() > 0
    }

    /// The kernel counts the frames that found the ring full, or no free chunk.
    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        if effort == Effort::Memory {
            return None;
        }
        let counted = sockopt::xdp_statistics(&self.socket).ok();
        let (no_chunk, full) =
            counted.map_or((0, 0), |counted| (counted.rx_dropped, counted.rx_ring_full.unwrap_or(0)));
        let no_buffer = no_chunk + self.unusable;
        Some(RxCounters { missed: full + no_buffer, no_buffer, ..RxCounters::default() })
    }
}

/// Gives the chunks of frames that nobody took back: a ring closes while others use the memory.
impl Drop for Queue {
    fn drop(&mut self) {
        let mut umem = self.umem.lock();
        self.vector.drain(..).chain(self.spare.drain(..)).for_each(|frame| umem.take_back(frame));
        while let Some(descriptor) = self.ring.read() {
            let frame = umem.receive(descriptor);
            frame.into_iter().for_each(|frame| umem.take_back(frame));
        }
        self.ring.release();
    }
}
