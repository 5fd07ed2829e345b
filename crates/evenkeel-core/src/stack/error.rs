//! Errors of calls to the IP floor.

use core::fmt;

/// The reason why a route cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// The destination is of IPv6 and the gateway of IPv4.
    Family,
    /// No such interface.
    Interface,
    /// The gateway is an address of ours, or of no single neighbour.
    Gateway,
    /// The table is full ([`Config::routes`](super::Config::routes)).
    Full,
}

/// The reason why a neighbour cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeighborError {
    /// No such interface.
    Interface,
    /// One of its addresses is not unicast.
    NotUnicast,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Family => "a route of IPv6 has no gateway of IPv4",
            Self::Interface => "no such interface",
            Self::Gateway => "the gateway is an address of this host, or of no single neighbour",
            Self::Full => "the table is full",
        })
    }
}

impl core::error::Error for RouteError {}

impl fmt::Display for NeighborError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interface => "no such interface",
            Self::NotUnicast => "its addresses must be those of one host",
        })
    }
}

impl core::error::Error for NeighborError {}

/// The reason why a group cannot be joined or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupError {
    /// Not a multicast address.
    NotMulticast,
    /// No such interface.
    Interface,
    /// As many groups as may be are joined ([`Config::groups`](super::Config::groups)).
    Full,
    /// To be left, but not joined.
    NotJoined,
}

/// The reason why a datagram was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputError {
    /// No route leads to the destination, or it is not an address one can send to.
    NoRoute,
    /// The source address is not ours, or none of ours suits the destination.
    NoAddress,
    /// The payload is more than a UDP datagram can carry.
    TooBig,
    /// The pool has too few free buffers now: try again when frames have left.
    NoBuffer,
    /// The destination is this host itself; nothing loops back here.
    Loopback,
    /// The destination is a broadcast address, and the sender may not broadcast.
    Broadcast,
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoute => "no route to the destination",
            Self::NoAddress => "no address of this host to send from",
            Self::TooBig => "the payload is larger than a datagram can carry",
            Self::NoBuffer => "no free frame buffers",
            Self::Loopback => "the destination is this host",
            Self::Broadcast => "the destination is a broadcast address",
        })
    }
}

impl core::error::Error for OutputError {}
