//! Names of what a host has. They are small numbers, each a place in the table of its owner.

use crate::tcp::endpoint::Egress;

/// Names an interface of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InterfaceId(pub u8);

impl InterfaceId {
    /// As TCP knows it.
    pub(crate) const fn egress(self) -> Egress {
        Egress::new(self.0)
    }
}

/// Names a channel of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// Names a socket of one host, or a queue that is read like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// Names a process of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A queue that gives feedback to the polling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueId {
    Socket(SocketId),
    Channel(ChannelId),
    IpQueue,
    Output(InterfaceId),
}
