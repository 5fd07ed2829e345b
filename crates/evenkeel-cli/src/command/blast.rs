//! `evenkeel blast`: sends datagrams to a port, at a rate.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel::raw::device::{Address, DeviceSpec, LinkSpec};
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};
use evenkeel_apps::blast::{self, Flood, Flooded, HARDWARE};
use evenkeel_apps::blaster::{self, Trouble};
use evenkeel_apps::host_setup::HostSetup;
use evenkeel_apps::quantity::{count, pps, three_digits};
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_apps::service;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Place, account};
use crate::failure::Failure;
use crate::manual::guide::{Example, Group, Guide};
use crate::manual::texts;
use crate::quantity::{self, Rate};
use crate::receiving::Receiving;
use crate::{address, published, suggest, terminal};

/// Send UDP requests at a steady rate, and report the rate that was really offered.
///
/// The clock paces the requests, in bursts of bounded size. A generator that did not get the processor for a
/// while does not catch up with a flood. On `cable` both ends are in this process: the generator on one core,
/// a sink on an evenkeel host on another.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Send frames through LINK: cable, tap:NAME, packet:NAME or xdp:NAME.
    #[arg(value_name = "LINK", value_parser = suggest::link(), hide_possible_values = true)]
    link: LinkSpec,
    /// Send PPS frames a second, such as 1500, 500k or 2M, or max.
    #[arg(long, value_name = "PPS", default_value = "100k", value_parser = quantity::rate)]
    rate: Rate,
    /// Send the requests to ADDRESS:PORT. On cable this is the sink's address and port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "10.77.0.1:9", value_parser = address::endpoint)]
    to: IpEndpoint,
    /// Send from ADDRESS with its prefix length [default: 10.77.0.2/24, or fd77::2/64 if --to is IPv6].
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    from: Option<IpCidr>,
    /// On tap: give ADDRESS to the kernel's end; repeat for more.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    kernel_address: Vec<IpCidr>,
    /// Reach other networks through the router at ADDRESS.
    #[arg(long, value_name = "ADDRESS", value_parser = address::host)]
    gateway: Option<IpAddress>,
    /// Use this hardware address: own, device (that of packet:NAME), random, or one such as 02:00:00:00:00:09
    /// [default: own].
    #[arg(
        long, value_name = "ADDRESS", value_parser = suggest::mac(), hide_possible_values = true
    )]
    mac: Option<Address>,
    /// Put BYTES of payload into each request.
    #[arg(
        long, value_name = "BYTES", default_value_t = 18,
        value_parser = clap::value_parser!(u16).range(0..=1_452)
    )]
    size: u16,
    /// Spread the requests over N source ports.
    #[arg(
        long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    flows: u16,
    /// Stop after TIME [default: 10s unless --count is given].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    /// Stop after N requests.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    count: Option<u64>,
    /// On cable: the sink computes for TIME on each request.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    work: Duration,
    /// Write every incoming and outgoing frame to a capture file; not on cable.
    #[arg(long, value_name = "FILE.pcapng")]
    dump: Option<PathBuf>,
    /// Seed the payloads and the order of flows with SEED.
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
        Group { heading: "Load", first: &["rate", "flows"], others: &["size", "seed", "work"] },
        texts::PEER_ADDRESSES,
        Group { heading: "Run", first: &["duration", "count"], others: &[] },
        Group { heading: "Output", first: &["json"], others: &["dump"] },
    ],
    sections: &[],
    examples: &[
        Example {
            says: "Flood a sink in memory with 10 million requests a second, and see what it delivers.",
            command: "evenkeel blast cable --rate 10M --duration 5s",
        },
        Example {
            says: "Send the same flood to a host that processes every packet as it comes.",
            command: "evenkeel blast cable --rate 10M --duration 5s --architecture eager",
        },
        Example {
            says: "As root, send 100 000 requests a second to a program of this machine, on 16 flows.",
            command: "evenkeel blast tap:keel0 --kernel-address 10.77.0.1/24 --rate 100k \\\n    --flows 16",
        },
        Example {
            says: "As root, send a million requests through a network card, as fast as the machine can.",
            command: "evenkeel blast packet:eth1 --from 192.0.2.7/24 --to 192.0.2.9:5000 \\\n    \
                      --rate max --count 1M --json",
        },
    ],
    exit_status: texts::EXIT_STATUS,
    signals: texts::SIGNALS,
    files: &[texts::TUN_FILE],
    see_also: &["sink", "load", "help receiving"],
};

/// The report that `blast --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Blast")]
pub(crate) struct Output<'a> {
    /// The link, as given on the command line.
    link: String,
    #[serde(flatten)]
    flooded: &'a Flooded,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setup = arguments.setup()?;
    if let LinkSpec::Device(DeviceSpec::Pcap(_)) = arguments.link {
        let line =
            "cannot blast into a capture; use cable, tap:NAME or packet:NAME, with --dump to keep the frames";
        return Err(Failure::Usage(line.to_owned()));
    }
    super::refuse_if_shared(&arguments.link, arguments.from.is_some(), "--from")?;
    let limits = published::limits(None, None)?;
    // The error is ignored: if the reader has gone, the final report fails, too.
    let so_far = |flooded: &Flooded| _ = arguments.print(flooded);
    let flooded = match super::place(
        &arguments.link,
        &setup.addresses,
        &arguments.kernel_address,
        arguments.gateway.as_slice(),
        arguments.mac,
        arguments.dump.as_ref(),
    )? {
        Place::Cable { queues } => {
            let (requests, flood, sink) = arguments.flood(&setup, queues)?;
            blast::flood(&setup, requests, flood, sink, limits, so_far)?
        }
        Place::Device(at) => blast::on_device(&setup, &at, arguments.load(), limits, so_far)?,
    };
    arguments.print(&flooded)?;
    Failure::of_device(flooded.device_failed.as_ref())?;
    if let Some(trouble) = flooded.trouble {
        return Err(Failure::Machine(format!("{trouble}; {}", arguments.advice(&trouble))));
    }
    let receiver = flooded.receiver.as_ref().map(|receiver| &receiver.counters);
    let conserved = [flooded.counters.as_ref(), receiver].into_iter().flatten().all(|host| host.conserved);
    if conserved { Ok(()) } else { Err(Failure::unbalanced()) }
}

impl Arguments {
    /// Returns the setup of the generator's host. On a cable it has the sink's address.
    fn setup(&self) -> Result<HostSetup, Failure> {
        let from = match self.from {
            Some(from) => from,
            None => address::cidr(if self.is_v6() { "fd77::2/64" } else { "10.77.0.2/24" })
                .map_err(Failure::Usage)?,
        };
        if matches!(from, IpCidr::Ipv6(_)) != self.is_v6() {
            return Err(Failure::Usage(format!(
                "--from {from} and --to {} are of different families",
                self.to
            )));
        }
        let address = if matches!(self.link, LinkSpec::Cable { .. }) {
            IpCidr::new(self.to.addr, from.prefix_len())
        } else {
            from
        };
        let gateways = self.gateway.into_iter().collect();
        let config = self.receiving.on(Some(&self.link)).config(self.seed);
        Ok(HostSetup { addresses: vec![address], gateways, config })
    }

    fn print(&self, flooded: &Flooded) -> Result<(), Failure> {
        if self.json {
            return terminal::print_json(&Output { link: self.link.to_string(), flooded });
        }
        terminal::print(&describe(flooded))
    }

    /// Returns advice to the user about `trouble`.
    fn advice(&self, trouble: &Trouble) -> String {
        let Self { link, to, .. } = self;
        match trouble {
            Trouble::Silent(neighbor) => {
                let is_tap = matches!(link, LinkSpec::Device(DeviceSpec::Tap(_)));
                if is_tap && self.kernel_address.iter().all(|own| own.address() != *neighbor) {
                    let length = if self.is_v6() { 64 } else { 24 };
                    return format!(
                        "nobody at the other end of {link} has that address: give it to the kernel with \
                         --kernel-address {neighbor}/{length}, or choose another with --to"
                    );
                }
                format!("check that it is up and on the link of {link}, or name a router with --gateway")
            }
            Trouble::Send(..) => format!(
                "{} is to be on the link of --from, or behind a router of that link: name it with --gateway",
                to.addr
            ),
            Trouble::Bind(_) => "use fewer --flows".to_owned(),
        }
    }

    fn is_v6(&self) -> bool {
        matches!(IpAddr::from(self.to.addr), IpAddr::V6(_))
    }

    /// Returns the time to send for: the given one, or 10 s if no number of requests is given either.
    fn duration(&self) -> Option<Duration> {
        self.duration.or_else(|| self.count.is_none().then_some(Duration::from_secs(10)))
    }

    fn load(&self) -> blaster::Options {
        blaster::Options {
            to: self.to,
            rate_pps: self.rate.per_second(),
            burst_pkts: self.rate.burst_pkts(),
            flows: self.flows,
            payload: vec![0; usize::from(self.size)],
            duration: self.duration(),
            count: self.count,
        }
    }

    /// Returns the requests for a cable, their flood, and the work of the sink.
    fn flood(
        &self,
        setup: &HostSetup,
        queues: usize,
    ) -> Result<(Requests, Flood, service::Options), Failure> {
        let [sink, ..] = setup.addresses[..] else { return Err(Failure::Usage("no address".to_owned())) };
        let from = match self.from {
            Some(from) => from,
            None => address::neighbour(sink).map_err(Failure::Usage)?,
        };
        let shape = Shape {
            hardware: HARDWARE.into(),
            from: IpEndpoint::new(from.address(), FIRST_SOURCE_PORT),
            to: self.to,
            payload: usize::from(self.size),
            flows: self.flows,
            seed: self.seed,
        };
        let requests = Requests::new(&shape).map_err(|_| Failure::Usage("no such flow".to_owned()))?;
        let flood = Flood {
            queues,
            rate_pps: self.rate.per_second(),
            burst_pkts: self.rate.burst_pkts(),
            duration: self.duration(),
            count: self.count,
        };
        let sink = service::Options {
            port: self.to.port,
            groups: Vec::new(),
            work: self.work,
            echo: false,
            count: None,
        };
        Ok((requests, flood, sink))
    }
}

/// First port of the range that RFC 6335 section 6 sets apart for dynamic use.
const FIRST_SOURCE_PORT: u16 = 49_152;

/// Returns the report of a generator as text.
fn describe(flooded: &Flooded) -> String {
    let blasted = &flooded.blasted;
    let mut text = format!(
        "sent {} requests in {} s: {} offered",
        count(blasted.sent),
        three_digits(blasted.seconds),
        pps(blasted.offered_pps)
    );
    for (frames, what) in [
        (blasted.missed, "missed, for want of time"),
        (blasted.unsent, "never left"),
        (blasted.replies, "came back"),
    ] {
        if frames > 0 {
            text.push_str(&format!("; {} {what}", count(frames)));
        }
    }
    if let Some(counters) = &flooded.counters {
        text.push_str(&format!("; {}\n{}", account::idle(&counters.cpu), account::drops(counters)));
        text.push_str(&account::interfaces(counters));
    } else {
        text.push('\n');
    }
    if let Some(receiver) = &flooded.receiver {
        text.push_str(&format!(
            "{} sink received {}: {} delivered; {}\n",
            receiver.architecture,
            count(receiver.requests),
            pps(receiver.delivered_pps),
            account::idle(&receiver.counters.cpu)
        ));
        text.push_str(&account::drops(&receiver.counters));
    }
    text
}
