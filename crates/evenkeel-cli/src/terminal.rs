//! The command's output: results on standard output, progress on standard error.

use std::io::{self, IsTerminal as _, Write as _};

use evenkeel::raw::signal::ReportRequests;
use serde::Serialize;
use terminal_size::terminal_size_of;

use crate::failure::Failure;
use crate::message;

/// Writes a result to standard output and flushes it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a result as JSON, with a newline.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::machine("cannot write JSON", e))?;
    print(&format!("{text}\n"))
}

/// Treats SIGUSR1 as a request for a report, from now on.
pub(crate) fn reports() -> Result<Option<&'static ReportRequests>, Failure> {
    ReportRequests::on_signals().map(Some).map_err(|error| Failure::machine("cannot take signals", error))
}

/// A progress line on standard error that is overwritten. Silent unless standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    active: bool,
    /// Requests for a report. The next line that is shown answers all of them.
    reports: Option<&'static ReportRequests>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: false, active: io::stderr().is_terminal(), reports: None }
    }

    /// Creates a display that answers SIGUSR1 with its next line, even if standard error is no terminal.
    pub(crate) fn answering() -> Result<Self, Failure> {
        Ok(Self { reports: reports()?, ..Self::new() })
    }

    /// Creates a display that shows nothing.
    pub(crate) const fn silent() -> Self {
        Self { shown: false, active: false, reports: None }
    }

    /// Returns whether progress is shown: standard error is a terminal, and this is not silent.
    pub(crate) const fn is_active(&self) -> bool {
        self.active
    }

    /// Shows `line` in place of the one before, cut to the terminal's width.
    pub(crate) fn show(&mut self, line: &str) {
        if self.reports.is_some_and(ReportRequests::take) {
            message::say(line);
        }
        if !self.active {
            return;
        }
        let line: String = line.chars().take(width().saturating_sub(1)).collect();
        // A carriage return, the line, and an escape that erases the rest of the row.
        self.shown = write!(io::stderr(), "\r{line}\x1b[K").is_ok();
    }

    /// Removes the line from the terminal.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
            self.shown = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns a bar of `width` characters that is filled to `share`.
pub(crate) fn bar(share: f64, width: usize) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a picture"
    )]
    let filled = ((share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    format!("{}{}", "█".repeat(filled), "░".repeat(width - filled))
}

/// Returns the columns of the terminal, as the shell or the terminal reports them; 80 if neither does.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || Some(usize::from(terminal_size_of(io::stderr())?.0.0));
    said.or_else(asked).filter(|columns| *columns > 0).unwrap_or(80)
}

/// Returns the columns of help: those of the terminal, at most 100; without a terminal 100.
pub(crate) fn help_width() -> usize {
    const WIDEST: usize = 100;
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || Some(usize::from(terminal_size_of(io::stdout())?.0.0));
    said.or_else(asked).filter(|columns| *columns > 0).unwrap_or(WIDEST).min(WIDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_wide_as_asked_whatever_the_share() {
        assert_eq!(bar(0.5, 4), "██░░");
        for share in [-1.0, 0.0, 0.99, 2.0, f64::NAN] {
            assert_eq!(bar(share, 10).chars().count(), 10);
        }
    }
}
