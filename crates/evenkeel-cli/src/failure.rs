//! Failures of commands: one line for the user, and an exit status.

use std::io;
use std::process::ExitCode;

use evenkeel::raw::device::LinkError;
use evenkeel_apps::host_setup::SetupError;

use crate::message::{self, Level};

/// The reason for which a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense: status 2.
    Usage(String),
    /// The machine, a privilege or a file stood in the way: status 1.
    Machine(String),
    /// The command ran to its end, and a check failed: status 1. The failed checks were printed already.
    ChecksFailed,
    /// The reader of our output has gone, with all that it wanted: status 0.
    ReaderGone,
}

impl Failure {
    /// Returns a failure of the machine: `error`, after the action `what` that failed.
    pub(crate) fn machine(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self::Machine(format!("{what}: {error}"))
    }

    /// Returns the line for the user, without the numbers of operating system errors.
    fn line(&self) -> String {
        let line = match self {
            Self::Usage(line) | Self::Machine(line) => line,
            Self::ChecksFailed | Self::ReaderGone => return String::new(),
        };
        let mut parts = line.split(" (os error ");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |line, part| match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|digit| digit.is_ascii_digit()) => line + rest,
            _ => line + " (os error " + part,
        })
    }

    /// Returns the failure that the counters do not balance.
    pub(crate) fn unbalanced() -> Self {
        Self::Machine("not every frame is accounted for: please report this as a bug".to_owned())
    }

    /// Returns an error if the device of a command's host failed, with the reason in `failed`.
    pub(crate) fn of_device(failed: Option<&String>) -> Result<(), Self> {
        failed.map_or(Ok(()), |what| Err(Self::Machine(what.clone())))
    }

    /// Prints the line, if there is one, and returns the status.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(_) => {
                message::put(Level::Error, &self.to_string());
                ExitCode::from(2)
            }
            Self::Machine(_) => {
                message::put(Level::Error, &self.to_string());
                ExitCode::FAILURE
            }
            Self::ChecksFailed => ExitCode::FAILURE,
            Self::ReaderGone => ExitCode::SUCCESS,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.line())
    }
}

/// An error of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::machine("cannot write to standard output", error)
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Filter(error) => Self::Usage(error.to_string()),
            error => Self::Machine(error.to_string()),
        }
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        Self::Machine(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_said_without_the_number_of_the_error() {
        let error = io::Error::from_raw_os_error(2);
        let line = Failure::machine("cannot read a", format!("{error}; cannot read b: {error}")).to_string();
        let expected = "cannot read a: No such file or directory; cannot read b: No such file or directory";
        assert_eq!(line, expected);
        assert_eq!(Failure::Usage("a (os error x) b".to_owned()).to_string(), "a (os error x) b");
    }
}
