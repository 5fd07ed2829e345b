//! One connection: RFC 9293, section 3.10, with what later RFCs changed.
//!
//! | looking for | file |
//! | --- | --- |
//! | all that is kept of one | `tcb.rs` |
//! | opening: SYNs out, SYNs in, what they agree on | `open.rs` |
//! | a segment arrives: acceptability, PAWS, RST, SYN | `input.rs` |
//! | nearly always it is the one that was expected | `predicted.rs` |
//! | what an acknowledgment means; the send window | `ack.rs` |
//! | payload and FIN in; when to acknowledge; the receive window | `data.rs` |
//! | the user's calls | `user.rs` |
//! | what the user may choose | `options.rs` |
//! | closing and failing | `close.rs` |
//! | what to send next: repeats, new data, probes | `output.rs` |
//! | what a header says | `header.rs` |
//! | deadlines | `timers.rs` |
//! | path MTU, and what else ICMP says | `path.rs` |
//! | timestamps | `clock.rs` |
//! | memory that all connections share | `memory.rs` |
//! | figures; why it is over | `info.rs`; `error.rs` |

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
