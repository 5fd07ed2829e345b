//! A connection: RFC 9293, section 3.10, with the changes of later RFCs.
//!
//! | looking for | file |
//! | --- | --- |
//! | a connection as its caller sees it; the user's calls | `interface.rs`; `user.rs` |
//! | options of one connection | `options.rs` |
//! | reports; counters; errors | `info.rs`; `counts.rs`; `error.rs` |
//!
//! Events that are being processed, step by step:
//!
//! | looking for | file |
//! | --- | --- |
//! | an arriving segment: acceptability, PAWS, RST, SYN, text, FIN | `input.rs` |
//! | an arriving segment in SYN-SENT | `syn_sent.rs` |
//! | an acknowledgment | `ack.rs` |
//! | header prediction | `predicted.rs` |
//! | the next segment to send: retransmissions, new data, probes | `output.rs` |
//! | the header of a segment that leaves | `header.rs` |
//! | a deadline that has passed | `expiry.rs` |
//!
//! The parts of the state, each with its fields and what changes them:
//!
//! | looking for | file |
//! | --- | --- |
//! | the whole state; steps from state to state | `tcb.rs` |
//! | the handshake; Fast Open | `handshake.rs` |
//! | SND: the peer's window, data to send | `send_side.rs` |
//! | RCV: acceptability, our window, silly-window avoidance, SACK blocks | `receive_side.rs` |
//! | the size of the receive buffer | `right_sizing.rs` |
//! | the timers together | `timers.rs` |
//! | delayed acknowledgments | `delayed_ack.rs` |
//! | retransmissions that a timer calls for | `retransmission.rs` |
//! | the persist timer: zero-window probes | `persist.rs` |
//! | keep-alive | `keepalive.rs` |
//! | the user timeout | `user_timeout.rs` |
//! | the wait for the pacer | `pace.rs` |
//! | Nagle's algorithm, cork, silly-window avoidance of the sender | `nagle.rs` |
//! | path MTU discovery | `path_mtu.rs` |
//! | options on which the SYNs agree; timestamps | `negotiated.rs`; `clock.rs` |
//! | explicit congestion notification | `ecn.rs` |
//! | challenge ACKs; resets | `challenge.rs`; `reset.rs` |
//! | the limit on memory that all connections share | `memory.rs` |
//! | settings | `config.rs` |

mod ack;
mod challenge;
mod clock;
mod config;
mod counts;
mod delayed_ack;
mod ecn;
mod error;
mod expiry;
mod handshake;
mod header;
mod info;
mod input;
mod interface;
mod keepalive;
mod memory;
mod nagle;
mod negotiated;
mod options;
mod output;
mod pace;
mod path_mtu;
mod persist;
mod predicted;
mod receive_side;
mod reset;
mod retransmission;
mod right_sizing;
mod send_side;
mod syn_sent;
mod tcb;
#[cfg(test)]
mod tests;
mod timers;
mod user;
mod user_timeout;

pub use config::{Agreement, Config, FastOpened, Keepalive, Open, SynAck, SynReceived};
pub use counts::Counts;
pub use error::Error;
pub use info::Info;
pub use interface::Connection;
pub use memory::Allowance;
pub use options::StreamOption;
pub use output::Outgoing;
pub use timers::Timer;
pub use user::Unavailable;
