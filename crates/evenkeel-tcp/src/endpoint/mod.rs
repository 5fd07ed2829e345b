//! All connections of a host. An endpoint dispatches packets and the user's calls to connections,
//! listeners and TIME-WAIT, and returns their segments and events.
//!
//! No operation goes through more connections than the one concerned: segments find theirs by hash,
//! deadlines by the timer wheel, and outgoing segments and events wait in queues. When routes change,
//! connections that wait for a full interface look their routes up again.
//!
//! | looking for | file |
//! | --- | --- |
//! | an endpoint as its caller sees it; the user's calls | `interface.rs`; `user.rs` |
//! | settings; errors; reports | `config.rs`; `error.rs`; `report.rs` |
//! | events for the user | `event.rs` |
//!
//! Events that are being processed, step by step:
//!
//! | looking for | file |
//! | --- | --- |
//! | an incoming segment: its owner | `input.rs` |
//! | an outgoing segment; the end of a connection | `output.rs` |
//! | quotes in ICMP errors | `icmp.rs` |
//!
//! The parts of the state, each with its fields and what changes them:
//!
//! | looking for | file |
//! | --- | --- |
//! | the whole state; the records of a connection after a change | `state.rs` |
//! | a connection in the table | `entry.rs` |
//! | whose turn it is to send; connections that wait for an interface | `send_queue.rs`; `tx_blocked.rs` |
//! | routes and interfaces | `egress.rs` |
//! | deadlines of connections | `deadlines.rs` |
//! | listeners and their deadlines | `listeners.rs` |
//! | answers on behalf of no connection; the rate limit of resets | `answers.rs` |
//! | memory for buffers; connections with data out of order | `memory.rs`; `holes.rs` |
//! | knowledge of destinations: rates, Fast Open cookies | `destinations.rs` |
//! | the choice of local ports | `ephemeral.rs`, `ports.rs` |

mod answers;
mod config;
mod deadlines;
mod destinations;
mod egress;
mod entry;
mod ephemeral;
mod error;
mod event;
mod holes;
mod icmp;
mod input;
mod interface;
mod listeners;
mod memory;
mod output;
mod ports;
mod report;
mod send_queue;
mod state;
#[cfg(test)]
mod tests;
mod tx_blocked;
mod user;

pub use super::drop::Fate;
pub use config::{EndpointConfig, Opening};
pub use egress::{Egress, EgressSet, Routes};
pub use error::{InUse, NotConnected, OpenError};
pub use event::{EndpointEvent, Readiness};
pub use icmp::Quote;
pub use input::Packet;
pub use interface::{Endpoint, Match};
pub use listeners::ListenAt;
pub use output::Transmit;
pub use report::ListenerInfo;
