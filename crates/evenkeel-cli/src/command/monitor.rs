//! `evenkeel monitor`: prints and records the frames of a link.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io, slice};

use clap::Args;
use evenkeel::raw::capture::{Expression, Row, Target, stdout_takes_a_capture};
use evenkeel::raw::device::{DeviceSpec, LISTEN_BYTES, LinkSpec, SpecError, devices_to_listen_to};
use evenkeel::raw::host::Config;
use evenkeel::raw::privilege::CapabilitySet;
use evenkeel::raw::wire::{IpAddress, IpEndpoint};
use evenkeel_apps::blast::{Flood, HARDWARE};
use evenkeel_apps::captures::lines::Lines;
use evenkeel_apps::captures::summary::Count;
use evenkeel_apps::monitor::{self, Glance, Monitored, News, Setup, What};
use evenkeel_apps::quantity::{count, pps, three_digits};
use evenkeel_apps::requests::{Requests, Shape};
use schemars::JsonSchema;
use serde::Serialize;

use super::account;
use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::quantity::{self, Rate};
use crate::receiving::Receiving;
use crate::supervision::{self, ServiceArguments};
use crate::terminal::{self, Progress};
use crate::{published, suggest};

/// Capture packets without falling over when there are too many.
///
/// The command writes pcapng for Wireshark and tshark, prints packets, or lists the busiest senders. Packets
/// that it cannot take in time are dropped in the interface's ring, at no cost, and counted. Captured and
/// dropped packets add up to the packets sent.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Receive frames from LINK: a network interface, any, xdp:NAME, tap:NAME, pcap:FILE or cable.
    #[arg(
        value_name = "LINK", hide_possible_values = true,
        value_parser = suggest::with(watched, ["any", "cable", "tap:", "packet:", "xdp:", "pcap:"])
    )]
    link: Watched,
    /// Capture only frames that match, in the language of tcpdump [default: all].
    #[arg(value_name = "EXPRESSION")]
    expression: Vec<String>,
    /// Write the frames to a pcapng file, or to standard output if FILE is `-`.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print each frame on a line: time of day (UTC), direction, source and destination, protocol, TCP's
    /// flags or ARP's question, length.
    #[arg(long, conflicts_with = "write")]
    print: bool,
    /// Keep at most BYTES of each frame; 0 for all.
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    snaplen: u32,
    /// Stop after N frames.
    #[arg(short, long, value_name = "N", value_parser = quantity::count)]
    count: Option<u64>,
    /// Begin a new file before one exceeds SIZE, such as 64k or 100M; without a suffix in millions of bytes.
    /// Needs --write.
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = quantity::size, requires = "write")]
    file_size: Option<u64>,
    /// Begin a new file when one is as old as TIME, such as 60 (seconds) or 10min. Needs --write.
    #[arg(
        short = 'G', long, value_name = "TIME", value_parser = quantity::time_or_seconds, requires = "write"
    )]
    file_time: Option<Duration>,
    /// Keep the last N files. Needs --file-size or --file-time.
    #[arg(short = 'W', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    files: Option<u16>,
    /// On packet: see only frames that the interface would take anyway, not those to other stations.
    #[arg(short = 'p', long)]
    no_promiscuous: bool,
    /// Let the capture queue hold N frames. A short queue stays in the processor's cache; further frames wait
    /// in the ring.
    #[arg(
        long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(4..=1_000_000)
    )]
    queue: u32,
    /// On packet, xdp and cable: let the receive ring hold N frames, 2 KiB each; rounded up to a power of
    /// two. On packet the ring is as large, and at least 512 KiB, and holds more frames if they are smaller.
    /// On xdp each queue has such a ring, of 64 to 4096 frames.
    #[arg(
        long, value_name = "N", default_value_t = 16_384,
        value_parser = clap::value_parser!(u32).range(32..=65_536)
    )]
    ring: u32,
    /// On cable: send PPS frames a second, such as 500k, or max [default: 1M].
    #[arg(long, value_name = "PPS", value_parser = quantity::rate)]
    rate: Option<Rate>,
    /// Stop after TIME, such as 10s [default: at Ctrl-C; on cable after 5s].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    #[command(flatten)]
    service: ServiceArguments,
    /// Report progress every TIME.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::period)]
    stats_interval: Duration,
    /// Print the final counters as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    receiving: Receiving,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group {
            heading: "Files",
            first: &["write", "snaplen", "file_size"],
            others: &["file_time", "files"],
        },
        Group { heading: "Output", first: &["print", "json"], others: &["stats_interval"] },
        Group { heading: "Run", first: &["count", "duration"], others: &["user"] },
        Group { heading: "Link", first: &["rate"], others: &["no_promiscuous", "queue", "ring"] },
    ],
    sections: &[
        Section {
            heading: "Links",
            blocks: &[Block::Terms(&[
                (
                    "NAME",
                    "An existing network interface, also lo, through AF_PACKET. Write packet:NAME if it has \
                     the name of a link below. The filter runs in the kernel. It needs root (CAP_NET_RAW).",
                ),
                ("any", "All interfaces that exist at the start and are up."),
                (
                    "xdp:NAME[@Q,...]",
                    "An existing network interface that only receives, such as one at the mirror port of a \
                     switch, through AF_XDP. The command takes all its frames and the kernel gets none, so \
                     never name the interface by which you reach the machine. Frames that the machine sends \
                     are not seen. The filter runs in this command.",
                ),
                texts::TAP,
                ("pcap:FILE", "A pcap or pcapng file of any link type, read as fast as possible."),
                ("cable", "In memory, flooded by the peer. It needs nothing."),
            ])],
        },
        Section {
            heading: "Filters",
            blocks: &[Block::Text(
                "EXPRESSION is that of tcpdump. libpcap compiles it for the link, so a filter needs libpcap. \
                 Frames are kept whole, also jumbo frames and frames that an adaptor has joined or is to \
                 split. If --snaplen cuts them, --print shows how much was kept ([|96]). Files of a series \
                 have names like those of dumpcap, NAME_00001_20261121130000.pcapng, with the time in UTC.",
            )],
        },
    ],
    examples: &[
        Example {
            says: "Monitor a flood in memory, and list the busiest senders.",
            command: "evenkeel monitor cable --rate max",
        },
        Example {
            says: "As root, write packets of an interface to a file, 96 bytes of each, without those of SSH.",
            command: "evenkeel monitor eth1 -w capture.pcapng -s 96 not port 22",
        },
        Example {
            says: "As root, keep the last ten files of 100 MB each.",
            command: "evenkeel monitor eth1 -w ring.pcapng -C 100M -W 10",
        },
        Example {
            says: "As root, watch packets in Wireshark as they come.",
            command: "evenkeel monitor eth1 -w - | wireshark -k -i -",
        },
    ],
    exit_status: &[
        ("0", "The command ran to its end or to a signal, and every frame is accounted for."),
        ("1", "The link could not be used, or not everything could be written."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: texts::SIGNALS,
    files: &[texts::TUN_FILE],
    see_also: &["help receiving", "tcpdump(8)", "pcap-filter(7)", "tshark(1)"],
};

/// The report that `monitor --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Monitor")]
pub(crate) struct Output<'a> {
    /// The link, as given on the command line.
    link: String,
    #[serde(flatten)]
    monitored: &'a Monitored,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let to_stdout = arguments.writes_to_stdout();
    if to_stdout && arguments.json {
        return Err(Failure::Usage(
            "standard output cannot take both a capture (-w -) and --json".to_owned(),
        ));
    }
    arguments.check_link()?;
    arguments.service.begin(CapabilitySet::empty())?;
    let setup = arguments.setup()?;
    let mut reporter = Reporter::new(arguments);
    let monitored = arguments.monitor(setup, |news| reporter.on_news(news))?;
    drop(reporter);
    arguments.print(&monitored)?;
    match &monitored.incomplete {
        // The reader of a pipe ended; it has all that it wanted.
        Some(what) if to_stdout && what.contains("Broken pipe") => Ok(()),
        Some(what) => Err(Failure::Machine(what.clone())),
        None => {
            Failure::of_device(monitored.device_failed.as_ref())?;
            if monitored.counters.conserved { Ok(()) } else { Err(Failure::unbalanced()) }
        }
    }
}

/// The source of monitored frames: all network interfaces, or one link.
#[derive(Debug, Clone)]
enum Watched {
    /// All network interfaces.
    Any,
    Link(LinkSpec),
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Link(link) => link.fmt(f),
        }
    }
}

/// Reads a link, the name of a network interface, or `any`.
fn watched(text: &str) -> Result<Watched, String> {
    match text.parse() {
        _ if text == "any" => Ok(Watched::Any),
        Err(SpecError::Unknown(_)) if !text.contains(':') => {
            let link = format!("packet:{text}").parse();
            link.map(Watched::Link).map_err(|error: SpecError| error.to_string())
        }
        link => link.map(Watched::Link).map_err(|error| error.to_string()),
    }
}

/// The rate at which the other end of a cable sends unless another is given.
const CABLE_RATE: Rate = Rate::PerSecond(1_000_000);

impl Arguments {
    fn print(&self, monitored: &Monitored) -> Result<(), Failure> {
        if self.json {
            return terminal::print_json(&Output { link: self.link.to_string(), monitored });
        }
        if self.write.is_some() || self.print {
            // Standard output is for packets, as with tcpdump.
            eprint!("{}", describe(monitored));
            return Ok(());
        }
        terminal::print(&describe(monitored))
    }

    /// Refuses options that would do nothing on this link.
    fn check_link(&self) -> Result<(), Failure> {
        let usage = |line: &str| Err(Failure::Usage(line.to_owned()));
        let is_network =
            matches!(self.link, Watched::Any | Watched::Link(LinkSpec::Device(DeviceSpec::Packet(_))));
        match self.link {
            Watched::Link(LinkSpec::Cable { .. }) => {}
            _ if self.rate.is_some() => {
                return usage("--rate is for cable only: other links bring what they bring");
            }
            _ => {}
        }
        if let Watched::Link(LinkSpec::Device(DeviceSpec::Xdp(device))) = &self.link
            && device.shared
        {
            return usage("a monitor takes all frames of the device from the kernel: xdp: without `,share`");
        }
        if self.no_promiscuous && !is_network {
            return usage("--no-promiscuous is for network interfaces only, such as eth1 or packet:eth1");
        }
        Ok(())
    }

    fn writes_to_stdout(&self) -> bool {
        self.write.as_ref().is_some_and(|file| file.as_os_str() == "-")
    }

    fn setup(&self) -> Result<Setup, Failure> {
        let expression = self.expression.join(" ");
        let filter = match expression.trim() {
            "" => None,
            text => Some(Expression::new(text)),
        };
        let output = match self.target()? {
            Some(target) => What::File(target),
            None if self.print => What::Lines(Lines::to(io::stdout())),
            None => What::Summary,
        };
        let config = self.receiving.listening(1);
        // The memory has room for the queue and for the frames in the rings.
        let memory_pkts = config.memory_pkts + 2 * self.queue as usize;
        Ok(Setup {
            config: Config { memory_pkts, ..config },
            filter,
            snaplen: if self.snaplen == 0 { usize::MAX } else { self.snaplen as usize },
            queue_pkts: self.queue as usize,
            ring_pkts: self.ring as usize,
            promiscuous: !self.no_promiscuous,
            count: self.count,
            output,
        })
    }

    fn target(&self) -> Result<Option<Target>, Failure> {
        let usage = |line: &str| Err(Failure::Usage(line.to_owned()));
        let row = self.file_size.is_some() || self.file_time.is_some();
        if self.files.is_some() && !row {
            return usage("--files needs --file-size or --file-time, or there is only one file");
        }
        match &self.write {
            None => Ok(None),
            Some(_) if self.writes_to_stdout() && row => usage("standard output is one file"),
            Some(_) if self.writes_to_stdout() && !stdout_takes_a_capture() => usage(
                "standard output is a terminal, which cannot show a capture; give a file, or a pipe: -w - | \
                 tshark -r -",
            ),
            Some(_) if self.writes_to_stdout() => Ok(Some(Target::Stdout)),
            Some(file) if row => {
                let keep = self.files.map(usize::from);
                Ok(Some(Target::Files(Row::new(file.clone(), self.file_size, self.file_time, keep))))
            }
            Some(file) => Ok(Some(Target::File(file.clone()))),
        }
    }

    fn monitor(&self, setup: Setup, news: impl FnMut(News)) -> Result<Monitored, Failure> {
        let limits = published::limits(self.duration, Some(self.stats_interval))?;
        let queues = match &self.link {
            Watched::Link(LinkSpec::Cable { queues }) => *queues,
            Watched::Link(LinkSpec::Device(DeviceSpec::Tap(device) | DeviceSpec::Packet(device)))
                if device.queues > 1 =>
            {
                return Err(Failure::Usage("a monitor has one ring: queues= is for hosts".to_owned()));
            }
            Watched::Link(LinkSpec::Device(device)) => {
                return Ok(monitor::on_devices(slice::from_ref(device), setup, limits, news)?);
            }
            Watched::Any => {
                let devices = devices_to_listen_to();
                let devices: Vec<_> =
                    devices.iter().map(|name| DeviceSpec::Packet(name.as_str().into())).collect();
                if devices.is_empty() {
                    return Err(Failure::Machine("no network interface is up".to_owned()));
                }
                return Ok(monitor::on_devices(&devices, setup, limits, news)?);
            }
        };
        let endpoint = |last, port| IpEndpoint::new(IpAddress::v4(10, 77, 0, last), port);
        let shape = Shape {
            hardware: HARDWARE.into(),
            from: endpoint(2, 49_152),
            to: endpoint(1, 9),
            payload: 18,
            flows: 16,
            seed: 1,
        };
        let requests = Requests::new(&shape).map_err(|_| Failure::Usage("no such flow".to_owned()))?;
        let rate = self.rate.unwrap_or(CABLE_RATE);
        let flood = Flood {
            queues,
            rate_pps: rate.per_second(),
            burst_pkts: rate.burst_pkts(),
            duration: Some(self.duration.unwrap_or(Duration::from_secs(5))),
            count: None,
        };
        let limits = published::limits(None, Some(self.stats_interval))?;
        Ok(monitor::on_cable(queues, requests, flood, setup, limits, news)?)
    }
}

/// A display of progress: on a terminal a line that is overwritten; for a summary separate lines.
struct Reporter<'a> {
    arguments: &'a Arguments,
    progress: Option<Progress>,
    quiet: bool,
}

impl<'a> Reporter<'a> {
    fn new(arguments: &'a Arguments) -> Self {
        let summary = arguments.write.is_none() && !arguments.print;
        let quiet = arguments.json || arguments.print;
        Self { arguments, progress: (!summary).then(Progress::new), quiet }
    }

    fn on_news(&mut self, news: News) {
        if let (News::Writable(_) | News::Report(_), Some(progress)) = (&news, &mut self.progress) {
            progress.clear();
        }
        match news {
            News::Writable(change) => super::capture::show(change),
            News::Listening(names) => supervision::say(&format!("listening on {}", names.join(", "))),
            // The error is ignored: if the reader has gone, the final report fails, too.
            News::Report(monitored) => drop(self.arguments.print(&monitored)),
            News::Glance(_) if self.quiet => {}
            News::Glance(glance) => match &mut self.progress {
                Some(progress) => progress.show(&line(&glance)),
                // The error is ignored: if the reader has gone, the final report fails, too.
                None => drop(terminal::print(&format!("{}\n", line(&glance)))),
            },
        }
    }
}

/// Returns the progress line of a monitor. Losses come first because a terminal may truncate the line.
fn line(glance: &Glance) -> String {
    let Glance { elapsed, interval, captured, missed, dropped, discarded, summary } = glance;
    let mut line = format!("{:>6.1} s  ", elapsed.as_secs_f64());
    // A terminal may not have room for the whole line, so losses come first.
    for (frames, what) in [(missed, "by interface"), (dropped, "by queue"), (discarded, "not written")] {
        if *frames > 0 {
            line.push_str(&format!("{} dropped {what}; ", count(*frames)));
        }
    }
    line.push_str(&match summary {
        Some(summary) => summary.line(*interval),
        None => format!("{} packets captured", count(*captured)),
    });
    line
}

/// Returns the final counters as text, worded as tcpdump words them.
fn describe(monitored: &Monitored) -> String {
    let wanted = if monitored.filter_in_kernel || monitored.filter.is_none() {
        monitored.accepted + monitored.missed
    } else {
        monitored.accepted
    };
    let mut text = String::new();
    for (packets, what) in [
        (monitored.captured, "captured"),
        (wanted, "received by filter"),
        (monitored.dropped, "dropped by queue"),
        (monitored.missed, "dropped by interface"),
    ] {
        text.push_str(&format!("{} packets {what}\n", count(packets)));
    }
    text.push_str(&account::interfaces(&monitored.counters));
    for (frames, what) in [(monitored.discarded, "not written"), (monitored.unread, "left in the queue")] {
        if frames > 0 {
            text.push_str(&format!("{} packets {what}\n", count(frames)));
        }
    }
    if monitored.cut > 0 {
        text.push_str(&format!("{} packets cut to {LISTEN_BYTES} bytes\n", count(monitored.cut)));
    }
    if let Some(why) = &monitored.passed_over_because {
        text.push_str(&format!("{} packets passed over: {why}\n", count(monitored.passed_over)));
    }
    if let Some(summary) = &monitored.summary {
        for Count { name, frames } in summary.protocols.iter().chain(&summary.talkers) {
            text.push_str(&format!("{:>12}  {name}\n", count(*frames)));
        }
    }
    if let Some(generator) = &monitored.generator {
        text.push_str(&format!(
            "other end sent {} at {}; {} s, {}\n",
            count(generator.sent),
            pps(generator.offered_pps),
            three_digits(monitored.seconds),
            account::idle(&monitored.counters.cpu)
        ));
    }
    text
}
