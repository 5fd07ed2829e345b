//! TCP of a host: its endpoint, and asynchronous protocol processing (Druschel and Banga, OSDI 1996, section
//! 3.4).
//!
//! Under the lazy architectures segments wait in channels until the process that they are for processes them:
//! not in its receive calls, because the sender waits for acknowledgments, but whenever the scheduler would
//! run it, at its priority and on its bill. A process that uses too much of the processor falls behind, its
//! channels fill up, and the excess dies there.
//!
//! A listener has two channels. SYNs have one of their own, which is left alone while the listener can take
//! no more connections: a flood of them then ends there. Whatever else comes for its port (the last ACK of a
//! handshake) has the other. A connection has a channel while segments wait for it; with an adaptor that
//! demultiplexes, from when it has a socket until it ends, if the adaptor has one to spare, or else its
//! listener's. All connections in TIME-WAIT have one channel together: no process has them any more, so the
//! daemon for control traffic minds it. An adaptor does not know them, and has what comes for them go where
//! other segments without a connection go: to the listener of the port, or else to that daemon.
//!
//! | looking for | file |
//! | --- | --- |
//! | what a host knows of its connections | `state.rs` |
//! | segments in, segments out, passing time, what programs are told | `segments.rs` |
//! | the calls on a stream | `streams.rs` |
//! | whose a segment is, and the channel where it waits | `channels.rs` |
//! | how much may wait: the buffers that all channels share | `segment_channels.rs` |
//! | who processes segments, and who hears of it | `activation.rs` |
//! | the channels of listeners, the rings of connections | `open_channels.rs` |

mod activation;
mod channels;
mod open_channels;
mod segment_channels;
mod segments;
mod state;
mod streams;

pub(crate) use activation::Activation;
pub(crate) use open_channels::TcpChannels;
pub use segment_channels::Uncalled;
pub(super) use segments::Segments;
pub(crate) use state::{Listening, Owner, Tcp};

#[cfg(test)]
mod tests;
