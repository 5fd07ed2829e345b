//! The file server as the service of a process: over sockets of an evenkeel host on a device, or over the
//! kernel's.
//!
//! | subject | file |
//! | --- | --- |
//! | what is served, and the report | `mod.rs` |
//! | listening on either kind of sockets | `listeners.rs` |
//! | the run: the server, and the events of the process | `run.rs`, `events.rs` |
//! | the host, its capture and its counters | `host.rs` |

mod events;
mod host;
mod listeners;
mod run;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::Clock;
use schemars::JsonSchema;
use serde::Serialize;

use crate::captures::{Embedded, EmbeddedCaptured};
use crate::counters::HostCounters;
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Occasion, SetupError};
use crate::http::files::{AccessLog, Report, Server, Settings, Tls, TlsError};
use crate::stream::{ConnectionReport, TcpReport};
use host::Hosting;

/// The files to serve, and the way to serve them.
#[derive(Debug)]
pub struct Serving {
    /// The directory whose files are served.
    pub root: PathBuf,
    /// The settings of the server.
    pub settings: Settings,
    /// The addresses and ports to listen on.
    pub listen: Vec<Listen>,
    /// The log of requests, if there is one.
    pub log: Option<AccessLog>,
    /// TLS, if the server speaks it. SIGHUP then reloads the certificate, and does not end the process.
    pub tls: Option<Arc<Tls>>,
}

/// An address and port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address; `None` for all addresses, of both families.
    pub address: Option<IpAddr>,
    /// The port; 0 for a free one.
    pub port: u16,
}

/// Settings of a service on an evenkeel host that the kernel's sockets do not have.
#[derive(Debug, Clone, Default)]
pub struct OnHost {
    /// The queues of listeners.
    pub listener: ListenerConfig,
    /// The most connections in the report.
    pub connections: usize,
    /// A capture of the frames that the host receives and sends.
    pub capture: Option<Embedded>,
}

/// The results of a file server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FilesServed {
    /// The time that the server ran, in seconds.
    pub seconds: f64,
    /// The CPU time of the thread that served, in seconds. The protocol work of an evenkeel host is in it.
    pub cpu_seconds: f64,
    /// What the server has done.
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

/// The reason why files cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The directory cannot be opened.
    #[error("cannot open `{}`: {source}", root.display())]
    Root {
        /// The directory.
        root: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An address and port cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// The address and port.
        at: Listen,
        /// The reason.
        source: io::Error,
    },
    /// The machine failed.
    #[error("cannot serve: {0}")]
    Machine(#[from] io::Error),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            None => write!(f, "port {}", self.port),
            Some(address) => SocketAddr::new(address, self.port).fmt(f),
        }
    }
}

/// Serves files over sockets of a host on a device, until a limit is reached, the device ends, or the process
/// is asked to end.
///
/// The calling thread serves, and does the protocol work.
///
/// # Errors
/// [`ServeError`]
pub fn on_device(
    setup: &HostSetup,
    at: &DeviceSetup,
    on_host: &OnHost,
    serving: Serving,
    limits: Limits,
    news: impl FnMut(News<'_>),
) -> Result<FilesServed, ServeError> {
    let process = events::Process::prepare(&serving)?;
    let server = open(&serving)?;
    let (engine, attached) = setup.unstopped_on_device(at, Clock::start())?;
    let mut hosting = Hosting::new(engine, &attached, on_host)?;
    hosting.publish(limits)?;
    let runtime = run::runtime()?;
    let served = runtime.block_on(async {
        let listeners = listeners::on_net(hosting.net(), &serving.listen, &on_host.listener).await?;
        run::Run { serving, server, process, limits, hosting: Some(&mut hosting), news }.run(listeners).await
    })?;
    drop(runtime);
    let served = hosting.finish(served)?;
    attached.close()?;
    Ok(served)
}

/// Serves files over the kernel's sockets, until a limit is reached or the process is asked to end.
///
/// # Errors
/// [`ServeError`]
pub fn on_kernel(
    serving: Serving,
    limits: Limits,
    news: impl FnMut(News<'_>),
) -> Result<FilesServed, ServeError> {
    let process = events::Process::prepare(&serving)?;
    let server = open(&serving)?;
    run::runtime()?.block_on(async {
        let listeners = listeners::on_kernel(&serving.listen)?;
        run::Run { serving, server, process, limits, hosting: None, news }.run(listeners).await
    })
}

fn open(serving: &Serving) -> Result<Server, ServeError> {
    let Serving { root, settings, .. } = serving;
    run::server(root, settings).map_err(|source| ServeError::Root { root: root.clone(), source })
}
