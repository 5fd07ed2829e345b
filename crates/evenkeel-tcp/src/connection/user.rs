//! The user's calls: RFC 9293, 3.10.2 to 3.10.6.

use core::fmt;

use super::super::counters::Counter;
use super::super::fault::Fault;
use super::super::state::{State, StateEvent};
use super::config::Config;
use super::error::Error;
use super::interface::Connection;
use super::options::{Change, StreamOption};
use crate::time::Instant;

/// The reason why a call moved no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// Nothing has come, or there is no room: the call may succeed later.
    WouldBlock,
    /// This direction is closed, by our side or by the end of the connection.
    Closed,
    /// The connection failed.
    Failed(Error),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("would block"),
            Self::Closed => f.write_str("closed"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Unavailable {}

impl Unavailable {
    /// Returns whose fault it is; `None` for a call that would block.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self {
            Self::WouldBlock => None,
            // A user that has not closed it has been notified of its end, through a read or an error.
            Self::Closed => Some(Fault::Misuse),
            Self::Failed(error) => Some(error.fault()),
        }
    }
}

impl Connection {
    /// Takes as many bytes to send as there is room for, and returns their number. Before the handshake is
    /// over they wait.
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Unavailable> {
        if let Some(error) = self.tcb.failure.error {
            return Err(Unavailable::Failed(error));
        }
        if !self.tcb.state.may_send() || self.tcb.snd.fin {
            return Err(Unavailable::Closed);
        }
        let limit = self.tcb.snd.buffer.len() + self.tcb.send_room();
        self.tcb.nagle.more = false;
        match self.tcb.snd.buffer.write(data, limit) {
            0 if !data.is_empty() => Err(Unavailable::WouldBlock),
            taken => Ok(taken),
        }
    }

    /// Takes bytes to send as [`Connection::write`] does, and announces that more follow at once: a
    /// segment that is not full waits for them (`MSG_MORE`), as under [`StreamOption::Cork`].
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write_more(&mut self, data: &[u8]) -> Result<usize, Unavailable> {
        let taken = self.write(data)?;
        self.tcb.nagle.more = true;
        Ok(taken)
    }

    /// Returns the number of bytes that [`Connection::write`] would take.
    #[must_use]
    pub fn writable(&self) -> usize {
        let open = self.tcb.state.may_send() && !self.tcb.snd.fin;
        if open { self.tcb.send_room() } else { 0 }
    }

    /// Returns whether [`Connection::writable`] is not zero.
    #[must_use]
    #[inline]
    pub fn is_writable(&self) -> bool {
        let waiting = self.tcb.snd.buffer.len();
        let open = self.tcb.state.may_send() && !self.tcb.snd.fin;
        // Most connections have room whatever the congestion window is.
        open && (waiting == 0 || self.tcb.allowance.left > 0)
            && (waiting < self.tcb.config.send_buffer_initial && waiting < self.tcb.config.send_buffer_max
                || waiting < self.tcb.send_limit())
    }

    /// Reads bytes that have come into `to`, and returns their number: 0 at the end of the stream.
    ///
    /// Urgent data (RFC 9293, 3.8.5) is read in its place in the stream, without a mark that it was
    /// urgent. Implementations have never agreed on which byte an urgent pointer points to, and
    /// middleboxes clear it. RFC 6093, 4 and 6, asks for it to be read in band, and asks new applications
    /// not to use it. We never send any.
    ///
    /// # Errors
    /// Nothing was given.
    pub fn read(&mut self, to: &mut [u8], now: Instant) -> Result<usize, Unavailable> {
        let len = self.tcb.rcv.buffer.read(to);
        if len > 0 {
            let most = Config::bytes(self.tcb.config.receive_buffer_max);
            let most = Some(most).filter(|_| !self.tcb.allowance.pressed);
            self.tcb.rcv.sizing.on_read(len, self.tcb.recovery.srtt_nanos(), most, now);
            let update = self.tcb.is_window_update_due();
            self.tcb.timers.delayed_ack.send_now_if(update);
            return Ok(len);
        }
        self.nothing_to_read()
    }

    /// Copies bytes that have come into `to`, and returns their number, as [`Connection::read`] does. The
    /// bytes stay to be read (`MSG_PEEK`).
    ///
    /// # Errors
    /// Nothing was given.
    pub fn peek(&self, to: &mut [u8]) -> Result<usize, Unavailable> {
        match self.tcb.rcv.buffer.peek(to) {
            0 => self.nothing_to_read(),
            len => Ok(len),
        }
    }

    /// Returns the result of a read that finds no data: 0 at the end of the stream, or the reason.
    fn nothing_to_read(&self) -> Result<usize, Unavailable> {
        match self.tcb.failure.error {
            // All of the peer's data has come, which its FIN confirms, whatever happened later: as in
            // Linux.
            _ if self.tcb.rcv.fin || self.tcb.rcv.shut_down => Ok(0),
            Some(error) => Err(Unavailable::Failed(error)),
            None if self.tcb.rcv.closed || self.tcb.state == State::Closed => Err(Unavailable::Closed),
            None => Err(Unavailable::WouldBlock),
        }
    }

    /// Returns the number of bytes that can be read.
    #[must_use]
    pub const fn readable(&self) -> usize {
        self.tcb.rcv.buffer.readable()
    }

    /// Returns whether [`Connection::read`] would return anything but [`Unavailable::WouldBlock`].
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.tcb.rcv.buffer.readable() > 0 || self.is_read_closed() || self.tcb.failure.error.is_some()
    }

    /// Returns whether nothing more will come: the peer has closed its side, or this side reads no more.
    #[must_use]
    pub const fn is_read_closed(&self) -> bool {
        self.tcb.rcv.fin || self.tcb.rcv.shut_down || matches!(self.tcb.state, State::Closed)
    }

    /// Closes the sending direction; the user may go on reading. The FIN leaves after everything that was
    /// written.
    pub fn shutdown(&mut self) {
        if !self.tcb.state.may_send() || self.tcb.snd.fin {
            return;
        }
        self.tcb.snd.fin = true;
        // Before the handshake is over the FIN waits (3.10.4).
        if matches!(self.tcb.state, State::Established | State::CloseWait) {
            self.tcb.step(StateEvent::Close);
        }
    }

    /// Closes the connection in both directions.
    ///
    /// Data already written is still sent. If data came that the user never read, or comes later, the
    /// connection is reset, so that the peer does not take it for received (RFC 2525, 2.17).
    pub fn close(&mut self, now: Instant) {
        if self.tcb.state == State::SynSent {
            return self.tcb.end();
        }
        self.tcb.rcv.closed = true;
        if self.tcb.rcv.buffer.readable() > 0 {
            self.tcb.rcv.buffer.clear();
            // With Fast Open, data may have come before the handshake is over.
            if self.tcb.state != State::Closed && self.tcb.state != State::TimeWait {
                self.tcb.counted.add(Counter::AbortOnClose);
                return self.abort();
            }
        }
        self.shutdown();
        self.tcb.limit_fin_wait_2(now);
    }

    /// Ends the connection at once. The peer gets a reset if it knows of the connection and has not closed
    /// it, too.
    pub fn abort(&mut self) {
        self.tcb.abort();
    }

    /// Closes the receiving direction. Data that waits to be read, and data that comes later, is
    /// acknowledged and discarded, as in BSD: a peer that goes on sending is neither reset nor slowed, and
    /// takes no memory.
    pub fn shutdown_read(&mut self) {
        self.tcb.rcv.shut_down = true;
        self.tcb.rcv.buffer.discard();
        let update = self.tcb.state.is_synchronized() && self.tcb.is_window_update_due();
        self.tcb.timers.delayed_ack.send_now_if(update);
    }

    /// Sets one option of the connection.
    pub fn set(&mut self, option: StreamOption, now: Instant) {
        Change::new(&mut self.tcb, now).set(option);
    }

    /// Returns the reason why the connection failed, if it did, and forgets it (`SO_ERROR`). Other calls
    /// then report that it is closed.
    pub const fn take_error(&mut self) -> Option<Error> {
        self.tcb.failure.error.take()
    }
}
