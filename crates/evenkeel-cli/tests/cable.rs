//! Commands on a cable, which need neither root nor a device, and their results as JSON.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::io::Read as _;
use std::process::Stdio;

use common::{command, evenkeel, json};
use serde_json::Value;

const ARCHITECTURES: [&str; 5] = ["eager", "early-demux", "polled", "soft-lrp", "ni-lrp"];

/// A number of requests below the limit on packets that wait for a neighbour's address. If the machine stalls
/// for long, all requests that become due meanwhile wait, and none is lost.
const REQUESTS: u64 = 60;

#[test]
fn echo_answers_what_it_receives() {
    for architecture in ARCHITECTURES {
        for address in ["10.77.0.2/24", "fd77::2/64"] {
            let result = json(&[
                "echo",
                "cable",
                "--address",
                address,
                "--architecture",
                architecture,
                "--rate",
                "2k",
                "--count",
                &REQUESTS.to_string(),
                "--duration",
                "20s",
                "--json",
            ]);
            assert_eq!(result["architecture"], architecture);
            assert_eq!((&result["protocol"], &result["streams"]), (&"udp".into(), &Value::Null), "{result}");
            assert_eq!(result["requests"], REQUESTS, "{architecture} {address}: {result}");
            assert_eq!(result["answers"], REQUESTS, "{architecture} {address}: {result}");
            assert_eq!(result["counters"]["conserved"], true, "{architecture} {address}: {result}");
        }
    }
}

#[test]
fn sink_counts_and_does_not_answer() {
    let count = REQUESTS.to_string();
    let result = json(&["sink", "cable", "--rate", "2k", "--count", &count, "--duration", "20s", "--json"]);
    assert_eq!((&result["requests"], &result["answers"]), (&REQUESTS.into(), &0.into()), "{result}");
    assert_eq!(result["bytes"], 18 * REQUESTS);
    assert_eq!(result["port"], 9);
}

#[test]
fn blast_accounts_for_every_frame_on_every_architecture() {
    for architecture in ARCHITECTURES {
        let result = json(&[
            "blast",
            "cable",
            "--rate",
            "max",
            "--count",
            "200k",
            "--architecture",
            architecture,
            "--json",
        ]);
        assert_eq!(result["sent"], 200_000);
        assert_accounted_for(&result, 200_000);
    }
}

/// Asserts that some requests were received, and that all others were dropped for a reason. The numbers
/// depend on the machine: other work may take the core from the receiver for longer than its ring lasts.
fn assert_accounted_for(result: &Value, sent: u64) {
    let receiver = &result["receiver"];
    assert_eq!(receiver["counters"]["conserved"], true, "{result}");
    let drops = receiver["counters"]["drops"].as_array().unwrap();
    let dropped: u64 = drops.iter().map(|d| d["frames"].as_u64().unwrap()).sum();
    let requests = receiver["requests"].as_u64().unwrap();
    assert!(requests > 0, "{result}");
    assert_eq!(requests + dropped, sent, "{result}");
}

#[test]
fn a_monitor_that_ends_at_a_count_accounts_for_what_it_leaves() {
    for _ in 0..20 {
        let result = json(&["monitor", "cable", "--rate", "max", "--count", "3", "--json"]);
        assert_eq!(result["captured"], 3, "{result}");
        assert_eq!(result["counters"]["conserved"], true, "{result}");
    }
}

#[test]
fn blast_keeps_to_its_rate() {
    let result = json(&["blast", "cable", "--rate", "20k", "--duration", "500ms", "--json"]);
    let sent = result["sent"].as_u64().unwrap();
    assert!(sent > 0 && sent <= 10_001, "{result}");
    assert_eq!(result["target_pps"], 20_000);
}

#[test]
fn blast_over_ipv6_and_many_flows() {
    let result = json(&[
        "blast",
        "cable",
        "--to",
        "[fd77::1]:5000",
        "--flows",
        "64",
        "--rate",
        "20k",
        "--count",
        "1000",
        "--json",
    ]);
    assert_accounted_for(&result, 1_000);
}

#[test]
fn a_flooded_router_accounts_for_every_frame_on_every_architecture() {
    let folder = std::env::temp_dir().join(format!("evenkeel-cable-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rules = folder.join("rules.conf");
    std::fs::write(&rules, "pass in on lan proto udp to port 9\nblock proto tcp\n").unwrap();
    for architecture in ARCHITECTURES {
        let mut arguments = vec!["route", "cable", "--json", "--architecture", architecture];
        let plain = json(&[&arguments[..], &["--duration", "50ms"]].concat());
        // One step only: on a busy machine the router may not get the core for a while.
        arguments.extend(["--rules", rules.to_str().unwrap(), "--rate", "20k", "--duration", "300ms"]);
        for (result, screened) in [(plain, false), (json(&arguments), true)] {
            assert_eq!(result["conserved"], true, "{architecture}: {result}");
            let steps = result["steps"].as_array().unwrap();
            let forwarded: u64 =
                steps.iter().map(|step| step["counters"]["forwarded"].as_u64().unwrap()).sum();
            assert!(forwarded > 0, "{architecture} forwarded nothing");
            if screened {
                assert_eq!(steps.len(), 1);
                assert_eq!(steps[0]["rules"][0]["packets"], forwarded, "{architecture}: {result}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn results_for_people_are_the_same_in_words() {
    let output = evenkeel(&["blast", "cable", "--rate", "20k", "--count", "1000"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("sent 1\u{202f}000 requests") && said.contains("soft-lrp sink received "),
        "{said}"
    );
    assert!(output.stderr.is_empty(), "no progress where there is no terminal");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success() && said.is_empty(), "{said}");
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = json(&["completions", shell, "--json"])["script"].as_str().unwrap().to_owned();
        assert!(script.contains("blast"), "{shell}");
    }
}

/// A terminal of 80 columns shows only the beginning of a live line.
#[test]
fn what_is_lost_stands_at_the_beginning_of_a_live_line() {
    for (command, wanted) in [
        (
            &["echo", "cable", "--rate", "200k", "--work", "20us", "--duration", "1s"][..],
            &[" dropped", "% idle"][..],
        ),
        (
            &["echo", "cable", "--tcp", "--clients", "100", "--bytes", "1M", "--duration", "1s"],
            &[" dropped", "% idle"],
        ),
    ] {
        let output = evenkeel(&[command, &["--stats-interval", "200ms"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(" s  ")).collect();
        assert!(!lines.is_empty(), "{command:?}: {said}");
        for line in lines {
            let shown: String = line.chars().take(79).collect();
            assert!(wanted.iter().all(|wanted| shown.contains(wanted)), "{command:?}: {shown}");
        }
    }
}
