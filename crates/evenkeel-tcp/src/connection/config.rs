//! Settings of connections, and the parameters with which each is opened.

use alloc::sync::Arc;
use core::num::NonZeroU8;

use super::super::options::{Cookie, Options};
use super::super::recovery::RecoveryConfig;
use super::super::segment::Flags;
use super::super::seq::SeqNumber;
use crate::time::{Duration, Instant};

/// The settings of a connection, usually shared by many.
///
/// ```
/// use evenkeel_tcp::Config;
/// use evenkeel_tcp::connection::Keepalive;
/// use evenkeel_tcp::time::Duration;
///
/// // Many connections with small requests: small buffers, and probes to peers that may have vanished.
/// let config = Config {
///     send_buffer_max: 256 << 10,
///     receive_buffer_max: 256 << 10,
///     keepalive: Some(Keepalive { idle: Duration::from_secs(120), ..Keepalive::default() }),
///     ..Config::default()
/// };
/// # let _ = config;
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The initial size of the send buffer: bytes that the user may write ahead of what is acknowledged.
    /// Default 64 KiB.
    pub send_buffer_initial: usize,
    /// The largest size of the send buffer, in bytes: the buffer grows with twice the congestion window.
    /// Default 4 MiB.
    pub send_buffer_max: usize,
    /// The initial size of the receive buffer, and so the first window: bytes that may wait to be read.
    /// Default 64 KiB.
    pub receive_buffer_initial: usize,
    /// The largest size of the receive buffer, in bytes: the buffer grows with twice the bytes that the
    /// user reads in a round trip. Default 6 MiB, as in Linux. At most 1 GiB (RFC 7323, 2.3).
    pub receive_buffer_max: usize,
    /// The largest segment in either direction, in bytes after the 20 of its header, whatever the path
    /// takes. Values below [`Config::MSS_MAX_LEAST`] count as that. Default no bound.
    pub mss_max: u16,
    /// Whether we offer window scaling (RFC 7323, 2). Default yes.
    pub window_scaling: bool,
    /// Whether we offer selective acknowledgments (RFC 2018). Default yes.
    pub sack: bool,
    /// Whether we offer timestamps (RFC 7323, 3). Default yes.
    pub timestamps: bool,
    /// Whether we offer explicit congestion notification (RFC 3168) when we open a connection. Default no.
    /// A connection that the peer opens with ECN always uses it.
    pub ecn: bool,
    /// Whether a small segment waits while another small one is unacknowledged (Nagle's algorithm in
    /// Minshall's variant, RFC 9293, 3.7.4). Default yes.
    pub nagle: bool,
    /// The longest time that an acknowledgment is delayed, for other segments to share it. Default 40 ms,
    /// as in Linux. Values above [`Config::ACK_DELAY_MAX`] count as that.
    pub ack_delay: Duration,
    /// The keep-alive probes to idle peers (RFC 9293, 3.8.4). Default none, as the RFC demands.
    pub keepalive: Option<Keepalive>,
    /// The time for which a SYN is retransmitted before the connection fails. Default 3 min, the least of
    /// RFC 9293, 3.8.3.
    pub connect_timeout: Duration,
    /// The time that sent data may go unacknowledged, or a window stay closed, without a sign of the peer
    /// before the connection fails. Default 5 min (RFC 9293, 3.9.1.1; at least 100 s by 3.8.3).
    pub user_timeout: Duration,
    /// The time that a connection waits for the peer's FIN once the user has closed it. Default 60 s, as
    /// in Linux.
    pub fin_wait_2: Duration,
    /// The time in TIME-WAIT: twice the maximum segment lifetime. Default 60 s, as in Linux: few networks
    /// keep a segment for the two minutes of RFC 9293.
    pub time_wait: Duration,
    /// The largest number of segments out of place that are answered with an acknowledgment in each
    /// [`Config::CHALLENGE_PERIOD`] (RFC 5961, 7). Default 10.
    ///
    /// Each connection has a limit of its own: a common one would reveal to an attacker what other
    /// connections do.
    pub challenge_acks_max: u8,
    /// The TTL or hop limit of segments. Default that of the host, which IP knows.
    pub hop_limit: Option<NonZeroU8>,
    /// The settings of loss recovery and congestion control.
    pub recovery: Arc<RecoveryConfig>,
}

/// The timing of keep-alive probes, which ask an idle peer whether it still has the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// The time without a segment after which the first probe leaves. Default 2 h, the least of RFC 9293,
    /// 3.8.4.
    pub idle: Duration,
    /// The time from an unanswered probe to the next. Default 75 s.
    pub interval: Duration,
    /// The number of unanswered probes after which the connection fails. Default 9.
    pub probes_max: u8,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes_max: 9 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            send_buffer_initial: 64 << 10,
            send_buffer_max: 4 << 20,
            receive_buffer_initial: 64 << 10,
            receive_buffer_max: 6 << 20,
            mss_max: u16::MAX,
            window_scaling: true,
            sack: true,
            timestamps: true,
            ecn: false,
            nagle: true,
            ack_delay: Duration::from_millis(40),
            keepalive: None,
            connect_timeout: Duration::from_secs(180),
            user_timeout: Duration::from_secs(300),
            fin_wait_2: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            challenge_acks_max: 10,
            hop_limit: None,
            recovery: Arc::default(),
        }
    }
}

impl Config {
    /// The period of the limit on challenge ACKs, [`Config::challenge_acks_max`].
    pub const CHALLENGE_PERIOD: Duration = Duration::from_secs(5);
    /// The upper limit of [`Config::ack_delay`]: less than half a second (RFC 9293, 3.8.6.3, MUST-40).
    pub const ACK_DELAY_MAX: Duration = Duration::from_millis(499);
    /// The lower limit of [`Config::mss_max`], in bytes, as in Linux.
    pub const MSS_MAX_LEAST: u16 = 88;
    /// The largest window shift (RFC 7323, 2.3).
    pub const WINDOW_SHIFT_MAX: u8 = 14;

    /// Returns Rcv.Wind.Shift: the smallest shift with which the window field can express the whole
    /// receive buffer.
    #[must_use]
    pub fn window_shift(&self) -> u8 {
        let fits = |shift: &u8| self.receive_buffer_max >> shift <= usize::from(u16::MAX);
        (0..Self::WINDOW_SHIFT_MAX).find(fits).unwrap_or(Self::WINDOW_SHIFT_MAX)
    }

    /// Returns the bound of a buffer as the number of bytes of a window, at most `u32::MAX`.
    pub(super) fn bytes(bound: usize) -> u32 {
        u32::try_from(bound).unwrap_or(u32::MAX)
    }

    /// Returns the window of a SYN, which is never scaled.
    #[must_use]
    pub fn syn_window(&self) -> u16 {
        u16::try_from(self.receive_buffer_initial).unwrap_or(u16::MAX)
    }
}

/// The parameters with which a connection is opened, actively or from a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The local port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// Whether the addresses are of IPv6. A SYN without an MSS option then means 1220 bytes instead of 536
    /// (RFC 9293, 3.7.1).
    pub ipv6: bool,
    /// The largest segment, in bytes after the 20 of its header, that fits the path and that we can take.
    pub mss: u16,
    /// The sequence number of our SYN (RFC 6528).
    pub iss: SeqNumber,
    /// The offset added to our timestamps, so that they do not reveal the host's uptime (RFC 7323, 5.4).
    pub timestamp_offset: u32,
}

/// The options that both SYNs agree on, once it is known which of our offers the peer accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreement {
    /// The peer's MSS option, in bytes; `None` if its SYN had none.
    pub mss: Option<u16>,
    /// The shift of the peer's window; `None` if neither side scales its window.
    pub window_scale: Option<u8>,
    /// Whether both sides can use SACK.
    pub sack: bool,
    /// The peer's last timestamp (TS.Recent) if both sides send timestamps.
    pub timestamp: Option<u32>,
    /// Whether both sides use ECN.
    pub ecn: bool,
}

impl Agreement {
    /// Returns the agreement that follows from a SYN or SYN-ACK of the peer and from `config`.
    ///
    /// A SYN asks for ECN with ECE and CWR; a SYN-ACK agrees with ECE alone (RFC 3168, 6.1.1).
    #[must_use]
    pub fn on_syn(config: &Config, options: &Options, flags: Flags) -> Self {
        let asks = flags.contains(Flags::ECE | Flags::CWR) && !flags.contains(Flags::ACK);
        let agrees = flags.contains(Flags::ECE | Flags::ACK) && !flags.contains(Flags::CWR) && config.ecn;
        Self {
            mss: options.mss,
            window_scale: options.window_scale.filter(|_| config.window_scaling),
            sack: options.sack_permitted && config.sack,
            timestamp: options.timestamps.map(|clocks| clocks.value).filter(|_| config.timestamps),
            ecn: asks || agrees,
        }
    }
}

/// The progress of a listener's handshake with a peer, from which a connection in SYN-RECEIVED begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynReceived {
    /// The sequence number of the peer's SYN.
    pub irs: SeqNumber,
    /// The window in the peer's SYN, which is not scaled.
    pub window: u16,
    /// The options that both SYNs agree on.
    pub agreement: Agreement,
    /// The state of our SYN-ACK.
    pub syn_ack: SynAck,
}

/// The state of our SYN-ACK when a connection is made of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynAck {
    /// The SYN-ACK was sent once, at this time. Its acknowledgment gives a sample of the round-trip time.
    SentAt(Instant),
    /// The SYN-ACK was sent, and retransmitted this many times because no answer came. Its acknowledgment
    /// gives no sample of the round-trip time.
    Sent(u8),
    /// The connection is to send the SYN-ACK: there is data before the handshake is over (RFC 7413, 4.2),
    /// and perhaps a cookie to give.
    Due(Option<Cookie>),
}

/// The outcome of an active open with a Fast Open cookie, or with the request for one (RFC 7413, 4.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpened {
    /// The cookie in the SYN-ACK, if there was one.
    pub cookie: Option<Cookie>,
    /// The largest segment that the peer takes, in bytes.
    pub mss: u16,
    /// The number of bytes of data in the SYN.
    pub sent: u32,
    /// The number of those bytes that the SYN-ACK acknowledged.
    pub taken: u32,
    /// Whether the SYN had to be sent again, without cookie and data.
    pub again: bool,
}
