//! Errors of calls on an endpoint.

use core::fmt;

use super::super::fault::Fault;

/// The error of a call to listen where another listener is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse;

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("address in use")
    }
}

impl core::error::Error for InUse {}

/// The error of a call on a connection that is over, or that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotConnected;

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not connected")
    }
}

impl core::error::Error for NotConnected {}

impl NotConnected {
    /// Returns whose fault it is: the caller's, because it was notified of the end.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

/// The reason why no connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// A connection exists between these addresses and ports, or did until recently: another port may be
    /// free.
    InUse,
    /// All ports to choose from are in use between this address of ours and this port of the peer's.
    NoPort,
    /// The endpoint has too many connections.
    Full,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "address in use",
            Self::NoPort => "no port is free",
            Self::Full => "too many connections",
        })
    }
}

impl core::error::Error for OpenError {}

impl OpenError {
    /// Returns whose fault it is: the caller's if the address is in use, else a limit.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::InUse => Fault::Misuse,
            Self::NoPort | Self::Full => Fault::Limit,
        }
    }
}
