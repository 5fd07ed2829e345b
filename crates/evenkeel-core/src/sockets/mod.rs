//! The socket floor: the descriptors of programs, and what stands behind them.
//!
//! It knows no interface and no protocol. What it must know of the floors below to say whether a descriptor
//! is ready, [`Readiness`] borrows.
//!
//! | concern | file |
//! |---|---|
//! | descriptors open and close; the queues of datagrams | `state.rs`, `descriptors.rs` |
//! | readiness: `select`, `poll`, event queues, waiting for one descriptor | `readiness.rs` |
//! | what arrivals in channels mean for receivers | `channels.rs` |
//! | packet monitors | `monitors.rs` |
//! | timers and user events | `timers.rs` |

mod channels;
mod descriptors;
mod monitors;
mod readiness;
mod senders;
mod state;
mod timers;

pub(crate) use descriptors::DescriptorTable;
pub(crate) use readiness::Readiness;
pub(crate) use state::Sockets;
