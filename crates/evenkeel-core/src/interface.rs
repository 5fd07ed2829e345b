//! What a host asks of a network interface. Drivers live elsewhere (`evenkeel-link`); the in-memory one is
//! [`crate::cable`].

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
    /// Frames known to wait. Cheap: it is asked after every unit of work.
    fn pending(&self) -> usize;

    /// Gives the oldest frames to `burst`, one after the other: `limit` at most, and none after the one for
    /// which it says so. Says how many there were.
    ///
    /// Each is shown first, as it will be taken (but see [`Burst::records`]), where it lies if that is
    /// possible: who discards early has it neither copied nor moved. A device that brings no buffers of its
    /// own fills those of [`Burst::pool`].
    ///
    /// Less than `limit` means that `burst` wanted no more, that the ring is empty, or that the pool is, or
    /// that some were of no use to anybody, which count as far as the limit is concerned (then `pending`
    /// still says that there is more).
    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize;

    /// Frames that are in the ring, but not to be seen yet: their device gathers a few before it hands them
    /// over. They come without anything else having to happen.
    fn buffered(&self) -> u64;

    /// Enables the interrupt: the next arrival wakes whoever drives this host, once. To be called when about
    /// to halt.
    ///
    /// Returns whether frames are waiting already, tested *after* enabling, so that no wake-up is lost.
    fn arm(&mut self) -> bool;

    /// Frames shed because this ring was full, or had no buffer.
    fn missed(&self) -> u64;

    /// The same, if it is known at once, without asking the kernel: so it can be seen whether to hold the
    /// ring back has cost frames.
    fn missed_by_now(&self) -> Option<u64>;
}

/// Whoever takes frames from a ring, a burst at a time.
pub trait Burst {
    /// Where buffers come from and go back to.
    fn pool(&mut self) -> &mut Pool;

    /// Whether what it sees is recorded, and so has to be as it was on the wire. If not, a checksum of UDP or
    /// TCP that a sender of the same kernel left to an adaptor may still be missing in what it sees; in what
    /// it takes it is there.
    fn records(&self) -> bool;

    /// A frame, from the Ethernet header on, and what the device knows of it. Says what is to be done about
    /// it.
    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen;

    /// The frame that was just seen, if it was to be taken. Says whether there is to be another one.
    fn take(&mut self, frame: Frame) -> bool;

    /// Both, of each of a vector of frames that have buffers of their own, and of which the device knows no
    /// more than their bytes. What is not taken is put into `spare`. Says how many there were; the rest is
    /// left in `frames`.
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

/// What [`Burst::take_vector`] does about a frame, step by step.
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

/// What is to be done about a frame that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It is taken.
    Take,
    /// It is of no use: its place in the ring is free again, and its buffer stays with the ring.
    Discard,
    /// The same, and there is to be no other one.
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
/// Nothing has a default: whoever wraps an interface is told by the compiler what is to be passed on, and a
/// driver says of each what it does not have.
pub trait Interface: fmt::Debug + Send {
    /// The name it is known by, for reports.
    fn name(&self) -> &str;

    /// Its hardware address.
    fn address(&self) -> EthernetAddress;

    /// Largest IP packet in bytes (Ethernet header not counted), as Linux counts the MTU.
    fn mtu(&self) -> usize;

    /// Called once when a host takes the interface: lets the host's pool grow by what the rings hold, and
    /// fills them.
    ///
    /// # Errors
    /// [`PoolLimit`] if the host's memory limit does not allow rings of this size.
    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit>;

    /// Called once when a host gives the interface up while it goes on itself: gives back to the pool what
    /// [`Interface::attach`] let it grow by, and what frames are held.
    fn detach(&mut self, pool: &mut Pool);

    /// Whether what the peer of `flow` sends arrives in a ring of this interface. Not all does if a device
    /// spreads flows over queues that belong to several hosts. One that cannot know says that it does.
    fn receives(&self, flow: &FourTuple) -> bool;

    /// Number of receive rings, at least one.
    fn queues(&self) -> usize;

    /// Receive ring `index`, which is less than [`Interface::queues`], to be asked.
    fn queue(&self, index: usize) -> &dyn RxQueue;

    /// The same ring, to be read.
    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue;

    /// Takes frames from the front of `frames`, as many as there are descriptors for, and starts to send
    /// them: with one doorbell, or one system call for as many as it can carry. Says how many it took; the
    /// others stay.
    ///
    /// A buffer returns to `pool` now or in a later [`Interface::reclaim`]. An interface that leaves frames
    /// and does not [say when others have left](Interface::unreclaimed) is to be asked again soon.
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize;

    /// Frames that one doorbell or system call of [`Interface::transmit`] can carry, if it costs as much as
    /// some of them: while the host has other work, so many gather before they are handed over. One if a
    /// doorbell costs nothing, or each frame takes one of its own.
    fn transmit_batch(&self) -> usize;

    /// Frames that have left and whose buffers wait for [`Interface::reclaim`]: the transmit side's reason to
    /// interrupt. `None` if it has none ever: it is done with a frame when it has taken it.
    fn unreclaimed(&self) -> Option<usize>;

    /// Returns buffers of at most `limit_pkts` frames that have left to `pool`; says how many.
    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize;

    /// Whether a channel of its demultiplexer interrupts: [`Demultiplexer::interrupt`] has one to report.
    fn channel_interrupts(&self) -> bool;

    /// The demultiplexer on the interface, if it has one (`ni-lrp` needs it).
    fn demultiplexer(&mut self) -> Option<&mut dyn Demultiplexer>;

    /// Says that the operating system reported the descriptor of receive ring `queue` readable. Of a ring
    /// that cannot be looked at it says that there are frames; a descriptor whose ring is empty may have an
    /// error to be fetched, as when the device has gone down.
    fn set_readable(&mut self, queue: usize);
}

/// A flag that an interface sets when a frame has come for a channel: see [`Demultiplexer::watch`].
#[derive(Debug, Clone, Default)]
pub struct Arrived(Arc<AtomicBool>);

impl Arrived {
    /// Sets the flag. Whoever takes a frame that was put into a ring after this sees it set.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is set.
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
