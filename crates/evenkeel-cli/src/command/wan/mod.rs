//! `evenkeel wan`: emulates a wide area network between two links.

mod describe;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use evenkeel::raw::privilege::CapabilitySet;
use evenkeel_apps::host_setup::Occasion;
use evenkeel_apps::link_plan::Link;
use evenkeel_apps::text::read_text;
use evenkeel_apps::wan::cable::{self, Demonstrated, Demonstration, News};
use evenkeel_apps::wan::{self, Options, RealTime, Report, Reread, Wan, WanError};
use evenkeel_wan::{Loss, Rate, Settings, Size, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use super::config_file;
use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::supervision::{self, ServiceArguments};
use crate::{message, published, quantity, suggest, terminal};
use settings::{Both, Queue, Reorder, Share};

/// Emulate a wide-area network between two links (rate, queue, delay, jitter, loss, reordering).
///
/// The emulator is a bridge: frames pass unchanged, also those of ARP and IPv6, and each direction has its
/// own settings. It measures its own error and prints it at the end: the lateness of frames, and the frames
/// lost because the machine was late. No frame leaves early.
#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Run a demonstration in memory, which needs nothing: senders at both ends exceed the rate by a fifth,
    /// and receivers measure what arrives.
    #[arg(value_name = "cable", value_parser = ["cable"], hide_possible_values = true)]
    place: Option<String>,
    /// Read options from a TOML file; read it again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Add a link; give two.
    #[arg(
        long, value_name = "[NAME=]DEVICE", value_parser = suggest::between(), hide_possible_values = true
    )]
    link: Vec<Link>,
    /// Limit the rate to RATE: 64kbit, 50mbit, 1gbit [default: none; on cable 50mbit/5mbit].
    #[arg(long, value_name = "RATE[/RATE]", value_parser = settings::rates, conflicts_with = "trace")]
    rate: Option<Both<Option<u64>>>,
    /// Let frames leave at the times in FILE, in mahimahi's format, instead of --rate.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Count frames for rate and queue with BYTES more (or less) than their length from the Ethernet header
    /// on; ip for the packet alone; ethernet for all that a frame occupies of an Ethernet [default: 0, as
    /// tc-netem; with --trace ip, as mahimahi].
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = settings::overhead)]
    overhead: Option<Size>,
    /// Let at most LIMIT wait for the rate: packets (100), bytes (64kB), or the waiting time of a packet
    /// (50ms). Frames that find the queue full are dropped.
    #[arg(long, value_name = "LIMIT[/LIMIT]", default_value = "1000", value_parser = settings::queues)]
    queue: Both<Queue>,
    /// Delay each frame by TIME, such as 50ms [default: none; on cable 25ms].
    #[arg(long, value_name = "TIME[/TIME]", value_parser = settings::times)]
    delay: Option<Both<Duration>>,
    /// Vary the delay of each frame by at most TIME, up or down.
    #[arg(long, value_name = "TIME[/TIME]", value_parser = settings::times)]
    jitter: Option<Both<Duration>>,
    /// Let frames overtake one another because of jitter.
    #[arg(long, requires = "jitter")]
    jitter_reorders: bool,
    #[allow(rustdoc::broken_intra_doc_links, reason = "brackets are the help's, for what may be left out")]
    /// Lose frames: each with a probability such as 0.5%, or in bursts, gemodel:p,r[,1-h[,1-k]]: the
    /// probabilities that a good link turns bad and a bad one good, and of a loss on a bad link [100%] and on
    /// a good one [0%].
    #[arg(long, value_name = "SHARE[/SHARE]", value_parser = settings::losses)]
    loss: Option<Both<Loss>>,
    /// Delay a share of the frames by TIME more, so that others overtake them, such as 1%,5ms.
    #[arg(long, value_name = "SHARE,TIME[/SHARE,TIME]", value_parser = settings::reorders)]
    reorder: Option<Both<Reorder>>,
    /// Duplicate this share of the frames.
    #[arg(long, value_name = "SHARE[/SHARE]", value_parser = settings::shares)]
    duplicate: Option<Both<Share>>,
    /// Flip a bit in this share of the frames.
    #[arg(long, value_name = "SHARE[/SHARE]", value_parser = settings::shares)]
    corrupt: Option<Both<Share>>,
    /// Seed the random choices with N: equal seeds treat equal frames alike.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Spin for at most TIME before each deadline. The emulator measures how long a wakeup takes on this
    /// machine, spins for that long, and sleeps until then.
    #[arg(long, value_name = "TIME", default_value = "250us", value_parser = quantity::time)]
    spin: Duration,
    /// Bind the emulator to processor N, preferably one without other programs [default: wherever the kernel
    /// puts it].
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Run before all ordinary programs (SCHED_FIFO). The emulator then stays exact next to other programs,
    /// but they get no time on its processor. Needs root (CAP_SYS_NICE), and a processor to spare.
    #[arg(long)]
    realtime: bool,
    /// Allow memory for N frames, 2 KiB each (jumbo frames more), allocated on demand.
    #[arg(long, value_name = "N", default_value = "256k", value_parser = quantity::count)]
    memory: u64,
    /// On cable: send at RATE bits a second [default: a fifth over the rate].
    #[arg(long, value_name = "RATE[/RATE]", value_parser = settings::rates)]
    offered: Option<Both<Option<u64>>>,
    /// Stop after TIME, such as 10s [default: at Ctrl-C; on cable after 3s].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    #[command(flatten)]
    service: ServiceArguments,
    /// Print counters to standard error every TIME, such as 1s; not on cable.
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    stats_interval: Option<Duration>,
    /// Print the final counters as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group {
            heading: "Path",
            first: &["rate", "delay", "loss", "queue"],
            others: &[
                "trace",
                "overhead",
                "jitter",
                "jitter_reorders",
                "reorder",
                "duplicate",
                "corrupt",
                "seed",
            ],
        },
        Group { heading: "Links", first: &["link", "config"], others: &["offered"] },
        Group { heading: "Processor", first: &[], others: &["spin", "cpu", "realtime", "memory"] },
        Group { heading: "Run", first: &["duration"], others: &["user"] },
        Group { heading: "Output", first: &["json"], others: &["stats_interval"] },
    ],
    sections: &[
        Section {
            heading: "Links",
            blocks: &[Block::Terms(&[
                texts::PACKET,
                texts::TAP,
                (
                    "xdp:NAME",
                    "An interface of one queue, through AF_XDP; the kernel gets none of its frames.",
                ),
                ("...,kernel=A/N", "tap: with the address A and prefix length N for the kernel's end."),
            ])],
        },
        Section {
            heading: "Directions",
            blocks: &[Block::Text(
                "One value applies to both. With two values, such as --rate 50mbit/5mbit, the first is for \
                 frames from the first link to the second, and the second for frames in the other direction. \
                 The first --trace is for the forward direction, a second one for the other. The value none \
                 resets a setting, but not --queue and --overhead.",
            )],
        },
        Section {
            heading: "Order",
            blocks: &[Block::Text(
                "Each frame passes loss, corruption, duplication, queue, rate or trace, delay and jitter, \
                 and reordering. Settings have the names of tc-netem, which differs in this order. Here a \
                 lost frame is not duplicated, and a copy has the flipped bit, too. --reorder delays frames; \
                 netem sends them early. --jitter keeps the order. --queue counts only frames that wait for \
                 the rate.",
            )],
        },
        Section {
            heading: "Configuration file",
            blocks: &[
                Block::Text(
                    "Settings in a file of --config can change: SIGHUP reads it again. Options of the \
                     command line override it. Links, --seed and similar options stay.",
                ),
                Block::Code("delay = \"20ms\"\nlink = [\"packet:eth1\", \"packet:eth2\"]"),
            ],
        },
    ],
    examples: &[
        Example {
            says: "Emulate a DSL line in memory, and measure what comes out at its ends.",
            command: "evenkeel wan cable --rate 50mbit/5mbit --delay 20ms --loss 0.5%",
        },
        Example {
            says: "As root, put a path of 50 Mbit/s and 50 ms between two network cards.",
            command: "evenkeel wan --link packet:eth1 --link packet:eth2 \\\n    --rate 50mbit --delay 50ms",
        },
        Example {
            says: "As root, follow a recorded mobile link.",
            command: "evenkeel wan --link packet:eth1 --link packet:eth2 --trace lte.down \\\n    \
                      --trace lte.up --delay 20ms",
        },
    ],
    exit_status: texts::EXIT_STATUS,
    signals: texts::REREAD_SIGNALS,
    files: &[("wan.toml", "A file of --config: options of the command line, in TOML."), texts::TUN_FILE],
    see_also: &["route", "tc-netem(8)", "mahimahi(1)"],
};

/// The report that `wan --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Wan_{T}")]
pub(crate) struct Output<'a, T> {
    /// The settings of the two directions, in words: forward, and back.
    settings: [String; 2],
    #[serde(flatten)]
    what: &'a T,
}

/// The interval between updates of the live line.
const LIVE: Duration = Duration::from_secs(1);
/// The default rates of the demonstration in bit/s: forward, and back.
const CABLE_BPS: [u64; 2] = [50_000_000, 5_000_000];
const CABLE_FOR: Duration = Duration::from_secs(3);

/// The settings of the two directions without --rate, --trace and --delay.
struct Defaults {
    bps: [Option<u64>; 2],
    delay: Duration,
}

impl Defaults {
    const NONE: Self = Self { bps: [None; 2], delay: Duration::ZERO };
    const OF_CABLE: Self =
        Self { bps: [Some(CABLE_BPS[0]), Some(CABLE_BPS[1])], delay: Duration::from_millis(25) };
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let arguments = &arguments.complete()?;
    if arguments.place.is_some() {
        arguments.service.refuse_user()?;
        return arguments.on_cable();
    }
    if arguments.offered.is_some() {
        return Err(Failure::Usage("--offered is for cable only".to_owned()));
    }
    let directions = arguments.directions(&Defaults::NONE)?;
    let links: [Link; 2] = arguments.link.clone().try_into().map_err(|given: Vec<Link>| {
        let what = format!("a network is between two links, and {} are given: --link twice", given.len());
        Failure::Usage(format!("{what}; see `evenkeel wan --help`"))
    })?;
    let names = [0, 1].map(|n| links[n].name.clone());
    let wan = Wan { links, options: arguments.options(directions.clone())? };
    wan.check()?;
    let began_lines = lines(&names, &directions);
    let began = || began_lines.iter().for_each(|line| supervision::say(line));
    let now = Now::new(directions);
    let reread = arguments.reread(&now, &Defaults::NONE, names);
    let print = |report: &Report| {
        if arguments.json {
            return terminal::print_json(&Output {
                settings: describe::both(&now.directions()),
                what: report,
            });
        }
        terminal::print(&describe::whole(report))
    };
    let mut live = describe::Live::new(arguments.stats_interval);
    let every = arguments.stats_interval.or_else(|| live.is_seen().then_some(LIVE));
    let kept = wan.links.iter().map(|link| supervision::to_reopen(&link.device));
    // The emulator's thread runs before others.
    arguments.service.begin(kept.chain([CapabilitySet::SYS_NICE]).collect())?;
    let limits = published::limits(arguments.duration, every)?;
    let report =
        wan::run(&wan, limits, reread, supervision::say, began, |occasion, report| match occasion {
            Occasion::Interval => live.show(report),
            Occasion::Request => {
                live.clear();
                // The error is ignored: if the reader has gone, the final report fails, too.
                let _ = print(report);
            }
        })?;
    live.clear();
    print(&report)?;
    balanced(&report)
}

/// The current settings of both directions.
struct Now(Mutex<[Settings; 2]>);

impl Now {
    fn new(directions: [Settings; 2]) -> Self {
        Self(Mutex::new(directions))
    }

    fn directions(&self) -> MutexGuard<'_, [Settings; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a line about the settings of each direction.
fn lines(names: &[String; 2], directions: &[Settings; 2]) -> Vec<String> {
    let each = describe::both(directions).into_iter().enumerate();
    each.map(|(n, settings)| format!("{} -> {}: {settings}", names[n], names[1 - n])).collect()
}

fn balanced(report: &Report) -> Result<(), Failure> {
    if report.conserved { Ok(()) } else { Err(Failure::unbalanced()) }
}

impl Arguments {
    /// Returns these arguments with the current options of the configuration file before them.
    fn complete(&self) -> Result<Self, Failure> {
        let Some(path) = &self.config else { return Ok(self.clone()) };
        match config_file::complete(path, "wan", &[])? {
            (crate::Command::Wan(arguments), _) => Ok(*arguments),
            _ => Err(config_file::misplaced("wan")),
        }
    }

    /// Returns the function for SIGHUP, which reads the settings of each direction from the configuration
    /// file again. Returns `None` if there is no such file.
    fn reread<'a>(&'a self, now: &'a Now, defaults: &'a Defaults, names: [String; 2]) -> Option<Reread<'a>> {
        self.config.as_ref()?;
        Some(Box::new(move || {
            let directions = self.complete().and_then(|again| again.directions(defaults));
            let directions = directions.map_err(|failure| failure.to_string())?;
            now.directions().clone_from(&directions);
            let lines = lines(&names, &directions);
            Ok((directions, lines))
        }))
    }

    fn on_cable(&self) -> Result<(), Failure> {
        if !self.link.is_empty() {
            return Err(Failure::Usage("cable has its own links: without --link".to_owned()));
        }
        if self.stats_interval.is_some() {
            let line = "cable shows how far it is, and its counters at the end: without --stats-interval";
            return Err(Failure::Usage(line.to_owned()));
        }
        let directions = self.directions(&Defaults::OF_CABLE)?;
        let offered_pps = [0, 1].map(|n| {
            let rate = match &directions[n].rate {
                Rate::Bits(bps) => *bps,
                Rate::Trace(trace) => trace.mean_bps(),
                Rate::Unlimited => CABLE_BPS[n],
            };
            let asked = self.offered.as_ref().and_then(|offered| offered.of(n));
            let bits = u64::from(directions[n].size.of(cable::FRAME_BYTES)) * 8;
            (asked.unwrap_or(rate.saturating_add(rate / 5)) / bits).max(1)
        });
        let now = Now::new(directions.clone());
        let reread = self.reread(&now, &Defaults::OF_CABLE, ["left", "right"].map(str::to_owned));
        let demonstration = Demonstration {
            options: self.options(directions)?,
            offered_pps,
            duration: self.duration.unwrap_or(CABLE_FOR),
            reports: terminal::reports()?,
        };
        let print = |done: &Demonstrated| {
            let directions = now.directions();
            if self.json {
                return terminal::print_json(&Output { settings: describe::both(&directions), what: done });
            }
            terminal::print(&describe::demonstrated(done, &directions))
        };
        let mut progress = terminal::Progress::new();
        let done = cable::run(&demonstration, reread, message::say, |news| match news {
            News::Share(share) => {
                progress.show(&format!("{} {:3.0} %", terminal::bar(share, 30), share * 100.0));
            }
            News::Report(done) => {
                progress.clear();
                // The error is ignored: if the reader has gone, the final report fails, too.
                let _ = print(done);
            }
        })?;
        drop(progress);
        print(&done)?;
        balanced(&done.report)
    }

    /// Returns the settings of both directions: forward, and back.
    fn directions(&self, defaults: &Defaults) -> Result<[Settings; 2], Failure> {
        if self.trace.len() > 2 {
            return Err(Failure::Usage("--trace is given once or twice: there, and back".to_owned()));
        }
        let traces = self.trace.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
        Ok([self.direction(0, &traces, defaults)?, self.direction(1, &traces, defaults)?])
    }

    fn direction(
        &self,
        n: usize,
        traces: &[Option<Trace>],
        defaults: &Defaults,
    ) -> Result<Settings, Failure> {
        let trace = traces.get(n).or(traces.last()).cloned().flatten();
        let size = self.overhead.unwrap_or(if trace.is_some() { Size::IP } else { Size::default() });
        let rate = match &self.rate {
            Some(rate) => rate.of(n),
            None if traces.is_empty() => defaults.bps[n],
            None => None,
        };
        let rate = trace.map(Rate::Trace).or(rate.map(Rate::Bits)).unwrap_or_default();
        let delay = self.delay.as_ref().map_or(defaults.delay, |delay| delay.of(n));
        let jitter = self.jitter.as_ref().map_or(Duration::ZERO, |jitter| jitter.of(n));
        let Some(least) = delay.checked_sub(jitter) else {
            return Err(Failure::Usage(format!(
                "--jitter {jitter:?} either way needs a --delay of as much: no frame arrives before it left"
            )));
        };
        let share = |shares: &Option<Both<Share>>| shares.as_ref().map_or(Share::default(), |all| all.of(n));
        let reorder = self.reorder.as_ref().map_or(Reorder::default(), |reorder| reorder.of(n));
        Ok(Settings {
            rate,
            size,
            queue: self.queue.of(n).0,
            delay: least,
            jitter: 2 * jitter,
            jitter_reorders: self.jitter_reorders,
            loss: self.loss.as_ref().map_or(Loss::NONE, |loss| loss.of(n)),
            duplication: share(&self.duplicate).0,
            corruption: share(&self.corrupt).0,
            reordering: reorder.share.0,
            reordering_delay: reorder.held_back,
        })
    }

    fn cpu(&self) -> Result<Option<usize>, Failure> {
        match self.cpu {
            Some(cpu) if !evenkeel::raw::cpu::cpus().contains(&cpu) => Err(Failure::Usage(format!(
                "--cpu {cpu}: this process may run on {:?}",
                evenkeel::raw::cpu::cpus()
            ))),
            cpu => Ok(cpu),
        }
    }

    fn options(&self, directions: [Settings; 2]) -> Result<Options, Failure> {
        Ok(Options {
            directions,
            seed: self.seed,
            spin: self.spin,
            real_time: if self.realtime { RealTime::Required } else { RealTime::Off },
            cpu: self.cpu()?,
            memory_pkts: usize::try_from(self.memory).unwrap_or(usize::MAX),
        })
    }
}

/// Reads a trace from `file`; the name `none` means no trace.
fn read(file: &Path) -> Result<Option<Trace>, Failure> {
    if file.as_os_str() == "none" {
        return Ok(None);
    }
    let text = read_text(file)
        .map_err(|error| Failure::machine(format!("--trace: cannot read {}", file.display()), error))?;
    text.parse().map(Some).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

impl From<WanError> for Failure {
    fn from(error: WanError) -> Self {
        match error {
            WanError::Links(what) => Self::Usage(what),
            WanError::Link(_) | WanError::Machine(_) => Self::Machine(error.to_string()),
        }
    }
}
