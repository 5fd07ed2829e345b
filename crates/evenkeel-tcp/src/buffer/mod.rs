//! What a connection has to send, and what it has received. Empty, they keep what memory they have until
//! they are told to release it.

mod assembly;
mod receive;
mod send;
mod slices;
mod spares;

pub use receive::{Insertion, ReceiveBuffer};
pub use send::SendBuffer;
pub(crate) use spares::Spares;
