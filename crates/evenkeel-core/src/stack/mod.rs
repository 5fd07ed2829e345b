//! Everything of IP below sockets: Ethernet, ARP, NDP, IPv4, IPv6, ICMP, group membership, routes,
//! reassembly, UDP.
//!
//! [`Stack`] takes one received frame at a time and gives UDP datagrams, and packets to forward; it takes
//! datagrams and gives frames. Time comes in, deadlines go out. It holds frames in two places only, both
//! bounded: fragments in reassembly, and frames that wait for a neighbour's hardware address.
//!
//! Each part owns its state and its behaviour. [`Stack`] holds the parts. A piece of work borrows those that
//! it needs, with [`Io`], as a *direction*: input, forwarding or output.
//!
//! | looking for | file |
//! | --- | --- |
//! | the parts, and the calls from the rest of a host | `state.rs` |
//! | input | `input.rs`, `ipv4.rs`, `ipv6.rs`, `extension.rs` |
//! | input of plain frames | `plain.rs` |
//! | forwarding; packets in transit; screening | `forward.rs`; `transit.rs`; `screened.rs` |
//! | output; headers of packets sent | `output.rs`; `header.rs` |
//! | UDP datagrams; TCP segments, as IP sees them | `udp.rs`; `tcp.rs` |
//! | interfaces and their addresses; kinds of addresses | `address/interfaces.rs`; `kinds.rs` |
//! | destinations that are this host; the source-check cache | `address/local.rs`; `source_check.rs` |
//! | paths and the generation of routes; the table | `route/routing.rs`; `table.rs` |
//! | several next hops of a route (multipath) | `route/multipath.rs` |
//! | the route that a socket keeps; path MTUs | `route/handle.rs`; `path_mtu.rs` |
//! | the neighbour cache | `neighbor/table.rs` |
//! | ARP and NDP: processing; messages | `neighbor/discovery.rs`; `arp.rs`, `ndp.rs` |
//! | address conflicts; updates for other hosts | `neighbor/claims.rs`; `update.rs` |
//! | segments given up, as their next hop is silent | `neighbor/unresolved.rs` |
//! | reassembly; cutting; identifications | `fragment/reassembly.rs`; `cutter.rs`; `identification.rs` |
//! | ICMP, ICMPv6 and IGMP messages to this host | `icmp/control.rs` |
//! | ICMP errors; redirects; TCP resets | `icmp/errors.rs`; `redirect.rs`; `reset.rs` |
//! | groups and when they are reported; queries; reports | `multicast/groups.rs`; `query.rs`; `report.rs` |

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

pub(crate) use address::interfaces::buffer_bytes_for;
pub(crate) use error::OutputError;
pub(crate) use forward::Way;
pub(crate) use icmp::quote::{IcmpError, IcmpErrorKind, Quoted};
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
