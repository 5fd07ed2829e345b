//! Running the command as a user does.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Output, Stdio};

/// The command, with nothing at its standard input.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub fn evenkeel(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs a command that must succeed and print one JSON value.
pub fn json(arguments: &[&str]) -> serde_json::Value {
    let output = evenkeel(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}
