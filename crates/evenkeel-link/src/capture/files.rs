//! A series of capture files: a new file begins when the current one is full or old enough, and the oldest
//! may be removed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;

use evenkeel_core::time::Duration;

use crate::Utc;

/// A series of files with names as `dumpcap` gives them, so that Wireshark recognizes a set:
/// `NAME_00001_20261121130000.pcapng`, time in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    name: PathBuf,
    limit_bytes: u64,
    limit_nanos: u64,
    keep: usize,
    number: u64,
    /// The existing files, oldest first; kept only if some are to be removed.
    files: VecDeque<PathBuf>,
}

impl Row {
    /// Creates a series of files named after `name`. A file ends before it grows larger than `limit_bytes`,
    /// and when it is as old as `period`; `keep` files are kept. `None` sets no limit.
    #[must_use]
    pub fn new(
        name: PathBuf,
        limit_bytes: Option<u64>,
        period: Option<Duration>,
        keep: Option<usize>,
    ) -> Self {
        let nanos = |period: Duration| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Self {
            name,
            limit_bytes: limit_bytes.unwrap_or(u64::MAX),
            limit_nanos: period.map_or(u64::MAX, nanos),
            keep: keep.unwrap_or(usize::MAX).max(1),
            number: 0,
            files: VecDeque::new(),
        }
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    pub(super) fn limit_nanos(&self) -> u64 {
        self.limit_nanos
    }

    /// Returns the next file, begun at `now` in nanoseconds since 1970, and the file to remove for it.
    pub(super) fn next(&mut self, now: u64) -> (PathBuf, Option<PathBuf>) {
        self.number += 1;
        let mut file = self.name.file_stem().unwrap_or_default().to_owned();
        file.push(format!("_{:05}_{}", self.number, date(now / 1_000_000_000)));
        if let Some(extension) = self.name.extension() {
            file.push(OsString::from("."));
            file.push(extension);
        }
        let next = self.name.with_file_name(file);
        if self.keep == usize::MAX {
            return (next, None);
        }
        self.files.push_back(next.clone());
        let oldest = if self.files.len() > self.keep { self.files.pop_front() } else { None };
        (next, oldest)
    }
}

/// Formats date and time, UTC, as `YYYYMMDDhhmmss`.
fn date(seconds: u64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of(seconds);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_up_and_the_oldest_goes() {
        let mut row = Row::new("/tmp/a.b.pcapng".into(), None, None, Some(2));
        let mut next = || row.next(951_782_400_000_000_000);
        let name = |n| PathBuf::from(format!("/tmp/a.b_0000{n}_20000229000000.pcapng"));
        assert_eq!(next(), (name(1), None));
        assert_eq!(next(), (name(2), None));
        assert_eq!(next(), (name(3), Some(name(1))));
        assert_eq!(next(), (name(4), Some(name(2))));
        let mut plain = Row::new("capture".into(), Some(1), None, None);
        assert_eq!(plain.next(0).0, PathBuf::from("capture_00001_19700101000000"));
    }
}
