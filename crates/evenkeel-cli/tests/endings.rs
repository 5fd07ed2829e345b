//! Endings of commands: at the end of their time, at Ctrl-C during any work, and with a failure if some
//! output could not be written.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use common::{assert_described, command, pause, signal, signal_times};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The device that is always full.
const FULL: &str = "/dev/full";

fn start(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts a command as from a terminal. What a script starts in the background ignores SIGINT, and so does
/// whatever that starts.
fn start_with_default_signals(arguments: &[&str]) -> Child {
    let mut env = Command::new("env");
    env.args(["--default-signal=HUP,INT", env!("CARGO_BIN_EXE_evenkeel")]).args(arguments);
    env.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the output of a command; asserts that it ends by itself within `seconds`.
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
        let result = common::report(arguments, output.stdout);
        // The run takes a tenth of a second, and half a second for connections to end. The rest is for a busy
        // machine.
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

/// The commands that run until a signal ends them, each on a cable.
const ENDLESS: [&[&str]; 9] = [
    &["echo", "cable", "--rate", "5k"],
    &["echo", "cable", "--tcp"],
    &["sink", "cable", "--rate", "5k"],
    &["http", "cable"],
    &["send", "cable", "--bytes", "1000G"],
    &["monitor", "cable", "--rate", "5k"],
    &["wan", "cable", "--delay", "1ms"],
    &["route", "cable"],
    &["blast", "cable", "--rate", "5k"],
];

/// Runs a command until a signal comes twice, 10 ms apart. A busy machine may stretch that to the 200 ms
/// after which a second signal kills, so a killed run counts only if three others were killed, too.
fn signalled_twice(arguments: &[&str], kind: &str) -> Output {
    let run = || {
        let child = start(&[arguments, &["--duration", "1h", "--json"]].concat());
        (0..3).for_each(|_| pause());
        signal_times(&child, kind, 2);
        end(child, 20)
    };
    (0..3).map(|_| run()).find(|output| output.status.signal().is_none()).unwrap_or_else(run)
}

/// The program `timeout` signals its child, and then the group to which the child belongs.
#[test]
fn a_signal_that_comes_twice_at_once_still_leaves_a_whole_report() {
    for arguments in ENDLESS {
        of_each_signal(|kind, run| {
            let output = signalled_twice(arguments, kind);
            let said = text(&output.stderr);
            // `send` has not sent all its data, which is a failure.
            let code = i32::from(arguments[0] == "send");
            assert_eq!(output.status.code(), Some(code), "{arguments:?}, SIG{kind}, {run}: {said}");
            let result = common::report(arguments, output.stdout);
            assert!(result.is_object(), "{arguments:?}, SIG{kind}: {result}");
        });
    }
}

/// Calls `ended` for each signal that ends a command, 20 times in the long tier. Each signal has a thread
/// of its own, because most of the time is waiting.
fn of_each_signal(ended: impl Fn(&str, usize) + Sync) {
    let runs = if evenkeel_skip::is_long() { 20 } else { 1 };
    let ended = &ended;
    thread::scope(|scope| {
        for kind in ["TERM", "INT", "HUP"] {
            scope.spawn(move || (0..runs).for_each(|run| ended(kind, run)));
        }
    });
}

/// Creates a folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the number of frames of a capture; asserts that it is whole: readable to its end, with the
/// statistics block of its interface.
fn frames_of_whole(capture: &Path) -> u64 {
    let output = Command::new("capinfos").arg("-M").arg(capture).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Number of stat entries = 1"), "no statistics block: {said}");
    let frames = said.lines().find_map(|line| line.strip_prefix("Number of packets:")).unwrap();
    frames.trim().parse().unwrap()
}

#[test]
fn a_capture_is_whole_however_its_command_is_ended() {
    if Command::new("capinfos").arg("-h").output().is_err() {
        let lack = evenkeel_skip::Lack::Program { program: "capinfos", package: "wireshark-common" };
        return evenkeel_skip::skip("a_capture_is_whole_however_its_command_is_ended", &lack);
    }
    let folder = folder("whole");
    for (arguments, captured) in [
        (&["monitor", "cable", "--rate", "5k", "-w"][..], "/captured"),
        (&["monitor", "cable", "--rate", "max", "-w"], "/captured"),
        (&["echo", "cable", "--rate", "5k", "--capture"], "/capture/captured"),
    ] {
        of_each_signal(|kind, run| {
            let file = folder.join(format!("{kind}.pcapng"));
            let output = signalled_twice(&[arguments, &[file.to_str().unwrap()]].concat(), kind);
            let said = text(&output.stderr);
            assert!(output.status.success(), "{arguments:?}, SIG{kind}, {run}: {said}");
            let result = common::report(arguments, output.stdout);
            let written = result.pointer(captured).and_then(Value::as_u64).unwrap();
            assert_eq!(frames_of_whole(&file), written, "{arguments:?}, SIG{kind}, {run}: {result}");
        });
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Makes a command report its counters twice, and then end. It could run for a minute, and must end
/// before.
fn report_twice(arguments: &[&str]) {
    let mut child = start(&[arguments, &["--duration", "60s", "--json"]].concat());
    let stdout = child.stdout.take().unwrap();
    let mut reports = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
    let mut seconds = Vec::new();
    for kind in ["USR1", "USR1", "TERM"] {
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?}: it goes on until SIG{kind}");
        signal(&child, kind);
        let report = reports.next().unwrap_or_else(|| panic!("{arguments:?}: no report after SIG{kind}"));
        let report = report.unwrap();
        assert_described(arguments, &report);
        seconds.extend(report["seconds"].as_f64());
        (0..3).for_each(|_| pause());
    }
    assert!(reports.next().is_none(), "{arguments:?}: three reports, and no more");
    assert!(seconds.is_sorted() && seconds.first() < seconds.last() || seconds.is_empty(), "{seconds:?}");
    let output = end(child, 20);
    assert!(output.status.code().is_some(), "{arguments:?}: {}", text(&output.stderr));
}

#[test]
fn sigusr1_prints_the_counters_and_the_command_goes_on() {
    for arguments in ENDLESS {
        report_twice(arguments);
    }
    report_twice(&["load", "http://10.77.0.1/", "--on", "cable", "--warm-up", "0"]);
    // The server accepts connections and answers nothing.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", server.local_addr().unwrap());
    report_twice(&["load", &url, "--timeout", "60s", "--warm-up", "0"]);
}

/// An interim report for people is printed to standard output, as the final one is.
#[test]
fn a_report_in_between_reads_as_the_one_at_the_end() {
    for (arguments, sign) in [
        (&["echo", "cable", "--rate", "5k"][..], "frames received"),
        (&["monitor", "cable", "--rate", "5k"], "packets captured\n"),
        (&["wan", "cable", "--delay", "1ms"], "its own error"),
    ] {
        let mut child = start(&[arguments, &["--duration", "60s"]].concat());
        let mut stdout = child.stdout.take().unwrap();
        signal(&child, "USR1");
        let mut said = Vec::new();
        while !text(&said).contains(sign) {
            let mut some = [0; 1024];
            let length = stdout.read(&mut some).unwrap();
            assert!(length > 0, "{arguments:?}: {}", text(&said));
            said.extend_from_slice(&some[..length]);
        }
        signal(&child, "TERM");
        stdout.read_to_end(&mut said).unwrap();
        assert!(text(&said).matches(sign).count() == 2, "{arguments:?}: {}", text(&said));
        assert!(end(child, 20).status.success());
    }
}

/// The demonstration and the experiments have no report before their end, so signals kill them.
#[test]
fn what_measures_step_by_step_ends_at_once() {
    let demo = ["demo", "--seconds-per-point", "3600", "--no-kernel", "--no-report", "--json"];
    let lab = ["lab", "run", "l97-fig2", "--real", "--window", "1h", "--no-files", "--json"];
    for arguments in [&demo[..], &lab] {
        for kind in [Signal::INT, Signal::TERM, Signal::HUP] {
            let child = start_with_default_signals(arguments);
            // It has begun when it catches the signal for its progress.
            signal(&child, "USR1");
            kill_process(Pid::from_child(&child), kind).unwrap();
            let output = end(child, 20);
            assert_eq!(output.status.signal(), Some(kind.as_raw()), "{arguments:?}, {kind:?}");
            assert!(output.stdout.is_empty(), "{arguments:?}, {kind:?}: {}", text(&output.stdout));
        }
    }
}

#[test]
fn what_measures_step_by_step_says_at_sigusr1_how_far_it_is() {
    let child = start(&[
        "demo",
        "--points",
        "3",
        "--seconds-per-point",
        "0.1",
        "--architectures",
        "eager",
        "--no-kernel",
        "--no-report",
        "--json",
    ]);
    signal(&child, "USR1");
    let output = end(child, 60);
    let said = text(&output.stderr);
    assert!(said.contains("evenkeel: ") && said.contains("offered") && said.contains("delivered"), "{said}");
    let result = common::report(&["demo"], output.stdout);
    assert!(result["architectures"].is_array(), "{result}");
}

fn full_disk() -> File {
    OpenOptions::new().write(true).open(FULL).unwrap()
}

#[test]
fn send_says_when_what_comes_back_cannot_be_written() {
    let folder = folder("endings");
    let file = folder.join("three-megabytes");
    std::fs::write(&file, vec![7; 3_000_000]).unwrap();
    let file = file.to_str().unwrap();
    // The full disk is a file, then standard output; then the output is a pipe whose reader has closed.
    let to_file = start(&["send", "cable", file, "--output", FULL]);
    let to_stdout = command(&["send", "cable", file]).stdout(full_disk()).stderr(Stdio::piped()).spawn();
    let mut to_pipe = start(&["send", "cable", file]);
    to_pipe.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    for (child, why) in
        [(to_file, "No space left"), (to_stdout.unwrap(), "No space left"), (to_pipe, "Broken pipe")]
    {
        let output = end(child, 20);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot write what came back") && said.contains(why), "{said}");
        assert!(said.contains("not complete") && !said.contains("  complete"), "{said}");
    }
    // With many pieces, the second write is refused already. With a single one, the failure may be known only
    // when the connection is over.
    for (bytes, why) in [("3M", "\"what came back could not be written\""), ("1000", "")] {
        let output = end(start(&["send", "cable", "--bytes", bytes, "--output", FULL, "--json"]), 20);
        let result = common::report(&["send"], output.stdout);
        assert_eq!((output.status.code(), &result["complete"]), (Some(1), &false.into()), "{result}");
        assert!(result["error"].to_string().contains(why), "{result}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_capture_that_is_not_complete_is_a_failure() {
    for arguments in [
        &["echo", "cable", "--rate", "5k"][..],
        &["echo", "cable", "--tcp"],
        &["sink", "cable", "--rate", "5k"],
        &["http", "cable"],
        &["send", "cable", "--bytes", "1G"],
    ] {
        let output =
            end(start(&[arguments, &["--duration", "200ms", "--capture", FULL, "--json"]].concat()), 20);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("No space left") && said.contains("not complete"), "{arguments:?}: {said}");
        let result = common::report(arguments, output.stdout);
        assert_eq!(result["counters"]["conserved"], true, "{result}");
        assert_eq!(result["capture"]["complete"], false, "{result}");
    }
}
