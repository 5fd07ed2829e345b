//! What a server does with its connections, one at a time and a bounded part of it at a time.

use core::fmt;

use evenkeel_core::host::System;
use evenkeel_core::socket::{Fd, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::time::Duration;

use super::tally::Tally;

/// Bytes that a call moves at most.
pub(super) const CHUNK: usize = 16 << 10;
/// Bytes that a stream moves in one step at most, so that others have their turn.
const TURN: usize = 64 << 10;

/// What a server serves.
pub trait Service: fmt::Debug + Send {
    /// What it remembers of a connection. There are very many: it should be small.
    type Session: fmt::Debug + Send;

    /// A connection from `peer` was accepted.
    fn open(&mut self, peer: IpEndpoint) -> Self::Session;

    /// Does what can be done now, until the stream says that it is [`Progress::More`] than a turn, or
    /// [`Progress::Wait`]s.
    ///
    /// # Errors
    /// The connection has failed, or is closed: there is nothing more to do about it.
    fn go_on(
        &mut self,
        session: &mut Self::Session,
        stream: &mut Stream<'_, '_>,
    ) -> Result<Progress, StreamError>;

    /// How long a client may keep the service waiting, from the last [`Stream::restart_timeout`] on; `None`
    /// for ever.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// A client has taken too long. Whether there is something to tell it, for which it has the same time
    /// once more; otherwise its connection is closed.
    fn time_out(&mut self, _session: &mut Self::Session) -> bool {
        false
    }
}

/// How a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// When the peer has sent more, or has taken more.
    Wait,
    /// At once, after others have had their turn.
    More,
    /// Not at all: it is to be closed.
    Over,
}

/// A stream that has its turn.
#[derive(Debug)]
pub struct Stream<'a, 's> {
    pub(super) system: &'a mut System<'s>,
    pub(super) socket: Fd,
    pub(super) tally: &'a Tally,
    /// What a read costs besides, in CPU time.
    pub(super) work: Duration,
    /// Bytes it may still move.
    left: usize,
    /// The client has done something that it is not to be timed out for.
    pub(super) restarted: bool,
}

impl<'a, 's> Stream<'a, 's> {
    pub(super) const fn new(
        system: &'a mut System<'s>,
        socket: Fd,
        tally: &'a Tally,
        work: Duration,
    ) -> Self {
        Self { system, socket, tally, work, left: TURN, restarted: false }
    }

    /// It has moved what it may in one turn.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Bytes that can be written now.
    ///
    /// # Errors
    /// The connection has failed, or is closed.
    pub fn room(&self) -> Result<usize, StreamError> {
        self.system.room(self.socket)
    }

    /// Reads what has come; `None` if nothing has, 0 at the end.
    ///
    /// # Errors
    /// The connection has failed, or is closed.
    pub fn read(&mut self, to: &mut [u8]) -> Result<Option<usize>, StreamError> {
        let Some(len) = now(self.system.read(self.socket, to))? else { return Ok(None) };
        self.left = self.left.saturating_sub(len);
        self.tally.bytes_in.add(len as u64);
        self.system.compute(self.work);
        Ok(Some(len))
    }

    /// Writes what there is room for; says how much that was.
    ///
    /// # Errors
    /// The connection has failed, or is closed.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, StreamError> {
        let taken = now(self.system.write(self.socket, data))?.unwrap_or(0);
        self.left = self.left.saturating_sub(taken);
        self.tally.bytes_out.add(taken as u64);
        Ok(taken)
    }

    /// The client's time begins anew: it has done what was waited for.
    pub const fn restart_timeout(&mut self) {
        self.restarted = true;
    }

    /// Says that nothing more will be written.
    pub fn shutdown(&mut self) {
        let _ = self.system.shutdown(self.socket);
    }

    /// So many requests were answered.
    pub fn count_requests(&self, requests: u64) {
        self.tally.requests.add(requests);
    }
}

/// What was moved, if it was possible now.
pub(super) fn now(moved: Result<usize, StreamError>) -> Result<Option<usize>, StreamError> {
    match moved {
        Ok(len) => Ok(Some(len)),
        Err(StreamError::WouldBlock) => Ok(None),
        Err(why) => Err(why),
    }
}
