//! Everything of a host but its processes: interfaces, channels, sockets, protocol state, and the units of
//! work on them.

mod device;
mod input;
mod interfaces;
mod offloads;
mod others;
mod output;
mod state;
mod tcp;

pub(crate) use others::Others;
pub(crate) use state::Net;
pub use tcp::Uncalled;
pub(crate) use tcp::{Listening, Owner, Tcp};
