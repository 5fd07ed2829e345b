//! What a connection has to send, and what it has received. Empty, they own no memory.

mod assembly;
mod receive;
mod send;
mod slices;

pub use receive::{Insertion, ReceiveBuffer};
pub use send::SendBuffer;
