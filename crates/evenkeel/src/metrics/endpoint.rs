//! Snapshots for other processes, through a Unix socket.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::Shutdown;

use super::place::{self, Published};
use super::reader::{NoSnapshot, Reader};
use super::snapshot::Snapshot;

/// The time that each host has for its snapshot, before the answer leaves without it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time that a reading process may block an answer.
const WRITE: Duration = Duration::from_secs(1);

/// A Unix socket through which other processes of this user read snapshots of the hosts of this process
/// ([`fetch`](super::fetch)).
///
/// Each connection gets one JSON value, [`Published`]. A thread waits for connections; while there is none, it
/// sleeps, and no host does anything for it. The socket is removed when this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    path: PathBuf,
    listener: Arc<UnixListener>,
    hosts: Arc<Mutex<Vec<Reader>>>,
}

impl Endpoint {
    /// Opens the socket of this process, named for its PID: in `$XDG_RUNTIME_DIR/evenkeel`, or as root without
    /// that variable in `/run/evenkeel`. `program` is the name of the program.
    ///
    /// # Errors
    /// If there is no such place, or the process may open no more descriptors or threads.
    pub fn open(program: &str) -> io::Result<Self> {
        let path = place::create()?;
        // A socket of this name was left by a process that is gone: the number is ours now.
        remove(&path)?;
        let listener = Arc::new(UnixListener::bind(&path)?);
        let endpoint = Self { path, listener, hosts: Arc::default() };
        fs::set_permissions(&endpoint.path, Permissions::from_mode(0o600))?;
        let (listener, hosts) = (Arc::clone(&endpoint.listener), Arc::clone(&endpoint.hosts));
        let program = program.to_owned();
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &hosts, &program))?;
        Ok(endpoint)
    }

    /// Serves the snapshots of a host, too. A host that is served already is not added again; a host that is
    /// gone is not served any more.
    pub fn add(&self, host: Reader) {
        let mut hosts = lock(&self.hosts);
        if !hosts.iter().any(|other| other.is_of_same_host(&host)) {
            hosts.push(host);
        }
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // If it is gone already, there is nothing to remove.
        let _ = fs::remove_file(&self.path);
        // Ends the wait for connections, and so the thread.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn lock(hosts: &Mutex<Vec<Reader>>) -> MutexGuard<'_, Vec<Reader>> {
    // Nothing that holds it panics.
    hosts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers each connection until the listener is shut down.
fn serve(listener: &UnixListener, hosts: &Mutex<Vec<Reader>>, program: &str) {
    for connected in listener.incoming() {
        match connected {
            // A reading process that has gone needs no answer.
            Ok(stream) => _ = answer(&stream, hosts, program),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // The process may open no more descriptors, for a while.
            Err(_) => thread::park_timeout(PATIENCE),
        }
    }
}

fn answer(mut stream: &UnixStream, hosts: &Mutex<Vec<Reader>>, program: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE))?;
    let published =
        Published { pid: std::process::id(), program: program.to_owned(), hosts: snapshots(hosts) };
    stream.write_all(&serde_json::to_vec(&published)?)
}

/// Takes a snapshot of each host. Forgets hosts that are gone.
fn snapshots(hosts: &Mutex<Vec<Reader>>) -> Vec<Snapshot> {
    let all = lock(hosts).clone();
    let taken = all.iter().map(|host| host.snapshot(PATIENCE));
    let (mut snapshots, mut gone) = (Vec::new(), Vec::new());
    for (host, taken) in all.iter().zip(taken) {
        match taken {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(NoSnapshot::HostGone) => gone.push(host),
            Err(_) => {}
        }
    }
    lock(hosts).retain(|host| !gone.iter().any(|gone| gone.is_of_same_host(host)));
    snapshots
}
