//! `evenkeel demo`: shows receive livelock and its cures.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel::core::receive::Architecture;
use evenkeel_apps::demo::options::{Options, Progress};
use evenkeel_apps::demo::{self, report, table};
use evenkeel_apps::quantity::pps;

use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::{quantity, suggest, terminal};

/// Show receive livelock and its cure: one UDP service under rising load, on five receive architectures.
///
/// Runs in real time on two of this machine's cores, over a cable in memory: one core is the host with a
/// service, a second service that nobody floods, and a program that only computes; the other is the load
/// generator. Load rises from a tenth of the service's peak to more than ten times that. All numbers are
/// counters, and every frame must be accounted for.
///
/// Prints a table, and writes the curves to a page that any browser shows. Needs no root. As root it also
/// floods the kernel's own UDP socket, on a veth pair in a network namespace that is gone afterwards.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  evenkeel demo
  evenkeel demo --quick --no-report
  evenkeel demo --work 5us --architectures eager,soft-lrp
  evenkeel demo --json | jq '.architectures[] | {name, retention}'

Exit status: 0 if it ran, every frame is accounted for and the page is written, 1 if not, 2 for bad arguments.
docs/results.md explains every field of the JSON.")]
pub(crate) struct Arguments {
    /// Fewer and shorter points: about ten seconds, rougher figures.
    #[arg(long)]
    quick: bool,
    /// Seconds of measuring at each load [default: 0.75, with --quick 0.25].
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    seconds_per_point: Option<f64>,
    /// Loads to measure for each architecture, 3 to 100 [default: 12, with --quick 6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=100))]
    points: Option<u16>,
    /// What the service computes for each request, at most 1ms.
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = quantity::short_work)]
    work: Duration,
    /// Receive architectures, separated by commas: eager, early-demux, polled, soft-lrp, ni-lrp [default:
    /// all].
    #[arg(
        long, value_name = "LIST", value_delimiter = ',',
        value_parser = suggest::architecture(), hide_possible_values = true
    )]
    architectures: Vec<Architecture>,
    /// Receive queues of the interface, 1 to 16. Each service has the queue that the cable's hash gives it;
    /// where that is the same, this is said. If there are several, soft-lrp is also measured with one, as
    /// TAPs and most virtual machines have.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: u16,
    /// Seed of everything that is random.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Do not flood the kernel's own sockets, even as root.
    #[arg(long)]
    no_kernel: bool,
    /// Where the page with the curves goes.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,
    /// Write no page.
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    /// Print the results as one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn open_page(&self) -> Result<OutputFile, Failure> {
        OutputFile::open(&self.report).map_err(|why| {
            Failure::Machine(format!("{why} (choose another file with --report, or --no-report)"))
        })
    }

    fn options(&self) -> Options {
        let base = if self.quick { Options::quick() } else { Options::default() };
        let named: Vec<String> = self.architectures.iter().map(|a| a.name().to_owned()).collect();
        Options {
            architectures: if named.is_empty() { base.architectures } else { named },
            points: self.points.map_or(base.points, usize::from),
            seconds_per_point: self.seconds_per_point.unwrap_or(base.seconds_per_point),
            work: self.work,
            queues: usize::from(self.queues),
            seed: self.seed,
            kernel: !self.no_kernel,
        }
    }
}

/// Columns of the bar that shows how far it is.
const BAR: usize = 24;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let page = if arguments.no_report { None } else { Some(arguments.open_page()?) };
    let mut progress = terminal::Progress::answering()?;
    let results = demo::run(&arguments.options(), |at| progress.show(&line(at)))
        .map_err(|e| Failure::machine("cannot run the demonstration", e))?;
    progress.clear();
    // The results first: a page that cannot be written must not cost the run.
    if arguments.json {
        terminal::print_json(&results)?;
    } else {
        terminal::print(&table::render(&results))?;
    }
    if let Some(page) = page {
        page.write(&report::render(&results))?;
        if !arguments.json {
            terminal::print(&format!("\nThe results as pictures: {}\n", arguments.report.display()))?;
        }
    }
    if results.architectures.iter().all(|a| a.conserved) { Ok(()) } else { Err(Failure::unbalanced()) }
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
