//! `evenkeel echo` and `evenkeel sink`: run services over UDP and TCP.

use std::time::Duration;

use clap::Args;
use evenkeel::raw::device::LinkSpec;
use evenkeel::raw::wire::{IpAddress, IpEndpoint};
use evenkeel_apps::stream::{Ask, Echo, Sink};
use evenkeel_apps::{blaster, service};

use super::hosting::HostArguments;
use super::stream::serve::{Run, Task, TcpArguments};
use crate::address;
use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::quantity::{self, Rate};
use crate::receiving::Receiving;

/// Arguments of both UDP services.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    host: HostArguments,
    /// Join this multicast group; repeat for more.
    #[arg(long, value_name = "ADDRESS", value_parser = address::group)]
    group: Vec<IpAddress>,
    /// Compute for TIME on each request, such as 1us; over TCP on each read, of at most 16 KiB.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    work: Duration,
    /// Stop after N requests, over TCP after N connections.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    count: Option<u64>,
    /// On cable: send PPS requests a second, such as 500k, or max.
    #[arg(
        long, value_name = "PPS", default_value = "100k", value_parser = quantity::rate,
        conflicts_with = "tcp"
    )]
    rate: Rate,
    /// Serve UDP, and no TCP without --tcp [default: both, on cable UDP].
    #[arg(long)]
    udp: bool,
    /// Serve TCP, and no UDP without --udp.
    #[arg(long)]
    tcp: bool,
    /// On cable with --tcp: send N bytes over each connection, such as 64k.
    #[arg(
        long, value_name = "N", default_value = "64k", value_parser = quantity::count,
        requires = "tcp", help_heading = "TCP"
    )]
    bytes: u64,
    #[command(flatten)]
    streams: TcpArguments,
    #[command(flatten)]
    receiving: Receiving,
}

/// Send UDP requests and the bytes of TCP connections back (RFC 862). Answer pings.
///
/// The program and all protocols down to ARP are evenkeel's; the kernel only moves frames.
#[derive(Debug, Args)]
pub(crate) struct EchoArguments {
    /// Listen on this port.
    #[arg(long, value_name = "PORT", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    serve: ServeArguments,
}

/// Receive and count UDP requests and the bytes of TCP connections (RFC 863).
#[derive(Debug, Args)]
pub(crate) struct SinkArguments {
    /// Listen on this port.
    #[arg(long, value_name = "PORT", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    serve: ServeArguments,
}

pub(crate) const ECHO_GUIDE: Guide = Guide {
    groups: GROUPS,
    sections: &[
        texts::HOST_LINKS,
        Section {
            heading: "Answers",
            blocks: &[Block::Text(
                "Over TCP the window stops a peer that sends and does not read; a stopped peer costs \
                 nothing. Over UDP the service answers neither broadcasts nor requests from ports whose \
                 program may answer in turn: its own port, and 7, 11, 13, 17, 19, 37, 53, 69 and 123.",
            )],
        },
    ],
    examples: &[
        Example {
            says: "Answer a load generator in memory for three seconds.",
            command: "evenkeel echo cable --rate 200k --duration 3s",
        },
        Example {
            says: "Exchange 1 MB with each of many TCP clients in memory.",
            command: "evenkeel echo cable --tcp --clients 1000 --bytes 1M",
        },
        Example {
            says: "As root, answer the programs of this machine at 10.77.0.2, and report every second.",
            command: "evenkeel echo tap:keel0 --kernel-address 10.77.0.1/24 \\\n\
                      \x20   --stats-interval 1s --connections",
        },
        Example {
            says: "In another terminal, talk to it.",
            command: "ping -c 3 10.77.0.2; echo hello | nc -u -w1 10.77.0.2 7",
        },
        Example {
            says: "As root, answer at the kernel's address on eth0, next to its programs.",
            command: "evenkeel echo xdp:eth0,share",
        },
    ],
    exit_status: texts::EXIT_STATUS,
    signals: texts::SIGNALS,
    files: &[texts::TUN_FILE],
    see_also: &["sink", "http", "blast", "help receiving", "help sending", "ip-link(8)"],
};

pub(crate) const SINK_GUIDE: Guide = Guide {
    sections: &[texts::HOST_LINKS],
    examples: &[
        Example {
            says: "Count what a host in memory receives at the highest rate of the peer.",
            command: "evenkeel sink cable --rate max",
        },
        Example {
            says: "Receive 1 GB over one TCP connection in memory.",
            command: "evenkeel sink cable --tcp --clients 1 --bytes 1G --count 1",
        },
        Example {
            says: "As root, receive requests to port 5000 through a network card.",
            command: "evenkeel sink packet:eth1 --address 192.0.2.7/24 --port 5000 \\\n\
                      \x20   --stats-interval 1s",
        },
        Example {
            says: "Count the requests in a capture.",
            command: "evenkeel sink pcap:flood.pcapng --address 192.0.2.7/24 --json",
        },
    ],
    see_also: &["echo", "blast", "monitor", "help receiving", "help sending", "ip-link(8)"],
    ..ECHO_GUIDE
};

/// The groups of options of both services.
const GROUPS: &[Group] = &[
    texts::HOST_ADDRESSES,
    Group { heading: "Service", first: &["port", "tcp"], others: &["udp", "group", "work"] },
    Group { heading: "Load on cable", first: &["rate"], others: &["bytes", "clients"] },
    texts::TCP,
    texts::RUN,
    texts::HOST_OUTPUT,
];

pub(crate) fn echo(arguments: &EchoArguments) -> Result<(), Failure> {
    arguments.serve.run(arguments.port, true)
}

pub(crate) fn sink(arguments: &SinkArguments) -> Result<(), Failure> {
    arguments.serve.run(arguments.port, false)
}

impl ServeArguments {
    fn run(&self, port: u16, echo: bool) -> Result<(), Failure> {
        let (udp, tcp) = self.protocols()?;
        let options =
            service::Options { port, groups: self.group.clone(), work: self.work, echo, count: self.count };
        let load = self.load(&options);
        let ask = Ask::Bytes { bytes: self.bytes, echoed: echo };
        let task = Task { port, work: self.work, count: self.count, ask };
        let run = Run {
            host: &self.host,
            receiving: &self.receiving,
            streams: &self.streams,
            udp: udp.then_some((options, load)),
            tcp: tcp.then_some(task),
        };
        if echo { run.serve(Echo::default()) } else { run.serve(Sink::default()) }
    }

    /// Returns whether UDP and whether TCP is served. The peer on a cable uses only one of them.
    fn protocols(&self) -> Result<(bool, bool), Failure> {
        let on_cable = matches!(self.host.link()?, LinkSpec::Cable { .. });
        let (udp, tcp) = match (self.udp, self.tcp) {
            (false, false) => (true, !on_cable),
            given => given,
        };
        let wrong = |line: &str| Err(Failure::Usage(line.to_owned()));
        match self.streams.given() {
            Some(option) if !tcp => return Err(Failure::Usage(format!("{option} needs --tcp"))),
            _ if on_cable && udp && tcp => return wrong("on cable give --udp or --tcp, not both"),
            _ if !udp && !self.group.is_empty() => return wrong("--group is for UDP; see --udp and --tcp"),
            _ => {}
        }
        Ok((udp, tcp))
    }

    /// Returns the options of the UDP generator on a cable. Its destination address is still unspecified.
    fn load(&self, service: &service::Options) -> blaster::Options {
        blaster::Options {
            to: IpEndpoint::new(IpAddress::v4(0, 0, 0, 0), service.port),
            rate_pps: self.rate.per_second(),
            burst_pkts: self.rate.burst_pkts(),
            flows: 1,
            payload: vec![0; 18],
            duration: Some(self.host.duration.unwrap_or(Duration::from_secs(5))),
            count: self.count,
        }
    }
}
