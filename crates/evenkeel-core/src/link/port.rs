//! Ports: the sides of interfaces that a host serves.

use crate::id::{ChannelId, InterfaceId};
use crate::poll::SourceId;
use crate::receive::{DeviceWork, ReceivePath};

/// A side of an interface that the host serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port {
    pub(crate) interface: InterfaceId,
    pub(crate) side: Side,
    pub(crate) source: SourceId,
    /// The receive path of the interface.
    pub(crate) plan: ReceivePath,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A receive ring.
    Receive(usize),
    /// Frames that have left, whose buffers come back.
    Transmit,
}

impl Port {
    /// Returns whether the interrupt of the port only starts the polling thread.
    pub(crate) fn is_polled(self) -> bool {
        self.plan.device == DeviceWork::Polled
    }

    pub(crate) fn is_transmit(self) -> bool {
        self.side == Side::Transmit
    }
}

/// The outcome of device work on a ring: the frames that it took and discarded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    /// Frames it took.
    pub(crate) done: usize,
    /// Of these, how many led nowhere, or to a channel that was full.
    pub(crate) discarded: usize,
    /// The last channel that was full.
    pub(crate) full: Option<ChannelId>,
}

impl Taken {
    /// Adds what was taken next.
    pub(crate) fn add(&mut self, next: Self) {
        self.done += next.done;
        self.discarded += next.discarded;
        self.full = next.full.or(self.full);
    }
}

/// A turn of the polling thread whose time is not over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polled {
    pub(super) port: Port,
    /// Frames it took.
    pub(super) done: usize,
    /// Of these, how many were discarded.
    pub(super) discarded: usize,
    /// The last channel that was full.
    pub(super) full: Option<ChannelId>,
    pub(super) end: End,
}

/// The state in which a poll left its callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The quota is used.
    UsedUp,
    /// There was nothing more to take.
    Empty,
    /// It may go on, now or when nothing inhibits it.
    Open,
}
