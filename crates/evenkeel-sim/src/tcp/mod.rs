//! TCP endpoints over an emulated network, without hosts, for tests with many connections and much loss in
//! little time.
//!
//! A [`Network`] has nodes, each with an [`Endpoint`](evenkeel_core::tcp::Endpoint), and links between them.
//! A [`User`] makes the calls of the connections' users, and observes every segment that leaves and arrives.
//! Runs with one seed and one user are equal; a digest of all segments and their times can be compared.

mod middlebox;
mod network;
mod packet;

pub use middlebox::Middlebox;
pub use network::{Change, Direction, Network, Stuck, User};
pub use packet::Packet;
