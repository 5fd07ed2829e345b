//! What a program holds open: UDP sockets, TCP listeners and streams, their event queue, the screening queue,
//! capture queues.

use std::collections::VecDeque;

use crate::capture::CaptureQueue;
use crate::frame::PoolLimit;
use crate::id::{ChannelId, ProcessId};
use crate::queue::Queue;
use crate::stack::{Datagram, SendError, Transit};
use crate::tcp::endpoint::ListenAt;
use crate::tcp::table::Id;
use crate::wire::IpAddress;

pub use crate::id::SocketId;
pub use crate::ready::{Event, Ready};

/// Counters of a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams handed to the program.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because the socket queue was full, after all protocol work.
    pub dropped: u64,
}

/// A socket could not be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindError {
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

impl core::fmt::Display for BindError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::InUse => f.write_str("address and port are in use"),
            Self::NotLocal => f.write_str("the host does not have that address"),
            Self::NoPort => f.write_str("no ephemeral port is free"),
            Self::NoRing => f.write_str("the interface has no ring left for another socket"),
            Self::NoMemory(limit) => limit.fmt(f),
        }
    }
}

impl core::error::Error for BindError {}

/// What stands behind a [`SocketId`].
///
/// Streams may be very many, so what is larger than theirs is kept elsewhere.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Udp(Box<Socket>),
    Screen(Box<Screen>),
    Capture(Box<CaptureQueue>),
    Listener(Box<Listener>),
    Stream(Stream),
    /// The event queue of a process.
    Events(ProcessId),
}

impl Descriptor {
    pub(crate) fn owner(&self) -> Option<ProcessId> {
        match self {
            Self::Udp(socket) => socket.owner,
            Self::Screen(screen) => Some(screen.owner),
            Self::Capture(capture) => Some(capture.owner),
            Self::Listener(listener) => Some(listener.owner),
            Self::Stream(stream) => Some(stream.owner),
            Self::Events(owner) => Some(*owner),
        }
    }

    pub(crate) fn reopen(&mut self) -> bool {
        match self {
            Self::Udp(socket) => socket.ready.reopen(),
            Self::Screen(screen) => screen.queue.reopen(),
            Self::Capture(capture) => capture.reopen(),
            Self::Listener(_) | Self::Stream(_) | Self::Events(_) => false,
        }
    }

    /// How full it is, in percent; one that gives no feedback counts as empty.
    pub(crate) fn filled_percent(&self) -> u8 {
        match self {
            Self::Udp(socket) => socket.ready.filled_percent(),
            Self::Screen(screen) => screen.queue.filled_percent(),
            Self::Capture(capture) => capture.filled_percent(),
            Self::Listener(_) | Self::Stream(_) | Self::Events(_) => 0,
        }
    }

    /// What waits in it. Of TCP, nothing does: the endpoint knows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.ready.len(),
            Self::Screen(screen) => screen.queue.len(),
            Self::Capture(capture) => capture.len(),
            Self::Listener(_) | Self::Stream(_) | Self::Events(_) => 0,
        }
    }
}

/// The screening queue: packets that wait for a process's verdict.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) owner: ProcessId,
    pub(crate) queue: Queue<Transit>,
    /// Shown to the process, which will say later what becomes of them; at most as many as the queue holds.
    pub(crate) judging: VecDeque<Transit>,
    pub(crate) counters: Counters,
}

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) owner: Option<ProcessId>,
    pub(crate) address: Option<IpAddress>,
    pub(crate) port: u16,
    /// Its own channel first, then those of the multicast groups it has joined, each with its group.
    pub(crate) channels: Vec<(ChannelId, Option<IpAddress>)>,
    pub(crate) next_channel: usize,
    /// Datagrams on which all protocol work is done.
    pub(crate) ready: Queue<Datagram>,
    pub(crate) counters: Counters,
}

impl Socket {
    pub(crate) fn has_room(&self) -> bool {
        self.ready.has_room()
    }
}

/// A TCP socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) owner: ProcessId,
    pub(crate) at: ListenAt,
    /// Under the lazy architectures: its channels, of SYNs and of what else comes for its port.
    pub(crate) syns: Option<ChannelId>,
    pub(crate) handshakes: Option<ChannelId>,
    /// SYNs wait in their channel until there is room in the accept queue.
    pub(crate) stopped: bool,
}

/// One end of a TCP connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) owner: ProcessId,
    pub(crate) id: Id,
}

/// Why no socket listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// Another socket listens at that address and port.
    InUse,
    /// The host does not have that address.
    NotLocal,
    /// An interface that demultiplexes has no ring left for another channel.
    NoRing,
    /// The host's memory limit does not allow its channels.
    NoMemory(PoolLimit),
}

impl From<BindError> for ListenError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::InUse | BindError::NoPort => Self::InUse,
            BindError::NotLocal => Self::NotLocal,
            BindError::NoRing => Self::NoRing,
            BindError::NoMemory(limit) => Self::NoMemory(limit),
        }
    }
}

impl core::fmt::Display for ListenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::InUse => f.write_str("another socket listens at that address and port"),
            Self::NotLocal => f.write_str("the host does not have that address"),
            Self::NoRing => f.write_str("the interface has no ring left for another listener"),
            Self::NoMemory(limit) => limit.fmt(f),
        }
    }
}

impl core::error::Error for ListenError {}

/// Why no connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// There is a connection between these sockets, or was until lately: take another port.
    InUse,
    /// No ephemeral port is free for that destination.
    NoPort,
    /// The host does not have that address, or none that suits the destination.
    NotLocal,
    /// No route leads to the destination, or it is not an address one can connect to.
    NoRoute,
    /// The destination is this host itself; nothing loops back here.
    Loopback,
    /// There are too many connections, or the memory limit does not allow their channels.
    Full,
}

impl From<SendError> for ConnectError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NoAddress => Self::NotLocal,
            SendError::Loopback => Self::Loopback,
            SendError::NoRoute | SendError::TooBig | SendError::NoBuffer => Self::NoRoute,
        }
    }
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::InUse => "address in use",
            Self::NoPort => "no ephemeral port is free for that destination",
            Self::NotLocal => "no address of this host to connect from",
            Self::NoRoute => "no route to the destination",
            Self::Loopback => "the destination is this host",
            Self::Full => "too many connections",
        })
    }
}

impl core::error::Error for ConnectError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_costs_its_host_16_bytes() {
        assert_eq!(size_of::<Option<Descriptor>>(), 16);
    }
}
