//! Timers whose cost does not depend on how many there are.
//!
//! Sans-IO: nothing here reads a clock. The caller passes the time in ([`Instant`]), asks for the next deadline, and takes
//! what has expired.
//!
//! | looking for | module |
//! | --- | --- |
//! | one timer for each place of the caller's slab | [`wheel`] |
//! | points in time | [`time`] |
#![forbid(unsafe_code)]

pub mod time;
pub mod wheel;

pub use time::{Duration, Instant};
pub use wheel::Wheel;
