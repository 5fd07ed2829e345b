//! Why calls fail, and whose fault that is.
//!
//! Every error of the calls in [`System`](crate::host::System) has a `fault()`. That a call would block is no
//! fault of anybody's: where that can be, `fault()` is `None` for it.
//!
//! | whose | what helps | errors |
//! | --- | --- | --- |
//! | [`Fault::Misuse`] | another call: the same fails again | [`BadDescriptor`], in any call |
//! | | | an address that the host does not have; address and port in use |
//! | | | a group that is none; a destination that is no single host, or this host |
//! | | | more than a datagram can carry; a stream closed before; a thread not attached |
//! | [`Fault::Network`] | another time, or another peer | no route; no address for the way there |
//! | | | a connection refused, reset, timed out or unreachable |
//! | [`Fault::Limit`] | giving something back, or a higher limit | memory, buffers, connections |
//! | | | ephemeral ports, rings of an adaptor |
//! | none | waiting | nothing to receive, accept or read; no room to write |

use core::fmt;

use crate::frame::PoolLimit;
use crate::stack;
use crate::tcp::connection::{Error, Unavailable};
use crate::tcp::endpoint;

pub use crate::tcp::Fault;

/// A descriptor that the call cannot be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadDescriptor {
    /// This process has no such descriptor open: it is closed, or another process's.
    NotOpen,
    /// It is open, but of another kind: a listener, say, where a stream is wanted.
    OtherKind,
}

/// Why nothing was taken from a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveError {
    /// Nothing has come: later perhaps.
    WouldBlock,
    /// The descriptor is not one to take this from.
    BadDescriptor(BadDescriptor),
}

/// A socket could not be bound, or a group not joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindError {
    /// What is to join a group is no UDP socket of this process.
    BadDescriptor(BadDescriptor),
    /// The address is not that of a group.
    NotMulticast,
    /// Another socket is bound to that address and port. Choose another port.
    InUse,
    /// The host does not have that address.
    NotLocal,
    /// Port 0 was asked for and no ephemeral port is free.
    NoPort,
    /// An interface that demultiplexes has no ring left for another channel.
    NoRing,
    /// The host's memory limit does not allow another channel.
    NoMemory(PoolLimit),
}

/// A datagram was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// It is no UDP socket of this process.
    BadDescriptor(BadDescriptor),
    /// No route leads to the destination, or it is not an address one can send to.
    NoRoute,
    /// The host has no address that suits the way to the destination; or the one that the socket is bound to
    /// does not, or is the host's no more.
    NoAddress,
    /// The payload is more than a UDP datagram can carry.
    TooBig,
    /// The pool has too few free buffers now: try again when frames have left.
    NoBuffer,
    /// The destination is this host itself; nothing loops back here.
    Loopback,
}

/// Why no socket listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// Another socket listens at that address and port.
    InUse,
    /// The host does not have that address.
    NotLocal,
    /// Port 0 was asked for, and sockets listen at all ports there are to choose from.
    NoPort,
    /// An interface that demultiplexes has no ring left for another channel.
    NoRing,
    /// The host's memory limit does not allow its channels.
    NoMemory(PoolLimit),
}

/// Why no connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// There is a connection between these sockets, or was until recently: take another port.
    InUse,
    /// No ephemeral port is free for that destination.
    NoPort,
    /// The host does not have the address to connect from.
    NotLocal,
    /// The host has no address that suits the way to the destination.
    NoAddress,
    /// The destination is no single host's address, or its port is 0.
    NotUnicast,
    /// No route leads to the destination.
    NoRoute,
    /// The destination is this host itself; nothing loops back here.
    Loopback,
    /// There are too many connections, or the memory limit does not allow their channels.
    Full,
}

/// Why a call on a stream did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// Nothing has come, or there is no room: later perhaps.
    WouldBlock,
    /// It is no stream of this process.
    BadDescriptor(BadDescriptor),
    /// This direction was shut down, or the connection is over and the program knows: it has read to the end,
    /// or taken the error.
    Closed,
    /// The connection has failed.
    Failed(Error),
}

impl ReceiveError {
    /// Whose fault it is; nobody's that the call would block.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self {
            Self::WouldBlock => None,
            Self::BadDescriptor(bad) => Some(bad.fault()),
        }
    }
}

impl BadDescriptor {
    /// Whose fault it is: the caller's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

impl BindError {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::BadDescriptor(_) | Self::NotMulticast | Self::InUse | Self::NotLocal => Fault::Misuse,
            Self::NoPort | Self::NoRing | Self::NoMemory(_) => Fault::Limit,
        }
    }
}

impl SendError {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::BadDescriptor(_) | Self::TooBig | Self::Loopback => Fault::Misuse,
            Self::NoRoute | Self::NoAddress => Fault::Network,
            Self::NoBuffer => Fault::Limit,
        }
    }
}

impl ListenError {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::InUse | Self::NotLocal => Fault::Misuse,
            Self::NoPort | Self::NoRing | Self::NoMemory(_) => Fault::Limit,
        }
    }
}

impl ConnectError {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::InUse | Self::NotLocal | Self::NotUnicast | Self::Loopback => Fault::Misuse,
            Self::NoAddress | Self::NoRoute => Fault::Network,
            Self::NoPort | Self::Full => Fault::Limit,
        }
    }
}

impl StreamError {
    /// Whose fault it is; nobody's that the call would block.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self {
            Self::WouldBlock => None,
            Self::BadDescriptor(_) | Self::Closed => Some(Fault::Misuse),
            Self::Failed(error) => Some(error.fault()),
        }
    }
}

impl From<BadDescriptor> for ReceiveError {
    fn from(bad: BadDescriptor) -> Self {
        Self::BadDescriptor(bad)
    }
}

impl From<BadDescriptor> for BindError {
    fn from(bad: BadDescriptor) -> Self {
        Self::BadDescriptor(bad)
    }
}

impl From<BadDescriptor> for SendError {
    fn from(bad: BadDescriptor) -> Self {
        Self::BadDescriptor(bad)
    }
}

impl From<BadDescriptor> for StreamError {
    fn from(bad: BadDescriptor) -> Self {
        Self::BadDescriptor(bad)
    }
}

/// What opening a channel fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelError {
    NoRing,
    NoMemory(PoolLimit),
}

impl From<ChannelError> for BindError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::NoRing => Self::NoRing,
            ChannelError::NoMemory(limit) => Self::NoMemory(limit),
        }
    }
}

impl From<ChannelError> for ListenError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::NoRing => Self::NoRing,
            ChannelError::NoMemory(limit) => Self::NoMemory(limit),
        }
    }
}

impl From<stack::OutputError> for SendError {
    fn from(error: stack::OutputError) -> Self {
        match error {
            stack::OutputError::NoRoute => Self::NoRoute,
            stack::OutputError::NoAddress => Self::NoAddress,
            stack::OutputError::TooBig => Self::TooBig,
            stack::OutputError::NoBuffer => Self::NoBuffer,
            stack::OutputError::Loopback => Self::Loopback,
        }
    }
}

impl From<stack::OutputError> for ConnectError {
    fn from(error: stack::OutputError) -> Self {
        match error {
            stack::OutputError::NoAddress => Self::NoAddress,
            stack::OutputError::Loopback => Self::Loopback,
            stack::OutputError::NoRoute | stack::OutputError::TooBig | stack::OutputError::NoBuffer => {
                Self::NoRoute
            }
        }
    }
}

impl From<endpoint::OpenError> for ConnectError {
    fn from(error: endpoint::OpenError) -> Self {
        match error {
            endpoint::OpenError::InUse => Self::InUse,
            endpoint::OpenError::NoPort => Self::NoPort,
            endpoint::OpenError::Full => Self::Full,
        }
    }
}

impl From<Unavailable> for StreamError {
    fn from(why: Unavailable) -> Self {
        match why {
            Unavailable::WouldBlock => Self::WouldBlock,
            Unavailable::Closed => Self::Closed,
            Unavailable::Failed(error) => Self::Failed(error),
        }
    }
}

const WOULD_BLOCK: &str = "would block";
const NOT_LOCAL: &str = "the host does not have that address";
const LOOPBACK: &str = "the destination is this host";

impl fmt::Display for BadDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOpen => "the process has no such descriptor open",
            Self::OtherKind => "the descriptor is of another kind",
        })
    }
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str(WOULD_BLOCK),
            Self::BadDescriptor(bad) => bad.fmt(f),
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::NotMulticast => f.write_str("the address is not that of a group"),
            Self::InUse => f.write_str("address and port are in use"),
            Self::NotLocal => f.write_str(NOT_LOCAL),
            Self::NoPort => f.write_str("no ephemeral port is free"),
            Self::NoRing => f.write_str("the interface has no ring left for another socket"),
            Self::NoMemory(limit) => limit.fmt(f),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::NoRoute => f.write_str("no route to the destination"),
            Self::NoAddress => f.write_str("no address of this host to send from"),
            Self::TooBig => f.write_str("the payload is larger than a datagram can carry"),
            Self::NoBuffer => f.write_str("no free frame buffers"),
            Self::Loopback => f.write_str(LOOPBACK),
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("another socket listens at that address and port"),
            Self::NotLocal => f.write_str(NOT_LOCAL),
            Self::NoPort => f.write_str("no port is free to listen at"),
            Self::NoRing => f.write_str("the interface has no ring left for another listener"),
            Self::NoMemory(limit) => limit.fmt(f),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "address in use",
            Self::NoPort => "no ephemeral port is free for that destination",
            Self::NotLocal => NOT_LOCAL,
            Self::NoAddress => "no address of this host to connect from",
            Self::NotUnicast => "the destination is no single host, or its port is 0",
            Self::NoRoute => "no route to the destination",
            Self::Loopback => LOOPBACK,
            Self::Full => "too many connections",
        })
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str(WOULD_BLOCK),
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::Closed => f.write_str("closed"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BadDescriptor {}
impl core::error::Error for ReceiveError {}
impl core::error::Error for BindError {}
impl core::error::Error for SendError {}
impl core::error::Error for ListenError {}
impl core::error::Error for ConnectError {}
impl core::error::Error for StreamError {}
