//! Places that the project's own pages and settings name exist, and `ARCHITECTURE.md` names every crate.

use std::fs;
use std::path::{Path, PathBuf};

/// The crate that paths without a crate belong to.
const CORE: &str = "evenkeel-core/src";
/// The folder of packages, which is no crate.
const PACKAGING: &str = "packaging/";
/// Paths in the table "Looking for", at least.
const PATHS_MIN: usize = 60;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates").to_owned()
}

/// Returns the section of the page with this heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let rest = page.split(&format!("\n## {heading}\n")).nth(1).expect("the section");
    rest.split("\n## ").next().unwrap_or(rest)
}

/// Returns the words in backticks in one column of a section's tables.
fn named(section: &str, column: usize) -> Vec<&str> {
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split('|').nth(column));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

fn page() -> String {
    fs::read_to_string(crates().join("../ARCHITECTURE.md")).expect("ARCHITECTURE.md")
}

#[test]
fn files_that_the_map_names_exist() {
    let page = page();
    let paths = named(section(&page, "Looking for"), 2);
    assert!(paths.len() >= PATHS_MIN, "{} paths: those are not all", paths.len());
    let place = |path: &str| match path {
        _ if path.starts_with("evenkeel") => crates().join(path),
        _ if path.starts_with(PACKAGING) => crates().join("..").join(path),
        _ => crates().join(CORE).join(path),
    };
    let missing: Vec<_> = paths.iter().filter(|path| !place(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_map_names_every_crate() {
    let page = page();
    let named = named(section(&page, "Crates"), 1);
    for entry in fs::read_dir(crates()).expect("a folder of crates") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        assert!(!path.join("Cargo.toml").exists() || named.contains(&name), "ARCHITECTURE.md lacks {name}");
    }
}

#[test]
fn files_whose_mutants_are_tested_exist() {
    let settings = fs::read_to_string(crates().join("../.cargo/mutants.toml")).expect("mutants.toml");
    let globs = settings.lines().filter_map(|line| line.trim().strip_prefix("\"crates/"));
    let places: Vec<_> = globs.filter_map(|glob| glob.split(['"', '*']).next()).collect();
    assert!(places.len() >= 10, "{places:?}");
    let missing: Vec<_> = places.iter().filter(|place| !crates().join(place).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
