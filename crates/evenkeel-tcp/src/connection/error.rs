//! Errors that end connections.

use core::fmt;

use super::super::fault::Fault;

/// The reason why a connection is over, other than by closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The peer refused the connection: nothing listens there.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer reset the connection after the end of its own direction: nothing reads what this side sends
    /// (`EPIPE`, as in Linux).
    BrokenPipe,
    /// The peer did not answer for too long.
    TimedOut,
    /// The network or the next hop reported that the peer cannot be reached.
    Unreachable,
    /// The user aborted it, or closed it with data unread or still coming.
    Aborted,
}

/// The failure of a connection, or the signs of one.
#[derive(Debug, Default)]
pub(super) struct Failure {
    /// The reason why the connection failed, if it did and the user has not taken it.
    pub(super) error: Option<Error>,
    /// Whether the network has recently reported an error that need not be the end (RFC 5461).
    pub(super) unreachable: bool,
}

impl Failure {
    /// Returns the reason to give to a user whose peer has not answered for too long.
    pub(super) const fn without_answer(&self) -> Error {
        if self.unreachable { Error::Unreachable } else { Error::TimedOut }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::BrokenPipe => "broken pipe",
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
            Self::Refused | Self::Reset | Self::BrokenPipe | Self::TimedOut | Self::Unreachable => {
                Fault::Network
            }
            Self::Aborted => Fault::Misuse,
        }
    }
}
