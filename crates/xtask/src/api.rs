//! `cargo xtask api`: the public interface of each published crate, a line for each item, in its `api.txt`.
//!
//! So a change that users can see is in the diff, where a reader decides whether it breaks them. The lint
//! `unreachable_pub` sees to it that what is `pub` can be reached. So items are listed by their declarations,
//! below the public modules that they are in: a private module does not show.

mod listing;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::metadata::{Metadata, Package};
use listing::Listing;

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Writes the files anew, instead of comparing them with the sources
    #[arg(long)]
    renew: bool,
}

/// Compares the files with the sources, or writes them. Returns whether they agree.
pub(crate) fn check(root: &Path, options: &Options) -> io::Result<bool> {
    let mut all = true;
    for package in Metadata::read(root)?.published() {
        all &= package.check_api(options.renew)?;
    }
    if !all {
        println!("If the change is meant, `cargo xtask api --renew` records it.");
    }
    Ok(all)
}

impl Package {
    fn check_api(&self, renew: bool) -> io::Result<bool> {
        let (file, lines) = (self.folder().join("api.txt"), Listing::of(&self.folder().join("src/lib.rs"))?);
        if renew {
            let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            fs::write(&file, text)?;
            return Ok(true);
        }
        let recorded = fs::read_to_string(&file).unwrap_or_default();
        let changes = changes(&recorded.lines().map(str::to_owned).collect(), &lines);
        for change in &changes {
            println!("{}: {change}", self.name);
        }
        Ok(changes.is_empty())
    }
}

/// Returns the lines that are in one of two listings only.
fn changes(recorded: &BTreeSet<String>, lines: &BTreeSet<String>) -> Vec<String> {
    let gone = recorded.difference(lines).map(|line| format!("- {line}"));
    gone.chain(lines.difference(recorded).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_came_and_went_are_changes() {
        let set = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        assert!(changes(&set(&["a", "b"]), &set(&["b", "a"])).is_empty());
        assert_eq!(changes(&set(&["a", "b"]), &set(&["b", "c"])), ["- a", "+ c"]);
    }
}
