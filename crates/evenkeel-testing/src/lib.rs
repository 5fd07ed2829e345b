//! Network namespaces, networks between them, and runs of external programs in them, for tests of all crates.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod bridge;
mod place;

use std::io;
use std::panic;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_link::{Clock, LinkError, Xdp, XdpOptions};
use evenkeel_skip::Lack;

pub use bridge::{Bridge, Traffic};
pub use evenkeel_skip::{is_long, is_long_or_skip};
pub use place::Place;

/// A program, and its Debian package.
pub type Program = (&'static str, &'static str);

/// Runs `test` on its own thread, in its own network namespace, which ends with the thread even if the test
/// fails.
///
/// Without the privilege or a program for that, reports it on stderr and returns.
///
/// # Panics
/// If the test panics.
pub fn in_namespace(programs: &[&[Program]], test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let programs = programs.concat();
    let isolated = thread::Builder::new().name(name.clone()).spawn(move || {
        if let Err(error) = evenkeel_link::enter_new_network() {
            let error = format!("no network namespace: {error}");
            return evenkeel_skip::skip(&name, &Lack::Root(&error));
        }
        if let Some((program, package)) = programs.iter().find(|(program, _)| !has(program)) {
            return evenkeel_skip::skip(&name, &Lack::Program { program, package });
        }
        settle();
        test();
    });
    if let Err(panic) = isolated.unwrap().join() {
        panic::resume_unwind(panic);
    }
}

/// Configures a new namespace: brings up the loopback interface and disables duplicate address detection and
/// forwarding. The latter is on where the machine forwards, as it does for containers.
fn settle() {
    run("sysctl -qw net.ipv4.ip_forward=0");
    run("ip link set lo up");
    // Addresses are usable at once, instead of after a second of duplicate address detection.
    run("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
}

/// The errors of a kernel without AF_XDP, and of one without BPF (EAFNOSUPPORT and ENOSYS of errno.h).
const NO_FAMILY: i32 = 97;
const NO_CALL: i32 = 38;

/// Returns whether AF_XDP can be had in this thread's network namespace. If not, reports and records that the
/// test did not run.
#[must_use]
pub fn has_xdp() -> bool {
    run("ip link add xdpprobe0 type veth peer name xdpprobe1");
    run("ip link set xdpprobe1 up");
    run("ip link set xdpprobe0 up");
    let opened = Xdp::open("xdpprobe0", &XdpOptions::default());
    run("ip link del xdpprobe0");
    let why = match opened {
        Err(why @ LinkError::Privilege { .. }) => why,
        Err(LinkError::Os { source, what }) if matches!(source.raw_os_error(), Some(NO_FAMILY | NO_CALL)) => {
            LinkError::Os { source, what }
        }
        _ => return true,
    };
    skip(thread::current().name().unwrap_or("a test"), &why.to_string());
    false
}

/// Reports and records that a test did not run.
pub fn skip(test: &str, why: &str) {
    evenkeel_skip::skip(test, &Lack::Other(why));
}

fn has(program: &str) -> bool {
    Command::new(program).arg("-h").stdin(Stdio::null()).output().is_ok()
}

/// Runs a command in this thread's namespace; returns its output, and panics if it fails.
///
/// # Panics
/// If the command fails.
pub fn run(command: &str) -> String {
    let (done, text) = attempt(command);
    assert!(done, "{command}: {text}");
    text
}

/// Runs a command in this thread's namespace; returns whether it succeeded, and its output.
///
/// # Panics
/// If the program does not exist.
pub fn attempt(command: &str) -> (bool, String) {
    let output = words(command).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Returns a command from words separated by blanks, with an empty standard input.
///
/// # Panics
/// If there is no word.
#[must_use]
pub fn words(command: &str) -> Command {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::null());
    command
}

/// Waits for other programs, which do not report when they are ready.
#[expect(clippy::disallowed_methods, reason = "see above")]
pub fn pause(time: Duration) {
    thread::sleep(time);
}

/// Waits until `come` returns true, for at most a minute, because machines may be busy.
///
/// # Panics
/// If it does not.
pub fn wait_for(what: &str, mut come: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !come() {
        assert!(clock.now().as_secs_f64() < 60.0, "{what} did not come");
        pause(Duration::from_millis(20));
    }
}

/// Repeats an interrupted call. A call with a timeout is interrupted if the machine was stopped meanwhile
/// (signal(7)).
///
/// # Errors
/// Those of the call, except interruption.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Returns all orders of the numbers below `count`.
#[must_use]
pub fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![Vec::new()] };
    let insert = |order: Vec<usize>| (0..count).map(move |at| [&order[..at], &[last], &order[at..]].concat());
    orders(last).into_iter().flat_map(insert).collect()
}

/// A child that does not outlive its test.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that is removed at the end of the test.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let test = thread::current().name().unwrap_or("test").replace("::", "-");
        let path = std::env::temp_dir().join(format!("evenkeel-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the path of a file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file; returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    /// The files of a failed test stay, for the search for its cause.
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("what the test had on disk is still there: {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
