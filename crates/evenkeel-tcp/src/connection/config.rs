//! What can be chosen about connections, and what each needs to be opened.

use std::sync::Arc;

use super::super::options::{Cookie, Options};
use super::super::recovery::RecoveryConfig;
use super::super::segment::Flags;
use super::super::seq::SeqNumber;
use crate::time::{Duration, Instant};

/// What all connections of a kind have in common.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes the user may write ahead of what is acknowledged, in the beginning. Default 64 KiB.
    pub send_buffer_initial: usize,
    /// The same at most: the bound grows to twice the congestion window. Default 4 MiB.
    pub send_buffer_max: usize,
    /// Bytes that may wait to be read, in the beginning: the first window. Default 64 KiB.
    pub receive_buffer_initial: usize,
    /// The same at most: the bound grows to twice what is read in a round trip. Default 6 MiB, as in Linux.
    /// At most 1 GiB (RFC 7323, 2.3).
    pub receive_buffer_max: usize,
    /// The most bytes that a segment may have after the 20 of its header, in either direction, whatever the
    /// path takes; [`Config::MSS_MAX_LEAST`] at least. Default no bound.
    pub mss_max: u16,
    /// Offer window scaling (RFC 7323, 2). Default yes.
    pub window_scaling: bool,
    /// Offer selective acknowledgments (RFC 2018). Default yes.
    pub sack: bool,
    /// Offer timestamps (RFC 7323, 3). Default yes.
    pub timestamps: bool,
    /// Offer explicit congestion notification (RFC 3168). Default no: a connection that the peer opens with
    /// it always has it.
    pub ecn: bool,
    /// Hold back small segments while one is on its way (RFC 9293, 3.7.4). Default yes.
    pub nagle: bool,
    /// How long an acknowledgment may wait for company. Default 40 ms, as in Linux; more than
    /// [`Config::ACK_DELAY_MAX`] is taken for that.
    pub ack_delay: Duration,
    /// Ask idle peers whether they are still there (RFC 9293, 3.8.4). Default no, as the RFC demands.
    pub keepalive: Option<Keepalive>,
    /// How long a SYN is repeated. Default 3 min, the least of RFC 9293, 3.8.3.
    pub connect_timeout: Duration,
    /// How long sent data, or a closed window, may go without a sign of the peer. Default 5 min (RFC 9293,
    /// 3.9.1.1; at least 100 s by 3.8.3).
    pub user_timeout: Duration,
    /// How long a connection that the user has closed waits for the peer's FIN. Default 60 s, as in Linux.
    pub fin_wait_2: Duration,
    /// Twice the maximum segment lifetime. Default 60 s, as in Linux: few networks keep a segment for the two
    /// minutes of RFC 9293.
    pub time_wait: Duration,
    /// Acknowledgments of segments out of place in [`Config::CHALLENGE_PERIOD`] (RFC 5961, 7). Default 10.
    ///
    /// Each connection has a limit of its own: a common one would tell an attacker about others.
    pub challenge_acks_max: u8,
    /// Loss recovery and congestion control.
    pub recovery: Arc<RecoveryConfig>,
}

/// When an idle peer is asked whether it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// After so long without a segment. Default 2 h, the least of RFC 9293, 3.8.4.
    pub idle: Duration,
    /// Again after so long. Default 75 s.
    pub interval: Duration,
    /// And so often, before the connection fails. Default 9.
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
            recovery: Arc::default(),
        }
    }
}

impl Config {
    /// The period of the limit on challenge ACKs.
    pub const CHALLENGE_PERIOD: Duration = Duration::from_secs(5);
    /// The longest an acknowledgment may wait: less than half a second (RFC 9293, 3.8.6.3, MUST-40).
    pub const ACK_DELAY_MAX: Duration = Duration::from_millis(499);
    /// The least that a maximum segment size can be chosen to be, as in Linux.
    pub const MSS_MAX_LEAST: u16 = 88;
    /// The largest shift there is (RFC 7323, 2.3).
    pub const WINDOW_SHIFT_MAX: u8 = 14;

    /// Rcv.Wind.Shift: the least that lets the window field say the whole buffer.
    #[must_use]
    pub fn window_shift(&self) -> u8 {
        let fits = |shift: &u8| self.receive_buffer_max >> shift <= usize::from(u16::MAX);
        (0..Self::WINDOW_SHIFT_MAX).find(fits).unwrap_or(Self::WINDOW_SHIFT_MAX)
    }

    /// A bound of a buffer, which no window can exceed.
    pub(super) fn bytes(bound: usize) -> u32 {
        u32::try_from(bound).unwrap_or(u32::MAX)
    }

    /// The window of a SYN, which is never scaled.
    #[must_use]
    pub fn syn_window(&self) -> u16 {
        u16::try_from(self.receive_buffer_initial).unwrap_or(u16::MAX)
    }
}

/// What a connection is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Our port.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
    /// The addresses are of IPv6, so that a SYN without MSS means 1220 bytes instead of 536 (RFC 9293,
    /// 3.7.1).
    pub ipv6: bool,
    /// Bytes that a segment may have after the 20 bytes of its header: what fits the path, and what we can
    /// take.
    pub mss: u16,
    /// The number of our SYN (RFC 6528).
    pub iss: SeqNumber,
    /// Added to our timestamps, so that they say nothing of how long the host is up (RFC 7323, 5.4).
    pub timestamp_offset: u32,
}

/// What a SYN agreed on, once we know which of our offers it took up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreement {
    /// The peer's MSS option.
    pub mss: Option<u16>,
    /// The peer's shift; `None` if neither side scales its window.
    pub window_scale: Option<u8>,
    /// Both sides can use SACK.
    pub sack: bool,
    /// Both sides send timestamps: the peer's last (TS.Recent).
    pub timestamp: Option<u32>,
    /// Both sides know ECN.
    pub ecn: bool,
}

impl Agreement {
    /// What we agree to of the peer's SYN, or it of ours.
    ///
    /// ECN (RFC 3168, 6.1.1): a SYN asks by ECE and CWR, a SYN-ACK agrees by ECE alone.
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

/// Where the listener has got with a peer when a connection is made of it: what a connection in SYN-RECEIVED
/// begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynReceived {
    /// The number of the peer's SYN.
    pub irs: SeqNumber,
    /// The window in it, which is not scaled.
    pub window: u16,
    /// What the SYNs agreed on.
    pub agreement: Agreement,
    /// What became of our SYN-ACK.
    pub syn_ack: SynAck,
}

/// What became of our SYN-ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynAck {
    /// It was sent once, then: its acknowledgment says how long the round trip is.
    SentAt(Instant),
    /// It was sent, and again so many times because no answer came. Its acknowledgment does not say how long
    /// the round trip is.
    Sent(u8),
    /// The connection shall send it: there is data before the handshake is over (RFC 7413, 4.2), and perhaps
    /// a cookie to give.
    Due(Option<Cookie>),
}

/// What became of an active open with a Fast Open cookie, or with the request for one (RFC 7413, 4.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpened {
    /// The cookie that the SYN-ACK brought.
    pub cookie: Option<Cookie>,
    /// Bytes that the peer takes in a segment.
    pub mss: u16,
    /// Bytes of data that went along with the SYN.
    pub sent: u32,
    /// Bytes of those that the SYN-ACK acknowledged.
    pub taken: u32,
    /// The SYN had to be sent again, without cookie and data.
    pub again: bool,
}
