//! The figures that are kept in the tree, and their comparison with those counted now.

use std::fmt::{self, Write as _};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, thread};

use super::Uncounted;

/// Compares with the figures that are kept, and fails if one has grown.
const CHECK_FLAG: &str = "--check";
/// Keeps what is counted now.
const RENEW_FLAG: &str = "--renew";
/// The fraction by which a figure may grow, and beyond which a smaller figure is reported.
const TOLERANCE: f64 = 0.05;
/// The processor and operating system of the figures: other processors have other instructions.
const PLATFORM: (&str, &str) = ("x86_64", "linux");

/// The task that the arguments ask for.
#[derive(Clone, Copy)]
pub(crate) enum Task {
    Check,
    Renew,
}

impl Task {
    /// Returns the task that the arguments request, if any.
    pub(crate) fn of(arguments: &[String]) -> Option<Self> {
        match arguments {
            [flag] if flag == CHECK_FLAG => Some(Self::Check),
            [flag] if flag == RENEW_FLAG => Some(Self::Renew),
            _ => None,
        }
    }
}

/// The figures of one benchmark.
pub(crate) struct Figures {
    /// The name of the benchmark.
    pub(crate) bench: &'static str,
    /// The unit that a figure counts instructions for, in words.
    pub(crate) of: &'static str,
    pub(crate) names: Vec<String>,
}

impl Figures {
    /// Counts the instructions of every figure with `count`, which gets the figure's index, and checks or
    /// renews the kept figures.
    #[expect(clippy::print_stdout, reason = "the table is what this is for")]
    pub(crate) fn run(&self, task: Task, count: impl Fn(usize) -> Result<f64, Uncounted> + Sync) -> ExitCode {
        let done = if (env::consts::ARCH, env::consts::OS) == PLATFORM {
            match (side_by_side(self.names.len(), count), task) {
                (Ok(counted), Task::Check) => self.check(&counted),
                (Ok(counted), Task::Renew) => self.renew(&counted),
                (Err(Uncounted::NoValgrind), _) => Ok(format!("SKIPPED: {}", Uncounted::NoValgrind.why())),
                (Err(Uncounted::Failed), _) => Err(Uncounted::Failed.why().to_owned()),
            }
        } else {
            Ok(format!("SKIPPED: the figures are of {PLATFORM:?}"))
        };
        match &done {
            Ok(text) => println!("instructions, {}: {text}", self.bench),
            Err(text) => println!("instructions, {}: FAILED: {text}", self.bench),
        }
        if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Returns the path of the figures. Cargo starts a benchmark in the directory of its package.
    fn file(&self) -> String {
        format!("benches/instructions/{}.toml", self.bench)
    }

    fn renew(&self, counted: &[f64]) -> Result<String, String> {
        let mut text = format!("# Instructions for {}, written by `{}`.\n", self.of, self.how_to_renew());
        _ = writeln!(text, "compiler = \"{}\"", compiler());
        for (name, count) in self.names.iter().zip(counted) {
            _ = writeln!(text, "\"{name}\" = {count:.1}");
        }
        fs::write(self.file(), text).map_err(|error| format!("{}: {error}", self.file()))?;
        Ok(format!("{} figures renewed", counted.len()))
    }

    fn check(&self, counted: &[f64]) -> Result<String, String> {
        let text = fs::read_to_string(self.file()).map_err(|error| format!("{}: {error}", self.file()))?;
        let changes = changes(&parse(&text), &self.names, counted);
        let table = self.table(&changes, kept_compiler(&text));
        if changes.iter().any(Change::fails) {
            return Err(format!("see the table; if it is worth it, `{}`\n{table}", self.how_to_renew()));
        }
        let summary = format!("none of {} has grown by more than {:.0} %", counted.len(), TOLERANCE * 100.0);
        Ok(match changes.len() {
            0 => summary,
            _ => format!("{summary}; to keep what has been won, `{}`\n{table}", self.how_to_renew()),
        })
    }

    fn how_to_renew(&self) -> String {
        format!("cargo bench -p {} --bench {} -- {RENEW_FLAG}", env!("CARGO_PKG_NAME"), self.bench)
    }

    fn table(&self, changes: &[Change<'_>], kept_compiler: &str) -> String {
        let mut table = format!("{:<60} {:>10} {:>10}", self.of, "kept", "counted");
        for change in changes {
            _ = write!(table, "\n{change}");
        }
        let compiler = compiler();
        if compiler != kept_compiler {
            _ = write!(
                table,
                "\nThat may be the compiler: kept is what {kept_compiler} made, this is {compiler}."
            );
        }
        table
    }
}

/// Returns the version of the compiler that cargo calls, which determines the number of instructions.
fn compiler() -> String {
    let command = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(command).arg("--version").output();
    output.map_or_else(|_| "?".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn kept_compiler(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("compiler = "));
    line.map_or("?", |name| name.trim_matches('"'))
}

/// Counts all items, as many at a time as there are processors.
fn side_by_side(
    many: usize,
    count: impl Fn(usize) -> Result<f64, Uncounted> + Sync,
) -> Result<Vec<f64>, Uncounted> {
    let next = AtomicUsize::new(0);
    let counted = Mutex::new(vec![Err(Uncounted::Failed); many]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= many {
                        break;
                    }
                    let result = count(n);
                    counted.lock().unwrap_or_else(PoisonError::into_inner)[n] = result;
                }
            });
        }
    });
    counted.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

/// Parses the lines that [`Figures::renew`] writes, which are TOML.
fn parse(text: &str) -> Vec<(&str, f64)> {
    let pairs = text.lines().filter_map(|line| line.rsplit_once(" = "));
    pairs.filter_map(|(name, figure)| Some((name.trim_matches('"'), figure.parse().ok()?))).collect()
}

/// A figure that is not what it was.
struct Change<'a> {
    name: &'a str,
    kept: Option<f64>,
    counted: Option<f64>,
}

impl Change<'_> {
    fn is_worth_a_line(&self) -> bool {
        match (self.kept, self.counted) {
            (Some(kept), Some(counted)) => (counted - kept).abs() > kept * TOLERANCE,
            _ => true,
        }
    }

    /// Returns whether the change is a failure. A stage without a count, or without a figure, fails because
    /// its growth would not be seen.
    fn fails(&self) -> bool {
        match (self.kept, self.counted) {
            (Some(kept), Some(counted)) => counted > kept,
            _ => true,
        }
    }
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.1}"));
        write!(f, "{:<60} {:>10} {:>10}  ", self.name, number(self.kept), number(self.counted))?;
        match (self.kept, self.counted) {
            (Some(kept), Some(counted)) => {
                let percent = (counted / kept - 1.0) * 100.0;
                write!(f, "{percent:+.1} %{}", if self.fails() { "  GROWN" } else { "" })
            }
            (None, _) => f.write_str("NO FIGURE"),
            (_, None) => f.write_str("NO SUCH STAGE"),
        }
    }
}

fn changes<'a>(kept: &[(&'a str, f64)], names: &'a [String], counted: &[f64]) -> Vec<Change<'a>> {
    let now = names.iter().map(String::as_str).zip(counted.iter().copied());
    let figure = |of: &[(&str, f64)], name| of.iter().find(|(known, _)| *known == name).map(|&(_, n)| n);
    let stages = now.clone().map(|(name, n)| Change { name, kept: figure(kept, name), counted: Some(n) });
    let gone = kept.iter().filter(|(name, _)| now.clone().all(|(known, _)| known != *name));
    let gone = gone.map(|&(name, n)| Change { name, kept: Some(n), counted: None });
    stages.chain(gone).filter(Change::is_worth_a_line).collect()
}
