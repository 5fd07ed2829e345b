//! The calls on a stream that concern nothing but its connection.

use super::state::{Endpoint, Tcp};
use crate::id::{ProcessId, SocketId};
use crate::socket::StreamError;
use crate::tcp::connection::{Info, StreamOption, Unavailable};
use crate::tcp::endpoint::NotConnected;
use crate::tcp::state::State;
use crate::tcp::table::Id;
use crate::tcp::{Connection, FourTuple};
use crate::time::Instant;

impl Tcp {
    pub(crate) fn read_stream(&mut self, id: Id, to: &mut [u8], now: Instant) -> Result<usize, Unavailable> {
        self.pending = true;
        self.endpoint.read(id, to, now)
    }

    pub(crate) fn stream_room(&self, id: Id) -> Result<usize, StreamError> {
        match self.endpoint.connection(id) {
            Some(connection) if connection.error().is_none() && connection.state() != State::Closed => {
                Ok(connection.writable())
            }
            _ => Err(self.why_over(id)),
        }
    }

    /// Returns the error of a connection that is over; [`StreamError::Closed`] if it ended without one.
    fn why_over(&self, id: Id) -> StreamError {
        let error = self.endpoint.connection(id).and_then(Connection::error);
        error.map_or(StreamError::Closed, StreamError::Failed)
    }

    /// Makes a call on a stream's connection.
    pub(crate) fn with_stream<R>(&mut self, id: Id, call: impl FnOnce(&mut Endpoint, Id) -> R) -> R {
        self.pending = true;
        call(&mut self.endpoint, id)
    }

    /// Makes a call on a stream's connection, which must not be over.
    ///
    /// # Errors
    /// Returns the reason why the connection is over, if the call finds it not connected.
    pub(crate) fn change_stream(
        &mut self,
        id: Id,
        call: impl FnOnce(&mut Endpoint, Id) -> Result<(), NotConnected>,
    ) -> Result<(), StreamError> {
        self.with_stream(id, call).map_err(|NotConnected| self.why_over(id))
    }

    /// Chooses something for one stream.
    pub(crate) fn set_stream(
        &mut self,
        id: Id,
        option: StreamOption,
        now: Instant,
    ) -> Result<(), StreamError> {
        self.change_stream(id, |endpoint, id| endpoint.set(id, option, now))
    }

    pub(crate) fn stream_info(&self, id: Id) -> Option<(FourTuple, Info)> {
        Some((*self.endpoint.tuple(id)?, self.endpoint.connection(id)?.info()))
    }

    /// Returns the process to which a connection belongs, and its socket if it is open.
    pub(crate) fn owner_of(&self, id: Id) -> (Option<ProcessId>, Option<SocketId>) {
        self.owner(id).map_or((None, None), |owner| (owner.process, owner.socket))
    }

    /// Closes a stream. The connection goes on without its socket until both sides have said all, or for
    /// good if it is aborted.
    pub(crate) fn close_stream(&mut self, id: Id, now: Instant) {
        self.change_owner(id, |owner| owner.socket = None);
        self.endpoint.close(id, now);
        self.pending = true;
    }
}
