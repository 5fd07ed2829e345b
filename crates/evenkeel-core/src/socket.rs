//! UDP sockets: a queue of datagrams that are ready, and the channels that raw frames come from.

use std::collections::VecDeque;

use crate::channel::ChannelId;
use crate::frame::PoolLimit;
use crate::poll::Gate;
use crate::process::ProcessId;
use crate::stack::Datagram;
use crate::wire::IpAddress;

/// Names a socket of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

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

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) owner: Option<ProcessId>,
    pub(crate) address: Option<IpAddress>,
    pub(crate) port: u16,
    /// Its own channel first, then those of the multicast groups it has joined, each with its group.
    pub(crate) channels: Vec<(ChannelId, Option<IpAddress>)>,
    pub(crate) next_channel: usize,
    /// Datagrams on which all protocol work is done.
    pub(crate) ready: VecDeque<Datagram>,
    pub(crate) limit: usize,
    /// Feedback to the polling thread, where that thread fills this queue.
    pub(crate) gate: Gate,
    pub(crate) waiter: Option<ProcessId>,
    pub(crate) counters: Counters,
}

impl Socket {
    pub(crate) fn has_room(&self) -> bool {
        self.ready.len() < self.limit
    }
}
