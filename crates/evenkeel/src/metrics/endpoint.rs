//! Snapshots for other processes, through a Unix socket.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::Shutdown;

use super::guarded::Guarded;
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
    shared: Arc<Shared>,
}

/// A callback that reads the account of a guard; `None` if the guard is gone or cannot be read. It is called
/// on a thread of the endpoint's own, and only when a process asks.
pub type GuardReader = Box<dyn Fn() -> Option<Guarded> + Send>;

/// The sources of the figures.
#[derive(Default)]
struct Shared {
    program: String,
    hosts: Mutex<Vec<Reader>>,
    guards: Mutex<Vec<GuardReader>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("program", &self.program).finish_non_exhaustive()
    }
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
        let shared = Arc::new(Shared { program: program.to_owned(), ..Shared::default() });
        let endpoint = Self { path, listener, shared };
        fs::set_permissions(&endpoint.path, Permissions::from_mode(0o600))?;
        let (listener, shared) = (Arc::clone(&endpoint.listener), Arc::clone(&endpoint.shared));
        thread::Builder::new().name("metrics".to_owned()).spawn(move || serve(&listener, &shared))?;
        Ok(endpoint)
    }

    /// Serves the snapshots of a host, too. A host that is served already is not added again; a host that is
    /// gone is not served any more.
    pub fn add(&self, host: Reader) {
        let mut hosts = lock(&self.shared.hosts);
        if !hosts.iter().any(|other| other.is_of_same_host(&host)) {
            hosts.push(host);
        }
    }

    /// Serves the account of a guard, too.
    pub fn add_guard(&self, guard: GuardReader) {
        lock(&self.shared.guards).push(guard);
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

fn lock<T>(sources: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // Nothing that holds it panics.
    sources.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers each connection until the listener is shut down.
fn serve(listener: &UnixListener, shared: &Shared) {
    for connected in listener.incoming() {
        match connected {
            // A reading process that has gone needs no answer.
            Ok(stream) => _ = answer(&stream, shared),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // The process may open no more descriptors, for a while.
            Err(_) => thread::park_timeout(PATIENCE),
        }
    }
}

fn answer(mut stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE))?;
    let published = Published {
        pid: std::process::id(),
        program: shared.program.clone(),
        hosts: snapshots(&shared.hosts),
        guards: lock(&shared.guards).iter().filter_map(|read| read()).collect(),
    };
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
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
        assert!(lock(&endpoint.shared.hosts).is_empty());
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
    fn the_account_of_a_guard_is_read_when_a_process_asks() {
        let directory = Directory::new("endpoint-guard");
        let endpoint = Endpoint::open_at(directory.socket(), "test").unwrap();
        let (asked, is_there) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
        let counted = (Arc::clone(&asked), Arc::clone(&is_there));
        endpoint.add_guard(Box::new(move || {
            let passed = counted.0.fetch_add(1, Ordering::Relaxed);
            counted.1.load(Ordering::Relaxed).then(|| Guarded { passed, ..Guarded::default() })
        }));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        for expected in 0..3 {
            let [guard] = &fetch_at(endpoint.path()).unwrap().guards[..] else { panic!("one guard") };
            assert_eq!(guard.passed, expected);
        }
        is_there.store(false, Ordering::Relaxed);
        assert_eq!(fetch_at(endpoint.path()).unwrap().guards, []);
    }

    /// A program of an older version has no guards.
    #[test]
    fn an_answer_without_guards_is_read() {
        let old = r#"{"pid": 7, "program": "old", "hosts": []}"#;
        let read: Published = serde_json::from_str(old).unwrap();
        assert_eq!((read.pid, read.guards), (7, Vec::new()));
    }

    /// A stopped process does not accept, and its backlog fills. Nobody may wait for it without a limit.
    #[test]
    fn a_process_that_accepts_no_more_is_late_and_not_waited_for() {
        let directory = Directory::new("endpoint-full");
        let listener = UnixListener::bind(directory.socket()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let mut connected = Vec::new();
        let full = std::iter::from_fn(|| match place::connect(&directory.socket()) {
            Ok(stream) => {
                connected.push(stream);
                Some(())
            }
            Err(_) => None,
        });
        assert!(full.count() < 100);
        let error = fetch_at(&directory.socket()).unwrap_err();
        assert!(
            matches!(&error, Unreadable::Io(error) if error.kind() == io::ErrorKind::WouldBlock),
            "{error}"
        );
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
