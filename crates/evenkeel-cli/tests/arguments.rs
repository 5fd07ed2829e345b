//! Bad arguments and missing privilege: one clear line that says what to do, and an exit status that says whose fault it is.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{evenkeel, is_root};

/// Runs a command that must fail, and gives its one line.
fn complaint(status: i32, arguments: &[&str]) -> String {
    let output = evenkeel(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: not one line: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}: a complaint belongs to standard error");
    said
}

#[test]
fn bad_arguments_are_explained_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["dmeo"], "demo"),
        (&["demo", "--work", "1"], "such as 500ns"),
        (&["demo", "--points", "1"], "3..=100"),
        (&["demo", "--seconds-per-point", "0"], "above 0"),
        (&["demo", "--architectures", "eager,bsd"], "soft-lrp"),
        (&["demo", "--no-report", "--report", "x.html"], "--report"),
        (&["echo"], "<LINK>"),
        (&["echo", "wire"], "expected `cable`"),
        (&["echo", "tap:"], "tap:ek0"),
        (&["echo", "tap:a-name-that-is-far-too-long"], "1 to 15"),
        (&["echo", "cable", "--prot", "9"], "--port"),
        (&["echo", "cable", "--port", "0"], "--port"),
        (&["echo", "cable", "--port", "65536"], "65535"),
        (&["echo", "cable", "--address", "10.0.0.1"], "10.77.0.2/24"),
        (&["echo", "cable", "--address", "10.77.0.2/32"], "shorter prefix"),
        (&["echo", "cable", "--group", "10.0.0.1"], "239.1.2.3"),
        (&["echo", "cable", "--architecture", "bsd"], "soft-lrp"),
        (&["echo", "cable", "--dump", "x.pcapng"], "packet:NAME"),
        (&["echo", "cable", "--gateway", "10.77.0.1"], "packet:NAME"),
        (&["echo", "packet:lo", "--kernel-address", "10.77.0.1/24"], "tap:NAME"),
        (&["sink", "cable", "--rate", "fast"], "500k or 2M"),
        (&["blast", "cable", "--rate", "0"], "above 0"),
        (&["blast", "cable", "--to", "10.77.0.1"], "10.77.0.1:9"),
        (&["blast", "cable", "--size", "9000"], "1452"),
        (&["blast", "cable", "--from", "10.77.0.2/24", "--to", "[fd77::1]:9"], "different families"),
        (&["blast", "pcap:x.pcapng"], "--dump"),
        (&["lab", "run"], "<ID>"),
        (&["lab", "run", "no-such-figure"], "no experiment is called `no-such-figure`"),
        (&["completions", "tcl"], "bash"),
    ];
    for (arguments, hint) in cases {
        let said = complaint(2, arguments);
        assert!(said.contains(hint), "{arguments:?}: {said}");
    }
}

#[test]
fn the_line_names_the_help_of_the_command_that_was_meant() {
    assert!(complaint(2, &["blast", "cable", "--rat", "5"]).ends_with("see `evenkeel blast --help`\n"));
    assert!(complaint(2, &["lab", "run", "--sed", "5"]).ends_with("see `evenkeel lab run --help`\n"));
    assert!(complaint(2, &["dmeo"]).ends_with("see `evenkeel --help`\n"));
}

#[test]
fn what_the_machine_refuses_is_explained_in_one_line() {
    let said = complaint(1, &["echo", "packet:no-such-dev", "--duration", "1ms"]);
    assert!(said.contains("ip link") || said.contains("run as root"), "{said}");
    let said = complaint(1, &["sink", "pcap:/no/such/file.pcapng"]);
    assert!(said.contains("/no/such/file.pcapng"), "{said}");
    if !is_root() {
        let said = complaint(1, &["echo", "tap:keeltest9", "--duration", "1ms"]);
        assert!(said.contains("run as root") || said.contains("/dev/net/tun"), "{said}");
    }
}

#[test]
fn help_teaches() {
    for command in [&["demo"][..], &["echo"], &["sink"], &["blast"], &["lab", "run"], &["completions"]] {
        let output = evenkeel(&[command, &["--help"]].concat());
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && help.contains("Example") && help.contains("--json"),
            "{command:?}: {help}"
        );
    }
}

#[test]
fn without_a_command_the_help_is_shown_and_it_is_an_error() {
    let output = evenkeel(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage:"));
}
