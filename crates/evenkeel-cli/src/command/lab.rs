//! `evenkeel lab`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evenkeel_lab::{Experiment, Mode, Report, experiments, find};

use crate::failure::Failure;
use crate::terminal;

/// Repeat the measurements of the papers that evenkeel is built on.
///
/// Every experiment is a figure or a table of a paper. Most run in virtual time, on a simulated CPU with the costs of the
/// paper's machine: the same seed gives the same figures on any machine. Each ends with checks against what the paper reports.
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

/// List the experiments.
#[derive(Debug, Args)]
struct ListArguments {
    /// Print a JSON list instead.
    #[arg(long)]
    json: bool,
}

/// Run experiments and compare them with the papers.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  evenkeel lab list
  evenkeel lab run o96-fig3
  evenkeel lab run o96-fig3 o96-fig4 --csv results --svg results
  evenkeel lab run l97-fig1 --json | jq '.checks[] | select(.ok | not)'

Exit status: 0 only if every check holds, 1 if one does not, 2 for bad arguments. docs/results.md explains the JSON.")]
struct RunArguments {
    /// Experiments, as `evenkeel lab list` names them.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Seed of everything that is random.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// In real time on this machine instead of virtual time, where the experiment has that mode.
    #[arg(long)]
    real: bool,
    /// Write the points of each experiment to DIR/ID.csv.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write each experiment's picture to DIR/ID.svg.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print JSON instead: one object for one experiment, a list of them for several.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Lab::List(arguments) => list(arguments),
        Lab::Run(arguments) => arguments.run(),
    }
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    if arguments.json {
        return terminal::print_json(&experiments());
    }
    let width = experiments().iter().map(|e| e.id.len()).max().unwrap_or(0);
    let lines = experiments().iter().map(|e| {
        let modes: Vec<String> = e.modes.iter().map(ToString::to_string).collect();
        format!("{:<width$}  {}\n{:<width$}  {} ({})\n", e.id, e.title, "", e.source, modes.join(", "))
    });
    terminal::print(&lines.collect::<String>())
}

impl RunArguments {
    fn run(&self) -> Result<(), Failure> {
        let chosen = self.chosen()?;
        let mut progress = terminal::Progress::new();
        let mut reports = Vec::new();
        for experiment in chosen {
            progress.show(&format!("{}: {}", experiment.id, experiment.title));
            let report = experiment.run(self.seed);
            progress.clear();
            self.write_files(&report)?;
            if !self.json {
                terminal::print(&format!("{}{}", if reports.is_empty() { "" } else { "\n" }, report.text()))?;
            }
            reports.push(report);
        }
        match &reports[..] {
            [only] if self.json => terminal::print_json(only)?,
            all if self.json => terminal::print_json(&all)?,
            _ => {}
        }
        if reports.iter().all(Report::passed) { Ok(()) } else { Err(Failure::ChecksFailed) }
    }

    /// All experiments that were named, before the first one runs.
    fn chosen(&self) -> Result<Vec<&'static Experiment>, Failure> {
        let mode = if self.real { Mode::Real } else { Mode::Virtual };
        let find = |id: &String| {
            let known = || experiments().iter().map(|e| e.id).collect::<Vec<_>>().join(", ");
            let experiment = find(id).ok_or_else(|| {
                Failure::Usage(format!("no experiment is called `{id}`; there are {}", known()))
            })?;
            if !experiment.modes.contains(&mode) {
                return Err(Failure::Usage(format!(
                    "`{id}` cannot run in {mode} time; see `evenkeel lab list`"
                )));
            }
            Ok(experiment)
        };
        self.ids.iter().map(find).collect()
    }

    fn write_files(&self, report: &Report) -> Result<(), Failure> {
        let write = |directory: &Option<PathBuf>, ending: &str, text: &dyn Fn() -> String| match directory {
            Some(directory) => write(&directory.join(format!("{}.{ending}", report.id)), &text()),
            None => Ok(()),
        };
        write(&self.csv, "csv", &|| report.csv())?;
        write(&self.svg, "svg", &|| report.chart().svg())
    }
}

/// Writes a file, and the directory it is to be in.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(file, text))
        .map_err(|e| Failure::machine(format!("cannot write {}", file.display()), e))
}
