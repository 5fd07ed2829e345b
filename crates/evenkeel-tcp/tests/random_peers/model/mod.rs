//! A random peer that is not our TCP, a network, the program on our side, and the invariants of our side.
//!
//! | looking for | file |
//! | --- | --- |
//! | what is chosen before a run; where choices come from | `plan.rs`; `choices.rs` |
//! | the peer | `peer.rs` |
//! | the network | `network.rs` |
//! | our program; what it needs of our side | `user.rs`; `ours.rs` |
//! | our side as an endpoint without a host | `endpoint.rs` |
//! | what must hold, and the stated times | `invariants.rs` |
//! | a run from beginning to end | `run.rs` |
//! | segments as the peer reads and writes them | `wire.rs` |

pub(crate) mod choices;
pub(crate) mod endpoint;
pub(crate) mod invariants;
pub(crate) mod network;
pub(crate) mod ours;
pub(crate) mod peer;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod user;
pub(crate) mod wire;
