//! The output of a monitor: one of the sinks.

use evenkeel::raw::capture::Captured;
use evenkeel::raw::time::Duration;

use super::file::CaptureFile;
use super::lines::Lines;
use super::program::Sink;
use super::summary::{Summarized, Summary};

/// One of the sinks.
#[derive(Debug)]
pub(crate) enum Product {
    File(Box<CaptureFile>),
    Lines(Lines),
    Summaries(Box<Summaries>),
}

/// The summary of all frames, and that of the frames since the last glance.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    all: Summary,
    pub(crate) since_last: Summary,
}

/// At its end the monitor waits this long for a terminal that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

impl Product {
    /// Returns what was counted so far, if nothing is written or shown.
    pub(crate) fn summarized(&self) -> Option<Summarized> {
        match self {
            Self::Summaries(summaries) => Some(summaries.all.counts()),
            Self::File(_) | Self::Lines(_) => None,
        }
    }

    /// Ends the sink. The error has the number of written frames, and the reason why no more were written.
    pub(crate) fn finish(self) -> Result<Option<Summarized>, (u64, String)> {
        match self {
            Self::File(file) => {
                file.finish().map(|_| None).map_err(|(written, error)| (written, error.to_string()))
            }
            Self::Lines(mut lines) => {
                lines.finish(PATIENCE);
                Ok(None)
            }
            Self::Summaries(summaries) => Ok(Some(summaries.all.counts())),
        }
    }
}

impl Sink for Product {
    fn take(&mut self, captured: &Captured<'_>, time: u64) -> bool {
        match self {
            Self::File(file) => file.take(captured, time),
            Self::Lines(lines) => lines.take(captured, time),
            Self::Summaries(summaries) => {
                summaries.all.take(captured, time) && summaries.since_last.take(captured, time)
            }
        }
    }

    fn discard(&mut self, captured: &Captured<'_>) {
        if let Self::File(file) = self {
            file.discard(captured);
        }
    }

    fn is_stuck(&self) -> bool {
        matches!(self, Self::File(file) if file.is_stuck())
    }

    fn flush(&mut self) -> bool {
        match self {
            Self::File(file) => file.flush(),
            Self::Lines(lines) => lines.flush(),
            Self::Summaries(_) => false,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::File(file) => file.is_over(),
            Self::Lines(lines) => lines.is_over(),
            Self::Summaries(_) => false,
        }
    }
}
