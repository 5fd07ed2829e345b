//! Namespaces, and running other people's programs in them.

use std::io::{self, BufRead as _, BufReader, Write};
use std::panic;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// What these tests run. Each comes from the Debian package named behind it.
const PROGRAMS: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("nc", "netcat-openbsd"),
    ("dig", "bind9-dnsutils"),
    ("tcpdump", "tcpdump"),
    ("tshark", "tshark"),
    ("capinfos", "wireshark-common"),
];

/// Runs `test` on a thread of its own, in a network namespace of its own, which ends with the thread: also if the test fails.
///
/// Without the privilege or a program for that, says so on stderr and returns.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let isolated = thread::Builder::new().name(name.clone()).spawn(move || {
        if let Err(error) = evenkeel_link::enter_new_network() {
            return skip(&name, &format!("needs root: no network namespace: {error}"));
        }
        if let Some((program, package)) = PROGRAMS.iter().find(|(program, _)| !has(program)) {
            return skip(&name, &format!("there is no `{program}`: install {package}"));
        }
        run("ip link set lo up");
        // Addresses are usable at once, instead of after a second of looking for somebody else who has them.
        run("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
        test();
    });
    if let Err(panic) = isolated.unwrap().join() {
        panic::resume_unwind(panic);
    }
}

/// Says that a test did not run: past the test harness, which would keep it to itself.
fn skip(test: &str, why: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED ({why}): {test}");
}

fn has(program: &str) -> bool {
    Command::new(program).arg("-h").stdin(Stdio::null()).output().is_ok()
}

/// Runs a command in this thread's namespace; gives its output, and fails with it.
pub(crate) fn run(command: &str) -> String {
    let (done, text) = attempt(command);
    assert!(done, "{command}: {text}");
    text
}

/// Runs a command in this thread's namespace; says whether it succeeded, and what it printed.
pub(crate) fn attempt(command: &str) -> (bool, String) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Waits for others. No host runs on this thread, so there is none to halt.
#[expect(clippy::disallowed_methods, reason = "see above")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// A child that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts a command and waits until it prints a line with `sign` to stderr.
    pub(crate) fn start_until(command: &str, sign: &str) -> (Self, BufReader<std::process::ChildStderr>) {
        let mut words = command.split_whitespace();
        let mut child =
            Command::new(words.next().unwrap()).args(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(sign) {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{command} ended without `{sign}`");
        }
        (Self(child), stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that goes away with the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let test = thread::current().name().unwrap_or("test").replace("::", "-");
        let path = std::env::temp_dir().join(format!("evenkeel-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
