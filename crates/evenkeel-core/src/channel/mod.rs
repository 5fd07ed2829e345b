//! Channels: one receive queue per socket, shared by the interface and the receiver.
//!
//! A channel replaces the one queue that all IP traffic shares. It is bounded, and a frame that finds it full
//! is discarded before any protocol work: overload at one socket ends at that socket. Source: NI channel,
//! Druschel and Banga, OSDI 1996, section 3.

mod ahead;
mod allowances;
pub(crate) mod queue;
mod table;

pub(crate) use ahead::Ahead;
pub use ahead::AheadCounters;

pub use crate::id::ChannelId;
pub use queue::ChannelCounters;
pub(crate) use queue::{Arrival, Channel, SegmentKind, Verdict, Waiting};
pub(crate) use table::ChannelTable;
