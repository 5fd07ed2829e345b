//! Measures the cost of readiness on a real core: per descriptor and per event, among given numbers of idle
//! descriptors.
//!
//! `cargo bench -p evenkeel-ready` prints the table; `-- WORD` only the lines with that word in their names;
//! `-- --check` and `-- --renew` compare instructions with the figures in `benches/instructions`, and write
//! them.
//!
//! Time is the median of many turns, in rounds in which the scenarios take turns: a noisy minute hits all of
//! them. Instructions are counted by valgrind; they are the same whatever else the machine is doing.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

#[path = "../../../evenkeel-core/benches/instructions/mod.rs"]
mod instructions;
mod meter;
mod scenarios;

use std::process::ExitCode;

fn main() -> ExitCode {
    meter::measure("ready", "one descriptor, call or event")
}
