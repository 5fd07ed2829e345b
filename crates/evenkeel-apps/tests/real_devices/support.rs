//! The programs that these tests run in their network namespaces.

use std::io::{BufRead as _, BufReader};
use std::process::{ChildStderr, Stdio};

use evenkeel_testing::{Program, words};
pub(crate) use evenkeel_testing::{Running, Scratch, attempt, pause, run};

const PROGRAMS: [Program; 7] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("nc", "netcat-openbsd"),
    ("dig", "bind9-dnsutils"),
    ("tcpdump", "tcpdump"),
    ("tshark", "tshark"),
    ("capinfos", "wireshark-common"),
];

/// Runs `test` in a network namespace of its own.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    evenkeel_testing::in_namespace(&[&PROGRAMS], test);
}

/// Starts a command and waits until it prints a line with `sign` to stderr.
pub(crate) fn start_until(command: &str, sign: &str) -> (Running, BufReader<ChildStderr>) {
    let mut child = words(command).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(sign) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "{command} ended without `{sign}`");
    }
    (Running(child), stderr)
}
