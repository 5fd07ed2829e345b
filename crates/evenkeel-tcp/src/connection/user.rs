//! The user's calls: RFC 9293, 3.10.2 and 3.10.3.

use core::fmt;

use super::super::fault::Fault;
use super::super::state::State;
use super::config::Config;
use super::error::Error;
use super::tcb::Connection;
use crate::time::{Duration, Instant, nanos};

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
        if let Some(error) = self.error {
            return Err(Unavailable::Failed(error));
        }
        if !self.state.may_send() || self.snd.fin {
            return Err(Unavailable::Closed);
        }
        let limit = self.snd.buffer.len() + self.send_room();
        self.more = false;
        match self.snd.buffer.write(data, limit) {
            0 if !data.is_empty() => Err(Unavailable::WouldBlock),
            taken => Ok(taken),
        }
    }

    /// Takes bytes to send as [`Connection::write`] does, and announces that more follow at once: a
    /// segment that is not full waits for them (`MSG_MORE`), as under [`Connection::set_cork`].
    ///
    /// # Errors
    /// Nothing was taken.
    pub fn write_more(&mut self, data: &[u8]) -> Result<usize, Unavailable> {
        let taken = self.write(data)?;
        self.more = true;
        Ok(taken)
    }

    /// Returns the number of bytes that [`Connection::write`] would take.
    #[must_use]
    pub fn writable(&self) -> usize {
        let open = self.state.may_send() && !self.snd.fin;
        if open { self.send_room() } else { 0 }
    }

    /// Returns whether [`Connection::writable`] is not zero.
    #[must_use]
    #[inline]
    pub fn is_writable(&self) -> bool {
        let waiting = self.snd.buffer.len();
        let open = self.state.may_send() && !self.snd.fin;
        // Most connections have room whatever the congestion window is.
        open && (waiting == 0 || self.allowance.left > 0)
            && (waiting < self.config.send_buffer_initial && waiting < self.config.send_buffer_max
                || waiting < self.send_limit())
    }

    /// Returns the bytes that the send buffer may hold: two congestion windows, one in the network and one
    /// waiting, within the configured limits.
    pub(super) fn send_limit(&self) -> usize {
        let cwnd = if self.allowance.pressed { 0 } else { self.recovery.cwnd() as usize };
        cwnd.saturating_mul(2).clamp(
            self.config.send_buffer_initial.min(self.config.send_buffer_max),
            self.config.send_buffer_max,
        )
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
        let len = self.rcv.buffer.read(to);
        if len > 0 {
            self.grow_receive_buffer(len, now);
            self.due.ack |= self.is_window_update_due();
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
        match self.rcv.buffer.peek(to) {
            0 => self.nothing_to_read(),
            len => Ok(len),
        }
    }

    /// Returns the result of a read that finds no data: 0 at the end of the stream, or the reason.
    fn nothing_to_read(&self) -> Result<usize, Unavailable> {
        match self.error {
            // All of the peer's data has come, which its FIN confirms, whatever happened later: as in
            // Linux.
            _ if self.rcv.fin || self.rcv.deaf => Ok(0),
            Some(error) => Err(Unavailable::Failed(error)),
            None if self.rcv.closed || self.state == State::Closed => Err(Unavailable::Closed),
            None => Err(Unavailable::WouldBlock),
        }
    }

    /// Returns the number of bytes that can be read.
    #[must_use]
    pub const fn readable(&self) -> usize {
        self.rcv.buffer.readable()
    }

    /// Returns whether [`Connection::read`] would return anything but [`Unavailable::WouldBlock`].
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.rcv.buffer.readable() > 0 || self.is_read_closed() || self.error.is_some()
    }

    /// Returns whether nothing more will come: the peer has closed its side, or this side reads no more.
    #[must_use]
    pub const fn is_read_closed(&self) -> bool {
        self.rcv.fin || self.rcv.deaf || matches!(self.state, State::Closed)
    }

    /// Grows the receive buffer to twice the bytes that the user reads in a round trip, so that it never
    /// limits the sender ("dynamic right-sizing", Fisk and Feng, 2001).
    fn grow_receive_buffer(&mut self, read: usize, now: Instant) {
        /// The assumed round-trip time before one is measured, in nanoseconds.
        const ROUND_TRIP_NANOS: u64 = nanos(Duration::from_millis(1));
        let round_trip = self.recovery.srtt_nanos().unwrap_or(ROUND_TRIP_NANOS);
        let rcv = &mut self.rcv;
        rcv.read = rcv.read.saturating_add(u32::try_from(read).unwrap_or(u32::MAX));
        let passed = now.nanos_since(rcv.read_since);
        if passed <= round_trip.saturating_mul(2) && !self.allowance.pressed {
            let wanted = rcv.read.saturating_mul(2).min(Config::bytes(self.config.receive_buffer_max));
            rcv.limit = rcv.limit.max(wanted);
        }
        if passed >= round_trip {
            rcv.read = 0;
            rcv.read_since = now;
        }
    }
}
