//! The errors for which a router cannot run.

use std::io;

use evenkeel::raw::device::LinkError;
use evenkeel::raw::kernel::FollowError;

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

impl From<LinkError> for RouterError {
    fn from(error: LinkError) -> Self {
        Self::HostSetup(error.into())
    }
}

impl From<FollowError> for RouterError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Link(error) => error.into(),
            FollowError::Os(error) => error.into(),
            error => Self::Links(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_following_the_kernel_name_the_link_or_the_machine() {
        let said = |error| RouterError::from(error).to_string();
        let no_device = || LinkError::NoDevice { name: "r1".to_owned() };
        assert_eq!(said(FollowError::Link(no_device())), no_device().to_string());
        let full = io::Error::other("no descriptor");
        assert_eq!(said(FollowError::Os(full)), "cannot run the host: no descriptor");
        assert!(
            matches!(FollowError::TooManyLinks.into(), RouterError::Links(what) if what == "too many links")
        );
    }
}
