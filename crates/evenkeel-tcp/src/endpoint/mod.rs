//! All connections of a host: from packets and the user's calls to the connection, listener or TIME-WAIT they
//! are for, and back.
//!
//! Nothing here looks at more connections than the one concerned: segments find theirs by hash, deadlines by
//! the wheel, and what there is to send or to tell waits in line. When routes change, those that wait for a
//! full interface look where theirs lead.
//!
//! | looking for | file |
//! | --- | --- |
//! | what an endpoint owns; what can be chosen | `state.rs`; `config.rs` |
//! | where a segment goes | `input.rs` |
//! | what ICMP says of segments | `icmp.rs` |
//! | what leaves; passing time; the end of a connection | `output.rs` |
//! | routes, and the interfaces they leave by; who waits for one | `egress.rs`; `tx_blocked.rs` |
//! | listeners and their deadlines | `listeners.rs` |
//! | memory for buffers: how much there is; who takes and gives it | `memory.rs`; `buffers.rs` |
//! | reports | `report.rs` |
//! | opening with data | `fast_open.rs` |
//! | which port a connection gets | `ephemeral.rs`, `ports.rs` |
//! | the user's calls; why one did nothing | `user.rs`; `error.rs` |
//! | what the user is notified of | `event.rs` |

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
