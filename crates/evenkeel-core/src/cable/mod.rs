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
//! The copy is the wire. It is made by whoever sends, as an adaptor's DMA would, into buffers that the
//! receiving host has provided, so the receiver's memory is its own and a frame that finds no room is shed
//! without the receiver's doing anything. The adaptor steers each flow to one of its receive rings by a hash
//! of the destination (receive-side scaling), or, opened with [`Options::demultiplexes`], to the ring of its
//! channel: what `ni-lrp` asks of an adaptor.
//!
//! A frame has left its sender at once, unless the sender's adaptor was opened with [`Completion::ByPeer`]:
//! then it occupies a descriptor of the transmit ring until the other end, which knows when the wire was
//! free, says that it has left, and the host has reclaimed it.
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
