//! Sockets that people already know, over a host that the calling thread runs.

mod address;
mod builder;
mod error;
mod helper;
mod listener;
mod net;
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
pub use listener::{Incoming, TcpListener};
pub use net::Net;
pub use stream::TcpStream;
pub use udp::UdpSocket;
