//! The figures of processes and of their sockets.

use std::borrow::Cow;
use std::net::IpAddr;

use evenkeel_core::host::Host;
use evenkeel_core::time::Duration;

/// A process of a host, and its bill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// The number of the process in its host.
    pub number: u32,
    /// The name of the process.
    pub name: String,
    /// The CPU time that the process's own steps used, in seconds.
    #[cfg_attr(feature = "json", serde(rename = "used_seconds", with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub used: Duration,
    /// The CPU time that the process was charged for, in seconds: its own steps, interrupts that happened to
    /// hit it, and discards of its frames beyond their share.
    #[cfg_attr(feature = "json", serde(rename = "charged_seconds", with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub charged: Duration,
}

/// A socket that has a queue of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Socket {
    /// The number of the socket in its host.
    pub number: u32,
    /// The kind of the socket: `udp`, `listener`, `screening` or `capture`.
    pub kind: Cow<'static, str>,
    /// The number of the process that owns the socket and pays for its work; `None` if it has ended.
    pub process: Option<u32>,
    /// The local address; `None` for all addresses of the host.
    pub address: Option<IpAddr>,
    /// The local port; 0 for a socket without ports.
    pub port: u16,
    /// The number of frames and datagrams that wait for the program.
    pub waiting: usize,
    /// The number of frames and datagrams that may wait, in channels for which frames have come and in the
    /// queue; 0 if the process is of an older version.
    #[cfg_attr(feature = "json", serde(default))]
    pub limit: usize,
    /// Frames that came for the socket's channels; 0 under an architecture without channels.
    pub arrived: u64,
    /// Frames of these that were discarded because the channel was full, before any protocol work.
    pub discarded: u64,
    /// Datagrams or frames handed to the program.
    pub received: u64,
    /// Datagrams that the program sent.
    pub sent: u64,
    /// Datagrams or frames dropped because the queue was full, after all protocol work.
    pub dropped: u64,
}

pub(super) fn processes(host: &Host) -> impl Iterator<Item = Process> {
    host.processes().map(|(id, name, bill)| Process {
        number: id.0,
        name: name.to_owned(),
        used: bill.used,
        charged: bill.charged,
    })
}

pub(super) fn sockets(host: &Host) -> impl Iterator<Item = Socket> {
    host.socket_reports().map(|report| Socket {
        number: report.id.0,
        kind: report.kind.into(),
        process: report.owner.map(|owner| owner.0),
        address: report.address,
        port: report.port,
        waiting: report.waiting,
        limit: report.limit,
        arrived: report.arrived,
        discarded: report.discarded,
        received: report.counters.received,
        sent: report.counters.sent,
        dropped: report.counters.dropped,
    })
}

impl Process {
    /// Returns the processes of `now`, each with what was added since `earlier`. A number is given again
    /// after its process has ended, so the name counts, too.
    pub(super) fn all_since(now: &[Self], earlier: &[Self]) -> Vec<Self> {
        let since = |now: &Self| {
            let old = earlier.iter().find(|old| (old.number, &old.name) == (now.number, &now.name));
            let (used, charged) = old.map_or_else(Default::default, |old| (old.used, old.charged));
            Self {
                used: now.used.saturating_sub(used),
                charged: now.charged.saturating_sub(charged),
                ..now.clone()
            }
        };
        now.iter().map(since).collect()
    }
}

impl Socket {
    /// Returns the sockets of `now`, each with what was added since `earlier`. A number is given again after
    /// its socket was closed, so the other properties count, too.
    pub(super) fn all_since(now: &[Self], earlier: &[Self]) -> Vec<Self> {
        let since = |now: &Self| match earlier.iter().find(|old| old.identity() == now.identity()) {
            Some(old) => now.since(old),
            None => now.clone(),
        };
        now.iter().map(since).collect()
    }

    fn identity(&self) -> impl PartialEq {
        (self.number, self.kind.clone(), self.process, self.address, self.port)
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            arrived: self.arrived.saturating_sub(earlier.arrived),
            discarded: self.discarded.saturating_sub(earlier.discarded),
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.saturating_sub(earlier.sent),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            ..self.clone()
        }
    }
}
