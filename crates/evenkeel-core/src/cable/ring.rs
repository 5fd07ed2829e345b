//! A receive ring between the two threads of a cable: frames one way, empty buffers the other.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};

use super::armed::Armed;
use crate::frame::{Frame, HEADROOM, Pool};
use crate::interface::{Arrived, Burst, Effort, Frames, RxCounters, RxQueue};

/// Most buffers a receive ring gives back at a time.
const REFILL_BATCH_MAX: usize = 32;

/// The state, other than frames, that the two halves of a ring share.
///
/// Each field has cache lines of its own: the sender counts what it sheds millions of times a second, and
/// must not take from the host's core a line that the host needs.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) armed: OwnLine<Armed>,
    pub(super) missed: OwnLine<AtomicU64>,
}

/// Two lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct OwnLine<T>(pub(super) T);

/// The sender's half of a receive ring.
#[derive(Debug)]
pub(super) struct RingProducer {
    ring: Producer<Frame>,
    fill: Consumer<Frame>,
    pub(super) shared: Arc<Shared>,
    pub(super) touched: bool,
    /// The flag that is set when a frame has been put in, if the host watches the channel.
    pub(super) arrived: Option<Arrived>,
}

/// The host's half of a receive ring.
#[derive(Debug)]
pub(super) struct RingConsumer {
    ring: Consumer<Frame>,
    fill: Producer<Frame>,
    pub(super) shared: Arc<Shared>,
    /// Buffers of frames that were discarded, to be given back.
    spare: Vec<Frame>,
    /// Buffers not given back yet.
    pub(super) missing: usize,
    /// Buffers that are given back at a time. Each time costs a cache line that the sender's core has, so it
    /// pays to do it seldom.
    refill_batch: usize,
}

pub(super) fn ring(pkts: usize) -> (RingProducer, RingConsumer) {
    let (frames_in, frames_out) = RingBuffer::new(pkts);
    let (fill_in, fill_out) = RingBuffer::new(pkts);
    let shared = Arc::new(Shared::default());
    (
        RingProducer {
            ring: frames_in,
            fill: fill_out,
            shared: Arc::clone(&shared),
            touched: false,
            arrived: None,
        },
        RingConsumer {
            ring: frames_out,
            fill: fill_in,
            shared,
            spare: Vec::with_capacity(pkts),
            missing: pkts,
            refill_batch: (pkts / 4).clamp(1, REFILL_BATCH_MAX),
        },
    )
}

impl RingProducer {
    /// Copies a frame into one of the receiver's buffers. Returns whether there was one.
    pub(super) fn put(&mut self, bytes: &[u8]) -> bool {
        let Ok(mut frame) = self.fill.pop() else {
            // Only this side writes the counter.
            self.shared.missed.0.store(self.shared.missed.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return false;
        };
        // A frame too long for a buffer arrives as an empty one, and is dropped as truncated. The buffer may
        // have been given back with what it held before.
        if frame.set(HEADROOM, bytes.len()) {
            frame.bytes_mut().copy_from_slice(bytes);
        } else {
            let _ = frame.resize(0);
        }
        self.ring.push(frame).is_ok()
    }

    /// Frames in the ring.
    pub(super) fn unread(&self) -> u64 {
        (self.ring.buffer().capacity() - self.ring.slots()) as u64
    }

    /// Returns whether the receiver has asked for an interrupt, and clears that request. Call it when frames
    /// are in the ring and [`Armed::published`] has been called.
    pub(super) fn interrupt(&self) -> bool {
        self.shared.armed.0.interrupt()
    }
}

impl RingConsumer {
    /// Gives the adaptor buffers for those that have come up as frames: all that are missing, or as many as
    /// `pool` has. Those of frames that were discarded come first.
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        let give = self.missing.min(self.spare.len() + pool.available());
        // There is room: the ring and its buffers are as many as this ring is long.
        if let Ok(chunk) = self.fill.write_chunk_uninit(give) {
            let buffers = core::iter::from_fn(|| self.spare.pop().or_else(|| pool.take()));
            self.missing -= chunk.fill_from_iter(buffers);
        }
    }
}

/// The offset, in bytes, of the second cache line that holds a frame's headers: those of Ethernet, IPv4 and
/// TCP with timestamps are 66 bytes.
const HEADERS: usize = 64;

/// Loads bytes of frames that the other core has written, and does nothing with them: their cache lines come
/// over side by side, instead of one after the other as each frame is handled.
fn begin_to_fetch(frames: &[Frame]) {
    let byte = |frame: &Frame, at| frame.bytes().get(at).copied().unwrap_or_default();
    core::hint::black_box(frames.iter().fold(0, |all, frame| all | byte(frame, 0) | byte(frame, HEADERS)));
}

impl RxQueue for RingConsumer {
    fn pending(&self) -> usize {
        self.ring.slots()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let Ok(chunk) = self.ring.read_chunk(self.ring.slots().min(limit)) else { return 0 };
        let (first, wrapped) = chunk.as_slices();
        begin_to_fetch(first);
        begin_to_fetch(wrapped);
        let done = burst.take_vector(&mut Frames::of_ring(chunk), &mut self.spare);
        self.missing += done;
        if self.missing >= self.refill_batch {
            self.refill(burst.pool());
        }
        done
    }

    fn arm(&mut self) -> bool {
        self.shared.armed.0.arm(|| !self.ring.is_empty())
    }

    fn counters(&self, _effort: Effort) -> Option<RxCounters> {
        Some(RxCounters::missed(self.shared.missed.0.load(Ordering::Relaxed)))
    }
}
