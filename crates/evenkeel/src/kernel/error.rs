//! The error of following the kernel's tables.

use std::io;

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
    /// The kernel does not list its tables, or the process may open no more descriptors.
    #[error("cannot follow the kernel's tables: {0}")]
    Os(#[from] io::Error),
}
