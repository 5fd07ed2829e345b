//! `cargo xtask house`: types that are too wide, or spread over too many files.
//!
//! The count is about the library crates, without their tests. A method is a function in an inherent `impl`
//! block, or one that a trait declares. Functions of trait implementations and what macros generate do not
//! count.
//!
//! A type is known by its crate and module path. An `impl` block does not say which path it means, and this
//! does not resolve names as the compiler does. A block belongs to the type that its path leads to from the
//! block's own module (`impl Net`: the `Net` defined in that module; `impl super::Net`: the one in the
//! parent), else to the only type of that name in the crate, else to the one that the module's `use` lines
//! lead to. A block without such a type is a finding.

mod census;
pub(crate) mod source;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use census::{Census, Figures};
use source::{Kind, Sources};

/// The crates that others build on.
const LIBRARIES: [&str; 10] = [
    "evenkeel",
    "evenkeel-base",
    "evenkeel-core",
    "evenkeel-frame",
    "evenkeel-link",
    "evenkeel-ready",
    "evenkeel-soft-timers",
    "evenkeel-tcp",
    "evenkeel-timers",
    "evenkeel-wan",
];

/// The limits, and the types that do not keep them yet.
const RULES: Rules<'static> = Rules {
    methods: 110,
    coordinator_methods: 60,
    coordinators: &["evenkeel_core::net::state::Net"],
    files: 4,
    away_percent: 8,
    exceptions: &[],
};
/// The file of [`RULES`].
const HERE: &str = file!();

/// The subject of the figure that is about all types together.
const ALL: &str = "all types";
/// Types in the table, unless all are asked for.
const WIDEST: usize = 20;

/// The limits of figures. Exceptions record figures above their limit, which may only fall.
struct Rules<'a> {
    /// Methods of a type, at most.
    methods: usize,
    /// Methods of a coordinator, at most.
    coordinator_methods: usize,
    /// Types that only bring others together: these do the work, so a coordinator needs few methods.
    coordinators: &'a [&'a str],
    /// Files with methods of a type, at most.
    files: usize,
    /// The part of all methods that may stand in another file than their type, in per cent.
    away_percent: usize,
    exceptions: &'a [Exception<'a>],
}

/// A figure above its limit that was there before the limit: the path of the type ([`ALL`] for methods away
/// from their types), the quantity, and the recorded figure.
type Exception<'a> = (&'a str, Quantity, usize);

/// The figures that have limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Methods,
    Files,
    Away,
}

/// A figure of a subject, to compare with its limit.
struct Measured<'a> {
    subject: &'a str,
    of: Quantity,
    figure: usize,
    limit: usize,
}

/// Options of `cargo xtask house`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = TEACHING)]
pub(crate) struct Options {
    /// Lists all types with methods, not only the 20 widest
    #[arg(long)]
    all: bool,
    /// Prints one JSON object instead: all types, the totals and the findings
    #[arg(long)]
    json: bool,
}

const TEACHING: &str = "\
Columns of the table:
  methods  functions in inherent `impl` blocks of the type; of a trait, those it declares
  public   those of them that are `pub`; `pub(crate)` does not count
  fields   fields of a struct, variants of an enum
  files    files with methods of the type
  away     methods in another file than the definition of the type

A type with many methods in many files does many things. Its methods share all of its fields, so a reader \
has to know all of them to change one. To make it narrower, find fields that are used together, give them a \
struct of their own, and move the methods that use only them to that struct, in its file. Moving methods to \
one more file makes a type no narrower.

The limits and the exceptions are RULES in crates/xtask/src/house.rs. An exception records the figure of a \
type that is above its limit. The figure may not rise. When it falls, lower the recorded one in the same \
commit, and remove the exception once the type keeps its limit.

Exit status: 0 if all types keep their limits or exceptions, 1 if not, 2 if a source cannot be read.

Examples:
  cargo xtask house                                the 20 widest types, and the findings
  cargo xtask house --all | grep evenkeel_tcp      all types of a crate
  cargo xtask house --json | jq '.findings[]'      the findings alone";

/// The result of a check: the figures, and a sentence for each that is not as it should be.
#[derive(Debug, serde::Serialize)]
struct Report {
    types: Vec<Figures>,
    /// Methods in `impl` blocks.
    methods: usize,
    /// Methods that stand in another file than their type.
    away: usize,
    away_percent: f64,
    findings: Vec<String>,
}

/// Checks the repository that has its root at `root`. Prints the figures and the findings. Returns whether
/// there are no findings.
///
/// # Errors
/// If a file cannot be read, or is not Rust.
pub(crate) fn check(root: &Path, options: &Options) -> io::Result<bool> {
    let mut census = Census::default();
    for name in LIBRARIES {
        let file = Path::new("crates").join(name).join("src/lib.rs");
        let read = |file: &Path| {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
            fs::read_to_string(root.join(file)).map_err(named)
        };
        let sources = Sources::read(&file, &read)?;
        census.add(&name.replace('-', "_"), &sources);
    }
    let report = Report::new(census, &RULES);
    let text = if options.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.table(if options.all { usize::MAX } else { WIDEST }) + &RULES.line() + &report.sentences()
    };
    // The process that reads the text from a pipe may have ended.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(report.findings.is_empty())
}

impl Report {
    fn new(mut census: Census, rules: &Rules<'_>) -> Self {
        census.sort();
        // A trait's functions stand in its braces: they say nothing about how methods are spread.
        let spread = census.types.iter().filter(|of| of.kind != Kind::Trait);
        let (methods, away) =
            spread.fold((0, 0), |(methods, away), of| (methods + of.methods, away + of.away));
        let findings = rules.findings(&census, methods, away);
        let away_percent = away as f64 * 100.0 / methods.max(1) as f64;
        Self { types: census.types, methods, away, away_percent, findings }
    }

    /// Returns the lines of the widest types, and that of all.
    fn table(&self, widest: usize) -> String {
        let mut text = "methods  public  fields  files  away  type\n".to_owned();
        for of in self.types.iter().take(widest) {
            let Figures { path, fields, methods, public, away, .. } = of;
            let files = of.files.len();
            text += &format!("{methods:>7}  {public:>6}  {fields:>6}  {files:>5}  {away:>4}  {path}\n");
        }
        let (types, Self { methods, away, away_percent, .. }) = (self.types.len(), self);
        text + &format!(
            "{types} types; {away} of {methods} methods ({away_percent:.1} %) stand in another file\n"
        )
    }

    fn sentences(&self) -> String {
        self.findings.iter().flat_map(|finding| [finding.as_str(), "\n"]).collect()
    }
}

impl Rules<'_> {
    fn line(&self) -> String {
        let Self { methods, coordinator_methods: coordinator, files, away_percent, .. } = self;
        format!(
            "Limits: {methods} methods ({coordinator} of a coordinator), {files} files, {away_percent} %\n"
        )
    }

    /// Returns a sentence for each figure that is neither within its limit nor as its exception records, and
    /// for each rule and block whose type is not there.
    fn findings(&self, census: &Census, methods: usize, away: usize) -> Vec<String> {
        let types = census.types.iter().flat_map(|of| self.measures(of));
        let limit = methods * self.away_percent / 100;
        let away = Measured { subject: ALL, of: Quantity::Away, figure: away, limit };
        let measured = types.chain([away]).filter_map(|measured| self.judge(&measured));
        let unresolved = census.unresolved.iter().map(|(file, path)| {
            format!(
                "{}: no type was found for `impl {path}`. Import it by the name of its definition.",
                file.display()
            )
        });
        measured.chain(unresolved).chain(self.without_subject(census)).collect()
    }

    fn measures<'a>(&self, of: &'a Figures) -> [Measured<'a>; 2] {
        let subject = of.path.as_str();
        let is_coordinator = self.coordinators.contains(&subject);
        let limit = if is_coordinator { self.coordinator_methods } else { self.methods };
        [
            Measured { subject, of: Quantity::Methods, figure: of.methods, limit },
            Measured { subject, of: Quantity::Files, figure: of.files.len(), limit: self.files },
        ]
    }

    fn judge(&self, measured: &Measured<'_>) -> Option<String> {
        let Measured { subject, of, figure, limit } = *measured;
        let exception =
            self.exceptions.iter().find(|(path, quantity, _)| (*path, *quantity) == (subject, of));
        let recorded = exception.map(|&(_, _, recorded)| recorded);
        let (has, narrow) = (of.has(figure), of.remedy());
        let allows = match of {
            Quantity::Away => format!("the limit is {limit}, {} % of all", self.away_percent),
            Quantity::Methods | Quantity::Files => format!("the limit is {limit}"),
        };
        let should = match recorded {
            None if figure > limit => format!("{allows}. {narrow}"),
            Some(recorded) if figure > recorded => {
                format!("its exception allows {recorded}, {allows}. {narrow}")
            }
            Some(_) if figure <= limit => format!("{allows}. Remove its exception in {HERE}"),
            Some(recorded) if figure < recorded => {
                format!("its exception records {recorded}. Lower that to {figure} in {HERE}")
            }
            _ => return None,
        };
        Some(format!("{subject}: {has}; {should}."))
    }

    /// Returns a sentence for each rule about a type that is not there.
    fn without_subject(&self, census: &Census) -> Vec<String> {
        let types: BTreeSet<&str> = census.types.iter().map(|of| of.path.as_str()).chain([ALL]).collect();
        let subjects =
            self.exceptions.iter().map(|&(path, ..)| path).chain(self.coordinators.iter().copied());
        let missing: BTreeSet<&str> = subjects.filter(|subject| !types.contains(subject)).collect();
        let sentence = |subject| format!("{subject}: no type has this path. Correct or remove it in {HERE}.");
        missing.into_iter().map(sentence).collect()
    }
}

impl Quantity {
    fn has(self, figure: usize) -> String {
        match self {
            Self::Methods => format!("{figure} methods"),
            Self::Files => format!("methods in {figure} files"),
            Self::Away => format!("{figure} methods stand in another file than their type"),
        }
    }

    /// Returns the way to a smaller figure.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Methods => "Give fields that are used together a type of their own, with its methods",
            Self::Files => "Move methods to the file of the type, or to types of their own",
            Self::Away => "Move methods to the files of their types, or to types of their own",
        }
    }
}

#[cfg(test)]
mod tests;
