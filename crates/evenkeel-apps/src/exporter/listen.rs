//! The place where metrics are served: an address of TCP, or a Unix socket.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// The connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// The rights to a Unix socket, of which the umask may take some.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An address and a port of TCP; port 0 for one that is free.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The reason why nothing listens.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {at}: {why}")]
pub struct ListenError {
    at: Address,
    why: String,
}

/// A listening socket. A Unix socket is removed when this is dropped.
#[derive(Debug)]
pub struct Listening {
    pub(super) socket: Socket,
    address: Address,
    _file: Option<File>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The file of a Unix socket, with its device and number, by which it is known again.
#[derive(Debug)]
struct File {
    path: PathBuf,
    identity: (u64, u64),
}

impl FromStr for Address {
    type Err = String;

    /// Reads `ADDRESS:PORT`, or a path, which has a slash.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let expected = || {
            "expected an address with a port, such as 127.0.0.1:9464 or [::1]:9464, or a path with a slash, \
             such as /run/evenkeel.metrics"
                .to_owned()
        };
        text.parse().map(Self::Tcp).map_err(|_| expected())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Listening {
    /// Listens at `address`. A Unix socket is for its owner alone. One that a process left which is gone is
    /// replaced.
    ///
    /// # Errors
    /// If the place is in use, is a file of another kind, or cannot be had.
    pub fn at(address: &Address) -> Result<Self, ListenError> {
        let failed = |why: String| ListenError { at: address.clone(), why };
        match address {
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted).map_err(|error| failed(error.to_string()))?;
                let address = listener.local_addr().map_err(|error| failed(error.to_string()))?;
                Ok(Self { socket: Socket::Tcp(listener), address: Address::Tcp(address), _file: None })
            }
            Address::Unix(path) => {
                clear(path).map_err(failed)?;
                let (listener, file) = bind(path).map_err(|error| failed(error.to_string()))?;
                Ok(Self { socket: Socket::Unix(listener), address: address.clone(), _file: Some(file) })
            }
        }
    }

    /// Returns the address, with the port that was free.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Another process may have replaced it.
        let is_own = fs::symlink_metadata(&self.path).is_ok_and(|there| identity(&there) == self.identity);
        if is_own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Makes way for a socket at `path`: removes a socket at which nobody listens, and nothing else.
fn clear(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(there) if !there.file_type().is_socket() => {
            return Err("the file is there, and is no socket: choose another path".to_owned());
        }
        Ok(_) => {}
    }
    match connect(path) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(|error| error.to_string()),
        // A full backlog is one of a process, too.
        Ok(()) | Err(Errno::AGAIN) => {
            Err("another process listens there: end it, or choose another path".to_owned())
        }
        Err(error) => Err(io::Error::from(error).to_string()),
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn connect(path: &Path) -> Result<(), Errno> {
    rustix::net::connect(&socket()?, &SocketAddrUnix::new(path)?)
}

/// Binds a socket. Its file has its rights from the beginning: on Linux it takes them from the descriptor.
fn bind(path: &Path) -> io::Result<(UnixListener, File)> {
    let socket = socket()?;
    fchmod(&socket, MODE)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let identity = identity(&fs::symlink_metadata(path)?);
    let file = File { path: path.to_owned(), identity };
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((UnixListener::from(socket), file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
            self.0.join("socket")
        }

        fn listen(&self) -> Result<Listening, ListenError> {
            Listening::at(&Address::Unix(self.socket()))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn addresses_and_paths_are_told_apart() {
        for (text, tcp) in [("127.0.0.1:9464", true), ("[::1]:0", true), ("./x:9", false), ("/run/x", false)]
        {
            assert_eq!(matches!(text.parse(), Ok(Address::Tcp(_))), tcp, "{text}");
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "x", "9464", "localhost:9464", "127.0.0.1", "127.0.0.1:65536"] {
            assert!(text.parse::<Address>().unwrap_err().contains("127.0.0.1:9464"), "{text}");
        }
    }

    #[test]
    fn a_socket_is_for_its_owner_and_gone_at_the_end() {
        let directory = Directory::new("exporter-mode");
        let listening = directory.listen().unwrap();
        let mode = fs::metadata(directory.socket()).unwrap().permissions().mode();
        // The umask of the test may take more.
        assert_eq!(mode & 0o777 & !0o600, 0);
        let refused = directory.listen().unwrap_err().to_string();
        assert!(refused.contains("another process listens there"), "{refused}");
        drop(listening);
        assert!(!directory.socket().exists());
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_a_file_is_not() {
        let directory = Directory::new("exporter-stale");
        drop(UnixListener::bind(directory.socket()).unwrap());
        drop(directory.listen().unwrap());
        fs::write(directory.socket(), "precious").unwrap();
        let refused = directory.listen().unwrap_err().to_string();
        assert!(refused.contains("no socket"), "{refused}");
        assert_eq!(fs::read_to_string(directory.socket()).unwrap(), "precious");
    }

    /// Somebody removed the file, and another process listens at its place.
    #[test]
    fn the_socket_of_another_is_not_removed() {
        let directory = Directory::new("exporter-other");
        let first = directory.listen().unwrap();
        fs::rename(directory.socket(), directory.0.join("moved")).unwrap();
        let _second = directory.listen().unwrap();
        drop(first);
        assert!(directory.socket().exists());
    }
}
