//! The error of calls that a thread makes on an engine and its host.

use std::fmt;
use std::io;

use evenkeel_core::frame::PoolLimit;
use evenkeel_core::host::{AddInterfaceError, NotAttached};
use evenkeel_core::socket::{
    BadDescriptor, BindError, ConnectError, DupError, Fault, ListenError, ReceiveError, RegisterError,
    SendError, StreamError, TooManyOpen,
};
use evenkeel_core::stack::RouteError;
use evenkeel_core::wire::IpAddress;
use evenkeel_link::{LinkError, SpecError};
use thiserror::Error;

use crate::kernel::FollowError;

/// An error of any call that a thread makes on its engine or host. Each call has its own error type, and
/// `?` converts it into this one.
///
/// [`Debug`](fmt::Debug) prints the same text as [`Display`](fmt::Display), because users see the debug
/// output of a program that unwraps the error or returns it from `main`.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The thread made a call as a process that is not attached.
    #[error(transparent)]
    NotAttached(#[from] NotAttached),
    /// A link specification that cannot be parsed.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A link specification that names no device.
    #[error("{0} is no device: tap:NAME or packet:NAME")]
    NoDevice(String),
    /// A link that several hosts cannot share.
    #[error("{0} is for one host: several share packet:NAME, or xdp:NAME without `,share`")]
    OneHost(String),
    /// A text that is no address with its prefix length, such as `10.77.0.2/24`.
    #[error("{0} is no address with its prefix, such as 10.77.0.2/24")]
    Address(String),
    /// A device that cannot be opened or used.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An interface that the host cannot serve.
    #[error(transparent)]
    Interface(#[from] AddInterfaceError),
    /// A request beyond the host's memory limit.
    #[error(transparent)]
    Memory(#[from] PoolLimit),
    /// The kernel's tables cannot be followed, or its addresses not shared.
    #[error(transparent)]
    Follow(FollowError),
    /// An error that the operating system reported.
    #[error(transparent)]
    Os(#[from] io::Error),
    /// A descriptor that does not exist or does not suit the call.
    #[error(transparent)]
    BadDescriptor(#[from] BadDescriptor),
    /// A socket could not be bound, or a group not joined.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No socket listens.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No connection was opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A datagram was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Nothing was taken from a descriptor.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// A call on a stream did nothing.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A router that cannot be reached.
    #[error("cannot route by {0}: it must be on the link of one of our addresses, and of its family")]
    Gateway(IpAddress),
    /// A route that the host cannot have.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// An option or a call that sockets of this host do not have.
    #[error("sockets of this host do not have {0}")]
    Unsupported(&'static str),
    /// A datagram without a destination, on a socket that is not connected.
    #[error("the socket is not connected: there is no destination")]
    NotConnected,
    /// All devices of the host are gone.
    #[error("the devices of the host are gone: nothing comes any more")]
    Down,
    /// The process has as many descriptors as it may have.
    #[error(transparent)]
    TooManyOpen(#[from] TooManyOpen),
    /// A descriptor has no duplicate.
    #[error(transparent)]
    Dup(#[from] DupError),
    /// A call on an event queue did nothing.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

impl From<FollowError> for Error {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Link(error) => Self::Link(error),
            FollowError::Os(error) => Self::Os(error),
            other => Self::Follow(other),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns whether the call may succeed later without any other change: it would have blocked, or there
    /// was no buffer for a datagram.
    #[must_use]
    pub const fn would_block(&self) -> bool {
        matches!(
            self,
            Self::Receive(ReceiveError::WouldBlock)
                | Self::Stream(StreamError::WouldBlock)
                | Self::Send(SendError::NoBuffer)
        )
    }

    /// Returns who has to act on the error ([`evenkeel_core::error`] has the table); `None` if the call
    /// would only have blocked. A refusal of the operating system is a limit of the machine, unless a
    /// privilege is missing, an argument is not valid or a name does not exist. The caller has to correct
    /// those.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        Some(match self {
            Self::NotAttached(error) => error.fault(),
            Self::Spec(_) | Self::NoDevice(_) | Self::OneHost(_) | Self::Address(_) | Self::Follow(_) => {
                Fault::Misuse
            }
            Self::Link(LinkError::Os { source, .. }) | Self::Os(source) => fault_of(source),
            Self::Link(_) => Fault::Misuse,
            Self::Interface(error) => error.fault(),
            Self::Memory(_) => Fault::Limit,
            Self::Down => Fault::Network,
            Self::Gateway(_) | Self::Route(_) | Self::Unsupported(_) | Self::NotConnected => Fault::Misuse,
            Self::BadDescriptor(error) => error.fault(),
            Self::Bind(error) => error.fault(),
            Self::Listen(error) => error.fault(),
            Self::Connect(error) => error.fault(),
            Self::Send(error) => error.fault(),
            Self::Receive(error) => return error.fault(),
            Self::Stream(error) => return error.fault(),
            Self::TooManyOpen(error) => error.fault(),
            Self::Dup(error) => error.fault(),
            Self::Register(error) => error.fault(),
        })
    }
}

fn fault_of(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => {
            Fault::Misuse
        }
        _ => Fault::Limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    /// Rust prints an error that `main` returns as a sentence.
    #[test]
    fn the_error_of_main_is_a_sentence() {
        let said = |device, address| format!("Error: {:?}", Engine::open(device, address).err().unwrap());
        assert_eq!(said("cable", ""), "Error: cable is no device: tap:NAME or packet:NAME");
        assert_eq!(
            said("tap:nosuch0", "10.77.0.2"),
            "Error: 10.77.0.2 is no address with its prefix, such as 10.77.0.2/24"
        );
        let bound = Error::from(BindError::InUse);
        assert_eq!(format!("{bound:?} {bound:#?}"), format!("{bound} {bound}"));
    }
}
