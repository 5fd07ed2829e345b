//! The errors of calls, and whose fault they are.
//!
//! Every error of the calls in [`System`](crate::host::System) has a `fault()`. It is `None` for an error
//! that only means that a call would block.
//!
//! | whose | what helps | errors |
//! | --- | --- | --- |
//! | [`Fault::Misuse`] | another call: the same fails again | [`BadDescriptor`], in any call |
//! | | | an address that the host does not have; address and port in use |
//! | | | a group that is none; a destination that is no single host, of another family, or this host |
//! | | | more than a datagram can carry; a stream closed before; a thread not attached |
//! | [`Fault::Network`] | another time, or another peer | no route; no address for the way there |
//! | | | a connection refused, reset, timed out or unreachable; datagrams that a peer refuses |
//! | [`Fault::Limit`] | giving something back, or a higher limit | memory, buffers, connections |
//! | | | ephemeral ports, rings of an adaptor |
//! | none | waiting | nothing to receive, accept or read; no room to write |

use core::fmt;

use evenkeel_ready::QueueError;

use crate::frame::PoolLimit;
use crate::other_stack::NotReserved;
use crate::stack;
use crate::tcp::connection::{Error, Unavailable};
use crate::tcp::endpoint;

pub use crate::tcp::Fault;

/// A descriptor that the call cannot be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadDescriptor {
    /// This process has no such descriptor open: it is closed, or another process's.
    NotOpen,
    /// The descriptor is open, but of another kind: for example a listener where a stream is wanted.
    OtherKind,
}

/// The process has as many descriptors as it may have (`EMFILE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyOpen;

/// The reason why a descriptor has no duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DupError {
    /// The descriptor is not open.
    BadDescriptor(BadDescriptor),
    /// The number that the duplicate is to have, or not to be below, is above the process's limit.
    AboveLimit,
    /// The process has as many as it may have.
    TooManyOpen,
}

/// The reason why a call on an event queue did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// One of the descriptors is not open, or what should be an event queue is none.
    BadDescriptor(BadDescriptor),
    /// The descriptor is registered at this event queue already: modify it.
    AlreadyAdded,
    /// The descriptor is not registered at this event queue.
    NotAdded,
    /// An event queue cannot be registered at itself, nor changed or deleted there (`EINVAL`).
    Itself,
    /// Event queues would watch each other in a circle, or be more than five in a row (`ELOOP`).
    Nested,
}

/// The reason why nothing was taken from a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Nothing has come yet. The call may succeed later.
    WouldBlock,
    /// The descriptor is not one to take this from.
    BadDescriptor(BadDescriptor),
    /// A connection waits to be accepted, and the process has as many descriptors as it may have.
    TooManyOpen,
    /// The network reported an error about a datagram of a connected UDP socket. It is reported once.
    Failed(PeerError),
}

/// An error that the network reported about a datagram of a connected UDP socket (RFC 1122 4.1.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// No socket of the peer has the port.
    Refused,
    /// The peer or a router on the way takes no such datagrams.
    Unreachable,
}

/// A socket could not be bound, or a group not joined or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The descriptor that is to join a group is no UDP socket of this process.
    BadDescriptor(BadDescriptor),
    /// The address is not that of a group.
    NotMulticast,
    /// The socket has not joined the group that it is to leave.
    NotJoined,
    /// Another socket is bound to that address and port. Choose another port.
    InUse,
    /// The stack that shares the host's addresses gives that port to privileged programs only.
    Privilege,
    /// The host does not have that address.
    NotLocal,
    /// Port 0 was asked for and no ephemeral port is free.
    NoPort,
    /// An interface that demultiplexes has no ring left for another channel.
    NoRing,
    /// The host's memory limit does not allow another channel.
    NoMemory(PoolLimit),
    /// The process has as many descriptors as it may have.
    TooManyOpen,
}

/// A datagram was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The descriptor is no UDP socket of this process.
    BadDescriptor(BadDescriptor),
    /// No route leads to the destination, or it is not an address one can send to.
    NoRoute,
    /// The host has no address that suits the way to the destination. Or the address that the socket is
    /// bound to does not suit it, or is no longer the host's.
    NoAddress,
    /// The address to send from is no unicast address of this host, or another one than the socket is bound
    /// to.
    NotLocal,
    /// The payload is more than a UDP datagram can carry.
    TooBig,
    /// The pool has too few free buffers now. The socket is writable again when there are enough: wait for
    /// [`Kinds::WRITABLE`](crate::socket::Kinds::WRITABLE).
    NoBuffer,
    /// The destination is this host itself; nothing loops back here.
    Loopback,
    /// The destination is a broadcast address, and the socket may not broadcast.
    Broadcast,
    /// The destination is not of the family of the address that the socket is bound to.
    Family,
    /// The network reported an error about an earlier datagram of a connected socket. It is reported once.
    Failed(PeerError),
}

/// The reason why no socket listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenError {
    /// Another socket listens at that address and port.
    InUse,
    /// The stack that shares the host's addresses gives that port to privileged programs only.
    Privilege,
    /// The host does not have that address.
    NotLocal,
    /// Port 0 was asked for, and sockets listen at all ports there are to choose from.
    NoPort,
    /// An interface that demultiplexes has no ring left for another channel.
    NoRing,
    /// The host's memory limit does not allow its channels.
    NoMemory(PoolLimit),
    /// The process has as many descriptors as it may have.
    TooManyOpen,
}

/// The reason why no connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The process has as many descriptors as it may have.
    TooManyOpen,
}

/// The reason why a call on a stream did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// Nothing has come yet, or there is no room. The call may succeed later.
    WouldBlock,
    /// The descriptor is no stream of this process.
    BadDescriptor(BadDescriptor),
    /// This direction was shut down, or the connection is over and the program knows: it has read to the end,
    /// or taken the error.
    Closed,
    /// The connection has failed.
    Failed(Error),
}

impl ReceiveError {
    /// Returns whose fault the error is; `None` if the call would block.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self {
            Self::WouldBlock => None,
            Self::BadDescriptor(bad) => Some(bad.fault()),
            Self::TooManyOpen => Some(Fault::Limit),
            Self::Failed(error) => Some(error.fault()),
        }
    }
}

impl PeerError {
    /// Returns whose fault the error is: always the network's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Network
    }
}

impl TooManyOpen {
    /// Returns whose fault the error is: always a limit's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Limit
    }
}

impl DupError {
    /// Returns whose fault the error is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::BadDescriptor(_) | Self::AboveLimit => Fault::Misuse,
            Self::TooManyOpen => Fault::Limit,
        }
    }
}

impl RegisterError {
    /// Returns whose fault the error is: always the caller's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

impl BadDescriptor {
    /// Returns whose fault the error is: always the caller's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

impl BindError {
    /// Returns whose fault the error is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::BadDescriptor(_)
            | Self::NotMulticast
            | Self::NotJoined
            | Self::InUse
            | Self::Privilege
            | Self::NotLocal => Fault::Misuse,
            Self::NoPort | Self::NoRing | Self::NoMemory(_) | Self::TooManyOpen => Fault::Limit,
        }
    }
}

impl SendError {
    /// Returns whose fault the error is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::BadDescriptor(_)
            | Self::NotLocal
            | Self::TooBig
            | Self::Loopback
            | Self::Broadcast
            | Self::Family => Fault::Misuse,
            Self::NoRoute | Self::NoAddress => Fault::Network,
            Self::NoBuffer => Fault::Limit,
            Self::Failed(error) => error.fault(),
        }
    }
}

impl ListenError {
    /// Returns whose fault the error is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::InUse | Self::Privilege | Self::NotLocal => Fault::Misuse,
            Self::NoPort | Self::NoRing | Self::NoMemory(_) | Self::TooManyOpen => Fault::Limit,
        }
    }
}

impl ConnectError {
    /// Returns whose fault the error is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::InUse | Self::NotLocal | Self::NotUnicast | Self::Loopback => Fault::Misuse,
            Self::NoAddress | Self::NoRoute => Fault::Network,
            Self::NoPort | Self::Full | Self::TooManyOpen => Fault::Limit,
        }
    }
}

impl StreamError {
    /// Returns whose fault the error is; `None` if the call would block.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self {
            Self::WouldBlock => None,
            Self::BadDescriptor(_) | Self::Closed => Some(Fault::Misuse),
            Self::Failed(error) => Some(error.fault()),
        }
    }
}

impl From<evenkeel_ready::TooManyOpen> for TooManyOpen {
    fn from(_: evenkeel_ready::TooManyOpen) -> Self {
        Self
    }
}

impl From<evenkeel_ready::BadDescriptor> for BadDescriptor {
    fn from(_: evenkeel_ready::BadDescriptor) -> Self {
        Self::NotOpen
    }
}

impl From<evenkeel_ready::DupError> for DupError {
    fn from(error: evenkeel_ready::DupError) -> Self {
        match error {
            evenkeel_ready::DupError::BadDescriptor(_) => Self::BadDescriptor(BadDescriptor::NotOpen),
            evenkeel_ready::DupError::AboveLimit(_) => Self::AboveLimit,
            evenkeel_ready::DupError::TooManyOpen => Self::TooManyOpen,
        }
    }
}

impl From<QueueError> for RegisterError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::BadDescriptor(_) => Self::BadDescriptor(BadDescriptor::NotOpen),
            QueueError::NotAQueue(_) | QueueError::NoRoom => Self::BadDescriptor(BadDescriptor::OtherKind),
            // Nothing is registered exclusively here, so the second does not happen.
            QueueError::Itself(_) | QueueError::Exclusive(_) => Self::Itself,
            QueueError::AlreadyAdded(_) => Self::AlreadyAdded,
            QueueError::NotAdded(_) => Self::NotAdded,
            QueueError::Nested(_) => Self::Nested,
        }
    }
}

impl From<BadDescriptor> for RegisterError {
    fn from(bad: BadDescriptor) -> Self {
        Self::BadDescriptor(bad)
    }
}

macro_rules! from_too_many_open {
    ($($error:ident)*) => {
        $(impl From<TooManyOpen> for $error {
            fn from(_: TooManyOpen) -> Self {
                Self::TooManyOpen
            }
        })*
    };
}

from_too_many_open! { ReceiveError BindError ListenError ConnectError }

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

/// The reason why a channel could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelError {
    NotReserved(NotReserved),
    NoRing,
    NoMemory(PoolLimit),
}

impl From<ChannelError> for BindError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::NotReserved(NotReserved::InUse) => Self::InUse,
            ChannelError::NotReserved(NotReserved::Privilege) => Self::Privilege,
            ChannelError::NoRing => Self::NoRing,
            ChannelError::NoMemory(limit) => Self::NoMemory(limit),
        }
    }
}

impl From<ChannelError> for ListenError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::NotReserved(NotReserved::InUse) => Self::InUse,
            ChannelError::NotReserved(NotReserved::Privilege) => Self::Privilege,
            ChannelError::NoRing => Self::NoRing,
            ChannelError::NoMemory(limit) => Self::NoMemory(limit),
        }
    }
}

impl From<stack::IcmpErrorKind> for PeerError {
    fn from(kind: stack::IcmpErrorKind) -> Self {
        match kind {
            stack::IcmpErrorKind::PortClosed => Self::Refused,
            stack::IcmpErrorKind::Unreachable { .. } | stack::IcmpErrorKind::TooBig { .. } => {
                Self::Unreachable
            }
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
            stack::OutputError::Broadcast => Self::Broadcast,
        }
    }
}

impl From<stack::OutputError> for ConnectError {
    fn from(error: stack::OutputError) -> Self {
        match error {
            stack::OutputError::NoAddress => Self::NoAddress,
            stack::OutputError::Loopback => Self::Loopback,
            stack::OutputError::NoRoute
            | stack::OutputError::TooBig
            | stack::OutputError::NoBuffer
            | stack::OutputError::Broadcast => Self::NoRoute,
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
const TOO_MANY_OPEN: &str = "the process has as many descriptors as it may have";
const NOT_LOCAL: &str = "the host does not have that address: choose one of its own, or none (0.0.0.0 or ::)";
const PRIVILEGE: &str =
    "that port takes a privilege: give the program CAP_NET_BIND_SERVICE, or choose a higher one";
const LOOPBACK: &str = "the destination is this host, and nothing loops back: connect from another one";

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
            Self::TooManyOpen => f.write_str(TOO_MANY_OPEN),
            Self::WouldBlock => f.write_str(WOULD_BLOCK),
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "no socket of the peer has the port",
            Self::Unreachable => "the peer is unreachable",
        })
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyOpen => f.write_str(TOO_MANY_OPEN),
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::NotMulticast => f.write_str("the address is not that of a group"),
            Self::NotJoined => f.write_str("the group was not joined"),
            Self::InUse => {
                f.write_str("address and port are in use: choose another port, or 0 for a free one")
            }
            Self::Privilege => f.write_str(PRIVILEGE),
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
            Self::NotLocal => f.write_str(
                "the address to send from is none of this host, or another one than the socket is bound to",
            ),
            Self::TooBig => f.write_str("the payload is larger than a datagram can carry"),
            Self::NoBuffer => f.write_str("no free frame buffers"),
            Self::Loopback => f.write_str(LOOPBACK),
            Self::Broadcast => f.write_str("the destination is a broadcast address"),
            Self::Family => f.write_str("the destination is not of the family of the socket's address"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyOpen => f.write_str(TOO_MANY_OPEN),
            Self::InUse => {
                f.write_str("another socket listens at that address and port: choose another port")
            }
            Self::Privilege => f.write_str(PRIVILEGE),
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
            Self::TooManyOpen => TOO_MANY_OPEN,
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

impl fmt::Display for TooManyOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TOO_MANY_OPEN)
    }
}

impl fmt::Display for DupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::AboveLimit => f.write_str("the number is above the process's limit of descriptors"),
            Self::TooManyOpen => f.write_str(TOO_MANY_OPEN),
        }
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDescriptor(bad) => bad.fmt(f),
            Self::AlreadyAdded => f.write_str("the descriptor was added to the event queue before"),
            Self::NotAdded => f.write_str("the descriptor was not added to the event queue"),
            Self::Itself => f.write_str("an event queue cannot be registered at itself"),
            Self::Nested => f.write_str("event queues would be in a circle, or more than five in a row"),
        }
    }
}

impl core::error::Error for TooManyOpen {}
impl core::error::Error for DupError {}
impl core::error::Error for RegisterError {}
impl core::error::Error for BadDescriptor {}
impl core::error::Error for ReceiveError {}
impl core::error::Error for PeerError {}
impl core::error::Error for BindError {}
impl core::error::Error for SendError {}
impl core::error::Error for ListenError {}
impl core::error::Error for ConnectError {}
impl core::error::Error for StreamError {}
