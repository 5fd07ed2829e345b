//! Sockets that people already know, over a host that the calling thread runs.

mod address;
mod builder;
mod error;
mod handle;
mod helper;
mod listener;
mod primitives;
mod roles;
mod seat;
mod settings;
mod shared;
mod socket;
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;
mod udp;
mod waiting;

pub use builder::Builder;
pub use handle::Net;
pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;
pub use udp::UdpSocket;
