//! The session of a page: a directory, a namespace, and what runs there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

/// The environment variable by which everything of a session is found, to be killed at its end.
const MARK: &str = "EVENKEEL_BOOK";

/// Keeps the directory and the variables for the next command.
const FOREGROUND: &str = r#"
evenkeel_keep() { { export -p; printf "cd %q\n" "$PWD"; } > "$EVENKEEL_STATE"; }
trap 'EVENKEEL_STATUS=$?; evenkeel_keep; exit $EVENKEEL_STATUS' EXIT
"#;

/// The directory and variables of the command before.
const STATE: &str = "[ -e \"$EVENKEEL_STATE\" ] && . \"$EVENKEEL_STATE\" || cd ~\n";

/// Holds a network namespace, in which names of further ones are its own, until it is killed.
const HOLDER: &str = "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && \
    ip link set lo up && sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 && \
    echo ready && exec sleep infinity";

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status, as a shell says it: 128 and the signal, if it was one.
    Status(i32),
    /// Not within the limit.
    Hanging,
}

/// A directory with everything that runs there. All of it ends with this.
#[derive(Debug)]
pub struct Session {
    /// Holds the directory `work`, and what belongs to the session only.
    root: PathBuf,
    mark: String,
    /// The process whose namespaces the commands enter.
    holder: Option<Child>,
    outputs: u32,
}

/// A command that runs, and the file with what it prints.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: PathBuf,
}

impl Session {
    /// Creates a session in which `evenkeel` is on the search path; in a network namespace of its own, if it
    /// is for root.
    ///
    /// # Errors
    /// If there is no directory or namespace to be had.
    pub fn new(evenkeel: &Path, is_root: bool) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(format!("evenkeel-book-{mark}"));
        fs::create_dir_all(root.join("work"))?;
        fs::create_dir(root.join("bin"))?;
        let mut session = Self { root, mark, holder: None, outputs: 0 };
        std::os::unix::fs::symlink(evenkeel.canonicalize()?, session.root.join("bin/evenkeel"))?;
        if is_root {
            session.hold_namespace()?;
        }
        Ok(session)
    }

    fn hold_namespace(&mut self) -> io::Result<()> {
        let mut command = std::process::Command::new("unshare");
        let mut holder = self.start(command.args(["--net", "--mount", "sh", "-c", HOLDER]))?;
        if holder.wait_for(Limit::seconds(30), |printed| printed.contains("ready\n")) {
            self.holder = Some(holder.child);
            return Ok(());
        }
        Err(io::Error::other(format!("no network namespace: {}", holder.printed().trim())))
    }

    /// Returns the directory in which the commands begin.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Writes a file of the session.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.directory().join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    }

    /// Starts a command that is followed by others. Its directory and variables are those of the next one.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&mut self, command: &str) -> io::Result<Running> {
        self.shell(&format!("{FOREGROUND}{STATE}{command}"))
    }

    /// Starts a command that is left running. It begins with the directory and variables of the one before.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn leave_running(&mut self, command: &str) -> io::Result<Running> {
        self.shell(&format!("{STATE}{command}"))
    }

    fn shell(&mut self, script: &str) -> io::Result<Running> {
        let mut command = match &self.holder {
            Some(holder) => {
                let mut command = std::process::Command::new("nsenter");
                let target = format!("--target={}", holder.id());
                command.args([&target, "--net", "--mount", "env"]);
                command
            }
            None => std::process::Command::new("env"),
        };
        // What a script starts in the background ignores SIGINT, and so does whatever that starts.
        self.start(command.args(["--default-signal=INT", "bash", "--norc", "-c", script]))
    }

    fn start(&mut self, command: &mut std::process::Command) -> io::Result<Running> {
        self.outputs += 1;
        let output = self.root.join(format!("output-{}", self.outputs));
        let file = OpenOptions::new().create(true).append(true).open(&output)?;
        let mut path = self.root.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(self.directory()).process_group(0);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        command.env("PATH", path).env("HOME", self.directory()).env(MARK, &self.mark);
        command.env("EVENKEEL_STATE", self.root.join("state"));
        command.env("LC_ALL", "C.UTF-8").env("TERM", "dumb").env_remove("RUST_BACKTRACE");
        Ok(Running { child: command.spawn()?, output })
    }

    /// Kills everything that the session started, also what has left its process group.
    fn kill_all(&mut self) {
        let mark = format!("{MARK}={}", self.mark);
        // What is killed may have started something else meanwhile.
        while marked(mark.as_bytes()).into_iter().any(|process| kill_process(process, Signal::KILL).is_ok()) {
            pause();
        }
        let _ = self.holder.as_mut().map(Child::wait);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill_all();
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Returns the processes with a variable in their environment that are not dead yet.
fn marked(variable: &[u8]) -> Vec<Pid> {
    let is_marked = |process: &PathBuf| {
        fs::read(process.join("environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let number = |process: PathBuf| process.file_name()?.to_str()?.parse().ok().and_then(Pid::from_raw);
    processes.filter(is_marked).filter_map(number).collect()
}

/// A point in time until which something is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Limit(i64);

impl Limit {
    /// Returns the limit in so many seconds from now.
    #[must_use]
    pub fn seconds(seconds: u32) -> Self {
        Self(Self::now() + i64::from(seconds) * 1000)
    }

    fn is_over(self) -> bool {
        Self::now() >= self.0
    }

    /// Returns the milliseconds of a clock that never goes back.
    fn now() -> i64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }
}

const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

fn pause() {
    let _ = poll(&mut [], Some(&PAUSE));
}

impl Running {
    /// Returns everything printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        fs::read(&self.output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Waits until the command ends.
    pub fn wait(&mut self, limit: Limit) -> Ended {
        while !limit.is_over() {
            if let Some(status) = self.ended() {
                return Ended::Status(status);
            }
            self.watch();
        }
        Ended::Hanging
    }

    /// Waits until what is printed is as wanted. Returns whether it is; it is not if the command has ended,
    /// or at the limit.
    pub fn wait_for(&mut self, limit: Limit, is_wanted: impl Fn(&str) -> bool) -> bool {
        loop {
            let over = self.ended().is_some() || limit.is_over();
            if is_wanted(&self.printed()) {
                return true;
            }
            if over {
                return false;
            }
            self.watch();
        }
    }

    /// Waits until all processes of the command wait for something themselves, twice in a row, or have ended.
    pub fn wait_until_waiting(&mut self, limit: Limit) {
        let mut times = 0;
        while times < 2 && self.ended().is_none() && !limit.is_over() {
            times = if self.is_waiting() { times + 1 } else { 0 };
            self.watch();
        }
    }

    fn is_waiting(&self) -> bool {
        let group = self.child.id().to_string();
        let stats = fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        // Behind the name, which may contain anything: state, parent, group.
        let fields = stats.filter_map(|stat| {
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned);
            Some((fields.next()?, fields.nth(1)?))
        });
        fields.filter(|(_, other)| *other == group).all(|(state, _)| ["S", "Z"].contains(&&*state))
    }

    /// Sends what Ctrl-C sends.
    pub fn interrupt(&mut self) {
        if self.ended().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::INT);
        }
    }

    /// Sends a signal that cannot be ignored.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Returns the exit status, once there is one.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten().map(shell_status)
    }

    /// Waits for a moment, or until the process ends.
    fn watch(&self) {
        match pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()) {
            Ok(process) => drop(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&PAUSE))),
            Err(_) => pause(),
        }
    }
}

/// Returns an exit status as a shell says it.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Returns whether this process may make a network namespace: whether it is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root() && File::open("/proc/self/ns/net").is_ok()
}
