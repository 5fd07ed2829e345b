//! The interface between a generator and any TCP.

use std::io;

use super::account::Failure;

/// A name of a connection: its place, and its generation among the connections at that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    /// The connection's place. At most as many places are used as there are connections at a time.
    pub place: u32,
    /// A number that differs from that of the previous connection at this place.
    pub generation: u32,
}

impl Id {
    /// Returns the name as one number.
    #[must_use]
    pub const fn token(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// Returns the name that has this number.
    #[must_use]
    pub const fn of_token(token: u64) -> Self {
        Self { place: token as u32, generation: (token >> 32) as u32 }
    }
}

/// A set of connections to one server, which may have several addresses. No call blocks. The generator's
/// caller passes on each event of a connection: it is established, or has room to write again, or has
/// something to read, or has ended.
pub trait Transport {
    /// Begins to open a connection to the server's address of index `address`.
    ///
    /// # Errors
    /// No connection was begun.
    fn connect(&mut self, id: Id, address: usize) -> Result<(), Fault>;

    /// Returns whether the connection is established.
    ///
    /// # Errors
    /// The connection has failed and will not be established.
    fn is_open(&mut self, id: Id) -> Result<bool, Fault>;

    /// Writes what there is room for, and returns the number of bytes.
    ///
    /// # Errors
    /// The connection is over.
    fn write(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Fault>;

    /// Reads what has come, and returns the number of bytes: 0 at the end, `None` if nothing has come.
    ///
    /// # Errors
    /// The connection is over.
    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault>;

    /// Returns whether the server is known to have closed its end. There may still be bytes to read before
    /// the end.
    fn has_ended(&mut self, id: Id) -> bool;

    /// Closes a connection in the way that `how` says.
    fn close(&mut self, id: Id, how: Close);
}

/// A way to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The ordinary close. The server has closed its end, so no state of the connection stays here.
    Ordinary,
    /// A reset. No state of the connection stays anywhere, and above all no port in TIME-WAIT.
    Reset,
}

/// The reason why a connection was not established, or has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No process listens at the server's address.
    Refused,
    /// The connection was reset.
    Reset,
    /// The peer does not answer any more.
    TimedOut,
    /// No port is free.
    NoPort,
    /// The process may have no more descriptors, or there is no memory for another connection.
    NoDescriptor,
    /// The server cannot be reached, or another error occurred.
    Unreachable,
}

impl Fault {
    /// Returns the failure of a request whose connection had this fault. `open` says whether the connection
    /// was established.
    pub(super) const fn failure(self, open: bool) -> Failure {
        match self {
            Self::Refused => Failure::Refused,
            Self::TimedOut if open => Failure::Timeout,
            Self::TimedOut => Failure::ConnectTimeout,
            Self::NoPort => Failure::NoPort,
            Self::NoDescriptor => Failure::NoDescriptor,
            Self::Unreachable if !open => Failure::Unreachable,
            Self::Reset | Self::Unreachable => Failure::Reset,
        }
    }
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
                Self::Reset
            }
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Self::NoPort,
            // EMFILE and ENFILE have no stable kind.
            io::ErrorKind::OutOfMemory => Self::NoDescriptor,
            _ if matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS)) => Self::NoDescriptor,
            _ => Self::Unreachable,
        }
    }
}

/// Linux's error numbers (errno(3)), equal on every architecture that Rust supports except MIPS.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
