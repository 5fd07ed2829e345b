//! Helpers that run the command as a user does.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

pub mod pty;
pub mod session;

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_skip::Lack;
use rustix::process::{Pid, Signal, kill_process};

/// Returns the command with `arguments`, and with an empty standard input.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the command to its end, and returns its output.
pub fn evenkeel(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs a command that must succeed and print one JSON value, which its schema describes.
pub fn json(arguments: &[&str]) -> serde_json::Value {
    let output = evenkeel(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    report(arguments, output.stdout)
}

/// Reads the JSON that a command printed; asserts that its schema describes it.
pub fn report(arguments: &[&str], printed: impl AsRef<[u8]>) -> serde_json::Value {
    let report = serde_json::from_slice(printed.as_ref()).unwrap();
    assert_described(arguments, &report);
    report
}

/// Asserts that a value has the fields that the schema of its command describes, and no others.
pub fn assert_described(arguments: &[&str], report: &serde_json::Value) {
    if let Err(error) = validator(arguments).validate(report) {
        let place = error.instance_path();
        panic!("{arguments:?}: {error}, at `{place}`: its schema does not describe the report: {report:#}");
    }
}

/// Returns what judges the reports of a command: the schema in the documentation.
pub fn validator(arguments: &[&str]) -> jsonschema::Validator {
    let words = if arguments[0] == "lab" { 2 } else { 1 };
    let file = format!("{}/{}.json", SCHEMAS, arguments[..words].join("-"));
    let schema = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap()
}

/// Asserts that a generated file is what it would be now. With `UPDATE` in the environment writes it.
pub fn assert_current(file: &std::path::Path, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        return fs::write(file, text).unwrap();
    }
    let there = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().zip(there.lines()).position(|(new, old)| new != old);
    let file = file.display();
    assert!(there == text, "{file} is not current, from line {line:?} on: run this test with UPDATE=1");
}

/// The folder of the schemas in the documentation.
pub const SCHEMAS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schema");

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// The programs that tests in a namespace use, with the Debian packages that contain them.
const PROGRAMS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("tcpdump", "tcpdump"),
    ("tshark", "tshark"),
    ("capinfos", "wireshark-common"),
];

/// Runs `test` on a thread in a network namespace of its own.
pub fn in_namespace(name: &str, test: impl FnOnce() + Send) {
    for (program, package) in PROGRAMS {
        if Command::new(program).arg("-h").output().is_err() {
            return evenkeel_skip::skip(name, &Lack::Program { program, package });
        }
    }
    thread::scope(|scope| {
        let isolated = scope.spawn(|| match evenkeel::raw::kernel::enter_new_network() {
            Ok(()) => {
                // It is on where the machine forwards, as it does for containers.
                run("sysctl -qw net.ipv4.ip_forward=0");
                test();
            }
            Err(error) => evenkeel_skip::skip(name, &Lack::Root(&error.to_string())),
        });
        if let Err(panic) = isolated.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Reports and records that a test did not run.
pub fn skip(test: &str, why: &str) {
    evenkeel_skip::skip(test, &Lack::Other(why));
}

/// Runs a command of iproute2 or the like; returns whether it succeeded.
pub fn succeeds(line: &str) -> bool {
    let mut words = line.split_whitespace();
    Command::new(words.next().unwrap()).args(words).output().unwrap().status.success()
}

pub fn run(line: &str) {
    assert!(succeeds(line), "{line}");
}

/// Repeats a command until it succeeds, for at least five seconds.
pub fn wait_for(line: &str) {
    assert!(
        (0..100).any(|_| succeeds(line) || {
            pause();
            false
        }),
        "{line}"
    );
}

/// Sends SIGHUP, SIGINT, SIGTERM or SIGUSR1 once the process catches it. Before that the signal might be
/// lost: background jobs of a shell ignore SIGINT at first.
pub fn signal(child: &Child, signal: &str) {
    signal_times(child, signal, 1);
}

/// Sends a signal as [`signal`] does, several times 10 ms apart: the kernel merges those that are pending.
pub fn signal_times(child: &Child, signal: &str, times: usize) {
    let number = match signal {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        _ => panic!("{signal}?"),
    };
    // The mask has a bit for each signal (signal(7)): SIGINT, which is 2, has the bit 1.
    let bit = number.as_raw() - 1;
    let caught = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> bit & 1 == 1
    };
    assert!(
        (0..200).any(|_| caught() || {
            pause();
            false
        }),
        "SIG{signal} is not caught"
    );
    for nth in 0..times {
        if nth > 0 {
            sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(child), number).unwrap();
    }
}

pub fn pause() {
    sleep(Duration::from_millis(50));
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process is waited for, which tells nobody when it is ready"
)]
fn sleep(time: Duration) {
    thread::sleep(time);
}
