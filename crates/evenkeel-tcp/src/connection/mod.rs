//! A connection: RFC 9293, section 3.10, with the changes of later RFCs.
//!
//! | looking for | file |
//! | --- | --- |
//! | the state of a connection | `tcb.rs` |
//! | opening: SYNs in both directions, their agreement | `open.rs` |
//! | incoming segments: acceptability, PAWS, RST, SYN | `input.rs` |
//! | header prediction | `predicted.rs` |
//! | acknowledgments; the send window | `ack.rs` |
//! | payload and FIN; delayed acknowledgments; the receive window | `data.rs` |
//! | the user's calls | `user.rs` |
//! | options of one connection | `options.rs` |
//! | closing and failing | `close.rs` |
//! | the next segment to send: retransmissions, new data, probes | `output.rs` |
//! | headers of outgoing segments | `header.rs` |
//! | deadlines | `timers.rs` |
//! | path MTU, and other ICMP errors | `path.rs` |
//! | timestamps | `clock.rs` |
//! | memory that all connections share | `memory.rs` |
//! | reports; errors | `info.rs`; `error.rs` |

mod ack;
mod clock;
mod close;
mod config;
mod data;
mod error;
mod header;
mod info;
mod input;
mod memory;
mod open;
mod options;
mod output;
mod path;
mod predicted;
mod tcb;
#[cfg(test)]
mod tests;
mod timers;
mod user;

pub use config::{Agreement, Config, FastOpened, Keepalive, Open, SynAck, SynReceived};
pub use error::Error;
pub use info::Info;
pub use options::StreamOption;
pub use output::Outgoing;
pub use tcb::{Allowance, Connection, Counts};
pub use timers::Timer;
pub use user::Unavailable;
