//! A server for the files of a directory, over HTTP/1 and HTTP/2, in clear or through TLS.
//!
//! The protocol is [hyper]'s. The server runs on any runtime that has its traits: a [`hyper::rt::Timer`], a
//! [`hyper::rt::Executor`], and streams that are [`hyper::rt::Read`] and [`hyper::rt::Write`].
//!
//! - **Files** are those below the root, by names that cannot lead out of it: a symbolic link is followed if
//!   it is relative and stays below the root. Names that begin with a dot are not served. A directory is
//!   served by its `index.html`, or by a list of its names if the [settings](Settings) say so.
//! - **Requests** are `GET` and `HEAD`, with conditions, ranges and codings of the content as RFC 9110 has
//!   them.
//! - **Slow clients** have time-outs: for a head, for the next request, and for each part of an answer.
//! - **Memory** is bounded: a connection has one piece of a file in memory, and the buffers of its protocol.
//!   A connection of HTTP/2 has a smaller piece for each of its at most 100 streams.
//!
//! Files are read in pieces of at most 64 KiB, in the thread that runs the connection. Files that clients
//! request often are in memory, where a piece costs a copy. To hand the piece to another thread and to wake
//! this one again costs more, and needs another part of a runtime. The kernel reads ahead in a file that is
//! read in order. A piece that comes from a slow disk delays the other connections of its thread by one
//! access. If that is too long, run several servers, each in a thread of its own.
//!
//! [hyper]: https://hyper.rs

mod activity;
mod body;
mod coding;
mod counters;
mod listing;
mod log;
mod patience;
mod range;
mod runtime;
mod server;
mod settings;
mod site;
mod stream;
mod target;
mod tls;
mod validators;

pub use body::Body;
pub use counters::{Counters, Report};
pub use log::AccessLog;
pub use runtime::Task;
pub use server::{Server, Stopped, Stopper};
pub use settings::Settings;
pub use stream::Stream;
pub use tls::{Tls, TlsError};
