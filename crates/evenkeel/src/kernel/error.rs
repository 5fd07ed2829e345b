//! The error of following the kernel's tables.

use std::io;

use evenkeel_core::receive::Architecture;
use evenkeel_link::LinkError;

/// The reason why a host cannot follow the kernel's tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// A name that no device has.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// More devices than a host can have interfaces.
    #[error("too many links")]
    TooManyLinks,
    /// An architecture under which the interface does not demultiplex: all frames would go to the kernel.
    #[error("a host that shares the kernel's addresses needs the architecture ni-lrp, not {0}")]
    Architecture(Architecture),
    /// A device without an address that the kernel could share.
    #[error("{0} has no address to share: give it one (ip addr add), or leave out `,share`")]
    NoAddress(String),
    /// Addresses, routes or a hardware address for a host that has those of the kernel.
    #[error("with `,share` the addresses and routes are the kernel's: give the host no others")]
    OwnAddresses,
    /// The kernel does not list its tables, or the process may open no more descriptors.
    #[error("cannot follow the kernel's tables: {0}")]
    Os(#[from] io::Error),
}
