//! TCP (RFC 9293) as a library: no sockets, no threads, no clock, and very many connections.
//!
//! The crate is for programs that bring their own packets: user-space network stacks, simulators, test tools,
//! proxies over a TUN device, firmware. It is sans-IO. Segments, the user's calls and the time go in;
//! segments, deadlines and events come out. So real and virtual time run the same code, and tests need no
//! waiting.
//!
//! # A tour
//!
//! An [`Endpoint`] is the TCP of a host, with all its connections. Here are two of them, in one program:
//!
//! ```
//! use std::net::Ipv4Addr;
//!
//! use evenkeel_tcp::endpoint::{ListenAt, Packet};
//! use evenkeel_tcp::time::Instant;
//! use evenkeel_tcp::{Endpoint, EndpointConfig, FourTuple, ListenerConfig, Secret};
//!
//! // The largest segment of a link with an MTU of 1500 bytes.
//! const MSS: u16 = 1_460;
//!
//! // Secrets must be random. Here they are not, so that each run is the same.
//! let mut client = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
//! let mut server = Endpoint::new(EndpointConfig::default(), Secret::of_seed(2));
//! let now = Instant::ZERO;
//!
//! // The user's calls. None of them waits.
//! let at = server.listen(ListenAt::any(80), &ListenerConfig::default(), None)?;
//! let (here, there) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
//! let ours = client.connect(FourTuple::new((here, 0), (there, 80)), MSS, now)?;
//! client.write(ours, b"hello")?;
//!
//! // The network: each side's segments become the other side's input.
//! let mut buffer = [0; 60 + MSS as usize];
//! let mut move_segments = |from: &mut Endpoint, to: &mut Endpoint| {
//!     while let Some(sent) = from.poll_transmit(now, &(), &mut buffer) {
//!         let (source, destination) = (sent.tuple.local.addr, sent.tuple.remote.addr);
//!         let packet = Packet { source, destination, ecn: sent.ecn, mss: MSS };
//!         to.input(&buffer[..sent.len], &packet, now);
//!     }
//! };
//! for _ in 0..2 {
//!     move_segments(&mut client, &mut server);
//!     move_segments(&mut server, &mut client);
//! }
//!
//! let theirs = server.accept(&at).expect("the handshake is over");
//! let mut text = [0; 16];
//! assert_eq!(server.read(theirs, &mut text, now), Ok(5));
//! assert_eq!(&text[..5], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Three programs in the repository go on from here. `examples/lossy_pipe.rs` loses every seventh segment.
//! `examples/many_connections.rs` serves 10 000 connections. `examples/tun_echo.rs` talks to the kernel's TCP
//! over a TUN device.
//!
//! # What goes in
//!
//! - a received segment, with fields of its IP header: [`Endpoint::input`]
//! - an ICMP error about a segment that left: [`Endpoint::unreachable`], [`Endpoint::packet_too_big`]
//! - the time: [`Endpoint::advance`]
//! - the user's calls: [`Endpoint::listen`], [`Endpoint::accept`], [`Endpoint::connect`], [`Endpoint::read`],
//!   [`Endpoint::write`], [`Endpoint::close`] and others
//!
//! # What comes out
//!
//! - the outcome of a received segment: [`Fate`]
//! - segments to send: [`Endpoint::poll_transmit`]
//! - events of which the user is notified: [`Endpoint::poll_event`]
//! - the time at which to call [`Endpoint::advance`] next: [`Endpoint::next_deadline`]
//!
//! # The contract
//!
//! - After anything has gone in, the caller takes segments and events until there are none. Then it asks for
//!   the deadline.
//! - Time never goes back. It may be the time of a clock, or of a simulation.
//! - The [`Secret`] is random, and no other host knows it. Initial sequence numbers (RFC 6528), ports (RFC
//!   6056), SYN cookies and the hash of the table of connections come from it. With the same secret, the same
//!   input gives the same output, to the byte.
//! - The caller has checked that a packet is whole, and for a unicast address of the host. Checksum, header
//!   and options are checked here. No bytes of a segment make the crate panic, and no queue grows without a
//!   bound.
//! - The caller puts each segment into an IP packet between the ends that [`Transmit`](endpoint::Transmit)
//!   names, with its codepoints. A segment that cannot be sent is lost, as in a network, and is sent again.
//! - A host with several interfaces implements [`endpoint::Routes`], and reports which interfaces are full
//!   ([`Endpoint::set_full`]). Connections wait for their own interface only. A host with one passes `&()`.
//! - No segment allocates memory, except for buffers that grow. The memory of all buffers has one bound
//!   ([`EndpointConfig::buffers`]). The numbers of connections, of half-open ones and of those in TIME-WAIT
//!   have bounds, too.
//!
//! # Settings
//!
//! [`EndpointConfig`], [`ListenerConfig`], [`Config`] and
//! [`RecoveryConfig`](recovery::RecoveryConfig) have public fields and a `Default`. Write only the fields
//! that differ, and end with `..Default::default()`: minor versions add fields. Enums and reports that grow
//! with the protocol are `#[non_exhaustive]`.
//!
//! # Modules
//!
//! The parts can be used without the whole: a [`Connection`] without an endpoint, a [`Segment`] without a
//! connection.
//!
//! | task | module |
//! | --- | --- |
//! | run the TCP of a host: packets in, packets out, the user's calls | [`endpoint`] |
//! | run one connection | [`connection`] |
//! | choose congestion control: CUBIC, NewReno, BBR, or one of your own | [`congestion`] |
//! | decide what to send again, how much may leave, and when | [`recovery`] |
//! | space packets at a rate; represent a rate | [`rate_clock`]; [`rate`] |
//! | find a connection by its four-tuple | [`table`], [`tuple`](mod@tuple) |
//! | keep half-open connections and the accept queue | [`listener`] |
//! | keep connections in TIME-WAIT | [`time_wait`] |
//! | answer SYNs without memory: SYN cookies | [`cookie`] |
//! | send data in a SYN: Fast Open | [`fast_open`] |
//! | choose initial sequence numbers and timestamps | [`isn`] |
//! | keep the key of everything that must not be guessed | [`secret`] |
//! | limit the rate of answers to unverified senders | [`reply_limit`] |
//! | count events; name the reasons of drops | [`counters`]; [`mod@drop`] |
//! | attribute the failure of a call | [`Fault`] |
//! | compute the Internet checksum (RFC 1071) | [`checksum`] |
//! | parse and emit segments and their options | [`segment`]; [`options`] |
//! | compare sequence numbers | [`seq`] |
//! | look up the eleven states and their transitions | [`state`] |
//! | buffer bytes to send and bytes received, with holes | [`buffer`] |
//!
//! Names are those of RFC 9293: `SND.UNA`, `RCV.NXT` and `SEG.SEQ` are `snd.una`, `rcv.nxt` and `seg.seq` in
//! the sources.
//!
//! The crate is `no_std` with `alloc`. It has no features, and no `unsafe` code.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod buffer;
pub mod checksum;
pub mod congestion;
pub mod connection;
pub mod cookie;
pub mod counters;
pub mod drop;
pub mod endpoint;
pub mod fast_open;
mod fault;
pub mod isn;
mod known;
pub mod listener;
pub mod options;
mod queue;
#[cfg(test)]
mod random;
pub mod rate;
mod rate_cache;
pub mod rate_clock;
pub mod recovery;
pub mod reply_limit;
pub mod secret;
pub mod segment;
pub mod seq;
pub mod state;
pub mod table;
#[cfg(test)]
mod tests;
pub mod time_wait;
pub mod tuple;
mod tuple_hash;

pub use checksum::Checksum;
pub use connection::{Config, Connection};
pub use counters::{Counter, Counters};
pub use drop::{Fate, TcpDrop};
pub use endpoint::{Endpoint, EndpointConfig};
pub use fault::Fault;
pub use isn::InitialSequence;
pub use known::KnownEnds;
pub use listener::{Listener, ListenerConfig};
pub use options::{Cookie, Options, SackBlocks, Timestamps};
pub use rate::Rate;
pub use rate_clock::RateClock;
pub use reply_limit::ReplyLimit;
pub use secret::Secret;
pub use segment::{Ecn, Flags, Header, Malformed, Segment};
pub use seq::{SeqNumber, SeqRange};
pub use state::State;
pub use table::Table;
pub use time_wait::{TimeWait, TimeWaitConfig};
pub use tuple::{AddrPort, FourTuple};

pub use evenkeel_timers::{Wheel, time};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
