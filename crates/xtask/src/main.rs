//! Commands for working on evenkeel.
//!
//! `cargo xtask long` runs the long tier of tests: the papers' experiments, and everything else that takes
//! minutes. `cargo test` runs the rest. `cargo xtask voice` finds docs that are hard to read, and
//! `cargo xtask house` finds types that are too wide. `cargo xtask book` builds the book, and runs its pages.
//! `cargo xtask dist` builds what users download. The others are about the crates that are published: `api`,
//! `licences`, `oldest` and `package`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "commands talk to people")]

mod api;
mod book;
mod dist;
mod house;
mod licences;
mod metadata;
mod oldest;
mod package;
mod voice;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

/// A test program with tests of the long tier, as cargo selects it; or several of one name.
struct LongTests {
    packages: &'static [&'static str],
    /// The name of the file or folder below `tests`; `None` for the unit tests of the library.
    target: Option<&'static str>,
    /// Names to run; all if empty.
    filter: &'static [&'static str],
}

/// All that reads `EVENKEEL_LONG`. A test below compares this list with the source.
const LONG: [LongTests; 11] = [
    LongTests { packages: &["evenkeel-lab"], target: Some("papers"), filter: &[] },
    LongTests { packages: &["evenkeel-tcp", "evenkeel-core"], target: Some("random_peers"), filter: &[] },
    LongTests { packages: &["evenkeel-sim"], target: Some("random_worlds"), filter: &[] },
    LongTests { packages: &["evenkeel"], target: Some("soak"), filter: &[] },
    LongTests { packages: &["evenkeel-sim"], target: Some("tcp_runs"), filter: &[] },
    LongTests { packages: &["evenkeel-sim"], target: Some("tcp_worlds"), filter: &[] },
    LongTests { packages: &["evenkeel-sim"], target: Some("tcp_theory"), filter: &["many_equal_flows"] },
    LongTests { packages: &["evenkeel-apps"], target: Some("tcp_interop"), filter: &["gigabyte"] },
    LongTests { packages: &["evenkeel-apps"], target: None, filter: &["rules::tests::random"] },
    LongTests { packages: &["evenkeel"], target: None, filter: &["kernel::history"] },
    LongTests {
        packages: &["evenkeel-cli"],
        target: Some("endings"),
        filter: &["whole_report", "capture_is_whole"],
    },
];

/// Commands for working on evenkeel.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Runs the long tier of tests: the papers' experiments in virtual time, and random runs of many more
    /// seeds than `cargo test` has
    Long {
        /// Runs only the tests of packages, files or tests whose names contain one of these
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Finds docs of functions and types without a subject or a verb of their own, pages with long sentences
    /// or words that have plainer ones, and changelog entries and commit subjects that are too long
    Voice,
    /// Finds types of the library crates with too many methods, or with methods in too many files
    House(house::Options),
    /// Builds the book, or runs pages of it
    Book {
        #[command(subcommand)]
        task: Option<book::Task>,
    },
    /// Turns links of the book that leave it into addresses: called by mdBook
    #[command(hide = true)]
    BookLinks(book::Preprocessor),
    /// Compares the public interfaces of the published crates with the files `api.txt` that list them
    Api(api::Options),
    /// Checks licences and sources of all dependencies by the rules of `deny.toml`
    Licences,
    /// Compiles the published crates with the oldest compilers that they name, and without the standard
    /// library if they need none
    Oldest,
    /// Packages the published crates, builds a program outside the tree from the packages, and their
    /// documentation as docs.rs does
    Package,
    /// Builds what users download into target/dist: a Debian package, a static program, and a container image
    Dist(dist::Options),
}

fn main() -> ExitCode {
    match Task::parse() {
        Task::Long { words } => run_long(&words),
        Task::Voice => status(voice::check(&root())),
        Task::House(options) => status(house::check(&root(), &options)),
        Task::Book { task } => status(book::perform(&root(), task)),
        Task::BookLinks(preprocessor) => status(preprocessor.run(&root())),
        Task::Api(options) => status(api::check(&root(), &options)),
        Task::Licences => status(licences::check(&root())),
        Task::Oldest => status(oldest::check(&root())),
        Task::Package => status(package::check(&root())),
        Task::Dist(options) => status(dist::build(&root(), &options)),
    }
}

/// Runs the tests one program after another and goes on after a failure, to name all that failed.
fn run_long(words: &[String]) -> ExitCode {
    let mut failed = Vec::new();
    for tests in LONG.iter().filter(|tests| tests.is_selected_by(words)) {
        eprintln!("\n== {}", tests.name());
        if !tests.command().status().is_ok_and(|status| status.success()) {
            failed.push(tests.name());
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("\nFAILED: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Returns the root of the tree that the command runs in. The executable may have been built for another
/// tree, with which this one shares its folder of built files.
fn root() -> PathBuf {
    let manifest =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let manifest = Path::new(&manifest);
    manifest.ancestors().nth(2).unwrap_or(manifest).to_owned()
}

/// Returns the exit status of a check of the sources.
fn status(checked: io::Result<bool>) -> ExitCode {
    match checked {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

impl LongTests {
    fn name(&self) -> String {
        let filter: String = self.filter.iter().flat_map(|name| [" ", name]).collect();
        format!("{} {}{filter}", self.packages.join(" "), self.target.unwrap_or("--lib"))
    }

    fn is_selected_by(&self, words: &[String]) -> bool {
        words.is_empty() || words.iter().any(|word| self.name().contains(word.as_str()))
    }

    fn command(&self) -> Command {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.env(evenkeel_skip::LONG, "1").args(["test", "--locked", "--workspace"]);
        // A package alone may have dependencies with fewer features, which would all be built again.
        let target = match self.target {
            Some(target) => format!("--test={target}"),
            None => "--lib".to_owned(),
        };
        command.arg(target).arg("--").args(self.filter);
        command
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Calls `see` with every source file below a directory.
    fn each_source(below: &Path, see: &mut dyn FnMut(&Path, &str)) {
        for entry in fs::read_dir(below).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                each_source(&path, see);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                see(&path, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn every_test_program_with_long_tests_is_listed() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut missing = Vec::new();
        each_source(crates, &mut |path, text| {
            let inside = path.strip_prefix(crates).unwrap();
            let parts: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
            let about_it = ["evenkeel-skip", "evenkeel-testing", "xtask"].contains(&parts[0]);
            let asks = ["is_long()", "is_long_or_skip(", "evenkeel_skip::Seeds", evenkeel_skip::LONG];
            let asks = asks.iter().any(|call| text.contains(call));
            if about_it || !asks {
                return;
            }
            let target = (parts[1] == "tests").then(|| parts[2].trim_end_matches(".rs"));
            if !LONG.iter().any(|tests| tests.packages.contains(&parts[0]) && tests.target == target) {
                missing.push(inside.to_owned());
            }
        });
        assert!(missing.is_empty(), "not in the list of long tests: {missing:?}");
    }

    #[test]
    fn every_listed_test_program_is_there() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for LongTests { packages, target, .. } in LONG {
            let is_there = |package: &&str| {
                let tests = crates.join(package).join("tests");
                target.is_none_or(|target| {
                    tests.join(format!("{target}.rs")).exists() || tests.join(target).join("main.rs").exists()
                })
            };
            assert!(packages.iter().all(is_there), "{packages:?} {target:?}");
        }
    }
}
