//! evenkeel's core: one core's worth of network subsystem, sans-IO.
//!
//! It takes frames and the time, and gives frames, deadlines and events. It reads no clock, starts no thread,
//! makes no system call and has no randomness of its own, so the same code runs on a real core and in virtual
//! time.
#![forbid(unsafe_code)]

mod atomic;
pub mod bpf;
mod byte_queue;
pub mod cable;
pub mod capture;
pub mod channel;
mod config;
mod context;
pub mod deadline;
pub mod demux;
pub mod drop;
pub mod error;
pub mod host;
pub mod id;
pub mod interface;
pub mod ledger;
mod link;
mod looks;
mod net;
mod plain;
pub mod poll;
pub mod process;
mod queue;
mod ready;
pub mod receive;
mod rx;
mod schedule;
pub mod screen;
pub mod socket;
mod sockets;
pub mod stack;
pub mod system;
mod timed;
mod trigger;
mod waiters;
pub mod work;

pub use evenkeel_frame as frame;
pub use evenkeel_tcp as tcp;
pub use evenkeel_timers::time;
pub use schedule::Policy as Scheduling;

/// Packet formats: parsing and emitting is left to smoltcp.
pub use smoltcp::wire;

/// Parts of a host that the benchmarks and the fuzzing of this crate use by themselves. They are no part of
/// its interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::channel::queue::Channel;
    pub use crate::poll::feedback::Gate;
    pub use crate::stack::internals::*;
}
