//! Errors that end connections.

use core::fmt;

use super::super::fault::Fault;

/// The reason why a connection is over, other than by closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Error {
    /// The peer refused the connection: nothing listens there.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer did not answer for too long.
    TimedOut,
    /// The network or the next hop reported that the peer cannot be reached.
    Unreachable,
    /// The user aborted it, or closed it with data unread or still coming.
    Aborted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::TimedOut => "connection timed out",
            Self::Unreachable => "peer is unreachable",
            Self::Aborted => "connection aborted",
        })
    }
}

impl core::error::Error for Error {}

impl Error {
    /// Returns whose fault it is: the caller's if the connection was aborted, else the network's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Refused | Self::Reset | Self::TimedOut | Self::Unreachable => Fault::Network,
            Self::Aborted => Fault::Misuse,
        }
    }
}
