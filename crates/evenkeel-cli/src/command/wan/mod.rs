//! `evenkeel wan`: emulates a wide area network between two links.

mod describe;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use evenkeel_apps::host_setup::{Limits, Occasion};
use evenkeel_apps::route::plan::Link;
use evenkeel_apps::text::read_text;
use evenkeel_apps::wan::cable::{self, Demonstrated, Demonstration, News};
use evenkeel_apps::wan::{self, Options, RealTime, Report, Reread, Wan, WanError};
use evenkeel_wan::{Loss, Rate, Settings, Size, Trace};
use serde::Serialize;

use super::config_file;
use crate::failure::Failure;
use crate::{quantity, suggest, terminal};
use settings::{Both, Queue, Reorder, Share};

/// Emulate a wide-area network between two links: rate, queue, delay, jitter, loss, reordering.
///
/// It is a bridge: frames pass unchanged, also those of ARP and IPv6, and each way has settings of its own.
/// What it adds by itself is measured: how late each frame left, and what was lost because the machine was
/// late, is printed at the end. No frame leaves early.
#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    after_long_help = "\
Links:
  packet:NAME  a network interface that exists, through AF_PACKET. Needs root (CAP_NET_RAW).
  tap:NAME     a TAP device; created if it is not there, and then gone afterwards. Needs root
               (CAP_NET_ADMIN). Also with ,kernel=ADDRESS/LENGTH for the kernel's end.

Both ways: one value is for both. Of two with a / between them the first is for frames from the
first link to the second, and the second for those that go back: --rate 50mbit/5mbit. The first
--trace is for the way there, the second, if there is one, for the way back. none takes a setting
back, but for --queue and --overhead.

What happens to a frame, in this order:
  loss, corruption, duplication, queue, rate or trace, delay and jitter, reordering

Settings have the names that tc-netem has for them. They differ in this order, and in that a lost
frame is not doubled, a copy has the flipped bit too, --reorder holds frames back where netem sends
them ahead, --jitter keeps the order unless --jitter-reorders is given, and --queue is what waits
for the rate, and not, as netem's limit, also what flies. --loss gemodel:p,r,1-h,1-k is its model.

Traces are mahimahi's: a line for each opportunity to deliver 1500 bytes, with its time in
milliseconds since the beginning; at its end a trace begins again.

Changes, as `tc qdisc change` makes them: settings in a TOML file (--config), read again on SIGHUP.
Options of the command line override the file. Frames on their way keep their time; links, --seed
and the like stay. A file that cannot be used is said, and changes nothing.
  delay = \"20ms\"
  link = [\"packet:eth1\", \"packet:eth2\"]

Links may have any MTU, also one that changes; what is too long for the other is counted as such.

Examples:
  evenkeel wan cable
  evenkeel wan cable --rate 50mbit/5mbit --delay 20ms --loss 0.5%
as root:
  evenkeel wan --link packet:eth1 --link packet:eth2 --rate 50mbit --delay 50ms
  evenkeel wan --link packet:eth1 --link packet:eth2 --rate 50mbit/5mbit --queue 100ms/300ms
  evenkeel wan --link tap:t0,kernel=10.9.0.1/24 --link packet:eth2 --delay 10ms --jitter 2ms
  evenkeel wan --link packet:eth1 --link packet:eth2 --loss gemodel:0.1%,20% --reorder 0.5%,5ms
  evenkeel wan --link packet:eth1 --link packet:eth2 --trace lte.down --trace lte.up --delay 20ms
  evenkeel wan --config wan.toml

Exit status: 0 when it ran to its end or to Ctrl-C and every frame is accounted for, 1 otherwise, 2
for bad arguments."
)]
pub(crate) struct Arguments {
    /// A demonstration in memory that needs nothing: somebody at either end sends a fifth more than the rate,
    /// and measures what comes out.
    #[arg(value_name = "cable", value_parser = ["cable"])]
    place: Option<String>,
    /// A file with options, in TOML; read again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A link; give two.
    #[arg(
        long, value_name = "[NAME=]DEVICE", value_parser = suggest::between(), hide_possible_values = true
    )]
    link: Vec<Link>,
    /// Bits a second: 64kbit, 50mbit, 1gbit [default: none; on cable 50mbit/5mbit].
    #[arg(long, value_name = "RATE[/RATE]", value_parser = settings::rates, conflicts_with = "trace")]
    rate: Option<Both<Option<u64>>>,
    /// When frames may leave: a file in mahimahi's format, in place of --rate.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// What counts of a frame for rate and queue: so many bytes more (or less) than it has from the Ethernet
    /// header on; ip for the packet in it; ethernet for all that it occupies of an Ethernet [default: 0, as
    /// for tc-netem; with --trace ip, as for mahimahi].
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = settings::overhead)]
    overhead: Option<Size>,
    /// What may wait for the rate: so many packets (100), bytes (64kB), or no packet longer than this (50ms).
    /// What finds no room is dropped.
    #[arg(long, value_name = "LIMIT[/LIMIT]", default_value = "1000", value_parser = settings::queues)]
    queue: Both<Queue>,
    /// How long each frame flies, such as 50ms [default: none; on cable 25ms].
    #[arg(long, value_name = "TIME[/TIME]", value_parser = settings::times)]
    delay: Option<Both<Duration>>,
    /// By how much the delay of each frame may be more or less.
    #[arg(long, value_name = "TIME[/TIME]", value_parser = settings::times)]
    jitter: Option<Both<Duration>>,
    /// Jitter lets frames overtake one another.
    #[arg(long, requires = "jitter")]
    jitter_reorders: bool,
    #[allow(rustdoc::broken_intra_doc_links, reason = "brackets are the help's, for what may be left out")]
    /// Frames that vanish: each with a probability such as 0.5%, or in bursts, gemodel:p,r[,1-h[,1-k]] with
    /// the probabilities that a good link turns bad and a bad one good, and of a loss when it is bad [100%]
    /// and when it is good [0%].
    #[arg(long, value_name = "SHARE[/SHARE]", value_parser = settings::losses)]
    loss: Option<Both<Loss>>,
    /// Frames that are held back for so long, so that others overtake them, such as 1%,5ms.
    #[arg(long, value_name = "SHARE,TIME[/SHARE,TIME]", value_parser = settings::reorders)]
    reorder: Option<Both<Reorder>>,
    /// Frames that come twice.
    #[arg(long, value_name = "SHARE[/SHARE]", value_parser = settings::shares)]
    duplicate: Option<Both<Share>>,
    /// Frames in which a bit is flipped.
    #[arg(long, value_name = "SHARE[/SHARE]", value_parser = settings::shares)]
    corrupt: Option<Both<Share>>,
    /// Of the dice: the same seed does the same to the same frames.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// For what is due the emulator waits awake for as long as being woken takes on this machine, which it
    /// finds out, but for no longer than this; until then it halts.
    #[arg(long, value_name = "TIME", default_value = "250us", value_parser = quantity::time)]
    spin: Duration,
    /// Bind the emulator to a processor, best one that nobody else has [default: wherever the kernel puts
    /// it].
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Run before all ordinary programs (SCHED_FIFO): exact also beside others, but they get none of the
    /// processor that it is on. Needs root (CAP_SYS_NICE), and a processor to spare.
    #[arg(long)]
    realtime: bool,
    /// Frames that there is memory for, 2 KiB each (jumbo frames more), taken as they are needed.
    #[arg(long, value_name = "N", default_value = "256k", value_parser = quantity::count)]
    memory: u64,
    /// On cable: bits a second that are sent, of full frames [default: a fifth more than the rate].
    #[arg(long, value_name = "RATE[/RATE]", value_parser = settings::rates)]
    offered: Option<Both<Option<u64>>>,
    /// Stop after this long, such as 10s [default: at Ctrl-C; on cable after 3s].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    /// Print counters to standard error this often, such as 1s; not on cable.
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    stats_interval: Option<Duration>,
    /// Print the final counters as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The report that `wan --json` prints.
#[derive(Serialize)]
struct Output<'a, T> {
    settings: [String; 2],
    #[serde(flatten)]
    what: &'a T,
}

/// The interval between updates of the live line.
const LIVE: Duration = Duration::from_secs(1);
/// The default rates of the demonstration in bit/s: there, and back.
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
        return arguments.on_cable();
    }
    if arguments.offered.is_some() {
        return Err(Failure::Usage("--offered is for cable only".to_owned()));
    }
    let ways = arguments.ways(&Defaults::NONE)?;
    let links: [Link; 2] = arguments.link.clone().try_into().map_err(|given: Vec<Link>| {
        let what = format!("a network is between two links, and {} are given: --link twice", given.len());
        Failure::Usage(format!("{what}; see `evenkeel wan --help`"))
    })?;
    let names = [0, 1].map(|n| links[n].name.clone());
    let wan = Wan { links, options: arguments.options(ways.clone())? };
    wan.check()?;
    let began_lines = lines(&names, &ways);
    let began = || began_lines.iter().for_each(|line| terminal::say(line));
    let now = Now::new(ways);
    let reread = arguments.reread(&now, &Defaults::NONE, names);
    let print = |report: &Report| {
        if arguments.json {
            return terminal::print_json(&Output { settings: describe::both(&now.ways()), what: report });
        }
        terminal::print(&describe::whole(report))
    };
    let mut live = describe::Live::new(arguments.stats_interval);
    let every = arguments.stats_interval.or_else(|| live.is_seen().then_some(LIVE));
    let limits = Limits { duration: arguments.duration, every, reports: terminal::reports()? };
    let report = wan::run(&wan, limits, reread, terminal::say, began, |occasion, report| match occasion {
        Occasion::Interval => live.show(report),
        Occasion::Request => {
            live.clear();
            // That the reader has gone shows at the end.
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
    fn new(ways: [Settings; 2]) -> Self {
        Self(Mutex::new(ways))
    }

    fn ways(&self) -> MutexGuard<'_, [Settings; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is done each way, in a line for each.
fn lines(names: &[String; 2], ways: &[Settings; 2]) -> Vec<String> {
    let each = describe::both(ways).into_iter().enumerate();
    each.map(|(n, settings)| format!("{} -> {}: {settings}", names[n], names[1 - n])).collect()
}

fn balanced(report: &Report) -> Result<(), Failure> {
    if report.conserved { Ok(()) } else { Err(Failure::unbalanced()) }
}

impl Arguments {
    /// Returns these with those of the configuration file, as it is now, before them.
    fn complete(&self) -> Result<Self, Failure> {
        let Some(path) = &self.config else { return Ok(self.clone()) };
        match config_file::complete(path, "wan", &[])? {
            (crate::Command::Wan(arguments), _) => Ok(*arguments),
            _ => Err(config_file::misplaced("wan")),
        }
    }

    /// Returns what SIGHUP asks for: what is to be done each way, as the configuration file says now. `None`
    /// if there is no such file.
    fn reread<'a>(&'a self, now: &'a Now, defaults: &'a Defaults, names: [String; 2]) -> Option<Reread<'a>> {
        self.config.as_ref()?;
        Some(Box::new(move || {
            let ways = self.complete().and_then(|again| again.ways(defaults));
            let ways = ways.map_err(|failure| failure.to_string())?;
            now.ways().clone_from(&ways);
            let lines = lines(&names, &ways);
            Ok((ways, lines))
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
        let ways = self.ways(&Defaults::OF_CABLE)?;
        let offered_pps = [0, 1].map(|n| {
            let rate = match &ways[n].rate {
                Rate::Bits(bps) => *bps,
                Rate::Trace(trace) => trace.mean_bps(),
                Rate::Unlimited => CABLE_BPS[n],
            };
            let asked = self.offered.as_ref().and_then(|offered| offered.of(n));
            let bits = u64::from(ways[n].size.of(cable::FRAME_BYTES)) * 8;
            (asked.unwrap_or(rate.saturating_add(rate / 5)) / bits).max(1)
        });
        let now = Now::new(ways.clone());
        let reread = self.reread(&now, &Defaults::OF_CABLE, ["left", "right"].map(str::to_owned));
        let demonstration = Demonstration {
            options: self.options(ways)?,
            offered_pps,
            duration: self.duration.unwrap_or(CABLE_FOR),
            reports: terminal::reports()?,
        };
        let print = |done: &Demonstrated| {
            let ways = now.ways();
            if self.json {
                return terminal::print_json(&Output { settings: describe::both(&ways), what: done });
            }
            terminal::print(&describe::demonstrated(done, &ways))
        };
        let mut progress = terminal::Progress::new();
        let done = cable::run(&demonstration, reread, terminal::say, |news| match news {
            News::Share(share) => {
                progress.show(&format!("{} {:3.0} %", terminal::bar(share, 30), share * 100.0));
            }
            News::Report(done) => {
                progress.clear();
                // That the reader has gone shows at the end.
                let _ = print(done);
            }
        })?;
        drop(progress);
        print(&done)?;
        balanced(&done.report)
    }

    /// Returns the settings of both directions: there, and back.
    fn ways(&self, defaults: &Defaults) -> Result<[Settings; 2], Failure> {
        if self.trace.len() > 2 {
            return Err(Failure::Usage("--trace is given once or twice: there, and back".to_owned()));
        }
        let traces = self.trace.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
        Ok([self.way(0, &traces, defaults)?, self.way(1, &traces, defaults)?])
    }

    fn way(&self, n: usize, traces: &[Option<Trace>], defaults: &Defaults) -> Result<Settings, Failure> {
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
            Some(cpu) if !evenkeel::link::cpus().contains(&cpu) => Err(Failure::Usage(format!(
                "--cpu {cpu}: this process may run on {:?}",
                evenkeel::link::cpus()
            ))),
            cpu => Ok(cpu),
        }
    }

    fn options(&self, ways: [Settings; 2]) -> Result<Options, Failure> {
        Ok(Options {
            ways,
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
