//! `evenkeel http --root`: serves the files of a directory, over evenkeel's sockets or the kernel's.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evenkeel::raw::device::DeviceSpec;
use evenkeel::raw::kernel::allow_descriptors;
use evenkeel::raw::privilege::CapabilitySet;
use evenkeel_apps::file_service::{self, FilesServed, Listen, News, OnHost, ServeError, Serving};
use evenkeel_apps::host_setup::{DeviceSetup, HostSetup, Occasion};
use evenkeel_apps::http::files::{AccessLog, Report, Settings, Tls, TlsError};
use evenkeel_apps::quantity::{count, percent, three_digits};
use schemars::JsonSchema;
use serde::Serialize;

use super::serve::TcpArguments;
use super::show::{self, Moved, Telling};
use crate::command::hosting::HostArguments;
use crate::command::{Place, account, capture};
use crate::failure::Failure;
use crate::receiving::Receiving;
use crate::{address, published, quantity, supervision, terminal};

/// The ports of HTTP and of HTTPS.
const PORTS: [u16; 2] = [80, 443];

/// Descriptors that are not for connections and their files.
const SPARE: u64 = 64;

/// The arguments of a server for the files of a directory.
#[derive(Debug, Args)]
pub(crate) struct FileArguments {
    /// Serve files below DIR, through a link to a network.
    #[arg(
        long, value_name = "DIR", value_hint = clap::ValueHint::DirPath,
        conflicts_with_all = ["port", "size", "work", "count", "clients"]
    )]
    pub(super) root: Option<PathBuf>,
    /// Listen here; repeat for more [default: 80, with TLS 443].
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = address::listen, requires = "root")]
    listen: Vec<Listen>,
    /// Speak TLS with the certificates in this PEM file. SIGHUP reads it again.
    #[arg(long, value_name = "FILE", requires_all = ["root", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Use the private key in this PEM file.
    #[arg(long, value_name = "FILE", requires_all = ["root", "tls_cert"])]
    tls_key: Option<PathBuf>,
    /// Append a line for each request to FILE, in the combined format.
    #[arg(long, value_name = "FILE", requires = "root")]
    access_log: Option<PathBuf>,
    /// List the names of a directory that has no index.html.
    #[arg(long, requires = "root")]
    listing: bool,
    /// Ignore FILE.br and FILE.gz, which otherwise stand for FILE.
    #[arg(long, requires = "root")]
    no_precompressed: bool,
    /// Use the kernel's sockets instead of a link, for comparison.
    #[arg(long, requires = "root", conflicts_with_all = OF_A_HOST)]
    kernel_sockets: bool,
    /// Close a connection whose request takes longer than TIME to arrive.
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = quantity::period, requires = "root"
    )]
    head_timeout: Duration,
    /// At the end, let answers in flight finish for TIME.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::time, requires = "root")]
    grace: Duration,
    /// Accept no connection while N are open.
    #[arg(long, value_name = "N", default_value = "10k", value_parser = quantity::count, requires = "root")]
    max_connections: u64,
}

/// The options of a host, which the kernel's sockets do not have.
const OF_A_HOST: [&str; 30] = [
    "link",
    "address",
    "kernel_address",
    "gateway",
    "mac",
    "dump",
    "capture",
    "connections",
    "backlog",
    "fast_open",
    "limit_rate",
    "congestion",
    "start",
    "restart",
    "pacing",
    "architecture",
    "device_work",
    "quota",
    "feedback",
    "feedback_marks",
    "feedback_timeout",
    "no_resume_on_space",
    "feedback_by",
    "discard_share",
    "cycle_limit",
    "tick_sampling",
    "real_time_tasks",
    "limit_interrupts",
    "clocked_interrupts",
    "aggregation_quota",
];

/// The report of a file server, as `--json` prints it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServeFiles")]
pub(crate) struct Output<'a> {
    #[serde(flatten)]
    place: &'a At,
    #[serde(flatten)]
    served: &'a FilesServed,
}

/// The place of a file server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct At {
    /// The link, as given on the command line; `kernel` for the kernel's sockets.
    link: String,
    /// The receive architecture of the host; `None` on the kernel's sockets.
    architecture: Option<&'static str>,
    /// The addresses of the host, with their prefix lengths; none on the kernel's sockets.
    addresses: Vec<String>,
    /// The directory whose files are served.
    root: String,
    /// Whether the server speaks TLS.
    tls: bool,
}

impl FileArguments {
    /// Serves files until the end, reports progress, and prints the results.
    pub(super) fn serve(
        &self,
        host: &HostArguments,
        streams: &TcpArguments,
        receiving: &Receiving,
        timeout: Duration,
    ) -> Result<(), Failure> {
        if !host.cores.is_empty() {
            return Err(Failure::Usage("--cores is for the made-up document, without --root".to_owned()));
        }
        let host_setup = (!self.kernel_sockets).then(|| {
            let mut setup = host.setup(receiving);
            streams.sending.apply(&mut setup.config);
            setup
        });
        let device = if self.kernel_sockets { None } else { Some(Self::device(host)?) };
        host.service.begin(CapabilitySet::empty())?;
        let serving = self.serving(timeout)?;
        self.allow_descriptors();
        let place = self.at(host, host_setup.as_ref(), serving.tls.is_some())?;
        let mut telling = Telling::new(host.stats_interval, host.json);
        let limits = published::limits(host.duration, telling.every(host.stats_interval))?;
        let print = |served: &FilesServed| print(&Output { place: &place, served }, host.json);
        let news = |news: News<'_>| match news {
            News::Started(addresses) => {
                supervision::say(&started(&place, host_setup.as_ref(), addresses));
            }
            News::Reloaded(Ok(())) => supervision::say("the certificate was read again"),
            News::Reloaded(Err(error)) => supervision::say(&format!("{error}; the former certificate stays")),
            News::Glance(Occasion::Request, served) => {
                // The error is ignored: if the reader has gone, the final report fails, too.
                let _ = print(served);
            }
            News::Glance(Occasion::Interval, served) => {
                telling.show(moved(served), |moved| line(served, moved), &connections(served));
            }
        };
        let served = match (host_setup.as_ref(), device) {
            (Some(setup), Some(device)) => {
                let on_host = OnHost {
                    listener: streams.listener(),
                    connections: streams.connections.unwrap_or(0),
                    capture: host.capture.clone(),
                };
                file_service::on_device(setup, &device, &on_host, serving, limits, news)
            }
            _ => file_service::on_kernel(serving, limits, news),
        };
        telling.clear();
        let served = served.map_err(failure)?;
        print(&served)?;
        judge(&served)
    }

    /// Returns the device of a host whose clients are other programs.
    fn device(host: &HostArguments) -> Result<DeviceSetup, Failure> {
        match host.place()? {
            Place::Device(at) if !matches!(at.device, DeviceSpec::Pcap(_)) => Ok(at),
            _ => {
                let link = host.link()?;
                let line = format!(
                    "--root serves the programs at the other end of tap:NAME or packet:NAME, and {link} has \
                     none that fetch files; or use --kernel-sockets"
                );
                Err(Failure::Usage(line))
            }
        }
    }

    fn serving(&self, timeout: Duration) -> Result<Serving, Failure> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(Arc::new(Tls::load(certificate, key).map_err(unusable)?)),
            _ => None,
        };
        let port = PORTS[usize::from(tls.is_some())];
        Ok(Serving {
            root: self.root.clone().unwrap_or_default(),
            settings: self.settings(timeout),
            listen: match &self.listen[..] {
                [] => vec![Listen { address: None, port }],
                all => all.to_vec(),
            },
            log: self.access_log.as_deref().map(log_to).transpose()?,
            tls,
        })
    }

    fn settings(&self, timeout: Duration) -> Settings {
        Settings {
            listing: self.listing,
            precompressed: !self.no_precompressed,
            head_timeout: self.head_timeout,
            idle_timeout: timeout,
            stall_timeout: timeout,
            grace: self.grace,
            connections_max: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
            ..Settings::default()
        }
    }

    /// Raises the limit of descriptors: an answer has a file, and a connection of the kernel a socket. With
    /// fewer, connections wait to be accepted.
    fn allow_descriptors(&self) {
        let each = 1 + u64::from(self.kernel_sockets);
        allow_descriptors(self.max_connections.saturating_mul(each).saturating_add(SPARE));
    }

    fn at(&self, host: &HostArguments, setup: Option<&HostSetup>, tls: bool) -> Result<At, Failure> {
        let addresses = setup.iter().flat_map(|setup| &setup.addresses).map(ToString::to_string).collect();
        Ok(At {
            link: if setup.is_some() { host.link()?.to_string() } else { "kernel".to_owned() },
            architecture: setup.map(|setup| setup.config.architecture.name()),
            addresses,
            root: self.root.as_deref().unwrap_or(Path::new("")).display().to_string(),
            tls,
        })
    }
}

fn log_to(path: &Path) -> Result<AccessLog, Failure> {
    if path.as_os_str() == "-" {
        return Ok(AccessLog::new(io::stdout()));
    }
    let file = File::options().append(true).create(true).open(path);
    let failed = |error| Failure::machine(format!("cannot write --access-log {}", path.display()), error);
    file.map(AccessLog::new).map_err(failed)
}

fn unusable(error: TlsError) -> Failure {
    match error {
        TlsError::File { .. } => Failure::Machine(error.to_string()),
        error => Failure::Usage(error.to_string()),
    }
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Setup(error) => error.into(),
        ServeError::Root { .. } => Failure::Machine(format!("--root: {error}")),
        ServeError::Listen { .. } => Failure::Machine(format!("{error}; see --listen")),
        error @ ServeError::Machine(_) => Failure::Machine(error.to_string()),
    }
}

/// Returns the line with the addresses of the server, as a client gives them.
fn started(place: &At, setup: Option<&HostSetup>, addresses: &[SocketAddr]) -> String {
    let scheme = if place.tls { "https" } else { "http" };
    let usual = PORTS[usize::from(place.tls)];
    let port = |port: u16| if port == usual { String::new() } else { format!(":{port}") };
    let url = |at: &SocketAddr| {
        let hosts: Vec<String> = match setup {
            _ if !at.ip().is_unspecified() => vec![at.ip().to_string()],
            Some(setup) => setup.addresses.iter().map(|cidr| cidr.address().to_string()).collect(),
            None => vec!["localhost".to_owned()],
        };
        let bracketed = |host: &String| if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let one = |host: &String| format!("{scheme}://{}{}/", bracketed(host), port(at.port()));
        hosts.iter().map(one).collect::<Vec<_>>()
    };
    let urls: Vec<String> = addresses.iter().flat_map(url).collect();
    let link = if setup.is_some() { &place.link } else { "the kernel's sockets" };
    format!("serving {} at {}, on {link}", place.root, urls.join(" and "))
}

fn print(output: &Output<'_>, json: bool) -> Result<(), Failure> {
    if json { terminal::print_json(output) } else { terminal::print(&describe(output.served)) }
}

/// Fails if the device or the capture failed, or if not every frame is accounted for.
fn judge(served: &FilesServed) -> Result<(), Failure> {
    let Some(host) = &served.host else { return Ok(()) };
    Failure::of_device(host.device_failed.as_ref())?;
    if !host.counters.conserved {
        return Err(Failure::unbalanced());
    }
    capture::judge(host.capture.as_ref())
}

fn moved(served: &FilesServed) -> Moved {
    Moved { seconds: served.seconds, bytes_in: 0, bytes_out: served.report.content_bytes }
}

fn connections(served: &FilesServed) -> String {
    served.host.iter().flat_map(|host| &host.connections).map(show::connection).collect()
}

/// Returns the progress line of a server.
fn line(served: &FilesServed, moved: &str) -> String {
    let Report { accepted, open, timed_out, requests, .. } = served.report;
    let mut parts = Vec::new();
    match &served.host {
        Some(host) => {
            parts.push(format!("{} dropped", count(host.counters.dropped())));
            parts.push(account::idle(&host.counters.cpu));
        }
        None => {
            parts.push(format!("{} % idle", percent(1.0 - served.cpu_seconds / served.seconds.max(1e-9))))
        }
    }
    let mut clients = format!("{} connections, {} open", count(accepted), count(open));
    for (times, what) in [(timed_out, "timed out"), (served.unfinished, "cut off at the end")] {
        if times > 0 {
            clients.push_str(&format!(", {} {what}", count(times)));
        }
    }
    clients.push_str(&format!(", {} requests answered", count(requests)));
    parts.extend([clients, moved.to_owned()]);
    format!("{:>8} s  {}", three_digits(served.seconds), parts.join("; "))
}

/// Returns the final report of a server as text.
fn describe(served: &FilesServed) -> String {
    let mut text = format!("{}\n", line(served, &show::moved(moved(served), Moved::default())));
    let statuses = served.report.statuses.iter().map(|(status, times)| format!("{} {status}", count(*times)));
    let statuses: Vec<String> = statuses.collect();
    if !statuses.is_empty() {
        text.push_str(&format!("  answers: {}\n", statuses.join(", ")));
    }
    let Some(host) = &served.host else { return text };
    text.push_str(&show::segments(&host.tcp));
    text.push_str(&account::drops(&host.counters));
    text.push_str(&account::interfaces(&host.counters));
    text.push_str(&connections(served));
    host.capture.iter().for_each(|captured| text.push_str(&capture::line(captured)));
    text
}
