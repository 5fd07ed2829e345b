//! The report of a file server, and its other news.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::captures::EmbeddedCaptured;
use crate::counters::HostCounters;
use crate::host_setup::Occasion;
use crate::http::files::{Report, TlsError};
use crate::stream::{ConnectionReport, TcpReport};

/// The results of a file server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FilesServed {
    /// The time that the server ran, in seconds.
    pub seconds: f64,
    /// The CPU time of the thread that served, in seconds. The protocol work of an evenkeel host is in it.
    pub cpu_seconds: f64,
    /// The counters of the server.
    #[serde(flatten)]
    pub report: Report,
    /// Connections that were ended before their answers were finished, because the grace was over.
    pub unfinished: u64,
    /// The results of the host; `None` on the kernel's sockets.
    #[serde(flatten)]
    pub host: Option<HostServed>,
}

/// The results of the host of a file server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct HostServed {
    /// The busiest connections just before the server ended, the busiest first. At most as many as requested.
    pub connections: Vec<ConnectionReport>,
    /// The counters of the host's TCP.
    pub tcp: TcpReport,
    /// The counters of the host.
    pub counters: HostCounters,
    /// The result of the capture, if there is one.
    pub capture: Option<EmbeddedCaptured>,
    /// The reason why the device delivers no more frames; `None` if it works.
    pub device_failed: Option<String>,
}

/// An event for the caller of a running file server.
#[derive(Debug)]
pub enum News<'a> {
    /// The server listens on these addresses and ports. The unspecified address stands for all of them.
    Started(&'a [SocketAddr]),
    /// The results so far, whenever the limits ask for a report.
    Glance(Occasion, &'a FilesServed),
    /// SIGHUP came, and the certificate was read again, or could not be used.
    Reloaded(Result<(), TlsError>),
}
