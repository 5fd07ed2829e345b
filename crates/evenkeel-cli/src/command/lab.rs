//! `evenkeel lab`: runs the papers' experiments.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use clap::{Args, Subcommand};
use evenkeel::raw::time::Duration;
use evenkeel_lab::real::{self, Place};
use evenkeel_lab::{Experiment, Mode, Report, Seeds, experiments, find, survey};

use crate::failure::Failure;
use crate::manual::guide::{Example, Group, Guide};
use crate::manual::texts;
use crate::output_file::OutputFile;
use crate::{quantity, suggest, terminal};

/// Repeat the measurements of the papers that evenkeel is built on.
///
/// Every experiment is a figure or a table of a paper. Most run in virtual time, on a simulated CPU with the
/// costs of the paper's machine, with each of twenty seeds. Equal seeds give equal figures on any machine.
/// Each experiment ends with checks against the paper. Checks that something was fitted to are listed apart
/// from predictions.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    List(ListArguments),
    Run(RunArguments),
}

/// List the experiments of the papers.
#[derive(Debug, Args)]
struct ListArguments {
    /// Print a JSON list instead of text.
    #[arg(long)]
    json: bool,
}

/// Run experiments and compare them with the papers.
#[derive(Debug, Args)]
struct RunArguments {
    /// Run these experiments, named as in `evenkeel lab list`; `all` for all of them, `t00` for those of that
    /// paper.
    #[arg(
        required = true, value_name = "ID", value_parser = suggest::experiment(), hide_possible_values = true
    )]
    ids: Vec<String>,
    /// Run with seeds 1 to N. The median counts; the report gives the spread, and the share of seeds with
    /// which each check holds.
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with_all = ["seed", "real"],
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Run only with SEED for everything random.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Measure in real time on this machine, if the experiment has that mode, instead of in virtual time.
    #[arg(long)]
    real: bool,
    #[command(flatten)]
    real_options: RealOptions,
    /// Write the points of each experiment to DIR/ID.csv. Without --json they also go to lab-results or
    /// lab-results/real.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    csv: Option<PathBuf>,
    /// Write each experiment's picture to DIR/ID.svg; a table has none. Without --json it also goes to
    /// lab-results or lab-results/real.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    svg: Option<PathBuf>,
    /// Write only the files that other options request.
    #[arg(long)]
    no_files: bool,
    /// Write all checks, with spreads and known misses, as one page of Markdown; in virtual time only.
    #[arg(long, value_name = "FILE", conflicts_with = "real")]
    markdown: Option<PathBuf>,
    /// Print JSON instead of text: one object for one experiment, a list for several.
    #[arg(long)]
    json: bool,
}

/// Options for measuring in real time.
#[derive(Debug, Args)]
#[command(next_help_heading = "In real time")]
struct RealOptions {
    /// Give the host these links: in-memory cables, packet sockets on veth pairs, TAP devices, or AF_XDP on
    /// veth pairs (xdp). All but the cable need root and use a network namespace of their own. Some
    /// experiments do not run on each.
    #[arg(
        long, value_name = "PLACE", default_value = "cable", requires = "real",
        value_parser = suggest::with(Place::from_str, ["cable", "packet", "tap", "xdp"]),
        hide_possible_values = true
    )]
    on: Place,
    /// Measure each variant at N loads.
    #[arg(
        long, value_name = "N", default_value_t = 10, requires = "real",
        value_parser = clap::value_parser!(u16).range(2..)
    )]
    points: u16,
    /// Measure for TIME at each load.
    #[arg(
        long, value_name = "TIME", default_value = "250ms", requires = "real", value_parser = quantity::time
    )]
    window: Duration,
    /// Measure each variant N times at each load; the median counts.
    #[arg(
        long, value_name = "N", default_value_t = 3, requires = "real",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    repeats: u16,
    /// Let the screening or receiving process compute for TIME on each packet, at most 1ms.
    #[arg(
        long, value_name = "TIME", default_value = "1us", requires = "real",
        value_parser = quantity::short_work
    )]
    work: Duration,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[Group { heading: "Commands", first: &["list", "run"], others: &[] }],
    examples: &[
        Example { says: "List the experiments with their papers.", command: "evenkeel lab list" },
        Example {
            says: "Repeat the figure that shows receive livelock in the first paper.",
            command: "evenkeel lab run o96-fig3",
        },
        Example {
            says: "Repeat all experiments, and write all checks as a page.",
            command: "evenkeel lab run all --no-files --markdown experiments.md",
        },
    ],
    exit_status: RUN_GUIDE.exit_status,
    signals: texts::STEP_SIGNALS,
    see_also: &["lab list", "lab run", "demo"],
    ..Guide::EMPTY
};

pub(crate) const LIST_GUIDE: Guide = Guide {
    groups: &[Group { heading: "Output", first: &["json"], others: &[] }],
    examples: &[
        Example { says: "List the experiments with their papers.", command: "evenkeel lab list" },
        Example {
            says: "List only the experiments of the second paper.",
            command: "evenkeel lab list | grep -A1 ^l97",
        },
        Example {
            says: "Print the names of the experiments that can run in real time.",
            command: "evenkeel lab list --json | jq -r '.[] | select(.modes[1]).id'",
        },
    ],
    exit_status: &[("0", "The list is printed."), ("2", texts::BAD_ARGUMENTS)],
    see_also: &["lab run"],
    ..Guide::EMPTY
};

pub(crate) const RUN_GUIDE: Guide = Guide {
    groups: &[
        Group { heading: "Virtual time", first: &["seeds", "seed"], others: &["markdown"] },
        Group {
            heading: "Real time",
            first: &["real", "on"],
            others: &["points", "window", "repeats", "work"],
        },
        Group { heading: "Output", first: &["csv", "svg", "no_files", "json"], others: &[] },
    ],
    sections: &[],
    examples: &[
        Example {
            says: "Repeat a figure with twenty seeds, and write its points and its picture to lab-results.",
            command: "evenkeel lab run o96-fig3",
        },
        Example {
            says: "Repeat all experiments of one paper with five seeds, and write no files.",
            command: "evenkeel lab run t00 --seeds 5 --no-files",
        },
        Example {
            says: "Measure on this machine, in real time, instead of in virtual time.",
            command: "evenkeel lab run l97-fig6 --real",
        },
        Example {
            says: "Print the checks of an experiment that do not hold.",
            command: "evenkeel lab run l97-fig1 --json | jq '.checks[] | select(.ok | not)'",
        },
    ],
    exit_status: &[
        ("0", "All checks hold but known misses, whose reasons are printed."),
        ("1", "Another check fails, or something could not be measured or written."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: texts::STEP_SIGNALS,
    files: &[(
        "lab-results/",
        "The points and pictures, ID.csv and ID.svg; those in real time are in lab-results/real/.",
    )],
    see_also: &["lab list", "demo"],
};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Lab::List(arguments) => list(arguments),
        Lab::Run(arguments) => arguments.run(),
    }
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let all = evenkeel_lab::list();
    if arguments.json {
        return terminal::print_json(&all);
    }
    let width = all.iter().map(|e| e.id.len()).max().unwrap_or(0);
    let lines = all.iter().map(|e| {
        let modes: Vec<String> = e.modes.iter().map(ToString::to_string).collect();
        format!("{:<width$}  {}\n{:<width$}  {} ({})\n", e.id, e.title, "", e.source, modes.join(", "))
    });
    terminal::print(&lines.collect::<String>())
}

impl RunArguments {
    fn run(&self) -> Result<(), Failure> {
        let chosen = self.chosen()?;
        let page = self.markdown.as_deref().map(OutputFile::open_in_directory).transpose()?;
        for file in chosen.iter().flat_map(|experiment| self.files(experiment.id)) {
            OutputFile::open_in_directory(&file)?;
        }
        let several = chosen.len() > 1;
        // A failed measurement or an unwritable file must not lose the other results.
        let mut failed = None;
        let mut progress = terminal::Progress::answering()?;
        let mut reports = Vec::new();
        for experiment in chosen {
            progress.show(&format!("{}: {}", experiment.id, experiment.title));
            let report = match self.report(experiment, &mut progress) {
                Ok(report) => report,
                Err(why) => {
                    failed = Some(why);
                    break;
                }
            };
            progress.clear();
            if !self.json {
                let gap = if reports.is_empty() { "" } else { "\n" };
                terminal::print(&format!("{gap}{}\n", report.text()))?;
            }
            match self.write_files(&report) {
                Ok(written) if !self.json => {
                    let written: String = written.iter().map(|f| format!("{}\n", f.display())).collect();
                    terminal::print(&written)?;
                }
                Ok(_) => {}
                Err(why) => failed = failed.or(Some(why)),
            }
            reports.push(report);
        }
        if let Some(page) = page {
            let text = survey::markdown(&reports, &self.command(page.path()));
            failed = failed.or(page.write(&text).err());
        }
        match &reports[..] {
            [only] if self.json && !several => terminal::print_json(only)?,
            all if self.json && several => terminal::print_json(&all)?,
            _ => {}
        }
        if let Some(why) = failed {
            return Err(why);
        }
        if reports.iter().all(Report::as_known) { Ok(()) } else { Err(Failure::ChecksFailed) }
    }

    /// Returns the option that runs the same seeds again.
    fn seeds_option(&self) -> String {
        match self.seeds() {
            Seeds { first, count: 1 } => format!("--seed {first}"),
            Seeds { count, .. } => format!("--seeds {count}"),
        }
    }

    /// Returns the command line that draws the picture of the experiment `id`.
    fn picture_command(&self, id: &str) -> String {
        let RealOptions { on, points, window, repeats, work } = &self.real_options;
        let how = match self.real {
            false => self.seeds_option(),
            true => format!(
                "--real --on {on} --points {points} --window {}ns --repeats {repeats} --work {}ns",
                window.as_nanos(),
                work.as_nanos()
            ),
        };
        format!("evenkeel lab run {id} {how} --svg .")
    }

    /// Returns the command line that writes the page `file`.
    fn command(&self, file: &Path) -> String {
        let seeds = self.seeds_option();
        format!("evenkeel lab run {} {seeds} --no-files --markdown {}", self.ids.join(" "), file.display())
    }

    fn report(&self, experiment: &Experiment, progress: &mut terminal::Progress) -> Result<Report, Failure> {
        if !self.real {
            let mut show = |done, of| {
                progress.show(&format!("{}: {done} of {of} seeds: {}", experiment.id, experiment.title));
            };
            return Ok(experiment.run_over(self.seeds(), &mut show));
        }
        let mut show = |p: &real::Progress<'_>| {
            progress
                .show(&format!("{}: {}/{}: {} {}", experiment.id, p.done.0, p.done.1, p.variant, p.result));
        };
        let report = real::run(experiment, &self.real_options(), &mut show);
        let report = report.ok_or_else(|| cannot(experiment.id, Mode::Real))?;
        report.map_err(|e| Failure::machine(format!("cannot measure {}", experiment.id), e))
    }

    fn seeds(&self) -> Seeds {
        let many = Seeds { first: 1, count: self.seeds };
        self.seed.map_or(many, |first| Seeds { first, count: 1 })
    }

    fn real_options(&self) -> real::Options {
        let given = &self.real_options;
        real::Options {
            on: given.on,
            points: usize::from(given.points),
            window: given.window,
            repeats: usize::from(given.repeats),
            work: given.work,
            seed: self.seed.unwrap_or(1),
            ..real::Options::default()
        }
    }

    /// Returns the experiments that the arguments name. Fails before any runs if a name is wrong.
    fn chosen(&self) -> Result<Vec<&'static Experiment>, Failure> {
        let mode = if self.real { Mode::Real } else { Mode::Virtual };
        let find = |id: &String| {
            let experiment = find(id).ok_or_else(|| unknown(id))?;
            if experiment.listing().modes.contains(&mode) { Ok(experiment) } else { Err(cannot(id, mode)) }
        };
        let in_mode = |experiment: &&Experiment| experiment.listing().modes.contains(&mode);
        let mut chosen = Vec::new();
        for id in &self.ids {
            let paper = |e: &&Experiment| id == "all" || e.id.split_once('-').is_some_and(|(of, _)| of == id);
            let before = chosen.len();
            chosen.extend(experiments().iter().filter(in_mode).filter(paper));
            if chosen.len() == before {
                chosen.push(find(id)?);
            }
        }
        Ok(chosen)
    }

    /// Returns the files of an experiment: its points, and its picture.
    fn files(&self, id: &str) -> Vec<PathBuf> {
        let usual = (!self.json && !self.no_files).then(|| match self.real {
            false => PathBuf::from(FILES),
            true => PathBuf::from(FILES).join("real"),
        });
        let place = |given: &Option<PathBuf>, ending: &str| {
            let directory = given.as_ref().or(usual.as_ref())?;
            Some(directory.join(format!("{id}.{ending}")))
        };
        [place(&self.csv, "csv"), place(&self.svg, "svg")].into_iter().flatten().collect()
    }

    /// Writes the report's files, and returns their paths.
    fn write_files(&self, report: &Report) -> Result<Vec<PathBuf>, Failure> {
        let mut written = Vec::new();
        for file in self.files(report.id) {
            let is_picture = file.extension().is_some_and(|ending| ending == "svg");
            let text = if is_picture {
                report.picture_file(&self.picture_command(report.id))
            } else {
                Some(report.csv())
            };
            // A table has no picture.
            let Some(text) = text else { continue };
            OutputFile::open_in_directory(&file)?.write(&text)?;
            written.push(file);
        }
        Ok(written)
    }
}

/// The default directory for result files.
const FILES: &str = "lab-results";

/// Returns the error that no experiment is called `id`, with similar names if there are any.
fn unknown(id: &str) -> Failure {
    let hint = match &evenkeel_lab::nearest(id)[..] {
        [] => "`evenkeel lab list` names them".to_owned(),
        near => format!("did you mean {}? `evenkeel lab list` names all", near.join(" or ")),
    };
    Failure::Usage(format!("no experiment is called `{id}`; {hint}"))
}

fn cannot(id: &str, mode: Mode) -> Failure {
    Failure::Usage(format!("`{id}` cannot run in {mode} time; see `evenkeel lab list`"))
}
