//! Reading of the machine's state: files below `/proc` and `/sys`. No other file of the doctor opens one.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// The files of a machine.
#[derive(Debug, Clone)]
pub(super) struct Files {
    root: PathBuf,
}

/// The reason why a file gives no information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// It does not exist.
    Absent,
    /// This process may not read it.
    Forbidden,
    /// It has another form than expected, or cannot be read.
    Unclear,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "this kernel or network namespace does not show it",
            Self::Forbidden => "this user may not see it: run as root",
            Self::Unclear => "it has another form than expected",
        })
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            _ => Self::Unclear,
        }
    }
}

impl Files {
    /// Returns the files of this machine.
    pub(super) fn of_machine() -> Self {
        Self::below("/")
    }

    /// Returns the files of a machine whose root is `root`.
    pub(super) fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file, without the space at its end.
    pub(super) fn text(&self, path: &str) -> Result<String, Unread> {
        let bytes = fs::read(self.path(path))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Reads a number from a file.
    pub(super) fn number<T: FromStr>(&self, path: &str) -> Result<T, Unread> {
        self.text(path)?.trim().parse().map_err(|_| Unread::Unclear)
    }

    /// Reads a file, and what `parse` finds in it.
    pub(super) fn parsed<T>(&self, path: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Unread> {
        parse(&self.text(path)?).ok_or(Unread::Unclear)
    }

    /// Returns the size of a file in bytes.
    pub(super) fn size(&self, path: &str) -> Result<u64, Unread> {
        Ok(fs::metadata(self.path(path))?.len())
    }

    /// Returns the names in a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, Unread> {
        let names = fs::read_dir(self.path(path))?.filter_map(Result::ok);
        let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the text of a symbolic link.
    pub(super) fn link(&self, path: &str) -> Result<String, Unread> {
        Ok(fs::read_link(self.path(path))?.to_string_lossy().into_owned())
    }

    /// Opens a device for reading and writing, and closes it.
    pub(super) fn try_open(&self, path: &str) -> Result<(), Unread> {
        Ok(OpenOptions::new().read(true).write(true).open(self.path(path)).map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let files = Files::of_machine();
        assert_eq!(files.text("/proc/no-such-file"), Err(Unread::Absent));
        assert_eq!(files.text("/proc/self/status/below"), Err(Unread::Absent));
        assert_eq!(files.number::<u64>("/proc/self/status"), Err(Unread::Unclear));
        assert!(files.names("/proc/self").unwrap().contains(&"status".to_owned()));
    }
}
