//! What the user is notified of.

use super::super::connection::Connection;
use super::super::state::State;
use super::super::table::Id;
use super::listeners::ListenAt;

/// What the user is notified of, once: a connection is mentioned again when it is ready for more than it was
/// when last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointEvent {
    /// A connection waits to be [accepted](super::Endpoint::accept). Accept until there is none.
    Acceptable(ListenAt),
    /// A connection of the user's is ready for that. Read, or write, until it is
    /// [`WouldBlock`](super::super::connection::Unavailable::WouldBlock).
    Connection(Id, Readiness),
}

/// What a connection is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// The handshake is over.
    pub connected: bool,
    /// There is something to read, if only the end.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// Nothing more will come: the peer has closed its side, or nothing is received any more.
    pub ended: bool,
    /// Nothing more will come or go.
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

    /// A bit for each.
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
