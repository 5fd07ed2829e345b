//! Names of what a host has. They are small numbers, each a place in the table of its owner.

use crate::tcp::endpoint::Egress;

/// Names an interface of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InterfaceId(pub u8);

impl InterfaceId {
    /// Returns the interface as TCP names it.
    pub(crate) const fn egress(self) -> Egress {
        Egress::new(self.0)
    }
}

/// Names a channel of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// Names a descriptor of one process: the lowest number that was free when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

impl Fd {
    /// Returns the descriptor as the token of an event queue's registration ([`crate::socket::Interest`]).
    #[must_use]
    pub const fn token(self) -> u64 {
        self.0 as u64
    }

    /// Returns the descriptor that an event is for, if its registration's token is [the
    /// descriptor's](Self::token).
    #[must_use]
    pub const fn of(event: &evenkeel_ready::Event) -> Self {
        Self(event.token as u32)
    }
}

/// Names a socket of one host, or a queue that is read like one: what a descriptor refers to. A program names
/// it by the [`Fd`] of its process.
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
