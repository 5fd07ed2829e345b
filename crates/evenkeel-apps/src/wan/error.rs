//! Errors of an emulator.

use std::io;

use evenkeel::raw::device::LinkError;

/// The reason why an emulator could not run.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// The links do not suit.
    #[error("{0}")]
    Links(String),
    /// A link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The machine.
    #[error("cannot run the emulator: {0}")]
    Machine(#[from] io::Error),
}
