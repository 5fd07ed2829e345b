//! The commands of README and of every page of the book do what the page shows: one test for each page.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail, and a harness prints")]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use evenkeel_book::runner::{self, Options};
use evenkeel_book::{Page, links, programs, session};
use evenkeel_skip::{Lack, skip};
use libtest_mimic::{Arguments, Failed, Trial};

/// Seconds that a command may take on a machine that runs other tests, too.
const LIMIT: u32 = 120;

/// Blocks that were not run: page, line and reason.
type NotRun = Arc<Mutex<Vec<String>>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Many commands keep a core busy: more of them would show what none shows alone.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let not_run = NotRun::default();
    let mut pages = links::pages(root).unwrap();
    pages.push(root.join("README.md"));
    let trials = pages.iter().filter_map(|path| trial(root, path, &not_run)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let mut not_run = not_run.lock().unwrap();
    not_run.sort();
    for block in not_run.iter() {
        println!("not run: {block}");
    }
    conclusion.exit_code()
}

/// Returns the test of a page, which has its path as its name; `None` if the page has nothing to run.
fn trial(root: &'static Path, path: &Path, not_run: &NotRun) -> Option<Trial> {
    let page = Page::parse(&fs::read_to_string(path).unwrap());
    let name = path.strip_prefix(root).unwrap().display().to_string();
    let not_run = not_run.clone();
    let is_empty = page.steps.is_empty() && page.mistakes.is_empty();
    (!is_empty).then(|| Trial::test(name.clone(), move || test(root, &name, &page, &not_run)))
}

fn test(root: &Path, name: &str, page: &Page, not_run: &NotRun) -> Result<(), Failed> {
    if page.needs_root() && !session::is_root() {
        skip(name, &Lack::Root("its prompts are those of root"));
        return Ok(());
    }
    if let Some((program, package)) = page.run().find_map(|command| programs::missing(&command.text)) {
        skip(name, &Lack::Program { program, package });
        return Ok(());
    }
    let evenkeel = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
    let options = Options { evenkeel, repository: root, limit: LIMIT, observe: |_, _| () };
    let mut report = runner::run(name, page, &options)?;
    if !report.failures.is_empty() {
        // Reports say so where others had the processor. What a page shows wrongly, it shows again.
        println!("run again: {}", report.failures.join("\n\n"));
        report = runner::run(name, page, &options)?;
    }
    let blocks = report.not_run.iter().map(|(line, reason)| format!("{name}:{line}: {reason}"));
    not_run.lock().unwrap().extend(blocks);
    if report.failures.is_empty() { Ok(()) } else { Err(report.failures.join("\n\n").into()) }
}
