//! One core's worth of network subsystem, sans-IO: hosts, receive architectures, protocols and sockets.
//!
//! A [`Host`](host::Host) takes frames and the time, and gives frames, deadlines and events. It reads no
//! clock, starts no thread, makes no system call and has no randomness of its own. So the same code runs on
//! a real core and in virtual time. Programs on Linux use the crate `evenkeel`, which drives a host; this
//! crate is for drivers, simulators and tests.
//!
//! A driver calls [`Host::turn`](host::Host::turn) until there is nothing to do, and passes the time. Here
//! two hosts share a cable, and every work item takes a microsecond:
//!
//! ```
//! use evenkeel_core::cable::{End, Options, pair};
//! use evenkeel_core::host::{Config, Host};
//! use evenkeel_core::receive::Architecture;
//! use evenkeel_core::system::UdpSocket;
//! use evenkeel_core::time::{Duration, Instant};
//! use evenkeel_core::wire::{IpAddress, IpCidr, IpEndpoint};
//!
//! /// Runs a host until it has nothing to do. Returns the time then.
//! fn run(host: &mut Host, mut now: Instant) -> Instant {
//!     loop {
//!         let Some(done) = host.turn(now) else {
//!             // With its interrupts enabled, no frame that came meanwhile is missed.
//!             if host.halt(now) {
//!                 return now;
//!             }
//!             continue;
//!         };
//!         let elapsed = Duration::from_micros(1);
//!         now += elapsed;
//!         host.charge(&done, elapsed);
//!         host.finish(&done, now);
//!     }
//! }
//!
//! fn host(end: End, address: IpAddress) -> Host {
//!     let mut host = Host::new(Config::of(Architecture::SoftLrp)).expect("memory");
//!     host.add_interface(Box::new(end), &[IpCidr::new(address, 24)], Instant::ZERO).expect("room");
//!     host
//! }
//!
//! let (a, b) = pair(Options::new("a", 1), Options::new("b", 2));
//! let mut client = host(a, IpAddress::v4(10, 0, 0, 1));
//! let mut server = host(b, IpAddress::v4(10, 0, 0, 2));
//!
//! let mut now = Instant::ZERO;
//! let (asks, serves) = (client.attach("asks", 0, now), server.attach("serves", 0, now));
//! let socket = server.enter(serves, now, |system| UdpSocket::bind(system, None, 7))??;
//! let sender = client.enter(asks, now, |system| UdpSocket::bind(system, None, 0))??;
//! let to = IpEndpoint::new(IpAddress::v4(10, 0, 0, 2), 7);
//! client.enter(asks, now, |system| sender.send(system, to, b"hello"))??;
//! // A request of ARP, its answer, then the datagram.
//! for _ in 0..3 {
//!     now = run(&mut client, now);
//!     now = run(&mut server, now);
//! }
//! let datagram = server.enter(serves, now, |system| socket.receive(system))??;
//! assert_eq!(datagram.as_slice(), Some(&b"hello"[..]));
//! drop(datagram);
//! // Every frame is accounted for.
//! client.check()?;
//! server.check()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | looking for | module |
//! | --- | --- |
//! | the host, its settings, levels and work items | [`host`] |
//! | the receive architectures; policies of polling and feedback | [`receive`]; [`poll`] |
//! | calls of programs; processes; errors | [`system`]; [`process`]; [`error`] |
//! | the driver contract; an Ethernet in memory | [`interface`]; [`cable`] |
//! | demultiplexing; channels | [`demux`]; [`channel`] |
//! | IP, ARP, ICMP, UDP; TCP | [`stack`]; [`tcp`] |
//! | captures; screening | [`capture`], [`bpf`]; [`screen`] |
//! | where every frame went, and why it was dropped | [`ledger`], [`drop`](mod@drop) |
//!
//! The [architecture] page follows a frame through these modules. The [decisions] give the reasons.
//!
//! [architecture]: https://github.com/evenkeel/evenkeel/blob/main/ARCHITECTURE.md
//! [decisions]: https://github.com/evenkeel/evenkeel/blob/main/docs/decisions/index.md
#![forbid(unsafe_code)]

mod atomic;
pub mod bpf;
mod byte_queue;
pub mod cable;
pub mod capture;
pub mod channel;
mod config;
mod context;
pub mod deadline;
pub mod demux;
pub mod drop;
pub mod error;
pub mod host;
pub mod id;
pub mod interface;
pub mod ledger;
mod link;
mod looks;
mod net;
pub mod offload;
mod other_stack;
mod plain;
pub mod poll;
pub mod process;
mod queue;
mod ready;
pub mod receive;
pub mod refuser;
mod rx;
mod schedule;
pub mod screen;
pub mod segmentation;
pub mod socket;
mod sockets;
pub mod stack;
mod stray;
pub mod system;
mod timed;
mod trigger;
mod waiters;
pub mod work;

pub use evenkeel_frame as frame;
pub use evenkeel_tcp as tcp;
pub use evenkeel_timers::time;
pub use schedule::Policy as Scheduling;

/// Packet formats: parsing and emitting is left to smoltcp.
pub use smoltcp::wire;

/// Parts of a host that the benchmarks and the fuzzing of this crate use by themselves. They are no part of
/// its interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::channel::queue::Channel;
    pub use crate::poll::feedback::Gate;
    pub use crate::stack::internals::*;
}
