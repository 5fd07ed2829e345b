//! Descriptors, `select`, `poll` and event queues, at a cost that follows events and not descriptors.
//!
//! A server of many clients has thousands of connections, of which few are busy at a time. Classic `select`
//! tests every descriptor at each call, and opening a descriptor searches all open ones for the first free
//! number. This crate has the improvements of Banga and Mogul to both ("Scalable kernel performance for
//! Internet servers under realistic loads", WRL 98/6). It also has the interface that they propose in place
//! of `select`: an event queue, shaped like `epoll` and `kqueue`. The classic calls are here as baselines.
//!
//! The crate is for *hosts*: kernels, network stacks in user space, and simulators. It is sans-IO: nothing
//! here makes a system call, reads a clock or starts a thread. A host does three things:
//!
//! 1. It opens files for its programs. A value of its own, such as a socket's number, names the object.
//! 2. It gives a *hint* when an object may have become ready, and lets the callers continue that are woken.
//! 3. It answers, through a function that each call takes, which kinds of event hold for an object now.
//!
//! [`Readiness`] combines all parts and documents the contract. Here a program selects among 10 000 sockets.
//! The [event queue](Readiness::open_queue) has an example of its own:
//!
//! ```
//! use evenkeel_ready::{Allocation, FdSets, Kinds, Readiness, Wait};
//!
//! // The host has sockets, and the number of bytes that have arrived for each.
//! let mut sockets = vec![0_usize; 10_000];
//!
//! let mut host = Readiness::new(Allocation::Bitmap);
//! let server = host.spawn(20_000);
//! let thread = host.attach(server);
//! let opened: Vec<_> = (0..sockets.len()).map(|socket| host.open(server, socket).unwrap()).collect();
//!
//! // The program waits for all of them. At first nothing is known of any, so each is tested.
//! let mut selecting = FdSets::new();
//! selecting.read.extend(opened.iter().map(|opened| opened.fd));
//! let mut found = FdSets::new();
//! let status = |socket: usize, _| Kinds::READABLE.when(sockets[socket] > 0);
//! let answer = host.select(thread, &selecting, &mut found, Wait::UntilReady, status)?;
//! assert_eq!((answer.ready, answer.tests), (0, 10_000));
//!
//! // Now it sleeps. A packet arrives for one socket. The thread is woken, and only that socket is tested.
//! sockets[4_711] += 512;
//! host.hint(opened[4_711].file, Kinds::READABLE);
//! assert_eq!(host.next_woken(), Some(thread));
//! let status = |socket: usize, _| Kinds::READABLE.when(sockets[socket] > 0);
//! let answer = host.woken(thread, &mut found, status)?;
//! assert_eq!((answer.ready, answer.tests), (1, 1));
//! assert_eq!(found.read.iter().collect::<Vec<_>>(), [4_711]);
//!
//! // The program reads it and selects again. That socket was ready before, so it is tested, and no other.
//! sockets[4_711] = 0;
//! let status = |socket: usize, _| Kinds::READABLE.when(sockets[socket] > 0);
//! let answer = host.select(thread, &selecting, &mut found, Wait::UntilReady, status)?;
//! assert_eq!((answer.ready, answer.tests), (0, 1));
//! # Ok::<(), evenkeel_ready::BadDescriptor>(())
//! ```
//!
//! | task | item |
//! | --- | --- |
//! | run processes, hints and callers, all together | [`Readiness`] |
//! | wait with an event queue | [`Readiness::open_queue`], [`Readiness::wait`], [`Trigger`] |
//! | wait with `select` or `poll` | [`Readiness::select`], [`Readiness::poll`] |
//! | wait without memory, as a baseline | [`classic`] |
//!
//! Each part is usable without the others:
//!
//! | task | item |
//! | --- | --- |
//! | find the number of a new descriptor | [`BitmapNumbers`]; with a linear search: [`LinearNumbers`] |
//! | keep descriptors of processes, with `dup`, `dup2` and `fork` | [`Descriptors`] |
//! | store and scan sets of descriptors, a word at a time | [`FdSet`], [`FdSets`] |
//!
//! The crate is `no_std` with `alloc`, and has no features.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod call;
pub mod classic;
mod descriptors;
mod kinds;
mod memory;
mod numbers;
mod queue;
mod readiness;
mod set;
mod tree;
mod watches;

pub use call::{Answer, PollEntry, Wait};
pub use descriptors::{BadDescriptor, Closed, Descriptors, DupError, FileId, Opened, ProcessId};
pub use kinds::Kinds;
pub use numbers::{Allocation, AnyNumbers, BitmapNumbers, LinearNumbers, Numbers, TooManyOpen};
pub use queue::{Event, Interest, Trigger};
pub use readiness::{CallerId, Object, QueueError, QueueId, Readiness};
pub use set::{FdSet, FdSets};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
