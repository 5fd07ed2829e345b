//! The driver contract: the traits through which a host drives a network interface.
//!
//! A driver implements three small traits: [`RxQueue`] for each receive ring, [`TxQueue`] for the transmit
//! side, and [`Interface`] for the link that has both. Methods for what many devices do not have come with
//! defaults. An interface that demultiplexes by itself also brings a [`Demultiplexer`]. Drivers live in
//! `evenkeel-link`; the in-memory one is [`crate::cable`].
//!
//! A wrapper around another interface must forward **every** method, also those with a default: the compiler
//! does not report a missing one, and the wrapped interface would seem to lack that ability.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use smoltcp::wire::EthernetAddress;

use crate::demux::{Change, flow_hash_to};
use crate::drop::Reason;
use crate::frame::{Frame, Metadata, Pool, PoolLimit, RingReceiver};
use crate::id::ChannelId;
use crate::offload::Offload;
use crate::refuser::Refuser;
use crate::segmentation::Segmentation;
use crate::tcp::{FourTuple, KnownEnds};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;

/// One receive ring of an interface.
///
/// The ring is filled from outside, at any time. A frame that finds it full is shed there, for free: the host
/// has done nothing for it. An interface has one ring or several (each flow in one of them); under `ni-lrp`
/// every channel is such a ring.
pub trait RxQueue: fmt::Debug + Send {
    /// Returns the number of frames known to wait. Must be cheap: it is called after every work item.
    fn pending(&self) -> usize;

    /// Passes the oldest frames to `burst`, one after the other: at most `limit`, and none after the one at
    /// which `burst` stops. Returns the number of frames passed. Frames that [`Burst::discard_excess`]
    /// discards are in that number, and not in the limit: `burst` has its own for them.
    ///
    /// Each frame is shown first, as it will be taken (but see [`Burst::records`]), and in place if that is
    /// possible: a frame discarded early is neither copied nor moved. A device that brings no buffers of its
    /// own fills those of [`Burst::pool`].
    ///
    /// A result below `limit` means that `burst` wanted no more frames, or that the ring or the pool is
    /// empty. It may also mean that some frames were of no use, which count towards the limit; `pending`
    /// then still reports frames.
    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize;

    /// Enables the interrupt: the next arrival wakes the driver of this host, once. To be called before the
    /// host halts.
    ///
    /// Returns whether frames are waiting already, tested *after* enabling, so that no wake-up is lost.
    fn arm(&mut self) -> bool;

    /// Returns the counters of this ring. `None` if `effort` does not suffice, which it always does with
    /// [`Effort::SystemCall`].
    fn counters(&self, effort: Effort) -> Option<RxCounters>;

    /// Lets the interface answer SYNs for this ring with cookies ([`Change::AnswerSyns`]) instead of putting
    /// them into it, for some seconds after `now`, the time of the host. With `None` it answers none from now
    /// on. The default does nothing.
    ///
    /// The host calls this whenever it takes a SYN, and when its listener has no room for connections.
    fn answer_syns(&mut self, now: Option<Instant>) {
        let _ = now;
    }

    /// Lets the interface drop segments for this ring that belong to no connection and bring no good SYN
    /// cookie, for [`CONSENT`] after `now`, the time of the host. With `None` it drops none from now on. The
    /// default does nothing.
    ///
    /// The host calls this whenever it takes a segment for a listener that belongs to no connection, and it
    /// drops such segments itself as long as its consent is good.
    fn refuse_acks(&mut self, now: Option<Instant>) {
        let _ = now;
    }

    /// Returns the number of SYNs for this ring that the interface has answered. Takes no system call. The
    /// default has answered none.
    fn answered_syns(&self) -> u64 {
        0
    }
}

/// The time for which a host's consent to [`RxQueue::answer_syns`] and [`RxQueue::refuse_acks`] is good.
pub const CONSENT: Duration = Duration::from_secs(4);

/// The effort that a question about a ring's counters is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Reads of memory. The host asks so while it polls, to see whether pausing the ring has cost frames.
    Memory,
    /// System calls, if it takes any. Reports ask so.
    SystemCall,
}

/// Counters of a receive ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxCounters {
    /// Frames shed so far because the ring was full, or had no buffer.
    pub missed: u64,
    /// Frames of these for which there was no buffer, although the ring had room.
    pub no_buffer: u64,
    /// Frames that are in the ring now and not yet visible: their device batches a few before it delivers
    /// them. They become visible without any further event. Usually zero.
    pub buffered: u64,
}

impl RxCounters {
    /// Returns the counters of a ring in which every frame is visible at once.
    #[must_use]
    pub const fn missed(frames: u64) -> Self {
        Self { missed: frames, no_buffer: 0, buffered: 0 }
    }
}

/// A receiver that takes frames from a ring, a burst at a time.
pub trait Burst {
    /// Returns the pool that buffers come from and return to.
    fn pool(&mut self) -> &mut Pool;

    /// Returns whether the frames that the receiver sees are recorded, and so must be as they were on the
    /// wire. If not, [`Burst::see`] may get a frame that lacks the checksum of UDP or TCP which a sender of
    /// the same kernel left to an adaptor. [`Burst::take`] gets the frame with its checksum.
    fn records(&self) -> bool;

    /// Inspects a frame, from the Ethernet header on, with the device's metadata. Returns what is to be done
    /// about it.
    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen;

    /// Takes the frame that was just seen, if the answer was [`Seen::Take`]. Returns whether another frame
    /// is wanted.
    fn take(&mut self, frame: Frame) -> bool;

    /// Inspects the oldest frames of a ring, and discards those at the front that are the excess of full
    /// channels. Returns their number: they are done with, and their buffers stay with the ring. The default
    /// discards none.
    ///
    /// A ring whose frames own their buffers and have no metadata calls this before it does anything for
    /// them. If fewer are discarded than were shown, the next frame needs a decision of its own.
    fn discard_excess(&mut self, frames: &[Frame]) -> usize {
        let _ = frames;
        0
    }

    /// Takes a vector of frames, calling [`Burst::see`] and [`Burst::take`] for each. All frames own their
    /// buffers and have no metadata. A frame that is not taken is put into `spare`. Returns the number of
    /// frames handled; the rest is left in `frames`.
    ///
    /// A ring whose frames lie in buffers of their own calls this once a vector, in place of two calls a
    /// frame. Frames that lead to the place of their predecessor then cost least.
    fn take_vector(&mut self, frames: &mut Frames<'_>, spare: &mut Vec<Frame>) -> usize {
        let mut done = 0;
        for frame in frames {
            done += 1;
            if !see_then_take(self, frame, spare) {
                break;
            }
        }
        done
    }
}

/// Handles one frame of [`Burst::take_vector`]: sees it, then takes it or puts it into `spare`. Returns
/// whether another frame is wanted.
#[inline]
pub(crate) fn see_then_take<B: Burst + ?Sized>(burst: &mut B, frame: Frame, spare: &mut Vec<Frame>) -> bool {
    match burst.see(frame.bytes(), &Metadata::NONE) {
        Seen::Take => burst.take(frame),
        seen => {
            spare.push(frame);
            seen == Seen::Discard
        }
    }
}

/// The oldest frames of a ring, for [`Burst::take_vector`]. Frames that are not taken out stay in the ring.
#[derive(Debug)]
pub struct Frames<'a>(Source<'a>);

/// The place where frames lie. No trait object: taking a frame costs a comparison, not a call.
#[derive(Debug)]
enum Source<'a> {
    /// The front of a ring between two threads: this many frames.
    Ring(&'a mut RingReceiver, usize),
    /// The front of a queue: this many frames.
    Queue(&'a mut VecDeque<Frame>, usize),
}

impl<'a> Frames<'a> {
    /// Returns the first frames of `queue`, at most `limit`.
    pub fn first(queue: &'a mut VecDeque<Frame>, limit: usize) -> Self {
        let limit = limit.min(queue.len());
        Self(Source::Queue(queue, limit))
    }

    /// Returns the first frames of a ring between two threads, at most `limit`.
    pub(crate) const fn of_ring(ring: &'a mut RingReceiver, limit: usize) -> Self {
        Self(Source::Ring(ring, limit))
    }
}

impl<'a> From<&'a mut VecDeque<Frame>> for Frames<'a> {
    fn from(queue: &'a mut VecDeque<Frame>) -> Self {
        Self::first(queue, usize::MAX)
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        match &mut self.0 {
            Source::Ring(ring, left) => {
                *left = left.checked_sub(1)?;
                ring.take()
            }
            Source::Queue(frames, left) => {
                *left = left.checked_sub(1)?;
                frames.pop_front()
            }
        }
    }
}

/// A decision about a frame that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The frame is taken.
    Take,
    /// The frame is of no use: its place in the ring is free again, and its buffer stays with the ring.
    Discard,
    /// The frame is discarded, and no other one is wanted.
    DiscardLast,
}

impl dyn RxQueue + '_ {
    /// Returns the number of frames shed so far. May take a system call.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.counters(Effort::SystemCall).unwrap_or_default().missed
    }

    /// Returns the number of frames shed so far, if that is known without a system call.
    #[must_use]
    pub fn missed_by_now(&self) -> Option<u64> {
        Some(self.counters(Effort::Memory)?.missed)
    }

    /// Returns the number of frames that are in the ring and not yet visible. May take a system call.
    #[must_use]
    pub fn buffered(&self) -> u64 {
        self.counters(Effort::SystemCall).unwrap_or_default().buffered
    }

    /// Takes the oldest frame. `None` if there is none, or no buffer for it.
    pub fn take(&mut self, pool: &mut Pool) -> Option<Frame> {
        struct One<'a> {
            pool: &'a mut Pool,
            frame: Option<Frame>,
        }
        impl Burst for One<'_> {
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
                self.frame = Some(frame);
                false
            }
        }
        let mut one = One { pool, frame: None };
        self.receive(1, &mut one);
        one.frame
    }
}

/// The transmit side of an interface.
pub trait TxQueue: fmt::Debug + Send {
    /// Takes frames from the front of `frames`, as many as there are descriptors for, and starts to send
    /// them: with one doorbell, or one system call for as many as it can carry. Returns the number taken;
    /// the others stay.
    ///
    /// A buffer returns to `pool` now or in a later [`TxQueue::reclaim`]. If an interface leaves frames
    /// and does not [report when others have left](TxQueue::unreclaimed), the host calls it again soon.
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize;

    /// Returns the number of frames that have left and whose buffers wait for [`TxQueue::reclaim`]: the
    /// transmit side's reason to interrupt. `None` if it never has one, as in the default: it is done with a
    /// frame when it has taken it.
    fn unreclaimed(&self) -> Option<usize> {
        None
    }

    /// Returns buffers of at most `limit_pkts` frames that have left to `pool`. The result is their number.
    /// The default has none to return.
    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        let _ = (pool, limit_pkts);
        0
    }
}

/// A network interface: receive rings and a transmit side.
///
/// Frames start at the Ethernet header and carry no FCS.
pub trait Interface: TxQueue {
    /// Returns the fixed properties of the interface: each call returns the same.
    fn properties(&self) -> &Properties;

    /// Returns receive ring `index`, which is less than [`Properties::queues`], for queries.
    fn queue(&self, index: usize) -> &dyn RxQueue;

    /// Returns receive ring `index`, which is less than [`Properties::queues`], for taking frames from it.
    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue;

    /// Lets the host's pool grow by [`Properties::buffers`], and fills the rings. Called once, when a host
    /// adds the interface. The default only lets the pool grow.
    ///
    /// A host that removes the interface and goes on lets its pool shrink by as many. Buffers that are in the
    /// interface then are freed with it.
    ///
    /// # Errors
    /// [`PoolLimit`] if the host's memory limit does not allow rings of this size.
    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        pool.grow(self.properties().buffers)
    }

    /// Returns the numbers of frames that the interface dropped by itself so far, by reason. Those that its
    /// receive rings shed are not among them: [`RxQueue::counters`] has these. May take system calls. The
    /// default has dropped none.
    fn dropped(&self) -> Vec<(Reason, u64)> {
        Vec::new()
    }

    /// Records that the operating system reported descriptor `number` as readable. The descriptor of a
    /// receive ring has the number of the ring. The default ignores it.
    ///
    /// A ring that cannot be inspected then counts as having frames. A descriptor whose ring is empty may
    /// have an error to be fetched, as when the device has gone down.
    fn set_readable(&mut self, number: usize) {
        let _ = number;
    }

    /// Records the unicast addresses of the host on all its interfaces. Called when a host adds the
    /// interface, and whenever they change. An interface that shares its hardware address with another stack
    /// keeps that off frames to them. The default ignores them.
    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>) {
        let _ = addresses;
    }

    /// Hands over the interface's demultiplexer, if it has one (`ni-lrp` needs it). Called once, when a host
    /// adds the interface. The default has none.
    ///
    /// A host with another architecture drops it, and takes the frames of all channels from the receive
    /// rings.
    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        None
    }

    /// Hands over the part of the interface that refuses frames for full channels, if it has one. Called
    /// once, when a host adds the interface that demultiplexes the frames of its receive rings. The default
    /// has none.
    fn refuser(&mut self) -> Option<Box<dyn Refuser>> {
        None
    }

    /// Hands over the part of the interface that forwards packets by itself, if it has one. Called once, when
    /// a host adds the interface. The default has none.
    fn offload(&mut self) -> Option<Box<dyn Offload>> {
        None
    }
}

/// The fixed properties of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// The interface's name, for reports.
    pub name: String,
    /// The hardware address.
    pub address: EthernetAddress,
    /// The size of the largest IP packet in bytes (Ethernet header not counted), as Linux counts the MTU.
    /// Default 1500.
    pub mtu: usize,
    /// The number of receive rings: at least one, or none if each channel has a ring of its own
    /// ([`Opened::Own`]), so that the interface serves `ni-lrp` only. Default 1.
    pub queues: usize,
    /// The number of frames that one doorbell or system call of [`TxQueue::transmit`] can carry, if it costs
    /// as much as some of them: while the host has other work, frames are batched up to that number. Default
    /// 1, for a doorbell that costs nothing, or one for each frame.
    pub transmit_batch: usize,
    /// Buffers of the host's pool that the interface holds, in its rings and on their way. Default 0.
    pub buffers: usize,
    /// The flows whose frames arrive at the interface. Default [`Flows::All`].
    pub flows: Flows,
    /// The number of the device by which another interface can send packets that it
    /// [forwards by itself](Interface::offload). Default: it cannot.
    pub offload_device: Option<u32>,
    /// The large segments that the interface takes. Its receive rings may then bring some, too, in large
    /// buffers of the pool ([`Pool::take_large`]). Default: none.
    pub segmentation: Option<Segmentation>,
}

impl Properties {
    /// Returns the properties of an interface with defaults for all others.
    #[must_use]
    pub fn new(name: impl Into<String>, address: EthernetAddress) -> Self {
        Self {
            name: name.into(),
            address,
            mtu: 1500,
            queues: 1,
            transmit_batch: 1,
            buffers: 0,
            flows: Flows::All,
            offload_device: None,
            segmentation: None,
        }
    }
}

/// The flows whose frames arrive at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flows {
    /// Every flow, or it is not known which.
    #[default]
    All,
    /// One share of several: a device spreads flows by [`flow_hash_to`] over `shares` interfaces that belong
    /// to as many hosts.
    Share {
        /// The number of this interface among them.
        share: usize,
        /// The number of interfaces, at least one.
        shares: usize,
    },
}

impl Flows {
    /// Returns whether all that the peer of `flow` sends arrives at the interface.
    #[must_use]
    pub fn contains(self, flow: &FourTuple) -> bool {
        match self {
            Self::All => true,
            Self::Share { share, shares } => flow_hash_to(flow) as usize % shares.max(1) == share,
        }
    }
}

/// A flag that an interface sets when a frame has come for a channel: see [`Demultiplexer::watch`].
#[derive(Debug, Clone, Default)]
pub struct Arrived(Arc<AtomicBool>);

impl Arrived {
    /// Sets the flag. A host that takes a frame put into a ring after this call sees the flag set.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether the flag is set.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Clears it. What came before it was last set can be seen from now on: a swap, as a store might hide
    /// that.
    pub(crate) fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// The answer to [`Demultiplexer::open`].
#[derive(Debug)]
pub enum Opened {
    /// The channel has a ring of its own.
    Own(Box<dyn RxQueue>),
    /// The channel's frames arrive in the interface's receive rings, which all such channels share, and the
    /// host demultiplexes them. An interface without [receive rings](Properties::queues) must not answer so.
    Shared,
    /// There is no ring for the channel. What needs the channel cannot be opened.
    Refused,
}

/// The demultiplexer of an interface: it classifies each frame and puts it into the ring of its channel.
///
/// It holds a copy of the host's demultiplexing table and follows its changes. A channel's ring is opened
/// before a change binds anything to the channel, and closed after the last binding is gone.
pub trait Demultiplexer: fmt::Debug + Send {
    /// Opens a ring of `capacity_pkts` for the channel. A device without buffers of its own takes them from
    /// `pool`, which has grown by as many. Any other may make the ring longer.
    ///
    /// An interface with fewer rings than the host has channels answers [`Opened::Shared`] for the others. So
    /// does one whose rings would hold more frames together than it has buffers.
    fn open(&mut self, channel: ChannelId, capacity_pkts: usize, pool: &mut Pool) -> Opened;

    /// Has the interface set `arrived` whenever it has put a frame into the channel's ring, before it puts
    /// any later frame into another ring. Without effect on a channel that has no ring of its own.
    fn watch(&mut self, channel: ChannelId, arrived: Arrived);

    /// Closes the channel: its ring, if it has one of its own.
    fn close(&mut self, channel: ChannelId);

    /// Applies a change of the host's table to the interface's copy.
    fn update(&mut self, change: Change);

    /// Returns the interface's record of the ends between which the host has state, if it needs one to
    /// [refuse](RxQueue::refuse_acks) segments. The host keeps it up to date as long as the interface has it,
    /// too.
    fn known_ends(&self) -> Option<Arc<dyn KnownEnds>> {
        None
    }

    /// Returns whether a channel interrupts: [`Demultiplexer::interrupt`] has one to report.
    fn has_interrupt(&self) -> bool;

    /// Takes the next channel that became non-empty while armed: its interrupt. Each is reported once.
    fn interrupt(&mut self) -> Option<ChannelId>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wants so many frames, and of these only those of one byte.
    struct Picky(Pool, usize, Vec<Frame>);

    impl Burst for Picky {
        fn pool(&mut self) -> &mut Pool {
            &mut self.0
        }

        fn records(&self) -> bool {
            false
        }

        fn see(&mut self, bytes: &[u8], _metadata: &Metadata) -> Seen {
            if bytes.len() == 1 { Seen::Take } else { Seen::Discard }
        }

        fn take(&mut self, frame: Frame) -> bool {
            self.2.push(frame);
            self.2.len() < self.1
        }
    }

    #[test]
    fn frames_of_a_queue_that_are_not_wanted_or_beyond_the_limit_stay_in_it() {
        let mut pool = Pool::new(8);
        let mut queue: VecDeque<_> =
            [1, 2, 1, 1].iter().filter_map(|&len| pool.take_copy(&[7; 2][..len])).collect();
        let (mut burst, mut spare) = (Picky(pool, 2, Vec::new()), Vec::new());
        assert_eq!(burst.take_vector(&mut Frames::first(&mut queue, 2), &mut spare), 2);
        assert_eq!((burst.2.len(), spare.len(), queue.len()), (1, 1, 2), "the limit is two");
        assert_eq!(burst.take_vector(&mut Frames::from(&mut queue), &mut spare), 1);
        assert_eq!((burst.2.len(), spare.len(), queue.len()), (2, 1, 1), "two are enough");
    }
}
