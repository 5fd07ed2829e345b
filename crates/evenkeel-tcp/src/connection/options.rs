//! What the user may choose for one connection.
//!
//! What is chosen before the SYN has left is in the SYN: maximum segment size, window, and how the window is
//! scaled.

use std::sync::Arc;

use super::config::{Config, Keepalive};
use super::error::Error;
use super::tcb::Connection;
use crate::rate::Rate;
use crate::rate_cache::Remembered;
use crate::state::State;
use crate::time::{Duration, Instant};

/// What may be chosen for one connection, as with `setsockopt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOption {
    /// [`Connection::set_nagle`].
    Nagle(bool),
    /// [`Connection::set_cork`].
    Cork(bool),
    /// [`Connection::set_ack_delay`].
    AckDelay(Duration),
    /// [`Connection::set_fin_wait_2`].
    FinWait2(Duration),
    /// [`Connection::set_user_timeout`].
    UserTimeout(Duration),
    /// [`Connection::set_keepalive`].
    Keepalive(Option<Keepalive>),
    /// [`Connection::set_mss_max`].
    MssMax(u16),
    /// [`Connection::set_send_buffer`].
    SendBuffer(usize),
    /// [`Connection::set_receive_buffer`].
    ReceiveBuffer(usize),
    /// [`Connection::set_rate_max`].
    RateMax(Option<Rate>),
    /// [`Connection::set_capacity`].
    Capacity(Rate),
}

impl Connection {
    /// Chooses one of them.
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

    /// Whether small segments wait for the acknowledgment of others (RFC 9293, 3.7.4).
    pub const fn set_nagle(&mut self, nagle: bool) {
        self.nagle = nagle;
    }

    /// Whether segments that are not full wait for more (`TCP_CORK`). For one retransmission timeout at most,
    /// if nothing else is under way.
    pub const fn set_cork(&mut self, cork: bool) {
        self.cork = cork;
    }

    /// How long an acknowledgment may wait for company: not at all if zero (`TCP_QUICKACK`), and no longer
    /// than [`Config::ACK_DELAY_MAX`].
    pub fn set_ack_delay(&mut self, delay: Duration) {
        self.own_config().ack_delay = delay;
        self.due.ack |= delay.is_zero() && self.rcv.nxt() != self.rcv.acked;
    }

    /// How long the connection waits for the peer's FIN once it is closed (`TCP_LINGER2`).
    pub fn set_fin_wait_2(&mut self, wait: Duration) {
        self.own_config().fin_wait_2 = wait;
    }

    /// How long sent data, or a closed window, may go without a sign of the peer: R2 of RFC 9293, 3.8.3
    /// (MUST-21).
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        self.own_config().user_timeout = timeout;
    }

    /// Segments carry no more than `mss` bytes after the 20 of their header, and [`Config::MSS_MAX_LEAST`] in
    /// any case (`TCP_MAXSEG`). Before the SYN has left, the peer is asked for no larger ones either.
    pub fn set_mss_max(&mut self, mss: u16) {
        let mss = mss.max(Config::MSS_MAX_LEAST);
        self.own_config().mss_max = mss;
        if self.is_syn_unsent() {
            self.rcv.mss = self.rcv.mss.min(mss);
        }
        self.limit_mss(mss);
    }

    /// The bound of what may be written ahead of what is acknowledged, from now on (`SO_SNDBUF`): it grows no
    /// more.
    pub fn set_send_buffer(&mut self, bytes: usize) {
        let options = self.own_config();
        (options.send_buffer_initial, options.send_buffer_max) = (bytes, bytes);
    }

    /// The bound of what may wait to be read, from now on (`SO_RCVBUF`): it grows no more. A window once
    /// promised is never taken back (RFC 9293, 3.8.6); and after the SYN no window is larger than its scale
    /// can say.
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

    /// No more than that is sent from now on, IP and TCP headers included (`SO_MAX_PACING_RATE`).
    pub fn set_rate_max(&mut self, rate: Option<Rate>) {
        self.recovery.set_rate_max(rate);
    }

    /// The path's capacity is known, and this connection's alone: from now on it sends at that rate, headers
    /// included, in place of slow start (Aron and Druschel, "Soft timers", 4.1). What is lost makes it
    /// slower. See [`Start::At`](crate::recovery::Start::At).
    pub fn set_capacity(&mut self, rate: Rate, now: Instant) {
        self.recovery.set_capacity(rate, now);
    }

    /// An earlier connection had that rate, and a round trip so long: see
    /// [`Start::Remembered`](crate::recovery::Start::Remembered).
    pub fn remember(&mut self, rate: Rate, rtt: Duration) {
        self.recovery.remember(rate, rtt);
    }

    pub(crate) fn measures(&self) -> bool {
        self.recovery.measures()
    }

    /// The rate at which data last arrived, if that is measured, for [`Connection::remember`] of a later one.
    pub(crate) fn measured(&self) -> Option<Remembered> {
        let (rate, rtt) = self.recovery.delivery_rate()?;
        Some(Remembered { rate, rtt, at: self.recovery.last_sent() })
    }

    /// The user reads no more. What waits to be read, and what comes, is acknowledged and thrown away, as in
    /// BSD: a peer that goes on is neither reset nor held up, and takes no memory.
    pub fn shutdown_read(&mut self) {
        self.rcv.deaf = true;
        self.rcv.buffer.discard();
        self.due.ack |= self.state.is_synchronized() && self.is_window_update_due();
    }

    /// Why it is over, if it failed, told once (`SO_ERROR`): other calls then say that it is closed.
    pub const fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Of this connection alone, from now on.
    pub(super) fn own_config(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }

    fn is_syn_unsent(&self) -> bool {
        self.state == State::SynSent && self.snd.nxt == self.snd.iss
    }
}
