//! TCP endpoints over an emulated network, without hosts: as many connections and as much loss as one likes,
//! in little time.
//!
//! A [`Network`] has nodes, each with an [`Endpoint`](evenkeel_core::tcp::Endpoint), and links between them.
//! What the users of the connections do is said by a [`User`], who also sees every segment that leaves and
//! arrives. The same seed and the same user give the same run; a digest of all segments and their times
//! tells.

mod middlebox;
mod network;
mod packet;

pub use middlebox::Middlebox;
pub use network::{Change, Direction, Network, Stuck, User};
pub use packet::Packet;
