//! Commands on a cable, which need neither root nor a device, and their results as JSON.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::io::Read as _;
use std::process::{Command, Stdio};

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
        let mut arguments =
            vec!["route", "cable", "--duration", "50ms", "--json", "--architecture", architecture];
        let plain = json(&arguments);
        arguments.extend(["--rules", rules.to_str().unwrap(), "--rate", "20k"]);
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

/// Completions include the values of options.
#[test]
fn completions_know_values() {
    for shell in ["bash", "zsh", "fish"] {
        let script = json(&["completions", shell, "--json"])["script"].as_str().unwrap().replace('\\', "");
        // What clap generates for fish has no values of arguments without a name.
        let positional = if shell == "fish" { &[][..] } else { &["l97-fig15", "t00"] };
        let options = ["early-demux", "ni-lrp", "newreno", "packet:", "remembered", "dynamic"];
        for value in options.iter().chain(positional) {
            assert!(script.contains(value), "{shell} does not know {value}");
        }
    }
}

/// Returns the completions that bash offers for the last word of a line.
fn offered_in_bash(line: &str) -> Vec<String> {
    let script = r#"
        source <("$0" completions bash)
        COMP_LINE="$1" COMP_POINT=${#1}
        _evenkeel_whole evenkeel "" ""
        printf '%s\n' "${COMPREPLY[@]}""#;
    let output = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_evenkeel"), line]).output();
    let output = output.unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// The completions include the loopback device, which every machine has.
#[test]
fn bash_completes_links_with_the_interfaces_there_are() {
    let offered = |line: &str| offered_in_bash(line);
    // The completion continues after the colon, where bash starts a new word.
    for line in ["echo packet:", "wan --link packet:l", "route --link packet:", "load --on packet:"] {
        let offered = offered(&format!("evenkeel {line}"));
        assert!(offered.contains(&"lo".to_owned()), "{line}: {offered:?}");
        assert!(offered.iter().all(|word| !word.contains(':')), "{line}: {offered:?}");
    }
    let prefixed = offered("evenkeel echo pack");
    assert!(
        ["packet:", "packet:lo"].iter().all(|word| prefixed.contains(&(*word).to_owned())),
        "{prefixed:?}"
    );
    assert!(!offered("evenkeel echo tap:").contains(&"lo".to_owned()), "it is no TAP");
    assert!(offered("evenkeel monitor l").contains(&"lo".to_owned()));
    assert!(offered("evenkeel monitor an").contains(&"any".to_owned()));
    // Other words are still completed.
    assert_eq!(offered("evenkeel echo cable --architecture soft"), ["soft-lrp"]);
    assert_eq!(offered("evenkeel bla"), ["blast"]);
    assert!(offered("evenkeel echo cable --kernel-").contains(&"--kernel-address".to_owned()));
}

#[test]
fn fish_completes_links_with_the_interfaces_there_are() {
    if Command::new("fish").arg("-v").output().is_err() {
        let lack = evenkeel_skip::Lack::Program { program: "fish", package: "fish" };
        return evenkeel_skip::skip("fish_completes_links_with_the_interfaces_there_are", &lack);
    }
    let offered = |line: &str| {
        let script = "source ($argv[1] completions fish | psub); complete -C $argv[2]";
        let arguments = ["--no-config", "-c", script, env!("CARGO_BIN_EXE_evenkeel"), line];
        let output = Command::new("fish").args(arguments).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for line in ["echo packet:", "monitor packet:", "wan --link packet:", "load --on packet:"] {
        let offered = offered(&format!("evenkeel {line}"));
        assert!(offered.lines().any(|line| line.starts_with("packet:lo")), "{line}: {offered}");
    }
    assert!(offered("evenkeel monitor l").lines().any(|line| line.starts_with("lo")));
    assert!(offered("evenkeel echo ca").lines().any(|line| line.starts_with("cable")));
}

#[test]
fn zsh_understands_its_script() {
    if Command::new("zsh").arg("--version").output().is_err() {
        let lack = evenkeel_skip::Lack::Program { program: "zsh", package: "zsh" };
        return evenkeel_skip::skip("zsh_understands_its_script", &lack);
    }
    // The script calls the function as zsh would for a link, and prints its suggestions.
    let script = r#"
        script="$($0 completions zsh)"
        [[ $script == *'{_evenkeel_links cable tap\: packet\: pcap\:}'* ]] || print missing
        compdef() { }
        eval "$script"
        compadd() { print -l $links }
        _evenkeel_links any packet:"#;
    let output = Command::new("zsh").args(["-fc", script, env!("CARGO_BIN_EXE_evenkeel")]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let offered: Vec<&str> = said.lines().collect();
    assert!(errors.is_empty(), "{errors}");
    assert!(["any", "lo", "packet:", "packet:lo"].iter().all(|word| offered.contains(word)), "{said}");
    assert!(!offered.contains(&"missing"), "{said}");
}
