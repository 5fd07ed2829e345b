//! Readiness of descriptors: programs with very many descriptors find out which are ready, at a cost that
//! follows events and not descriptors.
//!
//! A server of many clients has thousands of connections, of which few are busy at a time. Classic `select`
//! tests every descriptor at each call, and opening a descriptor searches all open ones for the first free
//! number. This crate has the improvements of Banga and Mogul to both ("Scalable kernel performance for
//! Internet servers under realistic loads", WRL 98/6). It also has the interface that they propose in place
//! of `select`: an event queue, shaped like `epoll` and `kqueue`. The classic calls are here as baselines.
//!
//! Sans-IO: nothing here makes a system call, reads a clock or starts a thread. The host is a kernel, or a
//! subsystem in user space. It opens files for its programs, gives hints when something may have become
//! ready, and answers which kinds of event hold. [`Readiness`] combines all parts and documents the
//! contract:
//!
//! ```
//! use evenkeel_ready::{Allocation, FdSets, Kinds, Readiness, Wait};
//!
//! // What the host has: sockets, and how much has arrived for each.
//! let mut sockets = vec![0_usize; 10_000];
//!
//! let mut host = Readiness::new(Allocation::Bitmap);
//! let server = host.spawn(20_000);
//! let thread = host.attach(server);
//! let opened: Vec<_> = (0..sockets.len()).map(|socket| host.open(server, socket).unwrap()).collect();
//!
//! // The program waits for all of them. At first nothing is known of any: each is asked.
//! let mut selecting = FdSets::new();
//! selecting.read.extend(opened.iter().map(|opened| opened.fd));
//! let mut found = FdSets::new();
//! let status = |socket: usize, _| Kinds::READABLE.when(sockets[socket] > 0);
//! let answer = host.select(thread, &selecting, &mut found, Wait::UntilReady, status)?;
//! assert_eq!((answer.ready, answer.tests), (0, 10_000));
//!
//! // Now it sleeps. A packet comes for one socket; the thread is woken, and just that one is asked.
//! sockets[4_711] += 512;
//! host.hint(opened[4_711].file, Kinds::READABLE);
//! assert_eq!(host.next_woken(), Some(thread));
//! let status = |socket: usize, _| Kinds::READABLE.when(sockets[socket] > 0);
//! let answer = host.woken(thread, &mut found, status)?;
//! assert_eq!((answer.ready, answer.tests), (1, 1));
//! assert_eq!(found.read.iter().collect::<Vec<_>>(), [4_711]);
//!
//! // The program reads it, and selects again: that one was ready before, so it is asked, and no other.
//! sockets[4_711] = 0;
//! let status = |socket: usize, _| Kinds::READABLE.when(sockets[socket] > 0);
//! let answer = host.select(thread, &selecting, &mut found, Wait::UntilReady, status)?;
//! assert_eq!((answer.ready, answer.tests), (0, 1));
//! # Ok::<(), evenkeel_ready::BadDescriptor>(())
//! ```
//!
//! Each part can be used without the others:
//!
//! | looking for | see |
//! | --- | --- |
//! | which number a new descriptor gets | [`BitmapNumbers`]; by linear search: [`LinearNumbers`] |
//! | the descriptors of processes, `dup`, `dup2`, `fork`; the references to a file | [`Descriptors`] |
//! | sets of descriptors, a word at a time | [`FdSet`], [`FdSets`] |
//! | all of it together: processes, hints, callers to wake | [`Readiness`] |
//! | `select` and `poll` | [`Readiness::select`], [`Readiness::poll`] |
//! | `select` and `poll` that remember nothing | [`classic`] |
//! | the event queue: what it reports and when | [`Readiness::open_queue`], [`Trigger`] |
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
