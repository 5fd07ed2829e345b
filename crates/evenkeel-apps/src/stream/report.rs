//! A report of a host's TCP, for people and for programs.

use std::cmp::Reverse;
use std::net::SocketAddr;

pub use evenkeel::metrics::{Listener as ListenerReport, Tcp as TcpReport};
use evenkeel::raw::host::Host;
use evenkeel::raw::tcp::congestion::Window;
use evenkeel::raw::tcp::connection::Info;
use evenkeel::raw::tcp::recovery::RecoveryState;
use evenkeel::raw::tcp::{FourTuple, Rate};
use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::Serialize;

/// A report of one connection, with what `ss -ti` shows of the kernel's connections.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConnectionReport {
    /// The local address and port.
    pub local: String,
    /// The peer's address and port.
    pub peer: String,
    /// The connection's state by its name in RFC 9293.
    pub state: String,
    /// The reason why the connection failed, if it did.
    pub error: Option<String>,
    /// The number of bytes of payload that came in order.
    pub bytes_in: u64,
    /// The number of bytes of payload that left, those sent again included.
    pub bytes_out: u64,
    /// The number of bytes of payload that the peer has acknowledged.
    pub bytes_acked: u64,
    /// The number of segments that came.
    pub segments_in: u64,
    /// The number of segments that left.
    pub segments_out: u64,
    /// The number of received bytes that wait to be read.
    pub receive_queue: usize,
    /// The number of bytes written and not acknowledged.
    pub send_queue: usize,
    /// The number of bytes written and never sent.
    pub unsent: u32,
    /// The number of bytes that the peer may still send.
    pub receive_window: u32,
    /// The peer's window in bytes.
    pub send_window: u32,
    /// The congestion window in bytes.
    pub cwnd: u32,
    /// The slow-start threshold in bytes; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// The number of bytes of payload in a full segment.
    pub mss: u16,
    /// The name of the congestion control.
    pub congestion_control: &'static str,
    /// The state of loss recovery; `open` if nothing is lost.
    pub recovery: String,
    /// The rate at which data last arrived, in bits of payload a second; `None` if that is not measured.
    pub delivery_bps: Option<u64>,
    /// The rate at which congestion control wants segments to leave, in bits of payload a second; `None` if
    /// it limits only the number of segments in flight.
    pub pacing_bps: Option<u64>,
    /// The configured maximum sending rate in bits a second, IP and TCP headers included; `None` for no
    /// limit.
    pub limit_bps: Option<u64>,
    /// The smoothed round-trip time in microseconds; `None` before the first measurement.
    pub srtt_us: Option<f64>,
    /// The variation of the round-trip time in microseconds.
    pub rttvar_us: Option<f64>,
    /// The shortest round-trip time of the last minutes, in microseconds.
    pub min_rtt_us: Option<f64>,
    /// The retransmission timeout in microseconds.
    pub rto_us: f64,
    /// The number of segments sent again.
    pub retransmits: u64,
    /// The number of bytes in the segments sent again.
    pub retransmitted_bytes: u64,
    /// The number of bytes that loss recovery took for lost.
    pub lost_bytes: u64,
    /// The number of expirations of the retransmission timer.
    pub timeouts: u32,
    /// The number of segments that came out of order.
    pub out_of_order: u32,
    /// The number of segments that brought nothing new.
    pub duplicates: u32,
    /// The number of segments that were dropped: for want of room, or as too old.
    pub drops: u32,
    /// The number of bytes of memory that the connection's buffers own.
    pub memory: usize,
    /// The names of the TCP options in use.
    pub options: Vec<&'static str>,
}

impl ConnectionReport {
    /// Creates the report of the connection between the ends in `tuple`.
    #[must_use]
    pub fn new(tuple: &FourTuple, info: &Info) -> Self {
        let Info { counts, recovery, .. } = info;
        let options = [(info.timestamps, "timestamps"), (info.sack, "sack"), (info.ecn, "ecn")];
        Self {
            local: SocketAddr::from(tuple.local).to_string(),
            peer: SocketAddr::from(tuple.remote).to_string(),
            state: info.state.to_string(),
            error: info.error.map(|error| error.to_string()),
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            bytes_acked: counts.bytes_acked,
            segments_in: counts.segments_in,
            segments_out: counts.segments_out,
            receive_queue: info.receive_queue,
            send_queue: info.send_queue,
            unsent: info.unsent,
            receive_window: info.receive_window,
            send_window: info.send_window,
            cwnd: recovery.cwnd,
            ssthresh: Some(recovery.ssthresh).filter(|ssthresh| *ssthresh != Window::UNKNOWN),
            mss: info.mss,
            congestion_control: recovery.algorithm,
            recovery: name(recovery.state).to_owned(),
            delivery_bps: recovery.delivery_rate.map(Rate::as_bits_per_s),
            pacing_bps: recovery.pacing_rate.map(Rate::as_bits_per_s),
            limit_bps: recovery.rate_max.map(Rate::as_bits_per_s),
            srtt_us: recovery.srtt.map(micros),
            rttvar_us: recovery.rttvar.map(micros),
            min_rtt_us: recovery.min_rtt.map(micros),
            rto_us: micros(recovery.rto),
            retransmits: recovery.retransmitted_segments,
            retransmitted_bytes: recovery.retransmitted_bytes,
            lost_bytes: recovery.lost_bytes,
            timeouts: recovery.timeouts,
            out_of_order: counts.out_of_order,
            duplicates: counts.duplicates,
            drops: counts.no_room.saturating_add(counts.paws),
            memory: info.held,
            options: options.into_iter().filter_map(|(used, name)| used.then_some(name)).collect(),
        }
    }

    /// Returns the reports of the `most` connections that have moved the most bytes, the busiest first.
    /// Visits every connection of the host.
    #[must_use]
    pub fn busiest(host: &Host, most: usize) -> Vec<Self> {
        if most == 0 {
            return Vec::new();
        }
        let mut all: Vec<_> = host.tcp().connections().map(|(_, tuple, info)| (*tuple, info)).collect();
        all.sort_by_cached_key(|(tuple, info)| {
            let Info { counts, .. } = info;
            (Reverse(counts.bytes_in + counts.bytes_out), SocketAddr::from(tuple.remote))
        });
        all.iter().take(most).map(|(tuple, info)| Self::new(tuple, info)).collect()
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

const fn name(state: RecoveryState) -> &'static str {
    match state {
        RecoveryState::Open => "open",
        RecoveryState::Disorder => "disorder",
        RecoveryState::Cwr => "cwr",
        RecoveryState::Recovery => "recovery",
        RecoveryState::Loss => "loss",
    }
}
