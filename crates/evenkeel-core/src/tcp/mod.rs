//! TCP (RFC 9293): sans-IO, for servers with very many connections.
//!
//! Segments, the user's calls and the time go in; segments, events and deadlines come out. Nothing here reads a clock, draws a
//! random number or knows about frames: initial sequence numbers and keys are handed in, and the caller puts segments into packets.
//!
//! What belongs to one connection is apart from what stands beside all of them:
//!
//! | looking for | module |
//! | --- | --- |
//! | sequence numbers and ranges of them | [`seq`] |
//! | from a four-tuple to a connection | [`table`], [`tuple`] |
//! | timers of very many connections | [`wheel`] |
//! | initial sequence numbers, timestamp offsets | [`isn`] |
//! | the key behind all that must not be guessed | [`secret`] |
//! | counters | [`counters`] |
//!
//! Words are those of RFC 9293: `SND.UNA`, `RCV.NXT`, `SEG.SEQ` are `snd.una`, `rcv.nxt`, `seg.seq` here.

pub mod counters;
pub mod isn;
pub mod secret;
pub mod seq;
pub mod table;
pub mod tuple;
pub mod wheel;

pub use counters::{Counter, Counters};
pub use isn::InitialSequence;
pub use secret::Secret;
pub use seq::{SeqNumber, SeqRange};
pub use table::Table;
pub use tuple::FourTuple;
pub use wheel::Wheel;
