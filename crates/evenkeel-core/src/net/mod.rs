//! Everything of a host but its processes: interfaces, channels, sockets, protocol state, and the units of
//! work on them.

mod ahead;
mod device;
mod input;
mod interfaces;
mod output;
mod screen;
mod sockets;
mod state;
mod tcp;

pub(crate) use state::Net;
