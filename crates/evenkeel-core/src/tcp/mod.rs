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
//!
//! Words are those of RFC 9293: `SND.UNA`, `RCV.NXT`, `SEG.SEQ` are `snd.una`, `rcv.nxt`, `seg.seq` here.

pub mod seq;

pub use seq::{SeqNumber, SeqRange};
