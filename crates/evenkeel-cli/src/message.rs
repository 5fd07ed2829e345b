//! Lines on standard error: errors, warnings and news.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

/// The urgency of a line, as syslog(3) numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Error = 3,
    Warning = 4,
    Information = 6,
}

/// Prints one line about an event to standard error.
pub(crate) fn say(what: &str) {
    put(Level::Information, what);
}

/// Prints one line to standard error. The journal gets its level (sd-daemon(3)), and knows the program.
pub(crate) fn put(level: Level, what: &str) {
    let number = level as u8;
    if is_journal() {
        eprintln!("<{number}>{what}");
        return;
    }
    // A live line may be on the terminal.
    let over = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    eprintln!("{over}evenkeel: {what}");
}

/// Prints one line of an interim report to standard error.
pub(crate) fn interim(line: &str) {
    if is_journal() { put(Level::Information, line) } else { eprintln!("{line}") }
}

/// Returns whether standard error is the journal's: it is if the journal says which file it is.
fn is_journal() -> bool {
    let said = std::env::var("JOURNAL_STREAM").ok();
    let is_it = |said: String| {
        let (device, inode) = said.split_once(':')?;
        let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        Some(device.parse() == Ok(file.dev()) && inode.parse() == Ok(file.ino()))
    };
    said.and_then(is_it).unwrap_or(false)
}
