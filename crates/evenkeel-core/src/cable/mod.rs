//! The cable: an in-memory Ethernet between two ends, each with a network adaptor in front of it.
//!
//! ```text
//!         end A                                end B
//!   +---------------+                    +---------------+
//!   | transmit -----+-- copies into ---->| receive rings |--> host B takes frames, and gives
//!   |               |   B's own buffers  | (or channels) |    empty buffers back for refill
//!   +---------------+                    +---------------+
//! ```
//!
//! The copy is the wire. The sending thread makes it, as an adaptor's DMA would, into buffers that the
//! receiving host has provided. So the receiver's memory is its own, and a frame that finds the ring full is
//! shed without any work of the receiver. The adaptor steers each flow to one of its receive rings by a hash
//! of the destination (receive-side scaling). With [`Options::demultiplexes`] it puts each frame into the
//! ring of its channel, as `ni-lrp` requires of an adaptor.
//!
//! A frame has left its sender at once, unless the sender's adaptor was opened with [`Completion::ByPeer`].
//! Then the frame occupies a descriptor of the transmit ring until the other end, which knows when the wire
//! was free, reports that it has left, and the host has reclaimed it.
//!
//! The two ends may live on two threads. Rings have a single producer and a single consumer, and no locks.

mod adaptor;
mod armed;
mod bundle;
mod end;
mod options;
mod ring;
mod transmit;

pub use bundle::{Bundle, bundle};
pub use end::{End, WireCounters, pair};
pub use options::Options;
pub use transmit::Completion;
