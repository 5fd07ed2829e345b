//! A receive ring between the two threads of a cable: frames one way, empty buffers the other.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::armed::Armed;
use crate::frame::{self, Frame, HEADROOM, Pool, RingReceiver, RingSender};
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
    ring: RingSender,
    pub(super) shared: Arc<Shared>,
    pub(super) touched: bool,
    /// The flag that is set when a frame has been put in, if the host watches the channel.
    pub(super) arrived: Option<Arrived>,
}

/// The host's half of a receive ring.
#[derive(Debug)]
pub(super) struct RingConsumer {
    ring: RingReceiver,
    pub(super) shared: Arc<Shared>,
    /// Buffers of frames that were discarded after they were taken out, to be given back.
    spare: Vec<Frame>,
    /// Buffers that are given back at a time. Each time costs a cache line that the sender's core has, so it
    /// pays to do it seldom.
    refill_batch: usize,
}

pub(super) fn ring(pkts: usize) -> (RingProducer, RingConsumer) {
    let (sender, receiver) = frame::ring(pkts);
    let shared = Arc::new(Shared::default());
    (
        RingProducer { ring: sender, shared: Arc::clone(&shared), touched: false, arrived: None },
        RingConsumer {
            ring: receiver,
            shared,
            spare: Vec::with_capacity(pkts),
            refill_batch: (pkts / 4).clamp(1, REFILL_BATCH_MAX),
        },
    )
}

impl RingProducer {
    /// Copies a frame into one of the receiver's buffers. Returns whether there was one.
    pub(super) fn put(&mut self, bytes: &[u8]) -> bool {
        let is_sent = self.ring.send(|frame| {
            // A frame too long for a buffer arrives as an empty one, and is dropped as truncated. The buffer
            // may have been given back with what it held before.
            if frame.set(HEADROOM, bytes.len()) {
                frame.bytes_mut().copy_from_slice(bytes);
            } else {
                let _ = frame.resize(0);
            }
        });
        if !is_sent {
            // Only this side writes the counter.
            self.shared.missed.0.store(self.shared.missed.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        is_sent
    }

    /// Frames in the ring.
    pub(super) fn unread(&self) -> u64 {
        self.ring.unread() as u64
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
        self.ring.give(|| self.spare.pop().or_else(|| pool.take()));
    }
}

/// The number of frames that are shown at once, to be discarded.
const SHOWN_PKTS: usize = 64;

impl RingConsumer {
    /// Has `burst` discard the oldest frames as far as they are the excess of full channels. Their buffers
    /// stay where they are. Returns their number. Most rings hold no excess, so the first frame is shown
    /// alone.
    fn discard_excess(&mut self, burst: &mut dyn Burst) -> usize {
        let mut all = 0;
        loop {
            let (frames, _) = self.ring.frames(if all == 0 { 1 } else { SHOWN_PKTS });
            let (shown, discarded) = (frames.len(), burst.discard_excess(frames));
            if discarded == 0 {
                return all;
            }
            if all == 0 {
                // With a buffer in each slot, nothing moves.
                self.refill(burst.pool());
            }
            self.ring.discard(discarded);
            all += discarded;
            if discarded < shown {
                return all;
            }
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
        self.ring.len()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let discarded = self.discard_excess(burst);
        let (first, wrapped) = self.ring.frames(limit);
        let most = first.len() + wrapped.len();
        begin_to_fetch(first);
        begin_to_fetch(wrapped);
        let done = burst.take_vector(&mut Frames::of_ring(&mut self.ring, most), &mut self.spare);
        if self.ring.vacant() >= self.refill_batch {
            self.refill(burst.pool());
        }
        discarded + done
    }

    fn arm(&mut self) -> bool {
        self.shared.armed.0.arm(|| !self.ring.is_empty())
    }

    fn counters(&self, _effort: Effort) -> Option<RxCounters> {
        Some(RxCounters::missed(self.shared.missed.0.load(Ordering::Relaxed)))
    }
}
