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
/// Each connection gets one JSON value, [`Published`]. A thread waits for connections; while there is none,
/// it sleeps, and no host does anything for it. The socket is removed when this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    path: PathBuf,
    listener: Arc<UnixListener>,
    hosts: Arc<Mutex<Vec<Reader>>>,
}

impl Endpoint {
    /// Opens the socket of this process, named for its PID: in `$XDG_RUNTIME_DIR/evenkeel`, in the
    /// `$RUNTIME_DIRECTORY` of a service, or as root in `/run/evenkeel`, whichever can be written first.
    /// `program` is the name of the program.
    ///
    /// # Errors
    /// If there is no such place, or the process may open no more descriptors or threads.
    pub fn open(program: &str) -> io::Result<Self> {
        let mut failed = io::ErrorKind::NotFound.into();
        for directory in place::own() {
            match place::create(&directory).and_then(|path| Self::open_at(path, program)) {
                Ok(endpoint) => return Ok(endpoint),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Opens a socket at `path`, in a directory that should be closed to others. Replaces a socket that a
    /// process left there which is gone.
    ///
    /// # Errors
    /// If another process listens there, or this process may open no more descriptors or threads.
    pub fn open_at(path: PathBuf, program: &str) -> io::Result<Self> {
        // Removes the socket if nothing listens.
        if place::connect(&path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
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

#[cfg(test)]
mod tests {
    use crate::metrics::place::{Unreadable, fetch_at};
    use crate::test_host::{Spinner, engine, run_beside};

    use super::*;

    /// A directory that is removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("1")
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn another_process_reads_the_snapshots_of_all_hosts_that_are_left() {
        let directory = Directory::new("endpoint-hosts");
        let endpoint = Endpoint::open_at(directory.socket(), "test").unwrap();
        assert_eq!(fetch_at(endpoint.path()).unwrap().hosts, []);
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        endpoint.add(engine.metrics().unwrap());
        endpoint.add(engine.metrics().unwrap());
        run_beside(&mut engine, || {
            let published = fetch_at(endpoint.path()).unwrap();
            assert_eq!((published.pid, published.program.as_str()), (std::process::id(), "test"));
            let [host] = &published.hosts[..] else { panic!("{published:?}") };
            assert!(host.processes.iter().any(|process| process.name == "spinner"), "{host:?}");
            assert_eq!(host.check(), Ok(()));
        });
        drop(engine);
        assert_eq!(fetch_at(endpoint.path()).unwrap().hosts, []);
        assert!(lock(&endpoint.hosts).is_empty());
    }

    #[test]
    fn a_socket_is_for_its_owner_alone_and_is_gone_at_the_end() {
        let directory = Directory::new("endpoint-mode");
        let endpoint = Endpoint::open_at(directory.socket(), "test").unwrap();
        let mode = fs::metadata(endpoint.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Endpoint::open_at(directory.socket(), "test").map(drop);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let path = endpoint.path().to_owned();
        drop(endpoint);
        assert!(!path.exists());
        assert!(matches!(fetch_at(&path), Err(Unreadable::NoProcess)));
    }

    /// The process was killed, and did not remove its socket.
    #[test]
    fn a_socket_that_was_left_is_recognized_and_replaced() {
        let directory = Directory::new("endpoint-stale");
        let leave = || drop(UnixListener::bind(directory.socket()).unwrap());
        leave();
        assert!(matches!(fetch_at(&directory.socket()), Err(Unreadable::Stale)));
        assert!(!directory.socket().exists());
        leave();
        let endpoint = Endpoint::open_at(directory.socket(), "test").unwrap();
        assert_eq!(fetch_at(endpoint.path()).unwrap().hosts, []);
    }

    #[test]
    fn a_snapshot_is_equal_after_its_way_through_json() {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        engine.run(engine.clock().now() + Duration::from_millis(2), |_| false).unwrap();
        let mut snapshot = engine.snapshot();
        snapshot.elapsed += Duration::from_secs(3_000_000);
        snapshot.tcp.counters.extend([("InSegs".into(), 1), ("OutSegs".into(), u64::MAX)]);
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    }
}
