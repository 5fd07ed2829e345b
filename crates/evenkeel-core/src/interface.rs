//! The traits of a network interface through which a host drives it. Drivers live elsewhere
//! (`evenkeel-link`); the in-memory one is [`crate::cable`].

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::chunks::ReadChunkIntoIter;
use smoltcp::wire::EthernetAddress;

use crate::demux::Change;
use crate::frame::{Frame, Metadata, Pool, PoolLimit};
use crate::id::ChannelId;
use crate::tcp::FourTuple;

/// One receive ring of an interface.
///
/// The ring is filled from outside, at any time. A frame that finds it full is shed there, for free: the host
/// has done nothing for it. An interface has one ring or several (each flow in one of them); under `ni-lrp`
/// every channel is such a ring.
pub trait RxQueue: fmt::Debug + Send {
    /// Returns the number of frames known to wait. Must be cheap: it is called after every work item.
    fn pending(&self) -> usize;

    /// Passes the oldest frames to `burst`, one after the other: at most `limit`, and none after the one at
    /// which `burst` stops. Returns the number of frames passed.
    ///
    /// Each frame is shown first, as it will be taken (but see [`Burst::records`]), and in place if that is
    /// possible: a frame discarded early is neither copied nor moved. A device that brings no buffers of its
    /// own fills those of [`Burst::pool`].
    ///
    /// A result below `limit` means that `burst` wanted no more frames, or that the ring or the pool is
    /// empty. It may also mean that some frames were of no use, which count towards the limit; `pending`
    /// then still reports frames.
    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize;

    /// Returns the number of frames that are in the ring but not yet visible: their device batches a few
    /// before it delivers them. They become visible without any further event.
    fn buffered(&self) -> u64;

    /// Enables the interrupt: the next arrival wakes the driver of this host, once. To be called before the
    /// host halts.
    ///
    /// Returns whether frames are waiting already, tested *after* enabling, so that no wake-up is lost.
    fn arm(&mut self) -> bool;

    /// Frames shed because this ring was full, or had no buffer.
    fn missed(&self) -> u64;

    /// Returns the frames shed so far, as [`RxQueue::missed`] does, if that number is known without a system
    /// call. The host uses it to see whether pausing the ring has cost frames.
    fn missed_by_now(&self) -> Option<u64>;
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

    /// Takes a vector of frames, calling [`Burst::see`] and [`Burst::take`] for each. All frames own their
    /// buffers and have no metadata. A frame that is not taken is put into `spare`. Returns the number of
    /// frames handled; the rest is left in `frames`.
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

/// The oldest frames of a ring between two threads. What is not taken out stays there.
#[derive(Debug)]
pub struct Frames<'a>(pub(crate) ReadChunkIntoIter<'a, Frame>);

impl Iterator for Frames<'_> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        self.0.next()
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

/// A network interface: receive rings and a transmit side.
///
/// Frames start at the Ethernet header and carry no FCS.
///
/// No method has a default. So the compiler shows the author of a wrapper every call that must be passed on,
/// and a driver states for each what it does not have.
pub trait Interface: fmt::Debug + Send {
    /// Returns the interface's name, for reports.
    fn name(&self) -> &str;

    /// Returns the interface's hardware address.
    fn address(&self) -> EthernetAddress;

    /// Returns the size of the largest IP packet in bytes (Ethernet header not counted), as Linux counts the
    /// MTU.
    fn mtu(&self) -> usize;

    /// Lets the host's pool grow by what the rings hold, and fills the rings. Called once, when a host adds
    /// the interface.
    ///
    /// # Errors
    /// [`PoolLimit`] if the host's memory limit does not allow rings of this size.
    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit>;

    /// Gives back to the pool the growth of [`Interface::attach`] and the buffers of frames in the
    /// interface. Called once, when a host that goes on itself removes the interface.
    fn detach(&mut self, pool: &mut Pool);

    /// Returns whether all that the peer of `flow` sends arrives in a ring of this interface. It does not if
    /// a device spreads flows over queues that belong to several hosts and this flow goes to another one's.
    /// An interface that cannot know returns `true`.
    fn receives(&self, flow: &FourTuple) -> bool;

    /// Returns the number of receive rings, at least one.
    fn queues(&self) -> usize;

    /// Returns receive ring `index`, which is less than [`Interface::queues`], for queries.
    fn queue(&self, index: usize) -> &dyn RxQueue;

    /// Returns receive ring `index`, which is less than [`Interface::queues`], for taking frames from it.
    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue;

    /// Takes frames from the front of `frames`, as many as there are descriptors for, and starts to send
    /// them: with one doorbell, or one system call for as many as it can carry. Returns the number taken;
    /// the others stay.
    ///
    /// A buffer returns to `pool` now or in a later [`Interface::reclaim`]. If an interface leaves frames
    /// and does not [report when others have left](Interface::unreclaimed), the host calls it again soon.
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize;

    /// Returns the number of frames that one doorbell or system call of [`Interface::transmit`] can carry,
    /// if it costs as much as some of them: while the host has other work, frames are batched up to that
    /// number. One if a doorbell costs nothing, or each frame takes its own.
    fn transmit_batch(&self) -> usize;

    /// Frames that have left and whose buffers wait for [`Interface::reclaim`]: the transmit side's reason to
    /// interrupt. `None` if it has none ever: it is done with a frame when it has taken it.
    fn unreclaimed(&self) -> Option<usize>;

    /// Returns buffers of at most `limit_pkts` frames that have left to `pool`. The result is their number.
    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize;

    /// Returns whether a channel of the interface's demultiplexer interrupts: [`Demultiplexer::interrupt`]
    /// has one to report.
    fn channel_interrupts(&self) -> bool;

    /// Returns the interface's demultiplexer, if it has one (`ni-lrp` needs it).
    fn demultiplexer(&mut self) -> Option<&mut dyn Demultiplexer>;

    /// Records that the operating system reported the descriptor of receive ring `queue` as readable. A ring
    /// that cannot be inspected then counts as having frames. A descriptor whose ring is empty may have an
    /// error to be fetched, as when the device has gone down.
    fn set_readable(&mut self, queue: usize);
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
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Clears it. What came before it was last set can be seen from now on: a swap, as a store might hide
    /// that.
    pub(crate) fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// An interface that demultiplexes: it classifies each frame itself and puts it into the ring of its channel.
///
/// It holds a copy of the host's demultiplexing table and follows its changes.
pub trait Demultiplexer {
    /// Opens a ring of `capacity_pkts` for the channel. Its buffers are taken from `pool`, which must have
    /// grown by as many.
    ///
    /// `None` if the interface has no ring left.
    fn open(&mut self, channel: ChannelId, capacity_pkts: usize, pool: &mut Pool)
    -> Option<Box<dyn RxQueue>>;

    /// Has the interface set `arrived` whenever it has put a frame into the channel's ring, before it puts
    /// any later frame into another ring.
    fn watch(&mut self, channel: ChannelId, arrived: Arrived);

    /// Closes the channel's ring.
    fn close(&mut self, channel: ChannelId);

    /// Applies a change of the host's table to the interface's copy.
    fn update(&mut self, change: Change);

    /// Takes the next channel that became non-empty while armed: its interrupt. Each is reported once.
    fn interrupt(&mut self) -> Option<ChannelId>;
}
