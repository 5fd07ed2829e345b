//! Everything of IP below sockets: Ethernet, ARP, NDP, IPv4, IPv6, ICMP, group membership, routes,
//! reassembly, UDP.
//!
//! [`Stack`] takes one received frame at a time and gives UDP datagrams, and packets to forward; it takes
//! datagrams and gives frames. Time comes in, deadlines go out. It holds frames in two places only, both
//! bounded: fragments in reassembly, and frames that wait for a neighbour's hardware address.
//!
//! | looking for | file |
//! | --- | --- |
//! | the way up | `input.rs`, `ipv4.rs`, `ipv6.rs`, `udp.rs`, `tcp.rs`; plain frames in `plain.rs` |
//! | the way through | `forward.rs`, `transit.rs`, `fragment.rs`, `redirect.rs` |
//! | the way down | `output.rs`, `routing.rs`, `path.rs` |
//! | routes; which one a flow takes | `route.rs`; `multipath.rs` |
//! | the route that a socket keeps, and its generation | `route_handle.rs` |
//! | neighbours: their table; asking for them | `neighbor.rs`; `resolution.rs`, `arp.rs`, `ndp.rs` |
//! | fragments | `reassembly.rs`, `fragment.rs`, `identification.rs` |
//! | ICMP and its errors | `icmp.rs`, `icmpv6.rs`, `problem.rs`, `refusal.rs` |
//! | groups; path MTUs; address conflicts | `groups.rs`, `multicast.rs`; `path_mtu.rs`; `conflict.rs` |
//! | what all of that belongs to | `state.rs` |

mod address;
mod config;
mod error;
mod extension;
mod forward;
mod fragment;
mod header;
mod icmp;
mod input;
mod io;
mod ipv4;
mod ipv6;
mod multicast;
mod neighbor;
mod output;
mod packet;
mod plain;
pub(crate) mod random;
mod received;
mod route;
mod screened;
mod state;
mod tcp;
mod transit;
mod udp;

pub use crate::id::InterfaceId;
pub use crate::wire::IpEndpoint;
pub use config::Config;
pub use error::{NeighborError, RouteError};
pub use neighbor::claims::AddressConflict;
pub use neighbor::discovery::ResolvedHop;
pub use neighbor::table::{Neighbor, NeighborState};
pub use neighbor::update::NeighborUpdate;
pub use route::multipath::{Multipath, NextHop};
pub use route::path::Origin;
pub use route::table::{Route, Via};
pub use screened::Screened;
pub use transit::Transit;
pub use udp::Datagram;

pub(crate) use error::OutputError;
pub(crate) use icmp::quote::{IcmpError, IcmpErrorKind};
pub(crate) use icmp::reset::Reply;
pub(crate) use io::Io;
pub(crate) use received::Received;
pub(crate) use route::handle::RouteHandle;
pub(crate) use state::Stack;
pub(crate) use tcp::{FirstHop, TcpPacket, segment_max};
pub(crate) use udp::{Source, TakesDatagrams};

/// Parts of this floor that [`crate::internals`] shows.
#[doc(hidden)]
pub mod internals {
    pub use super::icmp::reset::Reply;
    pub use super::io::Io;
    pub use super::received::Received;
    pub use super::route::handle::RouteHandle;
    pub use super::state::Stack;
    pub use super::udp::Source;
}

#[cfg(test)]
mod tests;
