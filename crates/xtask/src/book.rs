//! `cargo xtask book`: builds the book with mdBook, and runs pages for their writers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_book::runner::{self, Options};
use evenkeel_book::{Page, links, page};
use serde_json::Value;

/// A command on the book.
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
        None => build_book(root),
    }
}

/// Builds the book with mdBook. Returns whether it has nothing to warn of.
fn build_book(root: &Path) -> io::Result<bool> {
    let mut mdbook = Command::new("mdbook");
    let output = mdbook.current_dir(root).args(["build", "docs"]).output().map_err(|error| {
        let install = "cargo install --locked mdbook --no-default-features --features search";
        io::Error::other(format!("mdbook: {error}; it is installed by: {install}"))
    })?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    print!("{said}");
    Ok(output.status.success() && !said.contains("WARN") && !said.contains("ERROR"))
}

/// A preprocessor of mdBook. It reads the book as JSON from standard input, and writes it to standard output.
#[derive(Debug, clap::Args)]
pub(crate) struct Preprocessor {
    /// mdBook's question whether a renderer is supported: `supports html`
    question: Vec<String>,
}

impl Preprocessor {
    /// Rewrites the links of all chapters.
    ///
    /// # Errors
    /// If standard input is not what mdBook writes.
    pub(crate) fn run(&self, root: &Path) -> io::Result<bool> {
        if !self.question.is_empty() {
            return Ok(true);
        }
        let (context, mut book): (Value, Value) = serde_json::from_reader(io::stdin())?;
        let address = context.pointer("/config/output/html/git-repository-url").and_then(Value::as_str);
        let address = address.ok_or_else(|| io::Error::other("book.toml has no git-repository-url"))?;
        rewrite_chapters(&mut book, address, root);
        serde_json::to_writer(io::stdout(), &book)?;
        Ok(true)
    }
}

/// Rewrites the links of everything that has a path and a content, at any depth.
fn rewrite_chapters(value: &mut Value, address: &str, root: &Path) {
    match value {
        Value::Object(fields) => {
            let path = fields.get("path").and_then(Value::as_str).map(PathBuf::from);
            if let (Some(path), Some(Value::String(content))) = (path, fields.get_mut("content")) {
                *content = links::to_repository(&path, content, address, root);
            }
            fields.values_mut().for_each(|field| rewrite_chapters(field, address, root));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_chapters(item, address, root)),
        _ => {}
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chapter(path: &str, below: Value) -> Value {
        json!({"Chapter": {"content": "[a](../x.rs)", "path": path, "sub_items": below}})
    }

    #[test]
    fn links_of_chapters_at_any_depth_are_rewritten() {
        let mut book = json!({"items": [chapter("a.md", chapter("b/c.md", Value::Null)), "Separator"]});
        rewrite_chapters(&mut book, "https://r.org", Path::new("/none"));
        let content = |at: &str| book.pointer(at).unwrap().as_str().unwrap().to_owned();
        assert_eq!(content("/items/0/Chapter/content"), "[a](https://r.org/blob/main/x.rs)");
        assert_eq!(content("/items/0/Chapter/sub_items/Chapter/content"), "[a](../x.rs)", "within the book");
    }
}
