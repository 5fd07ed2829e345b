//! How commands end: when their time is up, and at Ctrl-C whatever they are doing.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::process::{Child, Output, Stdio};

use common::{command, pause, signal};
use serde_json::Value;

fn start(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a command leaves that has to end by itself, within `seconds`.
fn end(mut child: Child, seconds: u32) -> Output {
    let ended = (0..seconds * 20).any(|_| {
        child.try_wait().unwrap().is_some() || {
            pause();
            false
        }
    });
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(ended, "it goes on after {seconds} s: {}", text(&output.stderr));
    output
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn a_run_is_over_when_its_time_is_up() {
    for arguments in [
        &["echo", "cable", "--work", "1h", "--duration", "100ms", "--json"][..],
        &["echo", "cable", "--tcp", "--work", "1h", "--duration", "100ms", "--json"],
        &["http", "cable", "--size", "100G", "--duration", "100ms", "--json"],
        &["http", "cable", "--size", "18446744073709551615", "--duration", "100ms", "--json"],
    ] {
        let output = end(start(arguments), 20);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        // A tenth, half a second for connections to end, and as much again for a machine that is busy with other things.
        assert!(result["seconds"].as_f64().unwrap() < 4.0, "{arguments:?}: {result}");
    }
}

#[test]
fn ctrl_c_ends_a_server_that_computes() {
    for more in [&["--rate", "1k"][..], &["--tcp"]] {
        let arguments = [&["echo", "cable", "--work", "1h", "--duration", "1h", "--json"][..], more].concat();
        let child = start(&arguments);
        (0..10).for_each(|_| pause());
        signal(&child, "INT");
        let output = end(child, 10);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
}
