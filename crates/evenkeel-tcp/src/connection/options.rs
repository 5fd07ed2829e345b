//! Options that the user may set for one connection.
//!
//! Options that are set before the SYN has left are in the SYN: maximum segment size, window, and window
//! scale.

use std::sync::Arc;

use super::config::{Config, Keepalive};
use super::error::Error;
use super::tcb::Connection;
use crate::rate::Rate;
use crate::rate_cache::Remembered;
use crate::state::State;
use crate::time::{Duration, Instant};

/// An option of one connection, as set with `setsockopt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOption {
    /// The argument of [`Connection::set_nagle`].
    Nagle(bool),
    /// The argument of [`Connection::set_cork`].
    Cork(bool),
    /// The argument of [`Connection::set_ack_delay`].
    AckDelay(Duration),
    /// The argument of [`Connection::set_fin_wait_2`].
    FinWait2(Duration),
    /// The argument of [`Connection::set_user_timeout`].
    UserTimeout(Duration),
    /// The argument of [`Connection::set_keepalive`].
    Keepalive(Option<Keepalive>),
    /// The argument of [`Connection::set_mss_max`].
    MssMax(u16),
    /// The argument of [`Connection::set_send_buffer`].
    SendBuffer(usize),
    /// The argument of [`Connection::set_receive_buffer`].
    ReceiveBuffer(usize),
    /// The argument of [`Connection::set_rate_max`].
    RateMax(Option<Rate>),
    /// The argument of [`Connection::set_capacity`].
    Capacity(Rate),
}

impl Connection {
    /// Sets one option of the connection.
    pub fn set(&mut self, option: StreamOption, now: Instant) {
        match option {
            StreamOption::Nagle(nagle) => self.set_nagle(nagle),
            StreamOption::Cork(cork) => self.set_cork(cork),
            StreamOption::AckDelay(delay) => self.set_ack_delay(delay),
            StreamOption::FinWait2(wait) => self.set_fin_wait_2(wait),
            StreamOption::UserTimeout(timeout) => self.set_user_timeout(timeout),
            StreamOption::Keepalive(keepalive) => self.set_keepalive(keepalive, now),
            StreamOption::MssMax(mss) => self.set_mss_max(mss),
            StreamOption::SendBuffer(bytes) => self.set_send_buffer(bytes),
            StreamOption::ReceiveBuffer(bytes) => self.set_receive_buffer(bytes),
            StreamOption::RateMax(rate) => self.set_rate_max(rate),
            StreamOption::Capacity(rate) => self.set_capacity(rate, now),
        }
    }

    /// Sets whether small segments wait for the acknowledgment of others (RFC 9293, 3.7.4).
    pub const fn set_nagle(&mut self, nagle: bool) {
        self.nagle = nagle;
    }

    /// Sets whether segments that are not full wait for more data (`TCP_CORK`): for at most one
    /// retransmission timeout, if nothing else is under way.
    pub const fn set_cork(&mut self, cork: bool) {
        self.cork = cork;
    }

    /// Sets the longest time that an acknowledgment is delayed, for other segments to share it. Zero sends
    /// each at once (`TCP_QUICKACK`); values above [`Config::ACK_DELAY_MAX`] count as that.
    pub fn set_ack_delay(&mut self, delay: Duration) {
        self.own_config().ack_delay = delay;
        self.due.ack |= delay.is_zero() && self.rcv.nxt() != self.rcv.acked;
    }

    /// Sets the time that the connection waits for the peer's FIN once it is closed (`TCP_LINGER2`).
    pub fn set_fin_wait_2(&mut self, wait: Duration) {
        self.own_config().fin_wait_2 = wait;
    }

    /// Sets the time that sent data may go unacknowledged, or a window stay closed, without a sign of the
    /// peer before the connection fails: R2 of RFC 9293, 3.8.3 (MUST-21).
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        self.own_config().user_timeout = timeout;
    }

    /// Limits segments to `mss` bytes after the 20 of their header (`TCP_MAXSEG`). Values below
    /// [`Config::MSS_MAX_LEAST`] count as that. Before the SYN has left, the limit applies to the peer's
    /// segments, too.
    pub fn set_mss_max(&mut self, mss: u16) {
        let mss = mss.max(Config::MSS_MAX_LEAST);
        self.own_config().mss_max = mss;
        if self.is_syn_unsent() {
            self.rcv.mss = self.rcv.mss.min(mss);
        }
        self.limit_mss(mss);
    }

    /// Sets the size of the send buffer (`SO_SNDBUF`): the bytes that the user may write ahead of what is
    /// acknowledged. The buffer no longer grows.
    pub fn set_send_buffer(&mut self, bytes: usize) {
        let options = self.own_config();
        (options.send_buffer_initial, options.send_buffer_max) = (bytes, bytes);
    }

    /// Sets the size of the receive buffer (`SO_RCVBUF`): the bytes that may wait to be read. The buffer
    /// no longer grows. A window that was once offered is never taken back (RFC 9293, 3.8.6), and after
    /// the SYN no window is larger than its scale can express.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        let before_syn = self.is_syn_unsent();
        let options = self.own_config();
        options.receive_buffer_max = bytes;
        if before_syn {
            options.receive_buffer_initial = bytes;
            self.rcv.shift = self.config.window_shift();
        }
        self.rcv.limit = Config::bytes(bytes);
        self.due.ack |= self.state.is_synchronized() && self.is_window_update_due();
    }

    /// Limits the sending rate, IP and TCP headers included (`SO_MAX_PACING_RATE`).
    pub fn set_rate_max(&mut self, rate: Option<Rate>) {
        self.recovery.set_rate_max(rate);
    }

    /// Sets the path's capacity, which this connection has for itself. It sends at that rate, headers
    /// included, in place of slow start (Aron and Druschel, "Soft timers", 4.1). Loss makes it slower. See
    /// [`Start::At`](crate::recovery::Start::At).
    pub fn set_capacity(&mut self, rate: Rate, now: Instant) {
        self.recovery.set_capacity(rate, now);
    }

    /// Sets the rate and the round-trip time of an earlier connection to this destination: see
    /// [`Start::Remembered`](crate::recovery::Start::Remembered).
    pub fn remember(&mut self, rate: Rate, rtt: Duration) {
        self.recovery.remember(rate, rtt);
    }

    pub(crate) fn measures(&self) -> bool {
        self.recovery.measures()
    }

    /// Returns the rate at which data last arrived at the peer, if it is measured, for
    /// [`Connection::remember`] of a later connection.
    pub(crate) fn measured(&self) -> Option<Remembered> {
        let (rate, rtt) = self.recovery.delivery_rate()?;
        Some(Remembered { rate, rtt, at: self.recovery.last_sent() })
    }

    /// Closes the receiving direction. Data that waits to be read, and data that comes later, is
    /// acknowledged and discarded, as in BSD: a peer that goes on sending is neither reset nor slowed, and
    /// takes no memory.
    pub fn shutdown_read(&mut self) {
        self.rcv.deaf = true;
        self.rcv.buffer.discard();
        self.due.ack |= self.state.is_synchronized() && self.is_window_update_due();
    }

    /// Returns the reason why the connection failed, if it did, and forgets it (`SO_ERROR`). Other calls
    /// then report that it is closed.
    pub const fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Returns the settings for changes that affect this connection alone: copies them if other
    /// connections share them.
    pub(super) fn own_config(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }

    fn is_syn_unsent(&self) -> bool {
        self.state == State::SynSent && self.snd.nxt == self.snd.iss
    }
}
