//! Lines to paste from the table of commands in README.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use common::{command, pause};
use rustix::process::{Pid, Signal, kill_process};

const README: &str = include_str!("../../../README.md");

/// Returns the arguments of each line to paste: the last column of the table, in code.
fn pasted() -> impl Iterator<Item = Vec<&'static str>> {
    let last_columns =
        README.lines().filter_map(|line| line.strip_prefix("| [`")?.rsplit("| `evenkeel ").next());
    last_columns.filter_map(|column| Some(column.strip_suffix("` |")?.split(' ').collect()))
}

/// Runs each line to its end, or for a second if it has no limit; then SIGTERM ends it.
#[test]
fn every_line_to_paste_runs_without_root() {
    let directory = std::env::temp_dir().join(format!("evenkeel-pasted-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let lines: Vec<_> = pasted().filter(|arguments| arguments.len() > 1).collect();
    assert!(lines.len() >= 10, "{lines:?}");
    for arguments in lines {
        let mut command = command(&arguments);
        let mut child =
            command.current_dir(&directory).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let has_limit = arguments.iter().any(|word| ["--bytes", "--duration"].contains(word));
        let has_ended = (0..if has_limit { 1200 } else { 20 }).any(|_| {
            pause();
            child.try_wait().unwrap().is_some()
        });
        if !has_ended {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        // `demo` and `lab run` have no report to print.
        let has_run = output.status.success() || output.status.signal() == Some(Signal::TERM.as_raw());
        assert!(has_run, "evenkeel {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::remove_dir_all(directory).unwrap();
}
