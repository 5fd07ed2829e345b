//! Tests of signals that end a process. Each runs its own process again as a child, so that its signals do
//! not reach another test.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::env;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_link::{Stop, hangup_events};
use rustix::process::{Pid, Signal, kill_process};

/// The variable that selects the part of a child.
const PART: &str = "EVENKEEL_SIGNALS_PART";

#[expect(clippy::disallowed_methods, reason = "the other process does not tell when a signal has arrived")]
fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// Plays the part of the child: it reports that it is ready, does not end when requested to, and at last
/// reports whether an end and a reload were requested.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let hangup = (part == "reloads").then(|| hangup_events().unwrap());
    let stop = Stop::on_signals().unwrap();
    // The text begins a new line, because the harness has written without an end of line.
    println!("\nready");
    pause(1500);
    let reloads = hangup.is_some_and(evenkeel_link::EventFd::take);
    println!("\nrequested {} reloads {reloads}", stop.requested());
}

/// Starts the child and returns when it is ready.
fn start(part: &str, ignoring_hangup: bool) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(PART, part).stdout(Stdio::piped());
    if ignoring_hangup {
        command.arg0("nohup");
        let inner = command.get_program().to_owned();
        command = Command::new("nohup");
        command.arg(inner).args(["--exact", "child", "--nocapture"]).env(PART, part);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "ready" {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it is not ready");
    }
    (child, lines)
}

/// Sends signals with pauses of milliseconds before each; returns the last line and the status.
fn play(part: &str, nohup: bool, signals: &[(u64, Signal)]) -> (String, ExitStatus) {
    let (mut child, lines) = start(part, nohup);
    for &(before, signal) in signals {
        pause(before);
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let last = lines.lines().map_while(Result::ok).filter(|line| line.starts_with("requested")).last();
    (last.unwrap_or_default(), child.wait().unwrap())
}

#[test]
fn each_signal_asks_for_the_end_and_its_echo_does_not_kill() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (said, status) = play("plain", false, &[(0, signal), (5, signal), (5, Signal::TERM)]);
        assert!(status.success(), "{signal:?}: {status}");
        assert_eq!(said, "requested true reloads false", "{signal:?}");
    }
}

#[test]
fn a_second_signal_after_a_moment_ends_the_process_at_once() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (said, status) = play("plain", false, &[(0, Signal::INT), (400, signal)]);
        assert_eq!((said.as_str(), status.signal()), ("", Some(signal.as_raw())), "{signal:?}");
    }
}

#[test]
fn a_hangup_that_asks_for_a_reload_does_not_end() {
    let (said, status) = play("reloads", false, &[(0, Signal::HUP), (400, Signal::HUP)]);
    assert!(status.success(), "{status}");
    assert_eq!(said, "requested false reloads true");
}

#[test]
fn under_nohup_a_hangup_stays_ignored() {
    let (said, status) = play("plain", true, &[(0, Signal::HUP), (10, Signal::HUP)]);
    assert!(status.success(), "{status}");
    assert_eq!(said, "requested false reloads false");
}
