//! Why a call did nothing.

use core::fmt;

use super::super::fault::Fault;

/// Somebody listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse;

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("address in use")
    }
}

impl core::error::Error for InUse {}

/// The connection is over, or there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotConnected;

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not connected")
    }
}

impl core::error::Error for NotConnected {}

impl NotConnected {
    /// Whose fault it is: the caller's, who was told of the end.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Misuse
    }
}

/// Why no connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// There is a connection between these sockets, or was until recently: take another port.
    InUse,
    /// All ports that may be chosen from are in use between this address of ours and that port of the peer's.
    NoPort,
    /// There are too many connections.
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
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::InUse => Fault::Misuse,
            Self::NoPort | Self::Full => Fault::Limit,
        }
    }
}
