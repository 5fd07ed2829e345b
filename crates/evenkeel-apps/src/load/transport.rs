//! What a generator needs of TCP, whoever's that is.

use super::account::Failure;

/// Names a connection: its place, and which one it is of those that were there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    /// Its place. Only so many places are used as there are connections at a time.
    pub place: u32,
    /// Differs from the one before it there.
    pub generation: u32,
}

impl Id {
    /// As one number.
    #[must_use]
    pub const fn token(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// The one that has this number.
    #[must_use]
    pub const fn of_token(token: u64) -> Self {
        Self { place: token as u32, generation: (token >> 32) as u32 }
    }
}

/// Connections to one server, which may have several addresses. Nothing here blocks; whoever drives the
/// generator tells it of each connection on which something has happened: it is open, or there is room to
/// write after there was none, or something to read, or its end, after there was nothing.
pub trait Transport {
    /// Begins to open a connection to the server's address of this number.
    ///
    /// # Errors
    /// Nothing was opened.
    fn connect(&mut self, id: Id, address: usize) -> Result<(), Fault>;

    /// Whether the connection is established.
    ///
    /// # Errors
    /// It never will be.
    fn is_open(&mut self, id: Id) -> Result<bool, Fault>;

    /// Takes what there is room for; says how much.
    ///
    /// # Errors
    /// The connection is over.
    fn write(&mut self, id: Id, bytes: &[u8]) -> Result<usize, Fault>;

    /// Gives what has come; `None` if nothing has, 0 bytes at the end.
    ///
    /// # Errors
    /// The connection is over.
    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault>;

    /// Whether the server is known to have closed its end, if not all before that was read yet.
    fn has_ended(&mut self, id: Id) -> bool;

    /// Closes a connection.
    fn close(&mut self, id: Id, how: Close);
}

/// How a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// In order: the server has closed its end, so that nothing of the connection stays here.
    Ordinary,
    /// At once, by a reset: nothing of it stays anywhere, above all no port in TIME-WAIT.
    Reset,
}

/// Why there is no connection, or no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens.
    Refused,
    /// It was reset.
    Reset,
    /// The peer does not answer any more.
    TimedOut,
    /// No port is free.
    NoPort,
    /// The process may have no more descriptors, or there is no memory for another connection.
    NoDescriptor,
    /// There is no way there, or something else is wrong.
    Unreachable,
}

impl Fault {
    /// What becomes of a request by it; `open` if there was a connection.
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
