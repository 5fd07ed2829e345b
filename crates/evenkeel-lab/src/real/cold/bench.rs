//! A measured run: a server on one core, its client on another.
//!
//! ```text
//!   cable: client - our host =cable= our host - server
//!   tap:   client - the kernel =TAP= our host - server
//!   linux: client - the kernel =loopback= the kernel - server
//! ```
//!
//! The kernel processes frames from the loopback, or from a TAP, on the core that sent them. Over the
//! loopback each core works for the other, and over a TAP our host's core works for the client. So the rates
//! of answers are not comparable between them, but the remaining shares are.

use std::io;
use std::net::{IpAddr, Ipv4Addr as StdIpv4Addr, SocketAddr};
use std::sync::{PoisonError, mpsc};

use evenkeel::Engine;
use evenkeel::raw::cable::End;
use evenkeel::raw::device::{Tap, TapOptions};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::kernel::WaitBy;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::socket::{Allocation, Select};
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::IpCidr;
use evenkeel_apps::host_setup::Limits;
use evenkeel_apps::load::{self, Load, News, OnKernel, Plan, Report, Share};
use evenkeel_apps::measure::{CoreTime, Generator, Sending, drive, opposite};

use super::super::asking::{
    self, CLIENT, ClientSaw, HTTP, LOOK, RING_PKTS, SERVER, await_server, lay, record_glance, request,
};
use super::super::{Options, Place};
use super::httpd::Httpd;
use super::kernel;
use super::ours::{self, Way};

/// Connections with a request all the time, one connection for each document.
pub(super) const HOT: usize = 50;
/// The bytes of the paper's document.
const DOCUMENT: usize = 1_259;
/// The work of the server for each request: enough to saturate the server's core, and not the client's.
pub(in super::super) const WORK: Duration = Duration::from_micros(50);

const TAP: &str = "ekcold";
/// The number of the client's addresses on the loopback: each has all ports.
const SOURCES: u8 = 8;

const WARM_UP: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(5);
/// The time in TIME_WAIT, short enough for the next connection with the same port.
const TIME_WAIT: Duration = Duration::from_millis(500);
/// The time until the server listens.
const SETTLE: Duration = Duration::from_millis(5);
/// The implementation of the server's sockets, and its calls for waiting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Server {
    /// A program of our host.
    Ours(Select, Allocation, Way),
    /// The kernel's sockets.
    Kernel(WaitBy),
}

/// The measurements of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Answers a second.
    pub(super) answered: f64,
    /// Shares of the window in which server and client had work.
    pub(super) busy: [f64; 2],
    /// The share of the window in which both had their cores when they needed them.
    pub(super) core_share: f64,
    /// Cold connections at the beginning or at the end, whichever are fewer.
    pub(super) cold: usize,
    /// The most connections of the server at a time.
    pub(super) most: usize,
    /// The number of answers that the server has given, and the number of those that the client has
    /// counted.
    pub(super) answers: [u64; 2],
    pub(super) failed: u64,
    pub(super) response_us: f64,
}

/// Measures one server with `cold` cold connections.
pub(super) fn run(server: Server, cold: usize, options: &Options) -> io::Result<Measured> {
    let (server, client) = match server {
        Server::Ours(select, allocation, way) => {
            let config = Config { select, allocation, ..Config::of(Architecture::Polled) };
            if options.on == Place::Tap {
                on_tap(config, way, cold, options)?
            } else {
                on_cable(config, way, cold, options)?
            }
        }
        Server::Kernel(by) => on_loopback(by, cold, options)?,
    };
    if Stop::on_signals()?.requested() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
    }
    let report = client.report;
    let counts = report.cold.unwrap_or_default();
    Ok(Measured {
        answered: report.answered_rps,
        busy: [server.busy, (report.generator.cpu_share + report.generator.run_delay_share).min(1.0)],
        core_share: server.core_share.min(client.core_share),
        cold: counts.at_start.min(counts.at_end),
        most: server.most,
        answers: [server.answered, report.counts.statuses.successful],
        failed: report.counts.failed.all(),
        response_us: report.response_us.p50.unwrap_or(f64::NAN),
    })
}

struct ServerSaw {
    busy: f64,
    core_share: f64,
    most: usize,
    answered: u64,
}

fn plan(cold: usize, options: &Options) -> Plan {
    Plan {
        load: Load::Closed,
        length: options.window,
        warm_up: WARM_UP,
        connections: HOT,
        requests_per_connection: Some(1),
        timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        cold,
        cold_rate: 0.0,
        interval: options.window,
        seed: options.seed,
        share: Share::WHOLE,
    }
}

fn on_cable(config: Config, way: Way, cold: usize, options: &Options) -> io::Result<(ServerSaw, ClientSaw)> {
    let (outside, inside) = lay(RING_PKTS);
    let clock = Clock::start();
    let (server, client) = opposite(
        |generator| serve(config, way, Some(inside), clock, generator),
        |sending, server| asking::from_host(plan(cold, options), outside, clock, (sending, server)),
    )?;
    Ok((server?, client?))
}

fn on_tap(config: Config, way: Way, cold: usize, options: &Options) -> io::Result<(ServerSaw, ClientSaw)> {
    let clock = Clock::start();
    let to = (StdIpv4Addr::from(SERVER.octets()), HTTP).into();
    let (server, client) = opposite(
        |generator| serve(config, way, None, clock, generator),
        |sending, server| {
            await_server(clock, server);
            ask_from_kernel(OnKernel { to: vec![to], from: Vec::new() }, cold, options, &sending)
        },
    )?;
    // The server's error is the cause of the client's failure, too.
    Ok((server?, client?))
}

fn on_loopback(by: WaitBy, cold: usize, options: &Options) -> io::Result<(ServerSaw, ClientSaw)> {
    let (tell_address, address) = mpsc::channel();
    let clock = Clock::start();
    let at: SocketAddr = (StdIpv4Addr::LOCALHOST, 0).into();
    let httpd = Httpd::new(DOCUMENT, WORK);
    let (server, client) = opposite(
        |generator| kernel::serve(by, at, httpd, clock, &tell_address, generator),
        move |sending, server| {
            await_server(clock, server);
            let to = address.try_recv().map_err(|_| io::Error::other("the server has not begun"))?;
            let from = (0..SOURCES).map(|nth| IpAddr::from([127, 0, 0, 10 + nth])).collect();
            ask_from_kernel(OnKernel { to: vec![to], from }, cold, options, &sending)
        },
    )?;
    let (server, client) = (server?, client?);
    let saw = ServerSaw {
        busy: server.busy,
        core_share: 1.0 - server.run_delay,
        most: server.httpd.most(),
        answered: server.httpd.answered(),
    };
    Ok((saw, client))
}

/// Runs the thread of our server: at the end of a cable, or of a TAP of its own.
fn serve(
    mut config: Config,
    way: Way,
    end: Option<End>,
    clock: Clock,
    generator: &Generator,
) -> io::Result<ServerSaw> {
    config.tcp.time_wait.wait = TIME_WAIT;
    let mut engine = Engine::new(Host::new(config).map_err(io::Error::other)?, clock)?;
    let addresses = [IpCidr::new(SERVER.into(), 24)];
    match end {
        Some(end) => engine.add_cable(end, &addresses),
        None => {
            let kernel_addresses = vec![IpCidr::new(CLIENT.into(), 24)];
            let options = TapOptions { kernel_addresses, ..TapOptions::default() };
            let tap = Tap::open(TAP, &options).map_err(io::Error::other)?;
            engine.add_device(Box::new(tap), &addresses)
        }
    }
    .map_err(io::Error::other)?;
    let (server, httpd) = ours::Server::new(HTTP, Httpd::new(DOCUMENT, WORK), way);
    engine.host_mut().spawn("httpd", 0, Box::new(server));
    // A SYN that arrives before the server listens is refused.
    engine.run(clock.now() + SETTLE, |_| false)?;
    let [from, until] = drive(&mut engine, generator, CoreTime::of)?;
    engine.host().check().map_err(|wrong| io::Error::other(format!("the server's host: {wrong:?}")))?;
    let httpd = httpd.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(ServerSaw {
        busy: 1.0 - until.shares_since(&from).idle,
        core_share: until.core_share_since(&from),
        most: httpd.most(),
        answered: httpd.answered(),
    })
}

/// Runs the client's thread on the kernel's sockets.
fn ask_from_kernel(at: OnKernel, cold: usize, options: &Options, sending: &Sending) -> io::Result<ClientSaw> {
    let to = at.to.first().ok_or_else(|| io::Error::other("the server has no address"))?;
    let request = request(&to.ip().to_string(), to.port())?;
    let limits = Limits { every: Some(LOOK), ..Limits::default() };
    let (measured, effort) = load::run(&at, &plan(cold, options), &request, 1, limits, |news| {
        if let News::Glance(glance) = news {
            record_glance(sending, glance);
        }
    })?;
    Ok(ClientSaw { report: Report::new(&measured, effort), core_share: 1.0 - effort.run_delay_share })
}
