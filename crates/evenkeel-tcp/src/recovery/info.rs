//! The input of loss recovery, and its reports.

use crate::rate::Rate;
use crate::time::{Duration, Instant};
use crate::{SeqNumber, SeqRange};

/// The parts of an acknowledgment that loss recovery uses.
///
/// To be given for every acceptable segment with ACK once the connection is synchronized, and for the one
/// that acknowledges our SYN.
#[derive(Debug, Clone, Copy)]
pub struct AckInfo<'a> {
    /// `SEG.ACK`.
    pub ack: SeqNumber,
    /// The SACK blocks, in the order of the option: a DSACK (RFC 2883) is the first.
    pub sack: &'a [SeqRange],
    /// The segment changes the window the peer offers, so it is no duplicate acknowledgment.
    pub window_update: bool,
    /// The segment has data, a SYN or a FIN, so it is no duplicate acknowledgment.
    pub payload: bool,
    /// The age by our timestamp clock of the segment whose timestamp is echoed (RFC 7323).
    pub rtt_echo: Option<Duration>,
    /// ECE is set, and ECN was negotiated (RFC 3168).
    pub ece: bool,
    /// Data that were never sent are waiting, and the peer's window has room for them.
    pub unsent: bool,
    /// The time at which the segment arrived.
    pub now: Instant,
}

/// The changes that an acknowledgment made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Acked {
    /// Bytes (SYN and FIN count one each) by which `SND.UNA` advanced.
    pub newly_acked: u32,
    /// Bytes newly acknowledged selectively.
    pub newly_sacked: u32,
    /// Bytes newly thought lost.
    pub newly_lost: u32,
    /// The window is being reduced: the next new data carry CWR if ECN was negotiated (RFC 3168, 6.1.2).
    /// [`Expired::Timeout`](super::Expired::Timeout) means that, too.
    pub cwr: bool,
    /// The acknowledgment repeats the last one (RFC 5681, 2).
    pub duplicate: bool,
    /// The last reduction was for nothing, and is taken back.
    pub undone: bool,
}

/// The state of a connection's loss recovery. The names are Linux's (`tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryState {
    /// Nothing unusual.
    Open,
    /// Something arrived out of order.
    Disorder,
    /// The window is being reduced because of an ECN mark.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

/// A connection's figures. Bytes where not said otherwise; counters since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryInfo {
    /// The state of loss recovery.
    pub state: RecoveryState,
    /// The algorithm of congestion control.
    pub algorithm: &'static str,
    /// The congestion window.
    pub cwnd: u32,
    /// The window at which slow start ends; [`Window::UNKNOWN`](crate::congestion::Window::UNKNOWN) before
    /// the first loss.
    pub ssthresh: u32,
    /// The payload of a full segment.
    pub mss: u32,
    /// Thought to be on their way.
    pub in_flight: u32,
    /// The rate of payload at which data last arrived, if that is measured.
    pub delivery_rate: Option<Rate>,
    /// The rate at which the congestion control algorithm wants payload to leave; [`None`] if it sets none.
    pub pacing_rate: Option<Rate>,
    /// The highest rate, headers included; [`None`] unless it was configured or the capacity is known.
    pub rate_max: Option<Rate>,
    /// The smoothed round-trip time, once there was a sample.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Option<Duration>,
    /// The shortest round trip of the last minutes.
    pub min_rtt: Option<Duration>,
    /// The retransmission timeout of now.
    pub rto: Duration,
    /// Segments have arrived out of order, without loss.
    pub reordering_seen: bool,
    /// Segments sent again, probes included.
    pub retransmitted_segments: u64,
    /// The number of bytes in the retransmitted segments.
    pub retransmitted_bytes: u64,
    /// Thought lost.
    pub lost_bytes: u64,
    /// Expirations of the retransmission timer.
    pub timeouts: u32,
    /// Those since the last acknowledgment of new data: a connection may give up on that.
    pub timeouts_in_a_row: u32,
    /// Fast recoveries begun.
    pub fast_recoveries: u32,
    /// Tail loss probes sent.
    pub probes: u32,
    /// Reductions that were for nothing.
    pub undone: u32,
}

/// The counters of loss recovery since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) retransmitted_segments: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) lost_bytes: u64,
    pub(super) timeouts: u32,
    pub(super) fast_recoveries: u32,
    pub(super) probes: u32,
    pub(super) undone: u32,
}
