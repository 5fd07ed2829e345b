//! TCP (RFC 9293): sans-IO, for servers with very many connections.
//!
//! Segments, the user's calls and the time go in; segments, events and deadlines come out. Nothing here reads a clock, draws a
//! random number or knows about frames: initial sequence numbers and keys are handed in, and the caller puts segments into packets.
//!
//! What belongs to one connection is apart from what stands beside all of them:
//!
//! | looking for | module |
//! | --- | --- |
//! | all of it together: packets in, packets out, the user's calls | [`endpoint`] |
//! | one connection | [`connection`] |
//! | sequence numbers and ranges of them | [`seq`] |
//! | what to send again, how much may leave, when | [`recovery`] |
//! | congestion control: CUBIC, NewReno | [`congestion`] |
//! | from a four-tuple to a connection | [`table`], [`tuple`](mod@tuple) |
//! | half-open connections, the accept queue | [`listener`] |
//! | connections in TIME-WAIT | [`time_wait`] |
//! | SYN cookies | [`cookie`] |
//! | Fast Open | [`fast_open`] |
//! | initial sequence numbers, timestamps | [`isn`] |
//! | the key behind all that must not be guessed | [`secret`] |
//! | counters; why segments are dropped | [`counters`]; [`drop`] |
//! | the Internet checksum (RFC 1071) | [`checksum`] |
//! | headers, flags, segments to and from octets | [`segment`] |
//! | options | [`options`] |
//! | the eleven states and what leads from one to the next | [`state`] |
//! | octets to send, octets received, holes in them | [`buffer`] |
//!
//! Words are those of RFC 9293: `SND.UNA`, `RCV.NXT`, `SEG.SEQ` are `snd.una`, `rcv.nxt`, `seg.seq` here.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod checksum;
pub mod congestion;
pub mod connection;
pub mod cookie;
pub mod counters;
pub mod drop;
pub mod endpoint;
pub mod fast_open;
pub mod isn;
pub mod listener;
pub mod options;
mod pacer;
mod queue;
#[cfg(test)]
mod random;
pub mod recovery;
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
pub use drop::TcpDrop;
pub use endpoint::{Endpoint, EndpointConfig};
pub use isn::InitialSequence;
pub use listener::{Listener, ListenerConfig};
pub use options::{Cookie, Options, SackBlocks, Timestamps};
pub use secret::Secret;
pub use segment::{Ecn, Flags, Header, Malformed, Segment};
pub use seq::{SeqNumber, SeqRange};
pub use state::State;
pub use table::Table;
pub use time_wait::{TimeWait, TimeWaitConfig};
pub use tuple::FourTuple;

pub use evenkeel_timers::{Wheel, time};
/// Packet formats: parsing and emitting is left to smoltcp.
pub use smoltcp::wire;
