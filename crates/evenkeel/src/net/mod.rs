//! Sockets with the calls of the standard library's, over a host that the waiting threads run.
//!
//! A [`Net`] is a handle of a host that any number of threads share. The thread that wants data does the
//! protocol work for them: in the receive call of UDP, in the calls on a stream, in `accept`. Of the threads
//! that wait, one sleeps on the devices, and finds out whose the frames are. A helper thread answers ARP and
//! ICMP, and acknowledges what comes for threads that compute.
//!
//! The calls are those of [`std::net`], and errors have the kinds that the kernel's sockets report
//! ([`Error::errno`](crate::Error::errno)). The book has a page on [sockets], and one on [hosts and threads].
//!
//! ```
//! use std::io::{Read as _, Write as _};
//!
//! use evenkeel::net::{Net, TcpListener, TcpStream};
//!
//! let (client, server) = Net::pair()?; // two hosts, joined by a cable
//! let listener = TcpListener::bind(&server, "0.0.0.0:80")?;
//! let mut near = TcpStream::connect(&client, "10.0.0.2:80")?;
//! let (mut far, peer) = listener.accept()?;
//! assert_eq!(peer.ip().to_string(), "10.0.0.1");
//!
//! near.write_all(b"hello")?;
//! drop(near);
//! let mut received = String::new();
//! far.read_to_string(&mut received)?;
//! assert_eq!(received, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | looking for | file |
//! | --- | --- |
//! | opening a host | `builder.rs`, `handle.rs` |
//! | sockets | `udp.rs`, `listener.rs`, `stream.rs`; what they have in common: `socket.rs`, `settings.rs` |
//! | a call that waits | `waiting.rs`, `seat.rs` |
//! | tasks: their place while they wait; streams that they poll | `slot.rs`; `polled.rs` |
//! | an executor without tokio | `executor/` |
//! | who drives, who waits | `roles.rs`; the lock: `shared.rs`; the helper: `helper.rs` |
//!
//! [sockets]: https://github.com/evenkeel/evenkeel/blob/main/docs/library/sockets.md
//! [hosts and threads]: https://github.com/evenkeel/evenkeel/blob/main/docs/library/hosts-and-threads.md

mod address;
mod builder;
mod error;
pub mod executor;
mod handle;
mod helper;
mod listener;
mod polled;
mod primitives;
mod roles;
#[cfg(feature = "tokio")]
mod runtimes;
mod seat;
mod settings;
mod shared;
mod slot;
mod socket;
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;
mod udp;
mod waiting;

pub use builder::Builder;
pub use handle::Net;
pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;
pub use udp::UdpSocket;
