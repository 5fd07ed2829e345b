//! Tests that did not run: reported at once, past the test harness, and listed at the end of the run.
//!
//! `cargo test` runs one program after another and knows nothing of tests that return early. So each such
//! test leaves a line in a file of the run (all test programs have the same parent), and the last program of
//! the run, `crates/xtask/tests/skipped.rs`, prints them together with the commands that would let them run.
//!
//! And which tier of tests is run, how many seeds of a test that is random ([`Seeds`]), and what the files of
//! a crate import ([`Sources`]).
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

mod imports;
mod seeds;

pub use imports::{Graph, Module, Sources};
pub use seeds::Seeds;

/// The environment variable that selects the long tier of tests.
pub const LONG: &str = "EVENKEEL_LONG";

/// Returns whether this is a run of the long tier (`cargo xtask long`).
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// Returns whether a test of the long tier is to run. If not, records that it was left out.
#[must_use]
pub fn is_long_or_skip(test: &str) -> bool {
    let long = is_long();
    if !long {
        skip(test, &Lack::Long);
    }
    long
}

/// The reason why a test does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack<'a> {
    /// A privilege is missing; with the error that says so.
    Root(&'a str),
    /// A program is missing.
    Program {
        /// The program's name.
        program: &'a str,
        /// The Debian package that contains it.
        package: &'a str,
    },
    /// The test belongs to the long tier.
    Long,
    /// Anything else, such as a second processor.
    Other(&'a str),
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(error) => write!(out, "needs root: {error}"),
            Self::Program { program, package } => write!(out, "there is no `{program}`: install {package}"),
            Self::Long => out.write_str("belongs to the long tier: cargo xtask long"),
            Self::Other(why) => out.write_str(why),
        }
    }
}

impl Lack<'_> {
    /// Returns the columns of a record: the kind, and what is missing.
    fn columns(&self) -> [&str; 2] {
        match self {
            Self::Root(_) => ["root", ""],
            Self::Program { package, .. } => ["package", package],
            Self::Long => ["long", ""],
            Self::Other(why) => ["other", why],
        }
    }
}

/// Reports on standard error that a test does not run, and records it for the end of the run.
pub fn skip(test: &str, lack: &Lack<'_>) {
    // For those the list at the end is enough.
    if *lack != Lack::Long {
        let _ = writeln!(io::stderr(), "SKIPPED ({lack}): {test}");
    }
    let [kind, missing] = lack.columns();
    // A record that cannot be written must not fail the test: the line above is there.
    let _ = record(&format!("{kind}\t{}\t{test}\n", missing.replace(['\t', '\n'], " ")));
}

fn record(line: &str) -> io::Result<()> {
    let place = Place::of_this_run()?;
    place.forget_ended_runs();
    OpenOptions::new().create(true).append(true).open(place.file())?.write_all(line.as_bytes())
}

/// The files of runs in the directory of the build profile, one for each run.
struct Place {
    directory: PathBuf,
    run: u32,
}

const PREFIX: &str = "skipped-";

impl Place {
    /// A test program lies in `target/<profile>/deps`, and `cargo` is its parent.
    fn of_this_run() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let directory = program.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?.to_owned();
        Ok(Self { directory, run: std::os::unix::process::parent_id() })
    }

    fn file(&self) -> PathBuf {
        self.directory.join(format!("{PREFIX}{}", self.run))
    }

    /// Removes the records of runs that ended without a last program.
    fn forget_ended_runs(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if run.is_some_and(|run| !Path::new("/proc").join(run).exists()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Takes the records of this run, which are gone afterwards, and returns the list for people to read; `None`
/// if every test ran.
///
/// # Errors
/// If there are records that cannot be read.
pub fn take_list() -> io::Result<Option<String>> {
    let file = Place::of_this_run()?.file();
    match fs::read_to_string(&file) {
        Ok(records) => {
            fs::remove_file(&file)?;
            Ok(Some(list(&records)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the list of records, each a line of kind, what is missing, and test, with tabs between.
fn list(records: &str) -> String {
    let mut by_lack: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for line in records.lines() {
        let mut columns = line.splitn(3, '\t');
        if let (Some(kind), Some(missing), Some(test)) = (columns.next(), columns.next(), columns.next()) {
            by_lack.entry((kind, missing)).or_default().insert(test);
        }
    }
    let mut text = String::new();
    let mut packages = Vec::new();
    for ((kind, missing), tests) in &by_lack {
        let why = match *kind {
            "root" => "as root only".to_owned(),
            "package" => {
                packages.push(*missing);
                format!("without the package {missing}")
            }
            "long" => "in the long tier".to_owned(),
            _ => (*missing).to_owned(),
        };
        let _ = write!(text, "  {:>4}  {why}", tests.len());
        // Tests of the long tier are many, and nothing is wrong with them.
        if *kind != "long" {
            let names: Vec<&str> = tests.iter().copied().collect();
            let _ = write!(text, ": {}", names.join(", "));
        }
        text.push('\n');
    }
    let all: usize = by_lack.values().map(BTreeSet::len).sum();
    let mut whole = format!("SKIPPED {all} tests of this run:\n{text}");
    if !packages.is_empty() {
        let _ = writeln!(whole, "  apt-get install {}", packages.join(" "));
    }
    if by_lack.keys().any(|(kind, _)| *kind == "root") {
        whole.push_str("  sudo -E env \"PATH=$PATH\" cargo test --workspace\n");
    }
    if by_lack.keys().any(|(kind, _)| *kind == "long") {
        whole.push_str("  cargo xtask long\n");
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_test_once_with_the_command_that_helps() {
        let records = "package\ttshark\ta\nroot\t\tb\npackage\ttshark\tc\npackage\tiperf3\td\n\
                       other\tneeds two processors\te\nlong\t\tf\npackage\ttshark\ta\n";
        assert_eq!(
            list(records),
            "SKIPPED 6 tests of this run:\n     \
             1  in the long tier\n     \
             1  needs two processors: e\n     \
             1  without the package iperf3: d\n     \
             2  without the package tshark: a, c\n     \
             1  as root only: b\n  \
             apt-get install iperf3 tshark\n  \
             sudo -E env \"PATH=$PATH\" cargo test --workspace\n  \
             cargo xtask long\n"
        );
    }

    #[test]
    fn what_is_not_lacking_is_not_named() {
        let said = list("other\tone processor\ta\n");
        assert_eq!(said, "SKIPPED 1 tests of this run:\n     1  one processor: a\n");
    }
}
