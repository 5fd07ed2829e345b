//! An emulated network between two links, for `evenkeel wan`.
//!
//! The emulator is a bridge: frames leave unchanged, those of ARP and IPv6 as well, at the time that
//! [`evenkeel_wan::Path`] determines. It measures for each frame how late it really left, and counts the
//! frames that it lost without a setting for it.
//!
//! **Clocked finely.** One thread reads the clock after every action. If the next frame is due sooner than a
//! wake-up takes, some tens of microseconds, the thread polls the clock. Otherwise it halts until then, or
//! until a frame arrives.

pub mod between;
pub mod cable;
mod clocked;
mod emulator;
mod error;
mod links;
mod port;
mod report;
mod run;
mod wall;

pub use emulator::{Options, RealTime};
pub use error::WanError;
pub use report::{Direction, Late, Own, Report};
pub use run::{Reread, Wan, run};
