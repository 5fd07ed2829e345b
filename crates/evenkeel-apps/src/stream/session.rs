//! The interface between a server and its service. The service handles one connection at a time, and a
//! bounded part of it at a time.

use core::fmt;

use evenkeel::raw::error::StreamError;
use evenkeel::raw::process::System;
use evenkeel::raw::socket::TcpStream;
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::IpEndpoint;

use super::tally::Counters;

/// The maximum number of bytes that a call moves.
pub(super) const CHUNK: usize = 16 << 10;
/// The number of bytes after which a stream's turn ends, so that other streams get theirs.
const TURN: usize = 64 << 10;

/// A service that a [`Server`](super::Server) runs on each of its connections.
pub trait Service: fmt::Debug + Send {
    /// The state that the service keeps for a connection. There are very many connections, so it should be
    /// small.
    type Session: fmt::Debug + Send;

    /// Creates the state of a connection that was accepted from `peer`.
    fn open(&mut self, peer: IpEndpoint) -> Self::Session;

    /// Reads and writes what is possible now, and returns how the connection goes on. Returns
    /// [`Progress::More`] once [`Stream::is_over`], and [`Progress::Wait`] if the service has to wait for
    /// the peer.
    ///
    /// # Errors
    /// The connection has failed, or is closed: there is nothing more to do about it.
    fn go_on(
        &mut self,
        session: &mut Self::Session,
        stream: &mut Stream<'_, '_>,
    ) -> Result<Progress, StreamError>;

    /// Returns the time that a client may keep the service waiting, from the last
    /// [`Stream::restart_timeout`] on; `None` for no limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Handles a client that has taken too long. Returns whether the service has a last answer for the
    /// client, which gets one more timeout to take it. Otherwise the server closes the connection.
    fn time_out(&mut self, _session: &mut Self::Session) -> bool {
        false
    }
}

/// The state of a connection after a service's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The connection goes on when the peer has sent more, or has taken more.
    Wait,
    /// The connection goes on at once, after others have had their turn.
    More,
    /// The connection is finished and is to be closed.
    Over,
}

/// A stream that has its turn, as the service uses it.
#[derive(Debug)]
pub struct Stream<'a, 's> {
    pub(super) system: &'a mut System<'s>,
    pub(super) socket: TcpStream,
    pub(super) tally: &'a Counters,
    /// The CPU time that the server uses for each read, in addition to the read itself.
    pub(super) work: Duration,
    /// The number of bytes that the stream may still move in this turn.
    left: usize,
    /// Whether the service has restarted the client's timeout in this turn.
    pub(super) restarted: bool,
}

impl<'a, 's> Stream<'a, 's> {
    pub(super) const fn new(
        system: &'a mut System<'s>,
        socket: TcpStream,
        tally: &'a Counters,
        work: Duration,
    ) -> Self {
        Self { system, socket, tally, work, left: TURN, restarted: false }
    }

    /// Returns whether the stream has moved as many bytes as it may in one turn.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of bytes that can be written now.
    ///
    /// # Errors
    /// The connection has failed, or is closed.
    pub fn room(&self) -> Result<usize, StreamError> {
        self.socket.room(self.system)
    }

    /// Reads what has come, and returns the number of bytes: 0 at the end of the stream, `None` if nothing
    /// has come.
    ///
    /// # Errors
    /// The connection has failed, or is closed.
    pub fn read(&mut self, to: &mut [u8]) -> Result<Option<usize>, StreamError> {
        let Some(len) = now(self.socket.read(self.system, to))? else { return Ok(None) };
        self.left = self.left.saturating_sub(len);
        self.tally.bytes_in.add(len as u64);
        self.system.compute(self.work);
        Ok(Some(len))
    }

    /// Writes what there is room for, and returns the number of bytes.
    ///
    /// # Errors
    /// The connection has failed, or is closed.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, StreamError> {
        let taken = now(self.socket.write(self.system, data))?.unwrap_or(0);
        self.left = self.left.saturating_sub(taken);
        self.tally.bytes_out.add(taken as u64);
        Ok(taken)
    }

    /// Restarts the client's timeout, because the client has done what the service waited for.
    pub const fn restart_timeout(&mut self) {
        self.restarted = true;
    }

    /// Shuts down the sending side: the peer then reads the end of the stream.
    pub fn shutdown(&mut self) {
        let _ = self.socket.shutdown(self.system);
    }

    /// Adds answered requests to the server's counter.
    pub fn count_requests(&self, requests: u64) {
        self.tally.requests.add(requests);
    }
}

/// Returns the number of bytes moved, or `None` if the call would have blocked.
pub(super) fn now(moved: Result<usize, StreamError>) -> Result<Option<usize>, StreamError> {
    match moved {
        Ok(len) => Ok(Some(len)),
        Err(StreamError::WouldBlock) => Ok(None),
        Err(why) => Err(why),
    }
}
