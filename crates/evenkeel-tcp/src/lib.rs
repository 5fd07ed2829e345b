//! TCP (RFC 9293): sans-IO, for servers with very many connections, and for whoever has a use for a TCP of
//! his own.
//!
//! Nothing here reads a clock, draws a random number, starts a thread or knows about packets of the layers
//! below. Segments, the user's calls and the time go in; segments, deadlines and events come out.
//!
//! What goes in:
//!
//! - a segment, and fields of its IP header: [`Endpoint::input`]
//! - ICMP errors about a segment of ours: [`Endpoint::unreachable`], [`Endpoint::packet_too_big`]
//! - the time: [`Endpoint::advance`]
//! - the user's calls: [`Endpoint::listen`], [`Endpoint::accept`], [`Endpoint::connect`], [`Endpoint::read`],
//!   [`Endpoint::write`], [`Endpoint::close`] and others
//!
//! What comes out:
//!
//! - the outcome of a received segment: [`Fate`]
//! - segments to send: [`Endpoint::poll_transmit`]
//! - events of which the user is notified: [`Endpoint::poll_event`]
//! - the time at which to call [`Endpoint::advance`] next: [`Endpoint::next_deadline`]
//!
//! The contract:
//!
//! - After anything has gone in, take segments and events until there are none, then ask for the deadline.
//! - The time never goes back. It may be any time: of a clock, or of a simulation.
//! - The [`Secret`] must be random, and no other host may know it: initial sequence numbers (RFC 6528), ports
//!   (RFC 6056), SYN cookies and the hash of the table of connections come from it. With the same secret, the
//!   same input gives the same output, to the byte.
//! - Who gives segments has checked that the packet was whole and for an address of ours, no group and no
//!   broadcast. Checksum, header and options are checked here. Whatever the bytes say, nothing panics, and no
//!   queue grows without a bound.
//! - Who has several interfaces says by which a connection's segments leave ([`endpoint::Routes`]), and which
//!   are full ([`Endpoint::set_full`]): connections wait for their own, and for no other. Who has one, says
//!   `&()`.
//! - Who takes segments puts them into IP packets between the two ends that [`Transmit`](endpoint::Transmit)
//!   names, with the codepoints that it says. What cannot be sent is lost, as in a network, and sent again.
//! - Nothing is allocated for a segment, but that buffers grow; memory of all buffers together is bounded
//!   ([`EndpointConfig::buffers`]), and so are connections, those half-open and those in TIME-WAIT.
//!
//! Two endpoints that talk to each other, in 72 lines: `examples/lossy_pipe.rs`. One connection without all
//! the others: [`Connection`].
//!
//! What belongs to one connection is apart from what stands beside all of them:
//!
//! | looking for | module |
//! | --- | --- |
//! | all of it together: packets in, packets out, the user's calls | [`endpoint`] |
//! | one connection | [`connection`] |
//! | sequence numbers and ranges of them | [`seq`] |
//! | what to send again, how much may leave, when | [`recovery`] |
//! | congestion control: CUBIC, NewReno, BBR | [`congestion`] |
//! | rate-based clocking: when the next packet may leave; rates | [`rate_clock`]; [`rate`] |
//! | from a four-tuple to a connection | [`table`], [`tuple`](mod@tuple) |
//! | half-open connections, the accept queue | [`listener`] |
//! | connections in TIME-WAIT | [`time_wait`] |
//! | SYN cookies | [`cookie`] |
//! | Fast Open | [`fast_open`] |
//! | initial sequence numbers, timestamps | [`isn`] |
//! | the key behind all that must not be guessed | [`secret`] |
//! | how many answers leave to strangers | [`reply_limit`] |
//! | counters; why segments are dropped | [`counters`]; [`mod@drop`] |
//! | whose fault it is that a call failed | [`Fault`] |
//! | the Internet checksum (RFC 1071) | [`checksum`] |
//! | headers, flags, segments to and from bytes | [`segment`] |
//! | options | [`options`] |
//! | the eleven states and what leads from one to the next | [`state`] |
//! | bytes to send, bytes received, holes in them | [`buffer`] |
//!
//! Words are those of RFC 9293: `SND.UNA`, `RCV.NXT`, `SEG.SEQ` are `snd.una`, `rcv.nxt`, `seg.seq` here.

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

pub use checksum::Checksum;
pub use connection::{Config, Connection};
pub use counters::{Counter, Counters};
pub use drop::{Fate, TcpDrop};
pub use endpoint::{Endpoint, EndpointConfig};
pub use fault::Fault;
pub use isn::InitialSequence;
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
