//! The duties of a command that runs as a service: messages to its service manager, and another user.
//!
//! The messages are those of sd_notify(3): datagrams of lines to the Unix socket in `$NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::{env, io, process};

use evenkeel::raw::privilege::{CapabilitySet, Identity, become_user};
use evenkeel::raw::time::{Duration, Instant, monotonic_nanos};

/// The service manager that started this process, as systemd does.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The longest time between two signs of life, if the manager expects them.
    watchdog: Option<Duration>,
}

impl Manager {
    /// Returns the manager that the environment of this process names, if there is one.
    ///
    /// # Errors
    /// The address is malformed, or the process may open no more descriptors.
    pub fn from_environment() -> io::Result<Option<Self>> {
        let Some(path) = env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not stop the service.
        socket.set_nonblocking(true)?;
        Ok(Some(Self { socket, address: address(&path)?, watchdog: watchdog() }))
    }

    /// Reports that the service is ready, or ready again after [`Manager::reloading`].
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the service reads its settings again, until it is ready.
    pub fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_nanos() / 1_000));
    }

    /// Reports that the service is ending.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Shows a line about the state of the service.
    pub fn status(&self, line: &str) {
        self.send(&format!("STATUS={}", line.replace('\n', " ")));
    }

    /// Gives a sign of life.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Returns the interval of signs of life, if the manager expects them: half of the time it waits.
    pub(crate) fn beats(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| watchdog / 2)
    }

    /// Sends lines. A message that is lost is as if the manager had gone, which the service survives.
    fn send(&self, lines: &str) {
        let _ = self.socket.send_to_addr(lines.as_bytes(), &self.address);
    }
}

/// Returns the address of a manager: the path of a file, or a name behind `@` without a file.
fn address(text: &OsStr) -> io::Result<SocketAddr> {
    match text.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(text),
    }
}

/// Returns the longest time between signs of life that the environment asks of this process.
fn watchdog() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let is_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|micros| !is_other && *micros > 0).map(Duration::from_micros)
}

/// A user that a process of root's becomes once everything is open.
#[derive(Debug, Clone)]
pub struct User {
    /// The name, as it was given.
    pub name: String,
    /// The numbers of the user and its groups.
    pub identity: Identity,
    /// The capabilities that the process needs later.
    pub kept: CapabilitySet,
}

/// The duties of a command that runs as a service.
#[derive(Debug, Default)]
pub struct Supervised {
    /// The service manager, if there is one.
    pub manager: Option<Manager>,
    /// The user to become, if it is another one.
    pub user: Option<User>,
}

impl Supervised {
    /// Becomes the user, if there is one. All links and all files to write must be open.
    pub(crate) fn leave_root(&self) -> io::Result<()> {
        let Some(User { name, identity, kept }) = &self.user else { return Ok(()) };
        become_user(identity, *kept)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot become the user {name}: {error}")))
    }
}

/// The times of the signs of life that the manager expects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heartbeat {
    manager: Option<&'static Manager>,
    every: Duration,
    next: Instant,
}

impl Heartbeat {
    /// Begins at `now`. Without a manager that expects signs of life, none is ever due.
    pub(crate) fn start(supervised: Option<&'static Supervised>, now: Instant) -> Self {
        let manager = supervised.and_then(|supervised| supervised.manager.as_ref());
        let beats = manager.and_then(Manager::beats);
        let next = beats.map_or(Instant::NEVER, |every| now + every);
        Self { manager, every: beats.unwrap_or(Duration::MAX), next }
    }

    /// Returns the time of the next sign of life.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Returns the interval at which to ask hosts on other threads whether they work: a late answer still
    /// comes in time.
    pub(crate) fn look(&self) -> Duration {
        if self.next == Instant::NEVER { Duration::MAX } else { self.every / 4 }
    }

    /// Gives a sign of life if one is due. The caller knows that the host has just worked.
    pub(crate) fn beat(&mut self, now: Instant) {
        if now >= self.next {
            self.manager.iter().for_each(|manager| manager.alive());
            self.next = now + self.every;
        }
    }
}
