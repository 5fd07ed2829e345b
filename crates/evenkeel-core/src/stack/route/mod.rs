//! The paths of packets: routes, their next hops, and path MTUs.

pub(crate) mod handle;
pub(crate) mod hop;
pub(crate) mod multipath;
pub(crate) mod path;
pub(crate) mod path_mtu;
pub(crate) mod routing;
pub(crate) mod table;
