//! Events of which the user is notified.

use super::super::connection::Connection;
use super::super::state::State;
use super::super::table::Id;
use super::listeners::ListenAt;

/// An event of which the user is notified once. A connection is reported again when it is ready for more
/// than when it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointEvent {
    /// A connection waits to be [accepted](super::Endpoint::accept). The user accepts until there is none.
    Acceptable(ListenAt),
    /// A connection of the user's has become ready. The user reads, or writes, until the call returns
    /// [`WouldBlock`](super::super::connection::Unavailable::WouldBlock).
    Connection(Id, Readiness),
}

/// The set of operations for which a connection is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Whether the handshake is over.
    pub connected: bool,
    /// Whether a read returns at once: with data, the end of the stream, or an error.
    pub readable: bool,
    /// Whether there is room to write.
    pub writable: bool,
    /// Whether nothing more will come: the peer has closed its side, or this side reads no more.
    pub ended: bool,
    /// Whether the connection is closed in both directions.
    pub over: bool,
}

impl Readiness {
    #[inline]
    pub(super) fn of(connection: &Connection) -> Self {
        let connected = connection.state().is_synchronized();
        Self {
            connected,
            readable: connection.is_readable(),
            writable: connected && connection.is_writable(),
            ended: connection.is_read_closed(),
            over: connection.state() == State::Closed,
        }
    }

    /// Returns the fields as bits of a number.
    #[inline]
    const fn bits(self) -> u8 {
        self.connected as u8
            | (self.readable as u8) << 1
            | (self.writable as u8) << 2
            | (self.over as u8) << 3
            | (self.ended as u8) << 4
    }

    #[inline]
    pub(super) const fn has_more_than(self, other: Self) -> bool {
        self.bits() & !other.bits() != 0
    }
}
