//! What there is to know about a host's TCP, for people and their programs.

use std::cmp::Reverse;
use std::net::SocketAddr;

use evenkeel_core::host::Host;
use evenkeel_core::tcp::congestion::Window;
use evenkeel_core::tcp::connection::Info;
use evenkeel_core::tcp::counters::{Counter, Counters};
use evenkeel_core::tcp::endpoint::ListenerInfo;
use evenkeel_core::tcp::recovery::RecoveryState;
use evenkeel_core::tcp::{FourTuple, Rate};
use evenkeel_core::time::Duration;
use serde::{Serialize, Serializer};

/// A host's TCP.
#[derive(Debug, Clone, Serialize)]
pub struct TcpReport {
    /// Connections there are, half-open ones and those in TIME-WAIT aside.
    pub connections: usize,
    /// Connections in TIME-WAIT.
    pub time_wait: usize,
    /// Who listens.
    pub listeners: Vec<ListenerReport>,
    /// What was counted; counters that are zero are left out.
    #[serde(serialize_with = "by_name")]
    pub counters: Vec<(Counter, u64)>,
}

impl TcpReport {
    /// That of a host.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let tcp = host.tcp();
        Self {
            connections: tcp.len(),
            time_wait: tcp.waiting(),
            listeners: tcp.listeners().map(ListenerReport::from).collect(),
            counters: counted(tcp.counters()),
        }
    }

    /// How often something was counted.
    #[must_use]
    pub fn count(&self, counter: Counter) -> u64 {
        self.counters.iter().find(|(other, _)| *other == counter).map_or(0, |(_, count)| *count)
    }
}

fn counted(counters: &Counters) -> Vec<(Counter, u64)> {
    counters.iter().filter(|(_, count)| *count > 0).collect()
}

fn by_name<S: Serializer>(counters: &[(Counter, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.iter().map(|(counter, count)| (counter.name(), count)))
}

/// A listener.
#[derive(Debug, Clone, Serialize)]
pub struct ListenerReport {
    /// Its port.
    pub port: u16,
    /// Its address, if it has but one.
    pub address: Option<String>,
    /// Half-open connections.
    pub half_open: usize,
    /// Connections that wait to be accepted.
    pub to_accept: usize,
    /// The most that may wait.
    pub backlog: usize,
}

impl From<ListenerInfo> for ListenerReport {
    fn from(info: ListenerInfo) -> Self {
        let ListenerInfo { at, half_open, to_accept, backlog, .. } = info;
        let address = at.address.map(|address| address.to_string());
        Self { port: at.port, address, half_open, to_accept, backlog }
    }
}

/// A connection: what `ss -ti` shows of the kernel's.
#[derive(Debug, Clone, Serialize)]
pub struct ConnectionReport {
    /// Our end.
    pub local: String,
    /// The peer's.
    pub peer: String,
    /// Where it stands, as RFC 9293 says it.
    pub state: String,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// Bytes of payload that came in order.
    pub bytes_in: u64,
    /// Bytes of payload that left, those sent again included.
    pub bytes_out: u64,
    /// Bytes of payload that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments that came.
    pub segments_in: u64,
    /// Segments that left.
    pub segments_out: u64,
    /// Bytes that wait to be read.
    pub receive_queue: usize,
    /// Bytes written and not acknowledged.
    pub send_queue: usize,
    /// Those that were never sent.
    pub unsent: u32,
    /// Bytes the peer may still send.
    pub receive_window: u32,
    /// The peer's window in bytes.
    pub send_window: u32,
    /// The congestion window in bytes.
    pub cwnd: u32,
    /// Where slow start ends, in bytes; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// Bytes of payload in a full segment.
    pub mss: u16,
    /// The congestion control.
    pub congestion_control: &'static str,
    /// What loss recovery is about: `open` if nothing is lost.
    pub recovery: String,
    /// Bits of payload a second at which data last arrived; `None` if that is not measured.
    pub delivery_bps: Option<u64>,
    /// Bits of payload a second at which congestion control wants segments to leave; `None` if it says only
    /// how many.
    pub pacing_bps: Option<u64>,
    /// Bits a second that leave at most, IP and TCP headers included, as somebody has said.
    pub limit_bps: Option<u64>,
    /// The smoothed round-trip time in microseconds.
    pub srtt_us: Option<f64>,
    /// Its variation.
    pub rttvar_us: Option<f64>,
    /// The shortest round trip.
    pub min_rtt_us: Option<f64>,
    /// The retransmission timeout in microseconds.
    pub rto_us: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes in them.
    pub retransmitted_bytes: u64,
    /// Bytes thought lost.
    pub lost_bytes: u64,
    /// Expirations of the retransmission timer.
    pub timeouts: u32,
    /// Segments that came out of order.
    pub out_of_order: u32,
    /// Segments with nothing new.
    pub duplicates: u32,
    /// Segments that were dropped: for want of room, or as too old.
    pub drops: u32,
    /// Bytes of memory that its buffers own.
    pub memory: usize,
    /// Options in use.
    pub options: Vec<&'static str>,
}

impl ConnectionReport {
    /// That of a connection.
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

    /// The connections of a host that have moved most, at most so many; the busiest first. This looks at all
    /// of them.
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
