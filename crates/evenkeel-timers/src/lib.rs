//! Timers whose cost does not depend on their number: a timing wheel, soft timers, token buckets, and steady
//! intervals.
//!
//! The crate is sans-IO: nothing here reads a clock, sleeps or starts a thread. The program passes the time
//! in as an [`Instant`]. It asks for the next deadline, waits for it by its own means, and then takes what
//! has expired. So real time and virtual time run the same code, and tests need no waiting.
//!
//! Two promises hold for every timer. It never expires before its deadline. And the next deadline that is
//! reported is the deadline of a timer that is set: no program wakes for a cancelled timer.
//!
//! ```
//! use evenkeel_timers::{Instant, Timers};
//!
//! let mut timers = Timers::new();
//! let retransmission = timers.register("retransmit");
//! let keepalive = timers.register("probe");
//! timers.set(&retransmission, Instant::from_millis(200));
//! timers.set(&keepalive, Instant::from_millis(500));
//!
//! // An acknowledgment arrives: the timer moves.
//! timers.set(&retransmission, Instant::from_millis(900));
//!
//! let now = timers.next_deadline();
//! assert_eq!(now, Instant::from_millis(500));
//! assert_eq!(timers.poll_expired(now), Some("probe"));
//! assert_eq!(timers.poll_expired(now), None);
//! ```
//!
//! | task | type |
//! | --- | --- |
//! | keep many deadlines, each with its owner | [`Timers`] |
//! | keep one timer for each slot of a slab of the program | [`Wheel`] |
//! | run events every few microseconds without an interrupt for each | [`SoftTimers`] |
//! | limit events to a rate with bursts | [`RateLimit`], [`Bucket`] |
//! | repeat an event at a steady interval, without drift | [`Every`] |
//! | represent a point in time | [`Instant`] |
//!
//! The crate `evenkeel-soft-timers` puts [`SoftTimers`] on the machine's clock, for all threads of a program.
//!
//! The crate is `no_std` with `alloc`, and has no features.
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

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
