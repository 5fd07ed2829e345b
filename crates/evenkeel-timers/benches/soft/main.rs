//! A benchmark of the cost of soft timers on a real core, for several numbers of pending events.
//!
//! `cargo bench -p evenkeel-timers --bench soft` prints the table; `-- WORD` only the lines with that word in
//! their names; `-- --check` and `-- --renew` compare instructions with the figures in
//! `benches/instructions`, and write them.
//!
//! Time is the median of many turns, in rounds in which the scenarios take turns: a noisy minute hits all of
//! them. Instructions are counted by valgrind; they are the same whatever else the machine is doing.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

#[path = "../../../evenkeel-core/benches/instructions/mod.rs"]
mod instructions;
#[path = "../../../evenkeel-ready/benches/ready/meter.rs"]
mod meter;
#[path = "../random/mod.rs"]
mod random;
mod scenarios;

use std::process::ExitCode;

fn main() -> ExitCode {
    meter::measure("soft", "one check or event")
}
