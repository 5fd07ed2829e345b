//! `evenkeel demo`: shows receive livelock and its cures.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use clap::Args;
use evenkeel::raw::receive::Architecture;
use evenkeel_apps::demo::options::{Options, Place, Progress};
use evenkeel_apps::demo::results::Demonstration;
use evenkeel_apps::demo::{self, json, report, table};
use evenkeel_apps::quantity::pps;
use evenkeel_apps::text::read_text;

use crate::failure::Failure;
use crate::manual::guide::{Example, Group, Guide};
use crate::manual::texts;
use crate::output_file::OutputFile;
use crate::{quantity, suggest, terminal};

/// Show receive livelock and its cure: one UDP service under rising load, on five receive architectures.
///
/// The demonstration runs in real time on two of this machine's cores. As root it runs over AF_XDP on a veth
/// pair in a network namespace of its own, otherwise over a cable in memory. One core is the host with a
/// service, a second service that receives no flood, and a program that only computes. The other core is the
/// load generator. Load rises from a tenth of the service's peak to sixteen times that peak, or to all that
/// the generator can send. Every frame must be accounted for.
///
/// The command prints a table and writes the curves to a page for any browser. As root it also floods the
/// kernel's own UDP socket, without and with `evenkeel guard`, and a socket of evenkeel over AF_XDP, on a
/// second veth pair. All pairs and namespaces are removed afterwards.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Measure fewer, shorter points: about ten seconds, less exact.
    #[arg(long)]
    quick: bool,
    /// Measure for SECONDS at each load [default: 0.75, with --quick 0.25].
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    seconds_per_point: Option<f64>,
    /// Measure N loads for each architecture, 3 to 100 [default: 12, with --quick 6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=100))]
    points: Option<u16>,
    /// Compute for TIME on each request, at most 1ms.
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = quantity::short_work)]
    work: Duration,
    /// Measure these receive architectures, separated by commas: eager, early-demux, polled, soft-lrp, ni-lrp
    /// [default: all].
    #[arg(
        long, value_name = "LIST", value_delimiter = ',',
        value_parser = suggest::architecture(), hide_possible_values = true
    )]
    architectures: Vec<Architecture>,
    /// Run over this interface: xdp (AF_XDP on a veth pair), packet (a packet socket there, without ni-lrp),
    /// or cable (in memory, without root) [default: xdp as root, packet if there is no AF_XDP, otherwise
    /// cable].
    #[arg(
        long, value_name = "PLACE", value_parser = suggest::with(Place::from_str, ["xdp", "packet", "cable"]),
        hide_possible_values = true
    )]
    on: Option<Place>,
    /// Give the cable N receive queues, 1 to 16 [default: 4]. Its hash assigns each service a queue; if both
    /// services have the same one, the report says so. With several queues, soft-lrp is also measured with
    /// one, as TAPs and most virtual machines have. Implies --on cable.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: Option<u16>,
    /// Seed everything random with SEED.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Do not flood sockets on a veth pair, even as root.
    #[arg(long)]
    no_kernel: bool,
    /// As root, show the guard alone, at the kernel's own socket.
    #[arg(long, conflicts_with_all = ["architectures", "on", "queues", "no_kernel"])]
    guard: bool,
    /// Write the page with the curves to FILE.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,
    /// Write no page.
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    /// Write the picture of delivered against offered load to FILE, as SVG for documents.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Measure nothing. Show the results of an earlier run, which --json printed to FILE.
    #[arg(
        long, value_name = "FILE",
        conflicts_with_all = [
            "quick", "seconds_per_point", "points", "work", "architectures", "on", "queues", "seed",
            "no_kernel", "guard",
        ]
    )]
    from: Option<PathBuf>,
    /// Print the results as one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group {
            heading: "Measurement",
            first: &["quick", "guard", "work", "architectures", "on", "queues", "no_kernel"],
            others: &["seconds_per_point", "points", "seed"],
        },
        Group { heading: "Output", first: &["report", "no_report", "json"], others: &["picture", "from"] },
    ],
    sections: &[],
    examples: &[
        Example {
            says: "Show livelock and its cure in about ten seconds, with a table and without a page.",
            command: "evenkeel demo --quick --no-report",
        },
        Example {
            says: "Compare two architectures while the service computes for 5 µs on each request.",
            command: "evenkeel demo --work 5us --architectures eager,soft-lrp",
        },
        Example {
            says: "As root, see what the guard does for a server on the kernel's own socket.",
            command: "evenkeel demo --guard",
        },
        Example {
            says: "Print the share of its peak that each architecture keeps at the highest load.",
            command: "evenkeel demo --json | jq '.architectures[] | {name, retention}'",
        },
        Example {
            says: "Draw a picture for a document from the results of an earlier run.",
            command: "evenkeel demo --from results.json --picture livelock.svg",
        },
    ],
    exit_status: &[
        ("0", "Every frame is accounted for, and the page is written."),
        ("1", "A frame is not accounted for, the page cannot be written, or the machine has too few cores."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: texts::STEP_SIGNALS,
    files: &[("report.html", "The page with the curves, in the current directory; see --report.")],
    see_also: &["lab run", "blast", "echo"],
};

impl Arguments {
    fn open_page(&self) -> Result<OutputFile, Failure> {
        OutputFile::open(&self.report).map_err(|why| {
            Failure::Machine(format!("{why} (choose another file with --report, or --no-report)"))
        })
    }

    /// Returns the results of an earlier run, or of a new one.
    fn results(&self) -> Result<Demonstration, Failure> {
        if let Some(file) = &self.from {
            return read(file);
        }
        let options = self.options()?;
        let mut progress = terminal::Progress::answering()?;
        let results = demo::run(&options, |at| progress.show(&line(at)))
            .map_err(|e| Failure::machine("cannot run the demonstration", e))?;
        progress.clear();
        Ok(results)
    }

    /// Returns the settings.
    ///
    /// # Errors
    /// Queues of a link that is not the cable.
    fn options(&self) -> Result<Options, Failure> {
        if self.queues.is_some() && self.on.is_some_and(|on| on != Place::Cable) {
            return Err(Failure::Usage("--queues is for --on cable: a veth pair has one queue".to_owned()));
        }
        let base = if self.quick { Options::quick() } else { Options::default() };
        let named: Vec<String> = self.architectures.iter().map(|a| a.name().to_owned()).collect();
        Ok(Options {
            architectures: if named.is_empty() { base.architectures } else { named },
            points: self.points.map_or(base.points, usize::from),
            seconds_per_point: self.seconds_per_point.unwrap_or(base.seconds_per_point),
            work: self.work,
            on: self.on.or(self.queues.map(|_| Place::Cable)),
            queues: self.queues.map_or(base.queues, usize::from),
            seed: self.seed,
            kernel: !self.no_kernel,
            guard: self.guard,
        })
    }
}

/// Columns of the progress bar.
const BAR: usize = 24;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let page = if arguments.no_report { None } else { Some(arguments.open_page()?) };
    let picture = arguments.picture.as_deref().map(OutputFile::open).transpose()?;
    let results = arguments.results()?;
    // The results come first: a page that cannot be written must not lose them.
    if arguments.json {
        terminal::print_json(&results)?;
    } else {
        terminal::print(&table::render(&results))?;
    }
    if let Some(picture) = picture {
        picture.write(&report::picture(&results))?;
    }
    if let Some(page) = page {
        page.write(&report::render(&results))?;
        if !arguments.json {
            terminal::print(&format!("\nThe results as pictures: {}\n", arguments.report.display()))?;
        }
    }
    if results.architectures.iter().all(|a| a.conserved) { Ok(()) } else { Err(Failure::unbalanced()) }
}

/// Reads the results that `--json` printed to a file.
fn read(file: &Path) -> Result<Demonstration, Failure> {
    let cannot = format!("cannot read {}", file.display());
    let text = read_text(file).map_err(|e| Failure::machine(&cannot, e))?;
    json::parse(&text)
        .map_err(|e| Failure::Usage(format!("{cannot}: no results of `evenkeel demo --json`: {e}")))
}

/// Returns the progress line of the demonstration.
fn line(at: &Progress<'_>) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a share for a picture")]
    let share = at.done as f64 / at.of.max(1) as f64;
    format!(
        "{} {:>3.0} %  {:<11}  offered {}, delivered {}",
        terminal::bar(share, BAR),
        share * 100.0,
        at.name,
        pps(at.offered_pps),
        pps(at.delivered_pps)
    )
}
