//! `evenkeel load`: sends requests to a web server, and measures response times.

mod own;
mod protocols;
mod show;
mod sources;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use evenkeel::raw::kernel::allow_descriptors;
use evenkeel_apps::host_setup::Limits;
use evenkeel_apps::load::{
    self, Curve, Day, Doubt, Effort, Failure as RequestFailure, Hosts, Load, Measured, News, OnHost,
    OnKernel, Plan, Protocols, RefusedTls, Report, Request, Share, Spacing, Target, Tasks,
};
use evenkeel_apps::quantity::per_s;
use evenkeel_apps::text::read_text;
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::receiving::Receiving;
use crate::terminal::Progress;
use crate::{published, quantity, terminal};
use sources::Sources;

/// Load an HTTP server with requests at planned times, and measure response times.
///
/// A closed loop (--closed) sends the next request only after an answer. This command does not wait for a
/// stalled server, as users do not. A response time begins when its request was due, so it includes the wait
/// (no coordinated omission).
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Request this URL: `http[s]://HOST[:PORT][/PATH]`.
    #[arg(value_name = "URL", value_hint = clap::ValueHint::Url)]
    url: Target,
    /// Send RPS requests a second, such as 0.5, 1500 or 10k; with --day, on average [default: 1k; with --day
    /// the day's own rate].
    #[arg(long, value_name = "RPS", value_parser = quantity::frequency)]
    rate: Option<f64>,
    /// Space the requests: poisson (at random, as those of many users) or constant.
    #[arg(long, value_name = "KIND", default_value = "poisson")]
    arrivals: Spacing,
    /// Send the next request right after each answer, for comparison.
    #[arg(long, conflicts_with_all = ["rate", "arrivals", "day"])]
    closed: bool,
    /// Measure for TIME [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    duration: Option<Duration>,
    /// Send requests for TIME before the measurement; they do not count.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::time)]
    warm_up: Duration,
    /// Use at most N connections at a time; with --closed, exactly N [default: 1000; with --closed 64].
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    connections: Option<u64>,
    /// Keep connections for further requests; this is the default.
    #[arg(long, conflicts_with = "close")]
    keep_alive: bool,
    /// Open a new connection for each request.
    #[arg(long)]
    close: bool,
    /// Close a connection after N requests [default: when the server does].
    #[arg(long, value_name = "N", value_parser = quantity::count, conflicts_with = "close")]
    requests_per_connection: Option<u64>,
    /// Give up a request TIME after it was sent; while it waits for a connection, TIME after it was due.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::period)]
    timeout: Duration,
    /// Give up a connection that is not established within TIME [default: that of --timeout].
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    connect_timeout: Option<Duration>,
    /// Also keep N idle connections open; they are opened before the run begins.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    cold: Option<u64>,
    /// Send RPS requests a second on all cold connections together.
    #[arg(long, value_name = "RPS", value_parser = quantity::frequency, requires = "cold")]
    cold_rate: Option<f64>,
    /// Connect from this address, or from these in turn: each has about 28 000 ports.
    #[arg(long, value_name = "ADDRESS[-ADDRESS]", conflicts_with = "on")]
    bind: Option<Sources>,
    #[command(flatten)]
    protocols: protocols::Choice,
    /// Generate the load on N threads, each with its share of requests and connections.
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::count, conflicts_with = "on")]
    threads: u64,
    #[command(flatten)]
    own: own::Own,
    /// Play a whole day: from a file of times and rates, or synthetic.
    #[arg(long, value_name = "FILE")]
    day: Option<PathBuf>,
    /// Play the day N times as fast [default: 288, five minutes].
    #[arg(
        long, value_name = "N", value_parser = quantity::frequency, requires = "day",
        conflicts_with = "duration"
    )]
    compress: Option<f64>,
    /// Scale the day so that its busiest time has RPS requests a second [default: in proportion to the
    /// average].
    #[arg(long, value_name = "RPS", value_parser = quantity::frequency, requires = "day")]
    peak: Option<f64>,
    /// Report figures for parts of the run of length TIME [default: with --json 1s; with --day one of its
    /// hours].
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    interval: Option<Duration>,
    /// Add a header field to the request; repeat for more.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Use METHOD for the request.
    #[arg(long, value_name = "METHOD", default_value = "GET", value_parser = load::method)]
    method: String,
    /// Send this content with the request: text, or @FILE.
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Write the distribution of response times in HdrHistogram's text format, in milliseconds.
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
    /// Seed everything random with SEED.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    receiving: Receiving,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group {
            heading: "Load",
            first: &["rate", "closed", "duration"],
            others: &["arrivals", "warm_up", "seed", "day", "compress", "peak"],
        },
        Group {
            heading: "Connections",
            first: &["connections", "close"],
            others: &[
                "keep_alive",
                "requests_per_connection",
                "timeout",
                "connect_timeout",
                "cold",
                "cold_rate",
                "bind",
                "threads",
            ],
        },
        Group { heading: "Protocols", first: &["http2"], others: &["streams", "cacert", "insecure"] },
        Group { heading: "Request", first: &[], others: &["headers", "method", "body"] },
        Group {
            heading: "On an evenkeel host",
            first: &["on"],
            others: &["from", "kernel_address", "gateway", "mac", "size"],
        },
        Group { heading: "Output", first: &["json"], others: &["interval", "histogram"] },
    ],
    sections: &[
        Section {
            heading: "Response times",
            blocks: &[Block::Text(
                "A due request takes a kept connection that is idle, or opens another one, up to \
                 --connections; beyond that it waits. Its response time begins when it was due and ends with \
                 the answer. The report also gives the time since it was sent. A request that was given up \
                 counts with its waiting time. A request that was refused, reset or answered invalidly does \
                 not count in the response times.",
            )],
        },
        Section {
            heading: "Addresses",
            blocks: &[Block::Text(
                "A name may have several addresses. Each is tried 250 ms after the previous one, or when \
                 that has failed, in the resolver's order with the families in turn (RFC 6724, RFC 8305). \
                 All connections go to the first address that accepts one, which the report names. If none \
                 does, the command ends.",
            )],
        },
        Section {
            heading: "Protocols",
            blocks: &[Block::Text(
                "An https URL is loaded through TLS 1.2 or 1.3, with a full handshake on each connection, as \
                 that of a new user. Its certificate must be from an issuer that the system trusts, or from \
                 one in the file of --cacert. HTTP/2 has many requests at a time on a connection: TLS agrees \
                 on it (ALPN), and a server without TLS must expect it. On a cable there is HTTP/1.1 without \
                 TLS only.",
            )],
        },
        Section {
            heading: "Threads",
            blocks: &[Block::Text(
                "One thread makes some ten thousands of requests a second. When it uses its processor, the \
                 report says so, and --threads shares the load among more of them. The requests are due at \
                 the same times for any number of threads.",
            )],
        },
        Section {
            heading: "Cold connections and days",
            blocks: &[Block::Text(
                "Cold connections are open and idle, as most connections of a busy server. --cold-rate sends \
                 requests on randomly chosen ones; their answers are not in the response times. A day \
                 follows a file with lines of a time and a rate, such as `09:30 55`, or (synthetic) the live \
                 trials of Banga and Mogul (1998): on average 30.1 requests/s, at noon 58.4.",
            )],
        },
    ],
    examples: &[
        Example {
            says: "Send 10 000 requests a second to a web server for half a minute.",
            command: "evenkeel load http://127.0.0.1:8080/ --rate 10k --duration 30s",
        },
        Example {
            says: "Open a connection for each request, with 750 idle connections besides.",
            command: "evenkeel load http://127.0.0.1:8080/ --rate 2k --close --cold 750",
        },
        Example {
            says: "Load a server through TLS with HTTP/2, on two threads, and trust its own certificate.",
            command: "evenkeel load https://127.0.0.1:8443/ --http2 --cacert cert.pem --threads 2",
        },
        Example {
            says: "Load an evenkeel host in memory, which serves one document.",
            command: "evenkeel load http://10.77.0.1/ --on cable --rate 20k",
        },
        Example {
            says: "As root, load a server of this machine from a host with its own TCP.",
            command: "evenkeel load http://10.77.0.1:8080/ --on tap:keel0 \\\n    \
                      --kernel-address 10.77.0.1/24 --rate 5k",
        },
    ],
    exit_status: &[
        ("0", "A request was answered, also if a signal ended the command."),
        ("1", "None was answered, or a file could not be written."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: texts::SIGNALS,
    files: &[texts::TUN_FILE],
    see_also: &["http", "blast", "help receiving", "curl(1)"],
};

/// The report that `load --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Load")]
pub(crate) struct Output<'a> {
    /// The URL.
    url: String,
    /// The server's address in use; the first of its addresses if none accepted a connection.
    to: String,
    /// The place of the generator: `kernel`, or the link of `--on`.
    on: String,
    /// The mode of the generator: `open` or `closed`.
    mode: &'static str,
    /// The version of HTTP: `1.1` or `2`.
    http: &'static str,
    /// The spacing of the requests in an open loop: `poisson` or `constant`; `None` in a closed loop.
    arrivals: Option<&'static str>,
    /// The addresses that were tried before and failed.
    unreached: Vec<Unreached>,
    /// The day that was played; `None` without `--day`.
    day: Option<DayOutput>,
    /// The reasons why the figures may be the generator's and not the server's: `busy`, `disturbed`, `late`
    /// or `not_offered`.
    doubts: Vec<&'static str>,
    #[serde(flatten)]
    report: &'a Report,
    #[serde(flatten)]
    hosts: Option<&'a Hosts>,
}

/// An address of the server to which no connection could be made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Unreached {
    /// The address and port.
    address: String,
    /// The failure, by its name among the failures of requests.
    failed: &'static str,
}

impl Unreached {
    fn list(all: &[Self]) -> String {
        let each = |Self { address, failed }: &Self| format!("{address}, {}", failed.replace('_', " "));
        all.iter().map(each).collect::<Vec<_>>().join("; ")
    }
}

/// The day that was played.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct DayOutput {
    /// The factor by which the day was played faster.
    compress: f64,
    /// The mean rate, in requests a second.
    mean_rps: f64,
    /// The rate of the busiest part, in requests a second on average.
    peak_rps: f64,
}

/// Default numbers of connections at a time: in an open loop, and in a closed loop.
const CONNECTIONS: [u64; 2] = [1_000, 64];
const RATE: f64 = 1_000.0;
const DURATION: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_hours(24);
const COMPRESS: f64 = 288.0;
/// The interval between updates of the progress line on a terminal.
const OFTEN: Duration = Duration::from_millis(250);
/// Descriptors that are not for connections.
const SPARE: u64 = 64;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let protocols = arguments.protocols.checked(&arguments.url, arguments)?;
    let (curve, day) = arguments.curve()?;
    let plan = arguments.plan(curve);
    let request = arguments.request()?;
    let addresses = arguments.addresses()?;
    let first = addresses[0];
    arguments.check_room(&plan, first)?;
    let histogram = arguments.histogram.as_deref().map(|path| create(path).map(|file| (path, file)));
    let histogram = histogram.transpose()?;
    let mut progress = if arguments.json { Progress::silent() } else { Progress::new() };
    let every = progress.is_active().then_some(OFTEN);
    let limits = published::limits(None, every)?;
    let watch = |news: News<'_>| match news {
        News::Glance(glance) => progress.show(&show::glance(glance)),
        News::Report { measured, effort, hosts } => {
            progress.clear();
            // The error is ignored: if the reader has gone, the final report fails, too.
            let _ = arguments.print(&Outcome::new(measured, effort, hosts, &addresses), day);
        }
    };
    let (measured, effort, hosts) =
        arguments.generate(&plan, &request, &addresses, protocols.as_ref(), limits, watch)?;
    progress.clear();
    let outcome = Outcome::new(&measured, effort, hosts.as_ref(), &addresses);
    arguments.print(&outcome, day)?;
    let Outcome { report, to, unreached, .. } = outcome;
    if let Some((path, file)) = histogram {
        write_histogram(file, &measured).map_err(|e| cannot_write(path, &e))?;
    }
    hosts.as_ref().map_or(Ok(()), own::judge)?;
    let refused = measured.refused_tls.as_ref();
    to.map_or_else(
        || Err(unconnected(&arguments.url, &unreached, refused)),
        |to| judge(&report, to, arguments.protocols.server()),
    )
}

/// The results of a load, so far or at its end.
struct Outcome<'a> {
    report: Report,
    hosts: Option<&'a Hosts>,
    /// The server: the first of its addresses, and the address in use.
    first: SocketAddr,
    to: Option<SocketAddr>,
    unreached: Vec<Unreached>,
}

impl<'a> Outcome<'a> {
    fn new(measured: &Measured, effort: Effort, hosts: Option<&'a Hosts>, addresses: &[SocketAddr]) -> Self {
        let to = measured.address.and_then(|at| addresses.get(at)).copied();
        let unreached = unreached(measured, addresses);
        Self { report: Report::new(measured, effort), hosts, first: addresses[0], to, unreached }
    }
}

/// Returns the addresses to which no connection could be made, each with the failure.
fn unreached(measured: &Measured, addresses: &[SocketAddr]) -> Vec<Unreached> {
    let unreached = |(at, failure): &(usize, RequestFailure)| {
        Some(Unreached { address: addresses.get(*at)?.to_string(), failed: failure.name() })
    };
    measured.unreached.iter().filter_map(unreached).collect()
}

/// Returns the error that no connection to `url` was established.
fn unconnected(url: &Target, unreached: &[Unreached], refused: Option<&RefusedTls>) -> Failure {
    let tried = Unreached::list(unreached);
    Failure::Machine(match refused {
        _ if unreached.is_empty() => format!("no connection to {url} so far"),
        Some(refused) => format!("no connection to {url}: {tried}: {}", protocols::explained(refused)),
        None => format!("no connection to {url}: {tried}: is an HTTP server listening there?"),
    })
}

/// Returns the addresses of a server in the order of attempts: the resolver's order, but with the families in
/// turn (RFC 8305, 4).
fn in_turn(all: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut resolved: Vec<SocketAddr> = Vec::new();
    for address in all {
        if !resolved.contains(&address) {
            resolved.push(address);
        }
    }
    let first_is_v4 = resolved.first().is_some_and(SocketAddr::is_ipv4);
    let (one, other): (Vec<_>, Vec<_>) = resolved.iter().partition(|at| at.is_ipv4() == first_is_v4);
    let longer = one.len().max(other.len());
    (0..longer).flat_map(|n| one.get(n).into_iter().chain(other.get(n)).copied()).collect()
}

/// Fails if requests were due but none was answered.
fn judge(report: &Report, to: SocketAddr, server: &str) -> Result<(), Failure> {
    let counts = &report.counts;
    if counts.statuses.all() > 0 || counts.due == 0 {
        return Ok(());
    }
    let why = RequestFailure::ALL.into_iter().max_by_key(|failure| counts.failed.of(*failure));
    let why = why.map_or("", RequestFailure::words);
    let line = format!("no request was answered ({why}): is {server} listening at {to}?");
    Err(Failure::Machine(line))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|e| cannot_write(path, &e))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::machine(format!("cannot write {} (choose another with --histogram)", path.display()), error)
}

fn write_histogram(file: File, measured: &Measured) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    measured.response().write_percentiles(&mut file)?;
    file.flush()
}

impl Arguments {
    fn print(&self, outcome: &Outcome<'_>, day: Option<DayOutput>) -> Result<(), Failure> {
        let Outcome { report, hosts, first, to, unreached } = outcome;
        if self.json {
            let output = self.output(report, to.unwrap_or(*first), unreached.clone(), day);
            return terminal::print_json(&Output { hosts: *hosts, ..output });
        }
        let Some(to) = to else { return Ok(()) };
        let rows = day.is_some() || self.interval.is_some();
        let headline = self.headline(*to, unreached, day);
        terminal::print(&show::report(
            &headline,
            report,
            rows,
            day.map(|d| d.compress),
            !self.own.is_chosen(),
        ))
    }

    /// Returns the rate over the measured time, and the day that it plays, if any.
    fn curve(&self) -> Result<(Option<Curve>, Option<DayOutput>), Failure> {
        if self.closed {
            return Ok((None, None));
        }
        let Some(named) = &self.day else {
            let rate = self.rate.unwrap_or(RATE);
            return Ok((Some(Curve::flat(rate, self.duration.unwrap_or(DURATION))), None));
        };
        let day = if named.as_os_str() == "synthetic" { Day::synthetic() } else { read_day(named)? };
        let mean = self.rate.unwrap_or_else(|| day.mean());
        let day = day.scaled(mean, self.peak).map_err(|e| Failure::Usage(format!("--peak: {e}")))?;
        let length = self.day_length()?;
        let compress = DAY.as_secs_f64() / length.as_secs_f64();
        let output = DayOutput { compress, mean_rps: day.mean(), peak_rps: day.peak() };
        Ok((Some(day.within(length, self.seed)), Some(output)))
    }

    /// Returns the time that a compressed day takes.
    ///
    /// # Errors
    /// `--compress` makes the day too short.
    fn day_length(&self) -> Result<Duration, Failure> {
        if let Some(length) = self.duration {
            return Ok(length);
        }
        let seconds = DAY.as_secs_f64() / self.compress.unwrap_or(COMPRESS);
        let length = Duration::try_from_secs_f64(seconds).ok().filter(|length| *length >= SHORTEST_DAY);
        length.ok_or_else(|| Failure::Usage("--compress: a day takes a second at least".to_owned()))
    }

    /// Generates the load with the client that speaks the wanted protocols, on the wanted TCP.
    fn generate(
        &self,
        plan: &Plan,
        request: &Request,
        addresses: &[SocketAddr],
        protocols: Option<&Protocols>,
        limits: Limits,
        watch: impl FnMut(News<'_>),
    ) -> Result<(Measured, Effort, Option<Hosts>), Failure> {
        self.bind.as_ref().map_or(Ok(()), Sources::check)?;
        let at = || OnKernel {
            to: addresses.to_vec(),
            from: self.bind.as_ref().map(Sources::addresses).unwrap_or_default(),
        };
        let threads = number(self.threads);
        let with_hosts = |OnHost { measured, effort, hosts }| (measured, effort, Some(hosts));
        let without = |(measured, effort)| (measured, effort, None);
        if let Some(protocols) = protocols {
            let tasks = Tasks { plan, request, protocols, threads };
            if self.own.is_chosen() {
                return self.own.run_tasks(addresses, &self.receiving, &tasks, limits, watch).map(with_hosts);
            }
            return tasks.run_on_kernel(at(), limits, watch).map(without).map_err(protocols::failure);
        }
        if self.own.is_chosen() {
            let generator = (plan.clone(), request.clone());
            return self.own.run(addresses, &self.receiving, generator, limits, watch).map(with_hosts);
        }
        let done = load::run(&at(), plan, request, threads, limits, watch);
        done.map(without).map_err(|e| Failure::machine("cannot make connections", e))
    }

    fn plan(&self, curve: Option<Curve>) -> Plan {
        let length = curve.as_ref().map_or_else(|| self.duration.unwrap_or(DURATION), Curve::length);
        // The hour is rounded up, or an empty one would follow the last hour.
        let hour = length / 24 + Duration::from_nanos(1);
        let interval = if self.day.is_some() { hour } else { Duration::from_secs(1) };
        Plan {
            load: curve.map_or(Load::Closed, |curve| Load::Open { curve, spacing: self.arrivals }),
            length,
            warm_up: self.warm_up,
            connections: number(self.connections.unwrap_or(CONNECTIONS[usize::from(self.closed)])),
            requests_per_connection: if self.close { Some(1) } else { self.requests_per_connection },
            timeout: self.timeout,
            connect_timeout: self.connect_timeout.unwrap_or(self.timeout),
            cold: number(self.cold.unwrap_or(0)),
            cold_rate: self.cold_rate.unwrap_or(0.0),
            interval: self.interval.unwrap_or(interval),
            seed: self.seed,
            share: Share::WHOLE,
        }
    }

    fn request(&self) -> Result<Request, Failure> {
        let body = match &self.body {
            None => Vec::new(),
            Some(text) => match text.strip_prefix('@') {
                None => text.clone().into_bytes(),
                Some(file) => std::fs::read(file)
                    .map_err(|e| Failure::machine(format!("--body: cannot read {file}"), e))?,
            },
        };
        Request::new(&self.url, &self.method, &self.headers, &body).map_err(Failure::Usage)
    }

    /// Returns all addresses of the server in the family that we connect from, at least one.
    fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let host = self.url.resolvable();
        let found = (host.as_str(), self.url.port).to_socket_addrs();
        let found = found.map_err(|e| Failure::machine(format!("cannot find `{host}`"), e))?;
        let bound = self.bind.as_ref().map(|sources| ("--bind", sources.to_string(), sources.first()));
        let ours = bound.or_else(|| self.own.from().map(|from| ("--from", from.to_string(), from)));
        let suits = |at: &SocketAddr| ours.as_ref().is_none_or(|(_, _, our)| our.is_ipv4() == at.is_ipv4());
        let addresses = in_turn(found.filter(suits));
        match (addresses.is_empty(), ours) {
            (false, _) => Ok(addresses),
            (true, None) => Err(Failure::Machine(format!("`{host}` has no address"))),
            (true, Some((option, given, _))) => Err(Failure::Usage(format!(
                "{option} {given} and `{host}` are of different families: give an address of the other one"
            ))),
        }
    }

    /// Checks that the process has enough descriptors and ports for the connections of the plan.
    fn check_room(&self, plan: &Plan, to: SocketAddr) -> Result<(), Failure> {
        if self.own.is_chosen() {
            return Ok(());
        }
        let (hot, cold) = (plan.connections as u64, plan.cold as u64);
        if self.threads > hot {
            return Err(Failure::Usage(format!(
                "--threads: each of {} threads needs a connection, and there are {hot}",
                self.threads
            )));
        }
        // As many connections again may be closing.
        let wanted = hot.saturating_mul(2).saturating_add(cold).saturating_add(SPARE);
        let allowed = allow_descriptors(wanted);
        if allowed < wanted {
            return Err(Failure::Machine(format!(
                "this process may have {allowed} descriptors, and {wanted} are wanted: raise the limit \
                 (ulimit -n {wanted}), or ask for fewer --connections or --cold"
            )));
        }
        let sources = self.bind.as_ref().map_or(1, |sources| sources.addresses().len() as u64);
        let (ports, all) = (sources::ports_per_address(), cold + if self.closed { hot } else { 0 });
        if all > ports.saturating_mul(sources) {
            let first = self.bind.as_ref().map_or_else(|| example_source(to), |s| s.first().to_string());
            return Err(Failure::Usage(format!(
                "{all} connections need {} source addresses, of {ports} ports each: --bind \
                 {first}-ADDRESS, with addresses that this machine has",
                all.div_ceil(ports.max(1))
            )));
        }
        Ok(())
    }

    fn headline(&self, to: SocketAddr, unreached: &[Unreached], day: Option<DayOutput>) -> String {
        let not_at = if unreached.is_empty() {
            String::new()
        } else {
            format!(" (not at {})", Unreached::list(unreached))
        };
        format!("{} at {to}{not_at}: {}", self.url, self.kind(day))
    }

    /// Returns a description of the load: closed loop, open loop or a day, with the spacing of requests.
    fn kind(&self, day: Option<DayOutput>) -> String {
        let spacing = match self.arrivals {
            Spacing::Poisson => "at random",
            Spacing::Constant => "at equal distances",
        };
        match day {
            _ if self.closed => "closed loop".to_owned(),
            None => format!("open loop, {spacing}"),
            Some(DayOutput { compress, mean_rps, peak_rps }) => format!(
                "a day {compress:.0} times as fast, {spacing}, {} on average and {} at its busiest",
                per_s(mean_rps),
                per_s(peak_rps)
            ),
        }
    }

    fn output<'a>(
        &self,
        report: &'a Report,
        to: SocketAddr,
        unreached: Vec<Unreached>,
        day: Option<DayOutput>,
    ) -> Output<'a> {
        let spacing = match self.arrivals {
            Spacing::Poisson => "poisson",
            Spacing::Constant => "constant",
        };
        Output {
            url: self.url.to_string(),
            to: to.to_string(),
            on: self.own.name(),
            mode: if self.closed { "closed" } else { "open" },
            http: self.protocols.http(),
            arrivals: (!self.closed).then_some(spacing),
            unreached,
            day,
            doubts: report.doubts().into_iter().map(Doubt::name).collect(),
            report,
            hosts: None,
        }
    }
}

const SHORTEST_DAY: Duration = Duration::from_secs(1);

fn read_day(path: &Path) -> Result<Day, Failure> {
    let text = read_text(path).map_err(|e| {
        Failure::machine(format!("--day: cannot read {} (or say synthetic)", path.display()), e)
    })?;
    Day::parse(&text).map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))
}

fn number(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns an example of a local address from which the server at `to` can be reached.
fn example_source(to: SocketAddr) -> String {
    match to.ip() {
        IpAddr::V4(address) if address.is_loopback() => "127.0.0.2".to_owned(),
        _ => "ADDRESS".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let at = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let resolved = at(&["[fd77::1]:80", "[fd77::2]:80", "[fd77::1]:80", "10.0.0.1:80", "10.0.0.2:80"]);
        let ordered = at(&["[fd77::1]:80", "10.0.0.1:80", "[fd77::2]:80", "10.0.0.2:80"]);
        assert_eq!(in_turn(resolved), ordered);
        assert_eq!(in_turn(at(&["10.0.0.1:80", "10.0.0.2:80"])), at(&["10.0.0.1:80", "10.0.0.2:80"]));
        assert_eq!(in_turn([]), []);
    }
}
