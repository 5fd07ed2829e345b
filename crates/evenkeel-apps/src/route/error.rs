//! Why a router could not run.

use std::io;

use super::tables::Unusable;
use super::text_error::TextError;
use crate::host_setup::SetupError;

/// Why a router could not run.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// A link or the machine.
    #[error(transparent)]
    HostSetup(#[from] SetupError),
    /// The rules.
    #[error(transparent)]
    Rules(#[from] TextError),
    /// A route or neighbour.
    #[error(transparent)]
    Table(#[from] Unusable),
    /// The host does not take an entry.
    #[error("{0}")]
    Entry(String),
    /// The links.
    #[error("{0}")]
    Links(String),
    /// The processors.
    #[error("{0}")]
    Cores(String),
}

impl From<io::Error> for RouterError {
    fn from(error: io::Error) -> Self {
        Self::HostSetup(error.into())
    }
}

impl From<evenkeel_link::LinkError> for RouterError {
    fn from(error: evenkeel_link::LinkError) -> Self {
        Self::HostSetup(error.into())
    }
}
