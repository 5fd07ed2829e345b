//! `cargo xtask book`: builds the book, and runs pages for their writers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_book::runner::{self, Options};
use evenkeel_book::{Page, page};

/// What to do with the book.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// Runs the commands of pages, and compares what they print
    Run {
        /// The binary to run as `evenkeel`; without it, it is built
        #[arg(long, value_name = "PATH")]
        evenkeel: Option<PathBuf>,
        /// Shows each command with all that it printed, to paste into the page
        #[arg(long)]
        print: bool,
        /// Seconds that a command may take
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        limit: u32,
        /// Markdown files
        #[arg(value_name = "PAGE", required = true)]
        pages: Vec<PathBuf>,
    },
}

/// Does a task. Returns whether all is right.
///
/// # Errors
/// If a file cannot be read, or something cannot be started.
pub(crate) fn perform(root: &Path, task: Option<Task>) -> io::Result<bool> {
    match task {
        Some(Task::Run { evenkeel, print, limit, pages }) => {
            let evenkeel = evenkeel.map_or_else(|| build(root), Ok)?;
            let observe = if print { show } else { |_: &page::Command, _: &str| () };
            let options = Options { evenkeel: &evenkeel, repository: root, limit, observe };
            let mut right = true;
            for path in pages {
                right &= run(&path, &options)?;
            }
            Ok(right)
        }
        None => todo!(),
    }
}

fn show(command: &page::Command, printed: &str) {
    println!("{}: {}\n{printed}", command.line, command.text);
}

/// Runs a page and prints what came of it. Returns whether the page is right.
fn run(path: &Path, options: &Options<'_>) -> io::Result<bool> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
    let report = runner::run(&name, &Page::parse(&text), options)?;
    for failure in &report.failures {
        println!("{failure}\n");
    }
    for (line, reason) in &report.not_run {
        println!("{name}:{line}: not run: {reason}");
    }
    println!("{name}: {} commands run, {} mistakes", report.commands, report.failures.len());
    Ok(report.failures.is_empty())
}

/// Builds the command, and returns the path of the binary.
fn build(root: &Path) -> io::Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built =
        Command::new(cargo).current_dir(root).args(["build", "--quiet", "--bin", "evenkeel"]).status()?;
    if !built.success() {
        return Err(io::Error::other("the command `evenkeel` cannot be built"));
    }
    // Beside this program, wherever the folder of built files is.
    Ok(std::env::current_exe()?.with_file_name("evenkeel"))
}
