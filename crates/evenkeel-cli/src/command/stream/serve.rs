//! The run of `evenkeel echo`, `evenkeel sink` and `evenkeel http`, and its output.

use std::time::Duration;

use clap::Args;
use evenkeel::raw::privilege::CapabilitySet;
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::wire::IpEndpoint;
use evenkeel_apps::counters::HostCounters;
use evenkeel_apps::host_setup::{HostSetup, Occasion};
use evenkeel_apps::quantity::{count, per_s, pps, three_digits};
use evenkeel_apps::serve::{self, Cabled, Listening, News, Offer, OnCore, Served, Serving};
use evenkeel_apps::stream::{Ask, Asked, Load, Options, Service};
use evenkeel_apps::{blaster, service};
use schemars::JsonSchema;
use serde::Serialize;

use super::show::{self, Moved, Telling};
use crate::command::hosting::{HostArguments, other_end};
use crate::command::{Place, account};
use crate::failure::Failure;
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::{published, supervision, terminal};

/// The most connections that may have sent data before their handshake is over, if Fast Open is wanted.
pub(super) const FAST_OPEN_WAITING: u32 = 256;

/// Further arguments of servers of streams.
#[derive(Debug, Args)]
#[command(next_help_heading = "TCP")]
pub(crate) struct TcpArguments {
    /// Report on at most N connections as `ss -ti` does, the busiest first: at the end, and at every
    /// --stats-interval.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub(crate) connections: Option<usize>,
    /// Let N connections wait to be accepted, and then SYNs [default: 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    backlog: Option<u32>,
    /// Accept data in SYNs (TCP Fast Open, RFC 7413), which may arrive twice, from clients that have one of
    /// this server's cookies, on at most N connections whose handshake is not over [default: none; 256
    /// without N].
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "256",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    fast_open: Option<u32>,
    /// On cable: open N connections to the service at a time, and use at most 128 of them [default:
    /// 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    clients: Option<u32>,
    #[command(flatten)]
    pub(crate) sending: Sending,
}

/// The task of a server: its port, its work for each read, and when it ends.
#[derive(Debug)]
pub(crate) struct Task {
    /// The TCP port that the server listens on.
    pub(crate) port: u16,
    /// The time that the server computes for each read.
    pub(crate) work: Duration,
    /// The number of connections after which the server ends, if it is limited.
    pub(crate) count: Option<u64>,
    /// The work of each client on a cable.
    pub(crate) ask: Ask,
}

impl TcpArguments {
    /// Returns the name of an option that was given, if any was.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            (self.connections.is_some(), "--connections"),
            (self.backlog.is_some(), "--backlog"),
            (self.fast_open.is_some(), "--fast-open"),
            (self.clients.is_some(), "--clients"),
        ];
        options.into_iter().find_map(|(given, name)| given.then_some(name)).or_else(|| self.sending.given())
    }

    /// Returns the queues of a listener.
    pub(super) fn listener(&self) -> ListenerConfig {
        let defaults = ListenerConfig::default();
        let backlog = self.backlog.map_or(defaults.backlog, |backlog| backlog as usize);
        let fast_open = self.fast_open.map_or(defaults.fast_open, |waiting| waiting as usize);
        ListenerConfig { backlog, fast_open, ..defaults }
    }

    /// Returns the options of the listener that serves `task` with `service`.
    fn listening<S>(&self, service: S, task: &Task) -> Listening<S> {
        let listener = self.listener();
        let Task { port, work, count, .. } = *task;
        let options = Options { port, listener, work, count };
        Listening { service, options, connections: self.connections.unwrap_or(0) }
    }
}

/// The arguments of one run of services.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) host: &'a HostArguments,
    pub(crate) receiving: &'a Receiving,
    pub(crate) streams: &'a TcpArguments,
    /// The service over UDP, and the load from the other end of a cable.
    pub(crate) udp: Option<(service::Options, blaster::Options)>,
    /// The service over TCP.
    pub(crate) tcp: Option<Task>,
}

impl Run<'_> {
    /// Serves, reports progress, and prints the results.
    pub(crate) fn serve(self, service: impl Service + Clone + 'static) -> Result<(), Failure> {
        self.host.service.begin(CapabilitySet::empty())?;
        let (mut setup, port) = (self.host.setup(self.receiving), self.port());
        self.streams.sending.apply(&mut setup.config);
        let host = self.host;
        let mut telling = Telling::new(host.stats_interval, host.json);
        let place = At {
            link: host.link()?.to_string(),
            protocol: self.protocol(),
            architecture: setup.config.architecture.name(),
            addresses: setup.addresses.iter().map(ToString::to_string).collect(),
            port,
        };
        let print = |served: &Served| print(&Output { place: &place, served }, host.json);
        let started = self.place(&setup, &place.link);
        let served = self.run(&setup, service, &mut telling, &started, print);
        telling.clear();
        let served = served?;
        print(&served)?;
        judge(&served)
    }

    /// Returns whether the services end after a number of requests or connections.
    fn counts(&self) -> bool {
        let udp = self.udp.as_ref().and_then(|(service, _)| service.count);
        udp.or(self.tcp.as_ref().and_then(|task| task.count)).is_some()
    }

    fn port(&self) -> u16 {
        let udp = self.udp.as_ref().map(|(service, _)| service.port);
        udp.or(self.tcp.as_ref().map(|task| task.port)).unwrap_or_default()
    }

    fn protocol(&self) -> &'static str {
        match (&self.udp, &self.tcp) {
            (Some(_), Some(_)) => "udp+tcp",
            (None, Some(_)) => "tcp",
            _ => "udp",
        }
    }

    /// Returns the line with the addresses of the server.
    fn place(&self, setup: &HostSetup, link: &str) -> String {
        let protocol = self.protocol().to_uppercase().replace('+', " and ");
        let addresses: Vec<_> = setup.addresses.iter().map(|cidr| cidr.address().to_string()).collect();
        let (port, addresses) = (self.port(), addresses.join(" and "));
        format!("listening on {protocol} port {port} of {addresses}, at {link}")
    }

    fn run(
        self,
        setup: &HostSetup,
        service: impl Service + Clone + 'static,
        telling: &mut Telling,
        place: &str,
        print: impl Fn(&Served) -> Result<(), Failure>,
    ) -> Result<Served, Failure> {
        let host = self.host;
        let every = telling.every(host.stats_interval);
        let news = |news: News<'_>| match news {
            News::Started => supervision::say(place),
            News::Glance(Occasion::Request, served) => {
                telling.clear();
                // The error is ignored: if the reader has gone, the final report fails, too.
                let _ = print(served);
            }
            News::Glance(Occasion::Interval, served) => {
                let connections =
                    served.streams().map(|streams| &streams.connections[..]).unwrap_or_default();
                let connections: String = connections.iter().map(show::connection).collect();
                telling.show(moved(served), |moved| line(served, moved), &connections);
            }
        };
        let listening = self.tcp.as_ref().map(|task| self.streams.listening(service, task));
        let udp = self.udp.as_ref().map(|(service, _)| service.clone());
        let serving = Serving { udp, tcp: listening, capture: host.capture.clone() };
        match host.place()? {
            Place::Cable { .. } if !host.cores.is_empty() => {
                Err(Failure::Usage("--cores is for packet:NAME and xdp:NAME links".to_owned()))
            }
            Place::Cable { queues } => {
                let other = other_end(setup)?;
                let (load, serving, duration) = self.with_other_end(setup, serving)?;
                let cable = Cabled { queues, other: &other, load };
                Ok(serve::on_cable(setup, cable, serving, published::limits(duration, every)?, news)?)
            }
            Place::Device(at) => {
                let limits = published::limits(host.duration, every)?;
                if host.cores.is_empty() {
                    return Ok(serve::on_device(setup, &at, serving, limits, news)?);
                }
                if self.counts() {
                    return Err(Failure::Usage(
                        "--count is for one host, and --cores for several".to_owned(),
                    ));
                }
                Ok(serve::cores::on_cores(setup, &at, &host.cores, &serving, limits, news)?)
            }
        }
    }

    /// Returns the load from the other end of a cable, the services, and their time limit. Over TCP the load
    /// ends the run; over UDP both ends have the time limit.
    fn with_other_end<S>(
        self,
        setup: &HostSetup,
        mut serving: Serving<S>,
    ) -> Result<(Offer, Serving<S>, Option<Duration>), Failure> {
        let [first, ..] = setup.addresses[..] else { return Err(Failure::Usage("no address".into())) };
        let duration = self.host.duration;
        let Some(Task { port, count, ask, .. }) = self.tcp else {
            let (_, load) = self.udp.ok_or_else(|| Failure::Usage("nothing to serve".into()))?;
            let to = IpEndpoint::new(first.address(), load.to.port);
            return Ok((Offer::Requests(blaster::Options { to, ..load }), serving, duration));
        };
        let load = Load {
            to: IpEndpoint::new(first.address(), port),
            clients: self.streams.clients.unwrap_or(16) as usize,
            count,
            duration: duration.or_else(|| count.is_none().then_some(Duration::from_secs(5))),
            ask,
        };
        if let Some(listening) = &mut serving.tcp {
            listening.options.count = None;
        }
        Ok((Offer::Connections(load), serving, None))
    }
}

/// The report of a service, as `--json` prints it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Serve")]
pub(crate) struct Output<'a> {
    #[serde(flatten)]
    place: &'a At,
    #[serde(flatten)]
    served: &'a Served,
}

/// The place of a server: its link, protocol, architecture, addresses and port.
#[derive(Serialize, JsonSchema)]
pub(crate) struct At {
    /// The link, as given on the command line.
    link: String,
    /// The protocols of the service: `udp`, `tcp`, or both with a plus sign.
    protocol: &'static str,
    /// The receive architecture of the host.
    architecture: &'static str,
    /// The addresses of the host, with their prefix lengths.
    addresses: Vec<String>,
    /// The port of the service.
    port: u16,
}

fn print(output: &Output<'_>, json: bool) -> Result<(), Failure> {
    if json { terminal::print_json(output) } else { terminal::print(&describe(output.served)) }
}

/// Fails if the device or the capture failed, or if not every frame is accounted for.
fn judge(served: &Served) -> Result<(), Failure> {
    Failure::of_device(served.device_failed.as_ref())?;
    let clients = served.streams().and_then(|streams| streams.clients.as_ref());
    if !(served.counters.conserved && clients.is_none_or(|clients| clients.counters.conserved)) {
        return Err(Failure::unbalanced());
    }
    crate::command::capture::judge(served.capture.as_ref())
}

fn moved(served: &Served) -> Moved {
    let (bytes_in, bytes_out) =
        served.streams().map_or((0, 0), |streams| (streams.bytes_in, streams.bytes_out));
    Moved { seconds: served.seconds, bytes_in, bytes_out }
}

/// Returns the progress line of a server.
fn line(served: &Served, moved: &str) -> String {
    let mut parts = Vec::new();
    if let Some(datagrams) = &served.datagrams {
        let mut part =
            format!("{} requests, {} answered", count(datagrams.requests), count(datagrams.answers));
        if datagrams.ignored > 0 {
            part.push_str(&format!(", {} not to be answered", count(datagrams.ignored)));
        }
        parts.push(part);
    }
    if let Some(streams) = served.streams() {
        let mut part = format!("{} connections, {} open", count(streams.accepted), count(streams.open));
        for (times, what) in [
            (streams.reset, "closed by reset"),
            (streams.failed - streams.reset.min(streams.failed), "failed"),
            (streams.timed_out, "timed out"),
            (streams.requests, "requests answered"),
        ] {
            if times > 0 {
                part.push_str(&format!(", {} {what}", count(times)));
            }
        }
        parts.extend([part, moved.to_owned()]);
    }
    if served.datagrams.is_some() {
        let HostCounters { received, consumed, .. } = &served.counters;
        parts.push(format!("{} frames received, {} for the host itself", count(*received), count(*consumed)));
    }
    // A terminal may not have room for the whole line, so losses come first.
    let dropped = count(served.counters.dropped());
    let idle = account::idle(&served.counters.cpu);
    format!("{:>8} s  {dropped} dropped; {idle}; {}", three_digits(served.seconds), parts.join("; "))
}

/// Returns the final counters of a server as text.
fn describe(served: &Served) -> String {
    let all = show::moved(moved(served), Moved::default());
    let mut text = format!("{}\n", line(served, &all));
    if let Some(streams) = served.streams() {
        text.push_str(&show::segments(&streams.tcp));
    }
    for on_core in &served.cores {
        text.push_str(&core_line(on_core));
    }
    text.push_str(&account::drops(&served.counters));
    text.push_str(&account::interfaces(&served.counters));
    for connection in served.streams().iter().flat_map(|streams| &streams.connections) {
        text.push_str(&show::connection(connection));
    }
    if let Some(captured) = &served.capture {
        text.push_str(&crate::command::capture::line(captured));
    }
    if let Some(generator) = served.datagrams.as_ref().and_then(|datagrams| datagrams.generator.as_ref()) {
        let replies = match generator.replies {
            0 => String::new(),
            replies => format!(", {} came back", count(replies)),
        };
        let (sent, rate) = (count(generator.sent), pps(generator.offered_pps));
        text.push_str(&format!("  other end sent {sent} at {rate}{replies}\n"));
    }
    if let Some(clients) = served.streams().and_then(|streams| streams.clients.as_ref()) {
        text.push_str(&describe_asked(&clients.asked, clients.seconds));
    }
    text
}

/// Returns the line about the host on one core of several.
fn core_line(on_core: &OnCore) -> String {
    let OnCore { core, datagrams, counters, .. } = on_core;
    let mut parts = vec![account::idle(&counters.cpu)];
    parts.extend(datagrams.iter().map(|it| format!("{} requests", count(it.requests))));
    parts.extend(on_core.streams().map(|it| format!("{} connections", count(it.accepted))));
    format!("  core {core}  {}\n", parts.join(", "))
}

fn describe_asked(asked: &Asked, seconds: f64) -> String {
    let unfinished = asked.opened - (asked.completed + asked.failed + asked.wrong).min(asked.opened);
    let mut text =
        format!("  other end: {} of {} connections completed", count(asked.completed), count(asked.opened));
    for (times, what) in [
        (asked.failed, "failed"),
        (asked.wrong, "wrong"),
        (unfinished, "not finished"),
        (asked.unopened, "attempts found no free port"),
    ] {
        if times > 0 {
            text.push_str(&format!(", {} {what}", count(times)));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let rate = asked.completed as f64 / seconds.max(f64::MIN_POSITIVE);
    text + &format!(", {}\n", per_s(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_complete_is_told_by_its_reason() {
        let asked = Asked { opened: 9, completed: 3, failed: 1, wrong: 2, unopened: 4, ..Asked::default() };
        assert_eq!(
            describe_asked(&asked, 2.0),
            "  other end: 3 of 9 connections completed, 1 failed, 2 wrong, 3 not finished, 4 attempts found \
             no free port, 1.50 /s\n"
        );
    }
}
