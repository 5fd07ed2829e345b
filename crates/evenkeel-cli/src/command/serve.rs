//! `evenkeel echo` and `evenkeel sink`.

use std::time::Duration;

use clap::Args;
use evenkeel::core::stack::Endpoint;
use evenkeel::core::wire::IpAddress;
use evenkeel_apps::books::Books;
use evenkeel_apps::quantity::{percent, si, three_digits};
use evenkeel_apps::serve::{self, Served, Serving};
use evenkeel_apps::site::{Limits, Site};
use evenkeel_apps::stream::{Ask, Echo, Sink};
use evenkeel_apps::{blaster, service};
use serde::Serialize;

use super::Place;
use super::hosting::{HostArguments, other_end};
use super::stream::serve::{Task, TcpArguments};
use crate::failure::Failure;
use crate::quantity::{self, Rate};
use crate::receiving::Receiving;
use crate::{address, terminal};

/// What both services take.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    host: HostArguments,
    /// A multicast group to join; may be given more than once.
    #[arg(long, value_name = "ADDRESS", value_parser = address::group, conflicts_with = "tcp")]
    group: Vec<IpAddress>,
    /// What the service computes for each request, such as 1us; over TCP for each read, of 16 KiB at most.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    work: Duration,
    /// Stop after so many requests, over TCP after so many connections.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    count: Option<u64>,
    /// On cable: requests a second from the other end, such as 500k, or max.
    #[arg(long, value_name = "PPS", default_value = "100k", value_parser = quantity::rate, conflicts_with = "tcp")]
    rate: Rate,
    /// Serve TCP connections instead of UDP.
    #[arg(long)]
    tcp: bool,
    /// With --tcp on cable: octets that the other end sends over each connection, such as 64k.
    #[arg(long, value_name = "N", default_value = "64k", value_parser = quantity::count, requires = "tcp", help_heading = "TCP")]
    octets: u64,
    #[command(flatten)]
    streams: TcpArguments,
    #[command(flatten)]
    receiving: Receiving,
}

/// Give back what comes (RFC 862): UDP requests, or with --tcp what comes over connections. Answer pings.
///
/// The program, its UDP, TCP, IP, ARP and neighbour discovery are evenkeel's; the kernel only moves frames.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Links:
  tap:NAME     a TAP device; created if it is not there, and then gone afterwards. Needs root (CAP_NET_ADMIN).
  packet:NAME  a network interface that exists, through AF_PACKET. Needs root (CAP_NET_RAW).
  pcap:FILE    frames from a capture, played once at its own pace; answers go nowhere, or with --dump to a file.
  cable        in memory, with a load generator or TCP clients at its other end. Needs nothing.

Over TCP a peer that sends and does not read is stopped by the window, and costs nothing while it is.

Examples:
  evenkeel echo cable --rate 200k --duration 3s
  evenkeel echo cable --tcp --clients 1000 --octets 1M
as root, in two terminals:
  evenkeel echo tap:keel0 --kernel-address 10.77.0.1/24
  ping -c 3 10.77.0.2; echo hello | nc -u -w1 10.77.0.2 7
  evenkeel echo tap:keel0 --kernel-address 10.77.0.1/24 --tcp --stats-interval 1s --connections
  echo hello | nc -N 10.77.0.2 7

Exit status: 0 when it ran to its end or to Ctrl-C and every frame is accounted for, 1 otherwise, 2 for bad arguments.")]
pub(crate) struct EchoArguments {
    #[command(flatten)]
    serve: ServeArguments,
    /// Port.
    #[arg(long, value_name = "PORT", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

/// Take what comes and count it (RFC 863): UDP requests, or with --tcp what comes over connections.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Links are those of `evenkeel echo --help`.

Examples:
  evenkeel sink cable --rate max
  evenkeel sink cable --tcp --clients 1 --octets 1G --count 1
  evenkeel sink packet:eth1 --address 192.0.2.7/24 --port 5000 --stats-interval 1s
  evenkeel sink packet:eth1 --address 192.0.2.7/24 --port 5000 --tcp --connections=100
  evenkeel sink tap:keel0 --group 239.1.2.3 --port 5004
  evenkeel sink pcap:flood.pcapng --address 192.0.2.7/24 --json

Exit status: 0 when it ran to its end or to Ctrl-C and every frame is accounted for, 1 otherwise, 2 for bad arguments.")]
pub(crate) struct SinkArguments {
    #[command(flatten)]
    serve: ServeArguments,
    /// Port.
    #[arg(long, value_name = "PORT", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Output<'a> {
    link: String,
    architecture: &'static str,
    addresses: Vec<String>,
    port: u16,
    #[serde(flatten)]
    served: &'a Served,
}

pub(crate) fn echo(arguments: &EchoArguments) -> Result<(), Failure> {
    arguments.serve.run(arguments.port, true)
}

pub(crate) fn sink(arguments: &SinkArguments) -> Result<(), Failure> {
    arguments.serve.run(arguments.port, false)
}

impl ServeArguments {
    fn run(&self, port: u16, echo: bool) -> Result<(), Failure> {
        if self.tcp {
            return self.run_tcp(port, echo);
        }
        if let Some(option) = self.streams.given() {
            return Err(Failure::Usage(format!("{option} needs --tcp")));
        }
        let site = self.host.site(&self.receiving);
        let service =
            service::Options { port, groups: self.group.clone(), work: self.work, echo, count: self.count };
        let served = self.serve(&site, service)?;
        if self.host.json {
            let addresses = site.addresses.iter().map(ToString::to_string).collect();
            let architecture = self.receiving.architecture().name();
            let link = self.host.link.to_string();
            terminal::print_json(&Output { link, architecture, addresses, port, served: &served })?;
        } else {
            terminal::print(&describe(&served, echo))?;
        }
        Failure::of_device(served.device_failed.as_ref())?;
        if !served.books.conserved {
            return Err(Failure::unbalanced());
        }
        super::capture::judge(served.capture.as_ref())
    }

    fn run_tcp(&self, port: u16, echo: bool) -> Result<(), Failure> {
        let ask = Ask::Octets { octets: self.octets, echoed: echo };
        let task = Task { port, work: self.work, count: self.count, ask };
        if echo {
            self.streams.serve(&self.host, &self.receiving, Echo::default(), task)
        } else {
            self.streams.serve(&self.host, &self.receiving, Sink::default(), task)
        }
    }

    fn serve(&self, site: &Site, service: service::Options) -> Result<Served, Failure> {
        let HostArguments { duration, stats_interval, capture, .. } = &self.host;
        let limits = Limits { duration: *duration, every: *stats_interval };
        let watch = |served: &Served| eprintln!("{}", line(served));
        let serving = Serving { service: service.clone(), capture: capture.clone() };
        match self.host.place()? {
            Place::Cable { queues } => {
                let (other, load) = self.other_end(site, &service)?;
                Ok(serve::on_cable(site, queues, serving, &other, load, limits, watch)?)
            }
            Place::Port(port) => Ok(serve::on_device(site, &port, serving, limits, watch)?),
        }
    }

    /// The load generator's host, and what it sends.
    fn other_end(
        &self,
        site: &Site,
        service: &service::Options,
    ) -> Result<(Site, blaster::Options), Failure> {
        let [first, ..] = site.addresses[..] else { return Err(Failure::Usage("no address".into())) };
        let other = other_end(site)?;
        let load = blaster::Options {
            to: Endpoint::new(first.address(), service.port),
            rate_pps: self.rate.per_second(),
            burst_pkts: self.rate.burst_pkts(),
            flows: 1,
            payload: vec![0; 18],
            duration: Some(self.host.duration.unwrap_or(Duration::from_secs(5))),
            count: self.count,
        };
        Ok((other, load))
    }
}

/// One line of counters.
fn line(served: &Served) -> String {
    let Books { received, consumed, .. } = &served.books;
    format!(
        "{:>8} s  {} requests, {} answered; {received} frames received, {consumed} for the host itself, {} dropped; {} % idle",
        three_digits(served.seconds),
        served.requests,
        served.answers,
        served.books.dropped(),
        percent(served.books.cpu.idle),
    )
}

/// The final counters for people.
fn describe(served: &Served, echo: bool) -> String {
    let mut text = format!("{}\n", line(served));
    for drop in &served.books.drops {
        text.push_str(&format!("  dropped {} at {}: {}\n", drop.frames, drop.place, drop.reason));
    }
    if let Some(captured) = &served.capture {
        text.push_str(&super::capture::line(captured));
    }
    if let Some(generator) = &served.generator {
        let replies = if echo { format!(", {} came back", generator.replies) } else { String::new() };
        text.push_str(&format!(
            "  other end sent {} at {}packets/s{replies}\n",
            generator.sent,
            si(generator.offered_pps)
        ));
    }
    text
}
