//! A network emulator, one direction of a link at a time: rate, queue, delay, jitter, loss, duplication,
//! corruption, reordering.
//!
//! The crate is sans-IO. Frames and the time go into a [`Path`], and frames come out. The due time of a frame
//! is known when it enters. All random numbers come from one seeded generator. So one seed gives one run, in
//! the virtual time of a test as in real time.
//!
//! ```text
//!   frame -> loss -> corruption -> duplication -> [ queue ] -> rate -> delay, jitter -> reordering -> out
//! ```
//!
//! A frame of 1 250 bytes over a link of 1 Mbit/s and 20 ms:
//!
//! ```
//! use evenkeel_timers::{Duration, Instant};
//! use evenkeel_wan::{Path, Rate, Rng, Settings};
//!
//! let settings = Settings {
//!     rate: Rate::Bits(1_000_000),
//!     delay: Duration::from_millis(20),
//!     ..Settings::PERFECT
//! };
//! let mut path = Path::new(settings, Rng::new(1), Instant::ZERO);
//! path.handle_frame(Instant::ZERO, vec![7; 1_250]);
//!
//! let due = path.poll_timeout();
//! assert_eq!(due, Instant::from_millis(10 + 20));
//! assert_eq!(path.poll_frame(due), Some(vec![7; 1_250]));
//! ```
//!
//! | task | item |
//! | --- | --- |
//! | emulate one direction of a link | [`Path`], [`Settings`] |
//! | transport frames of a type of the caller | [`Frame`] |
//! | set a rate in bits per second, or replay a recorded link | [`Rate`], [`Trace`] |
//! | lose frames one by one, or in bursts | [`Loss`], [`Bursts`] |
//! | draw random numbers that are equal on every machine | [`Rng`], [`Ratio`] |
//! | keep future events in order of time | [`event::Events`] |
//!
//! The crate is `no_std` with `alloc`, and has no features.
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

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
