//! Why a connection is over.

use core::fmt;

use super::super::fault::Fault;

/// Why a connection is over, other than by closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Error {
    /// The peer does not listen.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer gave no sign for too long.
    TimedOut,
    /// The network says the peer cannot be reached.
    Unreachable,
    /// The user gave it up, or closed it while data was still coming.
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
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Refused | Self::Reset | Self::TimedOut | Self::Unreachable => Fault::Network,
            Self::Aborted => Fault::Misuse,
        }
    }
}
