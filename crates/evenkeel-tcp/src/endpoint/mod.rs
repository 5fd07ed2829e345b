//! All connections of a host. An endpoint dispatches packets and the user's calls to connections,
//! listeners and TIME-WAIT, and returns their segments and events.
//!
//! No operation goes through more connections than the one concerned: segments find theirs by hash,
//! deadlines by the timer wheel, and outgoing segments and events wait in queues. When routes change,
//! connections that wait for a full interface look their routes up again.
//!
//! | looking for | file |
//! | --- | --- |
//! | the state of an endpoint; settings | `state.rs`; `config.rs` |
//! | the dispatch of incoming segments | `input.rs` |
//! | ICMP errors | `icmp.rs` |
//! | outgoing segments; deadlines; the end of a connection | `output.rs` |
//! | routes and interfaces; connections that wait for an interface | `egress.rs`; `tx_blocked.rs` |
//! | listeners and their deadlines | `listeners.rs` |
//! | memory for buffers: its account; its use by connections | `memory.rs`; `buffers.rs` |
//! | reports | `report.rs` |
//! | opening with data (Fast Open) | `fast_open.rs` |
//! | rates of earlier connections | `rates.rs` |
//! | the choice of local ports | `ephemeral.rs`, `ports.rs` |
//! | the user's calls; their errors | `user.rs`; `error.rs` |
//! | events for the user | `event.rs` |

mod buffers;
mod config;
mod egress;
mod ephemeral;
mod error;
mod event;
mod fast_open;
mod icmp;
mod input;
mod listeners;
mod memory;
mod output;
mod ports;
mod rates;
mod report;
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
pub use listeners::ListenAt;
pub use output::Transmit;
pub use report::ListenerInfo;
pub use state::{Endpoint, Match};
