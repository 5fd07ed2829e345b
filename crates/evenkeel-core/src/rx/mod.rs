//! The receive floor: the way of a frame from a ring to a channel, to the shared IP queue, or to protocol
//! input.
//!
//! It knows rings, the demultiplexing table, channels, and the polling thread's feedback. It knows no socket
//! and no connection: what it must ask of these while a frame lies in its ring is [`SocketFloor`], and what
//! they have to do afterwards is returned ([`Handover`]).
//!
//! | concern | file |
//! |---|---|
//! | what a host receives into, and what a burst hands over | `state.rs` |
//! | what is asked of the sockets | `sockets.rs` |
//! | early discard, and what is done with a burst of frames | `early_discard.rs` |
//! | which channel a frame leads to | `demultiplex.rs` |
//! | channels open and close, with their rings | `channels.rs` |
//! | the shared IP queue | `ip_queue.rs` |

mod channels;
mod demultiplex;
mod early_discard;
mod ip_queue;
mod sockets;
mod state;

pub(crate) use channels::{Channels, Rings};
pub(crate) use early_discard::BurstPolicy;
pub(crate) use sockets::SocketFloor;
pub(crate) use state::{Arrived, Receive};
