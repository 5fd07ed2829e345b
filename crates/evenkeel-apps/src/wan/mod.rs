//! A network between two links, emulated: what `evenkeel wan` runs.
//!
//! It is a bridge: frames leave as they came, those of ARP and IPv6 as well, when [`evenkeel_wan::Path`] says
//! that they are due. How far the time at which a frame really left was behind that is measured for each of
//! them, and so is what the emulator lost without having been told to.
//!
//! **Clocked finely.** One thread looks at the clock after everything it does. What is due sooner than it
//! would be woken, some tens of microseconds, it waits for by looking again; until then it halts, unless a
//! frame comes.

pub mod between;
pub mod cable;
mod clocked;
mod emulator;
mod links;
mod port;
mod report;
mod run;
mod wall;

pub use emulator::{Options, RealTime};
pub use report::{Late, Own, Report, Way};
pub use run::{Reread, Wan, WanError, run};
