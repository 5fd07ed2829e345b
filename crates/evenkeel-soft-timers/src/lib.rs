//! Soft timers on the machine's clock: events every few microseconds without an interrupt for each, in any
//! busy program on Linux.
//!
//! A kernel timer costs a system call or two and a context switch for each event. A sleep in user space ends
//! tens of microseconds late, and in many runtimes a millisecond. But a busy program often passes points
//! where a function call costs next to nothing: the end of a request, of a system call, of a batch. There it
//! calls [`SoftClock::trigger`], which reads a counter of the processor and compares. If an event is due, its
//! handler is called as a plain function.
//!
//! Such a point is a *trigger state*. Events are as precise as trigger states are frequent. A kernel timer,
//! the *backing*, handles the events for which none has occurred. So there are two bounds:
//!
//! - An event that is scheduled for `T` ticks happens after more than `T`: never early.
//! - Without trigger states, the backing fires at `T + X + 1`, where `X` is a millisecond by default, or at
//!   the event's own deadline. Waking takes some 50 µs more.
//!
//! A tick is a nanosecond. The names are those of the paper: Aron and Druschel, "Soft timers: efficient
//! microsecond software timer support for network processing", ACM TOCS 18(3), 2000.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::sync::Arc;
//!
//! use evenkeel_soft_timers::{Call, Options, SoftClock};
//!
//! let clock = SoftClock::start(Options::default())?;
//! let sent = Arc::new(AtomicU32::new(0));
//!
//! // A handler is created once. This one sends a packet and schedules itself for the next: 20 µs.
//! let count = Arc::clone(&sent);
//! let send = Call::again(move |clock: &SoftClock, send: Call| {
//!     if count.fetch_add(1, Ordering::Relaxed) < 9 {
//!         clock.schedule_soft_event(20_000, send);
//!     }
//! });
//! clock.schedule_soft_event(20_000, send);
//!
//! // The program does its work.
//! while sent.load(Ordering::Relaxed) < 10 {
//!     clock.trigger();
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | task | item |
//! | --- | --- |
//! | schedule and trigger events, from any thread | [`SoftClock`] |
//! | repeat an event at a steady interval | [`SoftClock::every`] |
//! | choose the backing, and the thread that calls overdue handlers | [`Options`], [`Backing`], [`Waits`] |
//! | have events that are not closures | [`Handler`] |
//! | sleep for microseconds, in any executor | [`SoftClock::sleep`], [`SoftClock::sleep_until`] |
//! | trigger events in tokio's runtimes (feature `tokio`) | [`SoftClock::drive`], [`SoftClock::block_on`] |
//! | read the clock alone | [`Clock`] |
//! | use the mechanism without threads and clocks | [`evenkeel_timers::SoftTimers`] |
//!
//! # Features
//!
//! - `tokio` (off by default): trigger states of tokio's runtimes.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "tokio"), allow(rustdoc::broken_intra_doc_links, reason = "of that feature"))]
#![deny(unsafe_code)]

mod clock;
#[cfg(feature = "tokio")]
mod idle;
mod interrupt;
mod sleep;
mod soft_clock;
mod sync;
#[cfg(feature = "tokio")]
mod tokio;

pub use clock::Clock;
pub use evenkeel_timers::{Idle, SoftEvent};
pub use sleep::Sleep;
pub use soft_clock::{Backing, Call, Counts, Handler, Options, SoftClock, Waits};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
