//! The place where processes serve their snapshots, and the side that reads them.
//!
//! Each process has a Unix socket, whose name is its PID, in `evenkeel` below `$XDG_RUNTIME_DIR`. A service
//! without that variable uses `$RUNTIME_DIRECTORY`, and root `/run/evenkeel`. A process of root's that became
//! another user has a directory below that. The directories and the sockets are for their owner and root.

use std::fmt;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};

use super::guarded::Guarded;
use super::snapshot::Snapshot;

/// The name of the directory of sockets.
const NAME: &str = "evenkeel";
/// The directory of root's programs that run without a session, such as services.
const SYSTEM: &str = "/run";
/// The time that a process has for its answer. A host that nobody runs does not answer, and the process then
/// answers without it after a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// The figures of a process: the snapshots of all its hosts, and the accounts of its guards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Published {
    /// The number of the process.
    pub pid: u32,
    /// The program that the process runs, as it calls itself.
    pub program: String,
    /// The hosts of the process. A host that no thread ran within a second is not among them.
    pub hosts: Vec<Snapshot>,
    /// The guards of the process in front of the kernel's own sockets.
    #[serde(default)]
    pub guards: Vec<Guarded>,
}

/// The reason why no snapshots could be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unreadable {
    /// No such process serves its snapshots to this user.
    NoProcess,
    /// The process has gone without removing its socket, which was removed now.
    Stale,
    /// The answer is none of evenkeel's.
    Malformed(serde_json::Error),
    /// The operating system refused, or the process did not answer.
    Io(io::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess => f.write_str(
                "no such process serves its figures to this user: a command of evenkeel does, and a program \
                 with an `Endpoint`, for the user who has started it",
            ),
            Self::Stale => f.write_str("the process is gone"),
            Self::Malformed(error) => write!(f, "the answer cannot be read: {error}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoProcess,
            _ => Self::Io(error),
        }
    }
}

/// Returns the directory of this user's sessions, if there is one.
fn session() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    directory.is_absolute().then(|| directory.join(NAME))
}

/// Returns the directory that a service manager has made for this process, if it has.
fn service() -> Option<PathBuf> {
    let all = std::env::var("RUNTIME_DIRECTORY").ok()?;
    all.split(':').next().filter(|first| first.starts_with('/')).map(PathBuf::from)
}

/// Returns root's directory, or for other users the one that root has made for them there.
fn system() -> PathBuf {
    let root = Path::new(SYSTEM).join(NAME);
    match rustix::process::geteuid() {
        user if user.is_root() => root,
        user => root.join(of_user(user.as_raw())),
    }
}

fn of_user(user: u32) -> String {
    format!("user-{user}")
}

/// Returns the directories in which this process may have its socket. The first that it may write is used.
pub(super) fn own() -> impl Iterator<Item = PathBuf> {
    [session(), service(), Some(system())].into_iter().flatten()
}

/// Returns all directories in which this process looks for sockets: for root those of other users, too.
fn all() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = own().collect();
    if rustix::process::geteuid().is_root() {
        let entries = fs::read_dir(system()).into_iter().flatten().flatten();
        all.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    all
}

/// Creates a directory of sockets if it does not exist. Returns the path of this process's socket.
///
/// # Errors
/// If the directory cannot be created.
pub(super) fn create(directory: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    sweep(directory);
    Ok(directory.join(std::process::id().to_string()))
}

/// Makes the directory for the socket of a process of root's that is going to become `user`.
///
/// # Errors
/// This process is not root's, or the directory cannot be created.
pub fn prepare_for_user(user: u32) -> io::Result<()> {
    let root = system();
    let directory = root.join(of_user(user));
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    // Others may pass through it, and see no names.
    fs::set_permissions(&root, Permissions::from_mode(0o711))?;
    chown(&directory, Some(user), None)
}

/// Removes the sockets of processes that were killed. A process of another PID namespace may be alive, so the
/// socket has the last word.
fn sweep(directory: &Path) {
    let numbers = numbers(directory);
    for number in numbers.filter(|number| !Path::new("/proc").join(number.to_string()).exists()) {
        let _ = connect(&directory.join(number.to_string()));
    }
}

/// Returns the numbers that are names in a directory of sockets.
fn numbers(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the processes that have a socket for this user, in ascending order. One that was killed has left
/// its socket, and [`fetch`] says so.
#[must_use]
pub fn running() -> Vec<u32> {
    let mut all: Vec<u32> = all().iter().flat_map(|place| numbers(place)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Reads the snapshots of the process `pid`.
///
/// # Errors
/// [`Unreadable`]
pub fn fetch(pid: u32) -> Result<Published, Unreadable> {
    let mut why = Unreadable::NoProcess;
    for place in all() {
        match connect(&place.join(pid.to_string())) {
            Ok(stream) => return read(stream),
            Err(Unreadable::NoProcess) => {}
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Reads the snapshots of the process whose socket is at `path`.
///
/// # Errors
/// [`Unreadable`]
pub fn fetch_at(path: &Path) -> Result<Published, Unreadable> {
    read(connect(path)?)
}

fn read(stream: UnixStream) -> Result<Published, Unreadable> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(Unreadable::Malformed)
}

/// Connects to the socket at `path`. Removes the socket if no process listens there any more.
pub(super) fn connect(path: &Path) -> Result<UnixStream, Unreadable> {
    match dial(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path)?;
            Err(Unreadable::Stale)
        }
        connected => Ok(connected?),
    }
}

/// Connects without waiting. A process that is stopped does not accept, so its backlog fills; the error is
/// then [`io::ErrorKind::WouldBlock`].
fn dial(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}
