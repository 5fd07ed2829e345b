//! A client of an HTTP server, as a program of a host of ours on the other core.

use std::io;

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_apps::load::{self, Effort, Glance, Plan, Report, Request, Scheme, Target};
use evenkeel_apps::measure::{CoreTime, Sending, Working};

pub(super) const HTTP: u16 = 80;
pub(super) const SERVER: Ipv4Address = Ipv4Address::new(10, 77, 0, 2);
pub(super) const CLIENT: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
/// The client's, and the server's.
pub(super) const HARDWARE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 2])];
pub(super) const RING_PKTS: usize = 1_024;
/// The interval at which a client reports its progress.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// The measurements of the client's thread.
pub(super) struct ClientSaw {
    pub(super) report: Report,
    pub(super) core_share: f64,
}

/// Creates a cable: the client's end, and the server's.
pub(super) fn lay(ring_pkts: usize) -> (End, End) {
    let [client, server] = HARDWARE;
    let end = |name, address| cable::Options { address, ring_pkts, ..cable::Options::new(name, 0) };
    cable::pair(end("outside", client), end("inside", server))
}

pub(super) fn request(host: &str, port: u16) -> io::Result<Request> {
    let target =
        Target { scheme: Scheme::Http, host: host.to_owned(), zone: None, port, path: "/".to_owned() };
    Request::new(&target, "GET", &[], &[]).map_err(io::Error::other)
}

/// Updates the measurement. The window opens when its first answer may arrive. When it closes some requests
/// are outstanding: if one of them is late, the server waits for it, and is not idle for lack of load.
pub(super) fn record_glance(sending: &Sending, glance: &Glance) {
    if glance.measured >= glance.length {
        sending.measured();
    } else if !glance.measured.is_zero() {
        sending.measuring();
    }
}

pub(super) fn await_server(clock: Clock, server: &Working) {
    while !server.has_begun() {
        clock.spin(LOOK);
    }
}

/// Runs the client's thread on a host of ours, until both the client and the server are over.
pub(super) fn from_host(
    plan: Plan,
    end: End,
    clock: Clock,
    (sending, server): (Sending, &Working),
) -> io::Result<ClientSaw> {
    let mut config = Config { seed: plan.seed, ..Config::of(Architecture::Polled) };
    config.tcp.ports = 1_024..=u16::MAX;
    let mut engine = Engine::new(Host::new(config).map_err(io::Error::other)?, clock)?;
    engine.stop_on(Stop::on_signals()?);
    engine.add_cable(end, &[IpCidr::new(CLIENT.into(), 24)]).map_err(io::Error::other)?;
    await_server(clock, server);
    let to = IpEndpoint::new(SERVER.into(), HTTP);
    let (program, watched) = load::client(vec![to], plan, request(&SERVER.to_string(), HTTP)?);
    engine.host_mut().spawn("load", 0, program);
    let mut from = None;
    while !watched.is_over() && !server.is_over() && !Stop::on_signals()?.requested() {
        engine.run(clock.now() + LOOK, |_| watched.is_over())?;
        if let Some(glance) = watched.glance(clock.now()) {
            record_glance(&sending, &glance);
            if from.is_none() && !glance.gathering {
                from = Some(CoreTime::of(&engine));
            }
        }
    }
    let until = CoreTime::of(&engine);
    drop(sending);
    let measured = watched.measured(clock.now());
    engine.ignore_stop();
    while !server.is_over() {
        engine.run(clock.now() + LOOK, |_| false)?;
    }
    let from = from.unwrap_or(until);
    let shares = until.shares_since(&from);
    let cpu_share = (1.0 - shares.idle - shares.run_delay).max(0.0);
    let effort = Effort { cpu_share, run_delay_share: shares.run_delay };
    Ok(ClientSaw { report: Report::new(&measured, effort), core_share: until.core_share_since(&from) })
}
