//! What a thread of one's own is told when something fails: by the host it enters, or by the machine.

use std::fmt;
use std::io;

use evenkeel_core::frame::PoolLimit;
use evenkeel_core::host::{AddInterfaceError, NotAttached};
use evenkeel_core::socket::{
    BadDescriptor, BindError, ConnectError, DupError, Fault, ListenError, ReceiveError, RegisterError,
    SendError, StreamError, TooManyOpen,
};
use evenkeel_link::{LinkError, SpecError};
use thiserror::Error;

/// All that can fail between a thread of one's own and its host: each call has its own error, and `?` makes
/// this of it.
///
/// [`Debug`](fmt::Debug) prints the same text as [`Display`](fmt::Display): that is what the user of a
/// program sees whose `main` returns it, or that unwraps it.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The thread makes calls as a process that it is not.
    #[error(transparent)]
    NotAttached(#[from] NotAttached),
    /// A link that cannot be understood.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A link that is no device.
    #[error("{0} is no device: tap:NAME or packet:NAME")]
    NoDevice(String),
    /// Not an address with its prefix, such as `10.77.0.2/24`.
    #[error("{0} is no address with its prefix, such as 10.77.0.2/24")]
    Address(String),
    /// A device that cannot be had.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The host cannot serve it.
    #[error(transparent)]
    Interface(#[from] AddInterfaceError),
    /// The host's memory limit.
    #[error(transparent)]
    Memory(#[from] PoolLimit),
    /// What the operating system says.
    #[error(transparent)]
    Os(#[from] io::Error),
    /// A descriptor that the call cannot be made with.
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

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Whose fault it is ([`evenkeel_core::error`] has the table); nobody's that a call would block. What the
    /// operating system refuses is a limit of the machine, but for the lack of a privilege, which the caller
    /// has to see to.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        Some(match self {
            Self::NotAttached(error) => error.fault(),
            Self::Spec(_) | Self::NoDevice(_) | Self::Address(_) => Fault::Misuse,
            Self::Link(LinkError::Os { source, .. }) | Self::Os(source) => fault_of(source),
            Self::Link(_) => Fault::Misuse,
            Self::Interface(error) => error.fault(),
            Self::Memory(_) => Fault::Limit,
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

    /// What Rust prints for an error that `main` returns.
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
