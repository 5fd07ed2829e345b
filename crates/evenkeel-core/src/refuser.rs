//! Refusal by an interface itself: the excess of a full channel ends before it reaches a receive ring.
//!
//! A ring that channels share has to be read before anything is known about its frames. The host discards the
//! excess of a full channel frame by frame, and while it falls behind, the ring sheds frames of all. An
//! operating system can do better in front of the ring: it counts the frames of a channel that the host has
//! room for, and refuses the rest (early packet discard, Druschel and Banga, OSDI 1996, section 3).
//!
//! The host sets an allowance only for a channel that has just been full. The frames of others are not
//! counted, so that a burst finds the room of the whole ring.

use core::fmt;

use crate::demux::Change;
use crate::id::ChannelId;

/// The part of an interface that refuses frames for full channels.
///
/// It has a copy of the host's demultiplexing table. A frame counts only if it certainly leads to the
/// channel: a whole UDP datagram to our hardware address, to a unicast address of the host, and to a port of
/// which the channel gets all datagrams of that family.
pub trait Refuser: fmt::Debug + Send {
    /// Opens the allowance of a channel, which is unlimited. `None` if there is no room for one more.
    fn open(&mut self, channel: ChannelId) -> Option<Box<dyn Allowance>>;

    /// Closes the allowance of a channel: its frames are no longer counted.
    fn close(&mut self, channel: ChannelId);

    /// Applies a change of the host's demultiplexing table.
    fn update(&mut self, change: Change);
}

/// The number of frames of one channel that an interface still lets pass.
///
/// Allowed frames may be lost on their way into a ring. So an interface that refuses frames lets one pass
/// even so if it has not done that for a millisecond.
pub trait Allowance: fmt::Debug + Send {
    /// Lets this many frames pass from now on, whatever was allowed before, and refuses the rest. With `None`
    /// all pass, and none is counted. Takes a system call at most once.
    fn set(&mut self, frames: Option<u32>);

    /// Returns the number of allowed frames that have not come yet.
    fn left(&self) -> u32;

    /// Returns the number of frames refused so far. They are also among those of
    /// [`Interface::dropped`](crate::interface::Interface::dropped), as
    /// [`QueueDrop::Channel`](crate::drop::QueueDrop::Channel).
    fn refused(&self) -> u64;
}
