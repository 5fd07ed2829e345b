//! The send and receive buffers of a connection. An empty buffer keeps its memory until the connection
//! releases it.

mod assembly;
mod receive;
mod send;
mod slices;
mod spares;

pub use receive::{Insertion, ReceiveBuffer};
pub use send::SendBuffer;
pub(crate) use spares::Spares;
