//! Options that the user may set for one connection.
//!
//! Options that are set before the SYN has left are in the SYN: maximum segment size, window, and window
//! scale.

use alloc::sync::Arc;
use core::num::NonZeroU8;

use super::config::{Config, Keepalive};
use super::tcb::Tcb;
use crate::rate::Rate;
use crate::state::State;
use crate::time::{Duration, Instant};

/// An option of one connection, as set with `setsockopt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamOption {
    /// Whether small segments wait for the acknowledgment of others (RFC 9293, 3.7.4).
    Nagle(bool),
    /// Whether segments that are not full wait for more data (`TCP_CORK`): for at most one retransmission
    /// timeout, if nothing else is under way.
    Cork(bool),
    /// The longest time that an acknowledgment is delayed, for other segments to share it. Zero sends each at
    /// once (`TCP_QUICKACK`); values above [`Config::ACK_DELAY_MAX`] count as that.
    AckDelay(Duration),
    /// The time that the connection waits for the peer's FIN once it is closed (`TCP_LINGER2`).
    FinWait2(Duration),
    /// The time that sent data may go unacknowledged, or a window stay closed, without a sign of the peer
    /// before the connection fails: R2 of RFC 9293, 3.8.3 (MUST-21).
    UserTimeout(Duration),
    /// The keep-alive probes to an idle peer; `None` turns them off (RFC 9293, 3.8.4, MUST-24).
    Keepalive(Option<Keepalive>),
    /// The largest segment in bytes after the 20 of its header (`TCP_MAXSEG`). Values below
    /// [`Config::MSS_MAX_LEAST`] count as that. Before the SYN has left, the limit applies to the peer's
    /// segments, too.
    MssMax(u16),
    /// The size of the send buffer (`SO_SNDBUF`): the bytes that the user may write ahead of what is
    /// acknowledged. The buffer no longer grows.
    SendBuffer(usize),
    /// The size of the receive buffer (`SO_RCVBUF`): the bytes that may wait to be read. The buffer no longer
    /// grows. A window that was once offered is never taken back (RFC 9293, 3.8.6), and after the SYN no
    /// window is larger than its scale can express.
    ReceiveBuffer(usize),
    /// The limit on the sending rate, IP and TCP headers included (`SO_MAX_PACING_RATE`).
    RateMax(Option<Rate>),
    /// The path's capacity, which this connection has for itself. It sends at that rate, headers included, in
    /// place of slow start (Aron and Druschel, "Soft timers", 4.1). Loss makes it slower. See
    /// [`Start::At`](crate::recovery::Start::At).
    Capacity(Rate),
    /// The TTL or hop limit of segments (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    HopLimit(NonZeroU8),
}

/// A change of the options of a connection.
pub(super) struct Change<'c> {
    tcb: &'c mut Tcb,
    now: Instant,
}

impl<'c> Change<'c> {
    pub(super) const fn new(tcb: &'c mut Tcb, now: Instant) -> Self {
        Self { tcb, now }
    }

    /// Sets one option of the connection.
    pub(super) fn set(mut self, option: StreamOption) {
        match option {
            StreamOption::Nagle(nagle) => self.tcb.nagle.enabled = nagle,
            StreamOption::Cork(cork) => self.tcb.nagle.cork = cork,
            StreamOption::AckDelay(delay) => self.set_ack_delay(delay),
            StreamOption::FinWait2(wait) => self.settings().fin_wait_2 = wait,
            StreamOption::UserTimeout(timeout) => self.settings().user_timeout = timeout,
            StreamOption::Keepalive(keepalive) => self.set_keepalive(keepalive),
            StreamOption::MssMax(mss) => self.set_mss_max(mss.max(Config::MSS_MAX_LEAST)),
            StreamOption::SendBuffer(bytes) => {
                let settings = self.settings();
                (settings.send_buffer_initial, settings.send_buffer_max) = (bytes, bytes);
            }
            StreamOption::ReceiveBuffer(bytes) => self.set_receive_buffer(bytes),
            StreamOption::RateMax(rate) => self.tcb.recovery.set_rate_max(rate),
            StreamOption::Capacity(rate) => self.tcb.recovery.set_capacity(rate, self.now),
            StreamOption::HopLimit(limit) => self.settings().hop_limit = Some(limit),
        }
    }

    fn set_ack_delay(&mut self, delay: Duration) {
        self.settings().ack_delay = delay;
        let nxt = self.tcb.rcv.nxt();
        let ack = &mut self.tcb.timers.delayed_ack;
        ack.send_now_if(delay.is_zero() && nxt != ack.last_sent());
    }

    fn set_keepalive(&mut self, keepalive: Option<Keepalive>) {
        self.settings().keepalive = keepalive;
        let (timer, state) = (&mut self.tcb.timers.keepalive, self.tcb.state);
        timer.stop_timer();
        if state.is_synchronized() && state != State::TimeWait {
            timer.restart(keepalive, self.now);
        }
    }

    fn set_mss_max(&mut self, mss: u16) {
        self.settings().mss_max = mss;
        if self.is_syn_unsent() {
            self.tcb.rcv.mss = self.tcb.rcv.mss.min(mss);
        }
        let Tcb { path, negotiated, recovery, .. } = &mut *self.tcb;
        path.limit(mss, negotiated, recovery);
    }

    fn set_receive_buffer(&mut self, bytes: usize) {
        let before_syn = self.is_syn_unsent();
        let settings = self.settings();
        settings.receive_buffer_max = bytes;
        if before_syn {
            settings.receive_buffer_initial = bytes;
            self.tcb.rcv.shift = self.tcb.config.window_shift();
        }
        self.tcb.rcv.sizing.limit = Config::bytes(bytes);
        let update = self.tcb.state.is_synchronized() && self.tcb.is_window_update_due();
        self.tcb.timers.delayed_ack.send_now_if(update);
    }

    /// Returns the settings for changes that affect this connection alone: copies them if other
    /// connections share them.
    fn settings(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.tcb.config)
    }

    fn is_syn_unsent(&self) -> bool {
        self.tcb.state == State::SynSent && self.tcb.snd.nxt == self.tcb.handshake.iss
    }
}
