//! `--tcp` of `evenkeel echo` and `evenkeel sink`.

use std::time::Duration;

use clap::Args;
use evenkeel::core::stack::Endpoint;
use evenkeel::core::tcp::ListenerConfig;
use evenkeel_apps::monitor::Inside;
use evenkeel_apps::quantity::{count, percent, si, three_digits};
use evenkeel_apps::site::{Limits, Site};
use evenkeel_apps::stream::{self, Ask, Cabled, Load, Options, Served, Service, Serving};
use serde::Serialize;

use super::show::{self, Moved, Telling};
use crate::command::Place;
use crate::command::hosting::{HostArguments, other_end};
use crate::failure::Failure;
use crate::receiving::Receiving;
use crate::terminal;

/// Connections that may have said something before their handshake is over, if Fast Open is wanted.
pub(super) const FAST_OPEN_WAITING: u32 = 256;

/// What servers of streams take besides.
#[derive(Debug, Args)]
#[command(next_help_heading = "TCP")]
pub(crate) struct TcpArguments {
    /// Report on connections as `ss -ti` does, on at most N, the busiest first: at the end, and at every --stats-interval.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub(crate) connections: Option<usize>,
    /// Connections that may wait to be accepted [default: 4096]. While so many do, SYNs are left where they are.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    backlog: Option<u32>,
    /// Take data that come with a SYN, from clients that have a cookie of ours (TCP Fast Open, RFC 7413), on at most N connections whose handshake is
    /// not over [default: none; 256 without N]. A client's first connection gives it the cookie. Such data may come twice.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "256",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    fast_open: Option<u32>,
    /// On cable: connections that the other end has open at a time, 128 of them at most at work [default: 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    clients: Option<u32>,
}

/// What a server does, beside serving.
#[derive(Debug)]
pub(crate) struct Task {
    /// Where it listens.
    pub(crate) port: u16,
    /// What it computes for each read.
    pub(crate) work: Duration,
    /// Connections after which it ends.
    pub(crate) count: Option<u64>,
    /// On a cable: what each client does.
    pub(crate) ask: Ask,
}

impl TcpArguments {
    /// An option that was given, if any was.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            (self.connections.is_some(), "--connections"),
            (self.backlog.is_some(), "--backlog"),
            (self.fast_open.is_some(), "--fast-open"),
            (self.clients.is_some(), "--clients"),
        ];
        options.into_iter().find_map(|(given, name)| given.then_some(name))
    }

    /// How to listen on a port.
    fn serving(&self, task: &Task, capture: Option<Inside>) -> Serving {
        let defaults = ListenerConfig::default();
        let backlog = self.backlog.map_or(defaults.backlog, |backlog| backlog as usize);
        let fast_open = self.fast_open.map_or(defaults.fast_open, |waiting| waiting as usize);
        let listener = ListenerConfig { backlog, fast_open, ..defaults };
        let Task { port, work, count, .. } = *task;
        Serving {
            options: Options { port, listener, work, count },
            capture,
            connections: self.connections.unwrap_or(0),
        }
    }

    /// Serves, says how it goes, and prints what was done.
    pub(crate) fn serve(
        &self,
        host: &HostArguments,
        receiving: &Receiving,
        service: impl Service + 'static,
        task: Task,
    ) -> Result<(), Failure> {
        let (site, port) = (host.site(receiving), task.port);
        let mut telling = Telling::new(host.stats_interval, host.json);
        let served = self.run(host, &site, service, task, &mut telling);
        telling.clear();
        let addresses = site.addresses.iter().map(ToString::to_string).collect();
        let (link, architecture) = (host.link.to_string(), receiving.architecture().name());
        let output = Output { link, protocol: "tcp", architecture, addresses, port, served: &served? };
        print(&output, host.json)
    }

    fn run(
        &self,
        host: &HostArguments,
        site: &Site,
        service: impl Service + 'static,
        task: Task,
        telling: &mut Telling,
    ) -> Result<Served, Failure> {
        let every = telling.every(host.stats_interval);
        let serving = self.serving(&task, host.capture.clone());
        let watch = |served: &Served| {
            let connections: String = served.connections.iter().map(show::connection).collect();
            telling.tell(moved(served), |moved| line(served, moved), &connections);
        };
        match host.place()? {
            Place::Cable { queues } => {
                let (serving, load) = self.with_clients(site, host.duration, serving, task)?;
                let other = other_end(site)?;
                let cable = Cabled { queues, other: &other, load };
                Ok(stream::on_cable(site, cable, service, serving, every, watch)?)
            }
            Place::Port(port) => {
                let limits = Limits { duration: host.duration, every };
                Ok(stream::on_device(site, &port, service, serving, limits, watch)?)
            }
        }
    }

    /// On a cable the clients say when it is enough.
    fn with_clients(
        &self,
        site: &Site,
        duration: Option<Duration>,
        serving: Serving,
        task: Task,
    ) -> Result<(Serving, Load), Failure> {
        let [first, ..] = site.addresses[..] else { return Err(Failure::Usage("no address".into())) };
        let Task { port, count, ask, .. } = task;
        let load = Load {
            to: Endpoint::new(first.address(), port),
            clients: self.clients.unwrap_or(16) as usize,
            count,
            duration: duration.or_else(|| count.is_none().then_some(Duration::from_secs(5))),
            ask,
        };
        Ok((Serving { options: Options { count: None, ..serving.options }, ..serving }, load))
    }
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Output<'a> {
    link: String,
    protocol: &'static str,
    architecture: &'static str,
    addresses: Vec<String>,
    port: u16,
    #[serde(flatten)]
    served: &'a Served,
}

/// Prints what was served; it is a failure if the books do not balance.
fn print(output: &Output<'_>, json: bool) -> Result<(), Failure> {
    let served = output.served;
    if json {
        terminal::print_json(output)?;
    } else {
        terminal::print(&describe(served))?;
    }
    Failure::of_device(served.device_failed.as_ref())?;
    let clients = served.clients.as_ref().is_none_or(|clients| clients.books.conserved);
    if !(served.books.conserved && clients) {
        return Err(Failure::unbalanced());
    }
    crate::command::capture::judge(served.capture.as_ref())
}

const fn moved(served: &Served) -> Moved {
    let Served { seconds, octets_in, octets_out, .. } = *served;
    Moved { seconds, octets_in, octets_out }
}

/// One line of how it goes.
fn line(served: &Served, moved: &str) -> String {
    let mut line = format!(
        "{:>8} s  {} connections, {} open",
        three_digits(served.seconds),
        count(served.accepted),
        count(served.open)
    );
    for (times, what) in
        [(served.failed, "failed"), (served.timed_out, "timed out"), (served.requests, "requests answered")]
    {
        if times > 0 {
            line.push_str(&format!(", {} {what}", count(times)));
        }
    }
    line.push_str(&format!("; {moved}; {} % idle", percent(served.books.cpu.idle)));
    line
}

/// The final counters for people.
fn describe(served: &Served) -> String {
    let all = show::moved(moved(served), Moved::default());
    let mut text = format!("{}\n", line(served, &all));
    text.push_str(&show::host(&served.tcp, &served.books));
    for connection in &served.connections {
        text.push_str(&show::connection(connection));
    }
    if let Some(captured) = &served.capture {
        text.push_str(&crate::command::capture::line(captured));
    }
    if let Some(clients) = &served.clients {
        let asked = &clients.asked;
        let unfinished = asked.opened - (asked.completed + asked.failed + asked.wrong).min(asked.opened);
        text.push_str(&format!("  other end: {} of {} connections completed", asked.completed, asked.opened));
        for (times, what) in [
            (asked.failed, "failed"),
            (asked.wrong, "wrong"),
            (unfinished, "not finished"),
            (asked.unopened, "not opened"),
        ] {
            if times > 0 {
                text.push_str(&format!(", {} {what}", count(times)));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let rate = asked.completed as f64 / clients.seconds.max(f64::MIN_POSITIVE);
        text.push_str(&format!(", {}connections/s\n", si(rate)));
    }
    text
}
