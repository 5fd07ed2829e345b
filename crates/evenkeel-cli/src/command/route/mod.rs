//! `evenkeel route`: runs a router with screening rules.

pub(crate) mod cable;
mod describe;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use evenkeel::raw::host::{Config, Transmit};
use evenkeel_apps::captures::Embedded;
use evenkeel_apps::host_setup::Occasion;
use evenkeel_apps::link_plan::Link;
use evenkeel_apps::route::active_rules::Text;
use evenkeel_apps::route::error::RouterError;
use evenkeel_apps::route::plan::{StaticNeighbor, StaticRoute};
use evenkeel_apps::route::report::Routed;
use evenkeel_apps::route::router::{Changing, Reread, Router};
use evenkeel_apps::route::running;
use evenkeel_apps::route::tables::{Unusable, Written};
use evenkeel_apps::text::read_text;
use schemars::JsonSchema;
use serde::Serialize;

use super::config_file::{self, File};
use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::quantity::{self, Rate};
use crate::receiving::Receiving;
use crate::supervision::{self, ServiceArguments};
use crate::{published, suggest, terminal};

/// Route and screen IPv4 and IPv6 packets between links.
///
/// evenkeel forwards the packets; the kernel only moves frames. Rules are those of pf, without state: the
/// last matching rule decides. On SIGHUP the command reads the files of --config and --rules again, without
/// losing a packet. If they cannot be used, the old rules, routes and neighbours stay. Without such a file
/// SIGHUP ends the command.
#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Run a demonstration in memory, which needs nothing: a flood at rising rates through a router between
    /// two cables. The links are called lan, where the flood comes from, and wan.
    #[arg(value_name = "cable", value_parser = ["cable"], hide_possible_values = true)]
    place: Option<String>,
    /// Read options from a TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Add a link with the router's addresses on it; give two or more. On a TAP, kernel=ADDRESS/LENGTH is for
    /// the kernel's end.
    #[arg(
        long, value_name = "[NAME=]DEVICE[,ADDRESS/LENGTH...]", value_parser = suggest::router_link(),
        hide_possible_values = true
    )]
    link: Vec<Link>,
    #[allow(rustdoc::broken_intra_doc_links, reason = "brackets are the help's, for what may be left out")]
    /// Add a route to PREFIX, in one of these forms: PREFIX,via=GATEWAY[,link=NAME][,metric=N];
    /// PREFIX,link=NAME; PREFIX,blackhole (or unreachable, prohibit). PREFIX may be default.
    #[arg(long, value_name = "PREFIX,via=GATEWAY")]
    route: Vec<StaticRoute>,
    /// Add a neighbour with a known hardware address.
    #[arg(long, value_name = "ADDRESS,HARDWARE[,link=NAME]")]
    neighbor: Vec<StaticNeighbor>,
    /// Follow the kernel's addresses, routes and neighbours of packet:NAME links, so that a routing daemon
    /// controls the router. The kernel must not forward itself.
    #[arg(long)]
    kernel_routes: bool,
    /// Forward between xdp:NAME links in XDP, once the router has decided about a destination, and --rules
    /// about a flow. Not with --capture.
    #[arg(long)]
    offload: bool,
    /// Forward on these processors, such as 0,1, each with its share of the flows of every packet and xdp
    /// link. Every limit (--quota, queues) is of each. Leave one free for the kernel's work [default: one
    /// host, wherever the kernel puts it].
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Screen packets with the rules in FILE [default: all packets pass].
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Write packets that rules with `log` decide about to FILE, with the rule.
    #[arg(long, value_name = "FILE.pcapng")]
    log: Option<PathBuf>,
    /// Write incoming and outgoing frames of all links to a pcapng file: at most `snaplen` bytes of each, and
    /// only frames that match `filter`, in tcpdump's language. Frames that the disk cannot take are counted.
    /// Not with several --cores.
    #[arg(long, value_name = "FILE[,snaplen=N][,filter=EXPRESSION]", value_parser = super::capture::inside,
          value_hint = clap::ValueHint::FilePath)]
    capture: Option<Embedded>,
    /// Let at most N packets wait for screening.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    screen_queue: u16,
    /// Set the nice value of the screening process, -20 to 20.
    #[arg(
        long, value_name = "NICE", default_value_t = 0, allow_hyphen_values = true,
        value_parser = clap::value_parser!(i8).range(-20..=20)
    )]
    screen_nice: i8,
    /// Set the priority of the forwarding daemon of the lazy architectures, -20 (first) to 20.
    #[arg(
        long, value_name = "NICE", default_value_t = 0, allow_hyphen_values = true,
        value_parser = clap::value_parser!(i8).range(-20..=20)
    )]
    forward_nice: i8,
    /// Let at most N frames wait to leave by a link.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    output_queue: u16,
    /// Give frames to a link that is still sending in this MODE.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = TransmitMode::Latency)]
    transmit: TransmitMode,
    /// On cable: flood with PPS packets a second, such as 500k, or max [default: several rates, one after
    /// another].
    #[arg(long, value_name = "PPS", value_parser = quantity::rate)]
    rate: Option<Rate>,
    /// Print the effect of the rules and options, and end.
    #[arg(long)]
    check: bool,
    /// Stop after TIME [default: at Ctrl-C; on cable 300ms at each rate].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    #[command(flatten)]
    service: ServiceArguments,
    /// Print counters to standard error every TIME, such as 1s.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    stats_interval: Option<Duration>,
    /// Print the final counters as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    receiving: Receiving,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TransmitMode {
    /// Give them at once.
    Latency,
    /// Give them when earlier ones have left, which needs fewer driver calls.
    Throughput,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group {
            heading: "Routing",
            first: &["link", "route", "config"],
            others: &["neighbor", "kernel_routes", "offload", "cores"],
        },
        Group {
            heading: "Screening",
            first: &["rules", "check"],
            others: &["log", "screen_queue", "screen_nice"],
        },
        Group {
            heading: "Forwarding",
            first: &["rate"],
            others: &["forward_nice", "output_queue", "transmit"],
        },
        Group { heading: "Run", first: &["duration"], others: &["user"] },
        Group { heading: "Output", first: &["json"], others: &["stats_interval", "capture"] },
    ],
    sections: &[
        Section {
            heading: "Links",
            blocks: &[Block::Terms(&[
                texts::PACKET,
                texts::TAP,
                ("...,queues=N", texts::QUEUES),
                texts::XDP,
            ])],
        },
        Section {
            heading: "Rules",
            blocks: &[Block::Code(
                "table <bad> { 10.0.0.0/8, !10.1.0.0/16 } file \"bad.txt\"\n\
                 block return log in on wan from <bad>\n\
                 pass quick proto udp to port domain\n\
                 block proto tcp to port { 80, 443 } flags S/SA label \"no new connections\"",
            )],
        },
        Section {
            heading: "Configuration file",
            blocks: &[
                Block::Text("The file has options of the command line, which overrides it."),
                Block::Code(
                    "rules = \"rules.conf\"\n\
                     [[link]]\n\
                     name = \"lan\"\n\
                     device = \"packet:eth1\"\n\
                     address = [\"10.0.1.1/24\", \"fd00:1::1/64\"]",
                ),
            ],
        },
    ],
    examples: &[
        Example {
            says: "Flood a router in memory at rising rates, and see that it keeps its peak.",
            command: "evenkeel route cable",
        },
        Example {
            says: "As root, route between two network cards, with a default route.",
            command: "evenkeel route --link packet:eth1,10.0.1.1/24 \\\n    \
                      --link packet:eth2,10.0.2.1/24 --route default,via=10.0.2.254",
        },
        Example {
            says: "Show what a configuration file would do.",
            command: "evenkeel route --config router.toml --check",
        },
        Example {
            says: "As root, let a running router read its files again.",
            command: "kill -HUP $(pidof evenkeel)",
        },
    ],
    exit_status: texts::EXIT_STATUS,
    signals: texts::REREAD_SIGNALS,
    files: &[
        ("router.toml", "A file of --config: options of the command line, in TOML."),
        ("rules.conf", "A file of --rules: the rules, and the tables that they name."),
        texts::TUN_FILE,
    ],
    see_also: &["wan", "monitor", "help receiving", "pf.conf(5)", "ip-route(8)"],
};

/// The report that `route --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Route")]
pub(crate) struct Output<'a> {
    /// The receive architecture of the router.
    architecture: &'static str,
    #[serde(flatten)]
    routed: &'a Routed,
}

/// The interval between updates of the live line.
const LIVE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (arguments, file) = complete(arguments)?;
    if arguments.place.is_some() {
        arguments.service.refuse_user()?;
        return cable::run(&arguments, &file);
    }
    let router = arguments.router(&file)?;
    if arguments.check {
        return arguments.check(&router, &file);
    }
    let mut live = describe::Live::new(arguments.stats_interval);
    let every = arguments.stats_interval.or_else(|| live.is_seen().then_some(LIVE));
    let kept = arguments.link.iter().map(|link| supervision::to_reopen(&link.device));
    arguments.service.begin(kept.collect())?;
    let limits = published::limits(arguments.duration, every)?;
    let reread = arguments.has_files().then(|| {
        let again = arguments.clone();
        Box::new(move || again.read_again()) as Reread
    });
    let say = Arc::new(supervision::say);
    let routed = running::run(router, limits, reread, say, |occasion, routed| match occasion {
        Occasion::Interval => live.show(routed),
        Occasion::Request => {
            live.clear();
            // The error is ignored: if the reader has gone, the final report fails, too.
            let _ = arguments.print(routed);
        }
    });
    let routed = routed.map_err(|error| failure(&file, error))?;
    live.clear();
    arguments.print(&routed)?;
    if routed.counters.conserved { Ok(()) } else { Err(Failure::unbalanced()) }
}

/// Returns the arguments, with those of the configuration file before them, and that file.
fn complete(arguments: &Arguments) -> Result<(Arguments, File), Failure> {
    let Some(path) = &arguments.config else { return Ok((arguments.clone(), File::default())) };
    match config_file::complete(path, "route", &NOT_IN_FILES)? {
        (crate::Command::Route(arguments), file) => Ok((*arguments, file)),
        _ => Err(config_file::misplaced("route")),
    }
}

/// Options for a cable, which has no file.
const NOT_IN_FILES: [&str; 1] = ["rate"];

fn read(path: &Path) -> Result<String, Failure> {
    read_text(path).map_err(|error| Failure::machine(format!("cannot read {}", path.display()), error))
}

impl Arguments {
    fn print(&self, routed: &Routed) -> Result<(), Failure> {
        if self.json {
            let architecture = self.receiving.architecture().name();
            return terminal::print_json(&Output { architecture, routed });
        }
        terminal::print(&describe::whole(routed))
    }

    fn router(&self, file: &File) -> Result<Router, Failure> {
        if self.link.len() < 2 {
            let what =
                "a router stands between two links: give --link twice, or [[link]] in the file of --config";
            return Err(Failure::Usage(format!("{what}; see `evenkeel route --help`")));
        }
        if self.log.is_some() && self.rules.is_none() {
            let what = "--log needs --rules: rules with `log` say which packets it gets";
            return Err(Failure::Usage(format!("{what}; see `evenkeel route --help`")));
        }
        let router = Router {
            links: self.link.clone(),
            cores: self.cores.clone(),
            config: self.config(),
            changing: self.changing()?,
            kernel_routes: self.kernel_routes,
            offload: self.offload,
            screen_queue_pkts: self.screen_queue.into(),
            screen_nice: self.screen_nice,
            log: self.log.clone(),
            capture: self.capture.clone(),
        };
        router.check().map_err(|error| failure(file, error))?;
        Ok(router)
    }

    fn config(&self) -> Config {
        Config {
            output_queue_pkts: self.output_queue.into(),
            forward_nice: self.forward_nice,
            ..self.receiving.config(1)
        }
        .with_paper_policies(|policies| {
            policies.transmit = match self.transmit {
                TransmitMode::Latency => Transmit::Latency,
                TransmitMode::Throughput => Transmit::Throughput,
            };
        })
    }

    fn changing(&self) -> Result<Changing, Failure> {
        let rules = match &self.rules {
            Some(path) => Some(Text { file: path.clone(), text: read(path)? }),
            None => None,
        };
        let tables = Written { routes: self.route.clone(), neighbors: self.neighbor.clone() };
        Ok(Changing { rules, tables })
    }

    /// Returns whether there is a file for SIGHUP to reread. Without one, SIGHUP ends the command.
    fn has_files(&self) -> bool {
        self.config.is_some() || self.rules.is_some()
    }

    /// Rereads the files and returns their rules, routes and neighbours. SIGHUP requests this.
    fn read_again(&self) -> Result<Changing, String> {
        let (now, _file) = complete(self).map_err(|failure| failure.to_string())?;
        now.changing().map_err(|failure| failure.to_string())
    }

    fn check(&self, router: &Router, file: &File) -> Result<(), Failure> {
        let plan = router.plan().map_err(|error| failure(file, error))?;
        if self.json { terminal::print_json(&plan) } else { terminal::print(&plan.to_string()) }
    }
}

/// Returns the failure for an error of the router, with its place if an option of the file caused it.
fn failure(file: &File, error: RouterError) -> Failure {
    match error {
        RouterError::Table(Unusable { entry, what }) => {
            let place = file.given.iter().find(|given| {
                let value = given.value.as_deref().unwrap_or_default();
                match given.option.as_str() {
                    "route" => value.parse::<StaticRoute>().is_ok_and(|route| route.to_string() == entry),
                    "neighbor" => value.parse::<StaticNeighbor>().is_ok_and(|n| n.to_string() == entry),
                    _ => false,
                }
            });
            let said = format!("`{entry}`: {what}");
            Failure::Usage(place.map_or(said.clone(), |given| file.error_at(given.at, said).to_string()))
        }
        RouterError::Rules(error) => Failure::Usage(error.to_string()),
        RouterError::Links(what) | RouterError::Cores(what) => Failure::Usage(what),
        RouterError::HostSetup(error) => error.into(),
        RouterError::Entry(what) => Failure::Machine(what),
    }
}
