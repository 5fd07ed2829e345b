//! Soft timers on the machine's clock: events in microseconds, without an interrupt for each, for any
//! program.
//!
//! A timer of the kernel costs a system call or two and a context switch for each event, and a sleep in user
//! space ends tens of microseconds late, or a millisecond in many runtimes. A program that is busy comes by
//! places all the time where a function call costs nothing: at the end of a request, of a system call, of a
//! batch. In such a *trigger state* it calls [`SoftClock::trigger`], which reads a counter of the processor
//! and compares; what is due is called as a plain function. Events are as fine as trigger states are
//! frequent, at a cost that does not show. What no trigger state has come by for, a kernel timer takes care
//! of, the *backing*: so an event that is scheduled for `T` ticks happens after more than `T`. If no trigger
//! state has come by, the backing is aimed at `T + X + 1`, where `X` is a millisecond unless said otherwise,
//! or at the event's own deadline; to be woken takes some 50 µs more.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000. The names are the paper's; a tick is a nanosecond.
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
//! // A handler is made once. It sends a packet, say, and schedules itself for the next one: 20 µs.
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
//! | looking for | see |
//! | --- | --- |
//! | scheduling, trigger states, the backing, from any thread | [`SoftClock`] |
//! | who calls handlers, and on which thread | [`Backing`], [`Waits`] |
//! | events that are not calls of closures | [`Handler`] |
//! | sleeping, in any executor | [`SoftClock::sleep_until`] |
//! | trigger states of tokio's runtimes (feature `tokio`) | [`SoftClock::drive`], [`SoftClock::block_on`] |
//! | the same without threads and clocks: time is an argument | [`evenkeel_timers::SoftTimers`] |
//! | from C | the crate `evenkeel-soft-timers-c`, `include/evenkeel_soft_timers.h` |
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
