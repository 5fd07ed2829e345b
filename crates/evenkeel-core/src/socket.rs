//! What a program holds open: UDP sockets, the screening queue, capture queues.

use std::collections::VecDeque;

use crate::capture::CaptureQueue;
use crate::channel::ChannelId;
use crate::frame::PoolLimit;
use crate::poll::Gate;
use crate::process::ProcessId;
use crate::stack::{Datagram, Transit};
use crate::wire::IpAddress;

/// Names a socket of one host, or a queue that is read like one.
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

/// A bounded queue that a process reads, and may sleep on.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<T>,
    limit: usize,
    /// Feedback to whatever fills it.
    gate: Gate,
    /// Who sleeps until there is something in it.
    pub(crate) waiter: Option<ProcessId>,
}

impl<T> Queue<T> {
    pub(crate) fn new(limit: usize, gate: Gate) -> Self {
        Self { items: VecDeque::with_capacity(limit), limit, gate, waiter: None }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.items.len() < self.limit
    }

    /// Appends, and gives whom to wake. The caller has seen to it that there is room.
    pub(crate) fn push(&mut self, item: T) -> Option<ProcessId> {
        self.items.push_back(item);
        self.waiter.take()
    }

    /// The oldest, and whether input may resume now that it is gone.
    pub(crate) fn pop(&mut self) -> Option<(T, bool)> {
        let item = self.items.pop_front()?;
        Some((item, self.gate.on_dequeue(self.items.len())))
    }

    /// Drops the oldest. Says whether input may resume now that it is gone.
    #[inline]
    pub(crate) fn drop_front(&mut self) -> bool {
        self.items.pop_front();
        self.gate.on_dequeue(self.items.len())
    }

    /// Its gate, and how many wait: to be told of an enqueue, or of the attempt.
    pub(crate) fn gate(&mut self) -> (&mut Gate, usize) {
        (&mut self.gate, self.items.len())
    }

    pub(crate) fn filled_percent(&self) -> u8 {
        self.gate.filled_percent(self.items.len())
    }

    pub(crate) fn reopen(&mut self) -> bool {
        self.gate.reopen(self.items.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    pub(crate) fn into_items(self) -> VecDeque<T> {
        self.items
    }
}

/// What stands behind a [`SocketId`].
#[derive(Debug)]
pub(crate) enum Descriptor {
    Udp(Socket),
    Screen(Screen),
    Capture(CaptureQueue),
}

impl Descriptor {
    pub(crate) fn owner(&self) -> Option<ProcessId> {
        match self {
            Self::Udp(socket) => socket.owner,
            Self::Screen(screen) => Some(screen.owner),
            Self::Capture(capture) => Some(capture.owner),
        }
    }

    pub(crate) fn waiter(&mut self) -> &mut Option<ProcessId> {
        match self {
            Self::Udp(socket) => &mut socket.ready.waiter,
            Self::Screen(screen) => &mut screen.queue.waiter,
            Self::Capture(capture) => capture.waiter(),
        }
    }

    pub(crate) fn reopen(&mut self) -> bool {
        match self {
            Self::Udp(socket) => socket.ready.reopen(),
            Self::Screen(screen) => screen.queue.reopen(),
            Self::Capture(capture) => capture.reopen(),
        }
    }

    /// How full it is, in percent; one that gives no feedback counts as empty.
    pub(crate) fn filled_percent(&self) -> u8 {
        match self {
            Self::Udp(socket) => socket.ready.filled_percent(),
            Self::Screen(screen) => screen.queue.filled_percent(),
            Self::Capture(capture) => capture.filled_percent(),
        }
    }

    /// What waits in it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.ready.len(),
            Self::Screen(screen) => screen.queue.len(),
            Self::Capture(capture) => capture.len(),
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
