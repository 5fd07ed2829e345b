//! An emulator of a network, one direction at a time: rate, queue, delay, jitter, loss, duplication,
//! corruption, reordering.
//!
//! Sans-IO: frames and the time go in, frames come out, and when each is due is known from when it came. All
//! dice are rolled by one seeded generator. The same [`Path`] is between the hosts of the simulator, in
//! virtual time, and between the links of `evenkeel wan`, in real time.
//!
//! ```text
//!   frame -> loss -> corruption -> duplication -> [ queue ] -> rate -> delay, jitter -> reordering -> out
//! ```
//!
//! | looking for | module |
//! | --- | --- |
//! | one direction of a link, and its settings | [`path`] |
//! | so many bits a second, or the delivery opportunities of a trace | [`rate`], [`trace`] |
//! | frames that vanish, one by one or in bursts | [`loss`] |
//! | what will happen, in order of time | [`event`] |
//! | dice | [`rng`] |
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod event;
pub mod loss;
pub mod path;
pub mod rate;
pub mod rng;
pub mod trace;

pub use loss::{Bursts, Loss};
pub use path::{Counters, Frame, Limit, Path, Settings, Size};
pub use rate::Rate;
pub use rng::{Ratio, Rng};
pub use trace::{Trace, TraceError};
