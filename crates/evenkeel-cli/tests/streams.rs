//! TCP without root: servers and clients on a cable, as a user runs them, and their results as JSON.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use common::{command, evenkeel, json, signal};
use serde_json::Value;

const ARCHITECTURES: [&str; 5] = ["eager", "early-demux", "polled", "soft-lrp", "ni-lrp"];
/// The time that a connection may take on a busy machine; none of these tests is about speed.
const PATIENCE: &str = "120s";

fn conserved(result: &Value, other: &str) {
    for counters in [&result["counters"], &result[other]["counters"]] {
        assert_eq!(counters["conserved"], true, "{result}");
    }
}

#[test]
fn what_is_sent_comes_back_over_every_architecture_and_both_families() {
    for architecture in ARCHITECTURES {
        for to in ["10.77.0.1:7", "[fd77::1]:7"] {
            let result = json(&[
                "send",
                "cable",
                "--bytes",
                "3M",
                "--to",
                to,
                "--architecture",
                architecture,
                "--duration",
                PATIENCE,
                "--json",
            ]);
            assert_eq!((&result["complete"], &result["as_sent"]), (&true.into(), &true.into()), "{result}");
            assert_eq!((&result["bytes_in"], &result["bytes_out"]), (&3_000_000.into(), &3_000_000.into()));
            assert_eq!(result["connection"]["bytes_acked"], 3_000_000, "{result}");
            // If only the four-tuple is still in TIME-WAIT, the connection is closed for its program.
            let state = result["connection"]["state"].as_str().unwrap_or_default();
            assert!(["TIME-WAIT", "CLOSED"].contains(&state), "{result}");
            assert_eq!(result["server"]["bytes_in"], 3_000_000, "{result}");
            assert_eq!((&result["server"]["accepted"], &result["server"]["failed"]), (&1.into(), &0.into()));
            conserved(&result, "server");
        }
    }
}

/// Data that does not fit into the SYN follows after the handshake.
#[test]
fn with_fast_open_the_first_bytes_go_along_with_the_syn_of_a_second_connection() {
    for (bytes, architecture) in [("900", "soft-lrp"), ("3M", "eager"), ("3M", "ni-lrp")] {
        let fixed = ["send", "cable", "--fast-open", "--duration", PATIENCE, "--json"];
        let result = json(&[&fixed[..], &["--bytes", bytes, "--architecture", architecture]].concat());
        assert_eq!((&result["complete"], &result["as_sent"]), (&true.into(), &true.into()), "{result}");
        assert_eq!(result["bytes_in"], result["bytes_out"], "{result}");
        let counters = |side: &Value, name: &str| side["tcp"]["counters"][name].as_u64().unwrap_or(0);
        let server = &result["server"];
        assert_eq!((&server["accepted"], &server["failed"]), (&2.into(), &0.into()), "{result}");
        assert_eq!(counters(server, "TCPFastOpenCookieReqd"), 1, "{result}");
        assert_eq!(counters(server, "TCPFastOpenPassive"), 1, "{result}");
        assert_eq!(counters(&result, "TCPFastOpenActive"), 1, "{result}");
        conserved(&result, "server");
    }
}

#[test]
fn a_sink_gives_nothing_back() {
    let result = json(&[
        "send",
        "cable",
        "--sink",
        "--bytes",
        "200k",
        "--to",
        "10.77.0.1:9",
        "--duration",
        PATIENCE,
        "--json",
    ]);
    assert_eq!((&result["complete"], &result["bytes_in"]), (&true.into(), &0.into()), "{result}");
    assert_eq!(result["server"]["bytes_in"], 200_000, "{result}");
}

/// The shortest time of a transfer follows from the rate; the longest depends on the machine and is not
/// checked.
#[test]
fn what_is_sent_is_shaped_and_the_report_says_to_what() {
    for option in ["--limit-rate", "--rate"] {
        let fixed = ["send", "cable", "--sink", "--to", "10.77.0.1:9", "--duration", PATIENCE, "--json"];
        let result = json(&[&fixed[..], &["--bytes", "100k", option, "4mbit"]].concat());
        assert_eq!((&result["complete"], &result["server"]["bytes_in"]), (&true.into(), &100_000.into()));
        // The last packet is an exception: no packet waits after it.
        assert!(result["seconds"].as_f64().unwrap() > 98_500.0 * 8.0 / 4e6, "{result}");
        assert_eq!(result["connection"]["limit_bps"], 4_000_000, "{result}");
    }
}

/// An option that is given for the server applies to the server's connections.
#[test]
fn congestion_control_and_start_are_those_of_the_side_they_were_said_of() {
    for (name, as_linux_says, paces) in
        [("newreno", "reno", false), ("cubic", "cubic", false), ("bbr", "bbr", true)]
    {
        let result = json(&[
            "send",
            "cable",
            "--bytes",
            "300k",
            "--congestion",
            name,
            "--start",
            "known=1gbit",
            "--restart",
            "last-rate",
            "--pacing",
            "--duration",
            PATIENCE,
            "--json",
        ]);
        assert_eq!(result["as_sent"], true, "{result}");
        let connection = &result["connection"];
        assert_eq!(connection["congestion_control"], as_linux_says, "{result}");
        assert_eq!(connection["limit_bps"], 1_000_000_000, "{result}");
        assert!(connection["delivery_bps"].as_u64().is_some_and(|rate| rate > 0), "{result}");
        assert_eq!(connection["pacing_bps"].is_u64(), paces, "{result}");
    }
    let result = json(&[
        "http",
        "cable",
        "--size",
        "20k",
        "--count",
        "4",
        "--congestion",
        "bbr",
        "--rate",
        "80mbit",
        "--connections",
        "--json",
    ]);
    assert_eq!((&result["clients"]["completed"], &result["clients"]["failed"]), (&4.into(), &0.into()));
}

/// The rate limit applies to the server's connections; the shortest time of a transfer follows from the
/// rate.
#[test]
fn a_document_is_shaped() {
    let fixed = ["http", "cable", "--size", "100k", "--count", "1", "--clients", "1", "--duration", PATIENCE];
    let result = json(&[&fixed[..], &["--rate", "4mbit", "--json"]].concat());
    assert_eq!((&result["requests"], &result["clients"]["completed"]), (&1.into(), &1.into()), "{result}");
    assert!(result["bytes_out"].as_u64().unwrap() > 100_000, "{result}");
    assert!(result["seconds"].as_f64().unwrap() > 98_500.0 * 8.0 / 4e6, "{result}");
}

/// The bytes of standard input come back on standard output, and the report does not mix with them.
#[test]
fn standard_input_goes_there_and_back_to_standard_output() {
    let mut child = command(&["send", "cable", "--duration", PATIENCE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said: Vec<u8> = (0..1_000_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    let mut input = child.stdin.take().unwrap();
    let writing = std::thread::spawn({
        let said = said.clone();
        move || input.write_all(&said).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{report}");
    assert!(output.stdout == said, "{} bytes came back of {}", output.stdout.len(), said.len());
    assert!(report.contains("complete") && report.contains("retrans:"), "{report}");
}

#[test]
fn a_file_is_sent_and_what_comes_back_is_written_to_a_file() {
    let folder = std::env::temp_dir().join(format!("evenkeel-{}-send", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (from, to) = (folder.join("from"), folder.join("to"));
    std::fs::write(&from, b"in a file").unwrap();
    let (from_path, to_path) = (from.to_str().unwrap(), to.to_str().unwrap());
    let result = json(&["send", "cable", from_path, "--output", to_path, "--duration", PATIENCE, "--json"]);
    assert_eq!(result["bytes_in"], 9, "{result}");
    assert_eq!(result["as_sent"], Value::Null, "what is not made up is not compared");
    assert_eq!(std::fs::read(&to).unwrap(), b"in a file");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A transfer fails if its output cannot be written, and does not wait for the rest.
#[test]
fn a_reader_that_goes_away_ends_it() {
    let mut child = command(&["send", "cable", "--bytes", "1G", "--output", "-", "--duration", PATIENCE])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 1_000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write what came back: Broken pipe"), "{said}");
}

#[test]
fn servers_serve_many_connections_over_every_architecture() {
    for architecture in ARCHITECTURES {
        for (server, back) in [("echo", 20_000), ("sink", 0)] {
            let result = json(&[
                server,
                "cable",
                "--tcp",
                "--clients",
                "30",
                "--count",
                "90",
                "--bytes",
                "20k",
                "--architecture",
                architecture,
                "--duration",
                PATIENCE,
                "--json",
            ]);
            let clients = &result["clients"];
            assert_eq!((&clients["opened"], &clients["completed"]), (&90.into(), &90.into()), "{result}");
            assert_eq!(result["accepted"], 90, "{result}");
            assert_eq!(result["bytes_in"], 90 * 20_000, "{result}");
            assert_eq!(clients["bytes_in"], 90 * back, "{result}");
            assert_eq!(result["tcp"]["counters"]["PassiveOpens"], 90, "{result}");
            conserved(&result, "clients");
        }
    }
}

#[test]
fn a_document_is_served_over_ipv6() {
    let result = json(&[
        "http",
        "cable",
        "--address",
        "fd77::2/64",
        "--size",
        "100k",
        "--clients",
        "5",
        "--count",
        "20",
        "--duration",
        PATIENCE,
        "--json",
    ]);
    assert_eq!((&result["requests"], &result["clients"]["completed"]), (&20.into(), &20.into()), "{result}");
    assert!(result["bytes_out"].as_u64().unwrap() > 20 * 100_000, "{result}");
    conserved(&result, "clients");
}

/// Runs a command that prints JSON; returns the JSON and the command's peak memory in KiB.
fn with_peak(arguments: &[&str]) -> (Value, u64) {
    let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (status, mut peak) = (format!("/proc/{}/status", child.id()), 0);
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let size = line.and_then(|line| line.split_whitespace().next()).and_then(|size| size.parse().ok());
        peak = peak.max(size.unwrap_or(0));
        common::pause();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (common::report(arguments, output.stdout), peak)
}

/// Ten thousand connections are open at a time, and take little memory.
#[test]
fn ten_thousand_connections_at_a_time() {
    let run = |clients: &str| {
        with_peak(&[
            "echo",
            "cable",
            "--tcp",
            "--clients",
            clients,
            "--count",
            clients,
            "--bytes",
            "100",
            "--connections=3",
            "--duration",
            PATIENCE,
            "--json",
        ])
    };
    let ((_, before), (result, peak)) = (run("1"), run("10000"));
    assert_eq!(result["clients"]["completed"], 10_000, "{}", result["clients"]);
    assert_eq!((&result["accepted"], &result["bytes_out"]), (&10_000.into(), &1_000_000.into()));
    // Before the server has accepted the last connections, at most 128 were used and may have ended.
    assert!(result["most_open"].as_u64().unwrap() >= 10_000 - 128, "{}", result["most_open"]);
    assert!(result["connections"].as_array().unwrap().len() <= 3);
    conserved(&result, "clients");
    // Each connection has two ends, with a socket and the program's state each.
    assert!(peak - before < 10_000 * 4, "{before} KiB with one, {peak} KiB with ten thousand");
}

/// While the largest number of connections is open, later connections need new ports: those of connections
/// that are over rest for a second.
#[test]
fn clients_on_a_cable_do_not_run_out_of_ports() {
    let load = ["http", "cable", "--clients", "16384", "--count", "17000", "--duration", PATIENCE, "--json"];
    let result = json(&load);
    let clients = &result["clients"];
    assert_eq!(clients["completed"], 17_000, "{clients}");
    assert_eq!((&clients["unopened"], &clients["failed"]), (&0.into(), &0.into()), "{clients}");
}

#[test]
fn what_nobody_can_connect_to_is_said() {
    let output =
        evenkeel(&["send", "cable", "--to", "10.77.0.9:7", "--from", "10.77.0.9/24", "--duration", "5s"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("10.77.0.9:7: the destination is this host"), "{said}");
}

#[test]
fn ctrl_c_ends_a_server_and_a_client_with_their_counters_that_add_up() {
    for arguments in [
        &["echo", "cable", "--tcp", "--bytes", "10G", "--duration", "1h", "--json"][..],
        &["send", "cable", "--bytes", "1000G", "--json"],
    ] {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        common::pause();
        common::pause();
        signal(&child, "INT");
        let ended = (0..200).any(|_| {
            child.try_wait().unwrap().is_some() || {
                common::pause();
                false
            }
        });
        assert!(ended, "{arguments:?} goes on for 10 s after Ctrl-C");
        let output = child.wait_with_output().unwrap();
        // A client has not sent all its data; a server has nothing to complete.
        let status = if arguments[0] == "send" { 1 } else { 0 };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        // On a busy machine it may not have connected yet.
        let is_short = ["not complete", "no connection so far"].iter().any(|what| said.contains(what));
        assert_eq!(is_short, status == 1, "{said}");
        let result = common::report(arguments, output.stdout);
        assert_eq!(result["counters"]["conserved"], true, "{result}");
    }
}
