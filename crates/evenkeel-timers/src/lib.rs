//! Timers whose cost does not depend on how many there are.
//!
//! Sans-IO: nothing here reads a clock. The caller passes the time in ([`Instant`]), asks for the next
//! deadline, and takes what has expired. No timer expires before its time, and the next deadline is always
//! that of a timer that is set.
//!
//! | looking for | module |
//! | --- | --- |
//! | all deadlines of something, each with who wants it: an example is at [`Timers`] | [`timers`] |
//! | events in microseconds, without an interrupt for each: an example is at [`SoftTimers`] | [`soft`] |
//! | one timer for each place of the caller's slab | [`wheel`] |
//! | so many a second | [`rate`] |
//! | at a steady interval, without drift | [`every`] |
//! | points in time | [`time`] |
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod every;
mod heap;
pub mod rate;
pub mod soft;
pub mod time;
pub mod timers;
pub mod wheel;

pub use every::Every;
pub use rate::{Bucket, RateLimit};
pub use soft::{Idle, SoftEvent, SoftTimers};
pub use time::{Duration, Instant};
pub use timers::{Timer, Timers};
pub use wheel::Wheel;
