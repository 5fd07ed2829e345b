//! The errors for which a router cannot run.

use std::io;

use super::tables::Unusable;
use super::text_error::TextError;
use crate::host_setup::SetupError;

/// An error for which a router cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// An error of a link or of the machine.
    #[error(transparent)]
    HostSetup(#[from] SetupError),
    /// An error in the rules.
    #[error(transparent)]
    Rules(#[from] TextError),
    /// A route or neighbour that cannot be used.
    #[error(transparent)]
    Table(#[from] Unusable),
    /// An entry that the host does not accept.
    #[error("{0}")]
    Entry(String),
    /// Links that do not fit together.
    #[error("{0}")]
    Links(String),
    /// Processors that the router cannot use.
    #[error("{0}")]
    Cores(String),
}

impl From<io::Error> for RouterError {
    fn from(error: io::Error) -> Self {
        Self::HostSetup(error.into())
    }
}

impl From<evenkeel::raw::device::LinkError> for RouterError {
    fn from(error: evenkeel::raw::device::LinkError) -> Self {
        Self::HostSetup(error.into())
    }
}
