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
mod arp;
mod believed;
mod config;
mod conflict;
mod conflict_detection;
mod error;
mod extension;
mod forward;
mod fragment;
mod groups;
mod header;
mod hop;
mod icmp;
mod icmpv6;
mod identification;
mod input;
mod interfaces;
mod io;
mod ipv4;
mod ipv6;
mod local;
mod multicast;
mod multipath;
mod ndp;
mod neighbor;
mod neighbor_update;
mod output;
mod packet;
mod path;
mod path_mtu;
mod plain;
mod problem;
pub(crate) mod random;
mod reassembly;
mod received;
mod redirect;
mod refusal;
mod resolution;
mod route;
mod route_handle;
mod routing;
mod screened;
mod state;
mod tcp;
mod timers;
mod transit;
mod udp;

pub use crate::id::InterfaceId;
pub use crate::wire::IpEndpoint;
pub use config::Config;
pub use conflict::AddressConflict;
pub use error::{GroupError, NeighborError, OutputError, RouteError};
pub use io::Io;
pub use multipath::{Multipath, NextHop};
pub use neighbor::{Neighbor, NeighborState};
pub use neighbor_update::NeighborUpdate;
pub use path::Origin;
pub use received::Received;
pub use refusal::Reply;
pub use resolution::ResolvedHop;
pub use route::{Route, Via};
pub use route_handle::RouteHandle;
pub use screened::Screened;
pub use state::Stack;
pub(crate) use tcp::segment_max;
pub use tcp::{FirstHop, IcmpError, IcmpErrorKind, TcpPacket};
pub use transit::Transit;
pub(crate) use udp::TakesDatagrams;
pub use udp::{Datagram, Source};

#[cfg(test)]
mod tests;
