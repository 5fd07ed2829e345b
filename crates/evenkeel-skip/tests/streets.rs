//! The crates stand on three streets: the library, the tools, and the laboratory. What people depend on needs
//! neither a tool nor the laboratory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The crates that people depend on.
const LIBRARY: [&str; 12] = [
    "evenkeel",
    "evenkeel-base",
    "evenkeel-core",
    "evenkeel-frame",
    "evenkeel-link",
    "evenkeel-ready",
    "evenkeel-soft-timers",
    "evenkeel-soft-timers-c",
    "evenkeel-soft-timers-quinn",
    "evenkeel-tcp",
    "evenkeel-timers",
    "evenkeel-wan",
];

/// The programs, and the command that starts them and the experiments.
const TOOLS: [&str; 2] = ["evenkeel-apps", "evenkeel-cli"];

/// Simulator, experiments, the papers' figures, and what tests have in common.
const LABORATORY: [&str; 6] =
    ["evenkeel-book", "evenkeel-lab", "evenkeel-sim", "evenkeel-skip", "evenkeel-testing", "xtask"];

/// Returns the names of the workspace's crates that a crate's manifest depends on outside of its tests.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut in_dependencies = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if in_dependencies && line.starts_with("evenkeel") {
            names.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    names
}

/// Returns the folders of crates, each with the crates of the workspace that it depends on.
fn crates() -> Vec<(String, BTreeSet<String>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
    let entries =
        fs::read_dir(folder).expect("a folder of crates").map(|entry| entry.expect("an entry").path());
    let named = entries.filter_map(|path| {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).ok()?;
        Some((path.file_name()?.to_str()?.to_owned(), dependencies(&manifest)))
    });
    named.collect()
}

#[test]
fn every_crate_stands_on_one_street() {
    let crates = crates();
    assert!(crates.len() >= 20, "{crates:?}");
    for (name, _) in crates {
        let streets = [&LIBRARY[..], &TOOLS, &LABORATORY];
        let on = streets.iter().filter(|street| street.contains(&&*name)).count();
        assert_eq!(on, 1, "{name}: add it to a list in this file, and to ARCHITECTURE.md");
    }
}

#[test]
fn the_library_needs_neither_tools_nor_the_laboratory() {
    for (name, dependencies) in crates() {
        let only_library = LIBRARY.contains(&&*name) || name == "evenkeel-apps";
        let elsewhere: Vec<_> =
            dependencies.iter().filter(|name| !LIBRARY.contains(&name.as_str())).collect();
        assert!(!only_library || elsewhere.is_empty(), "{name} depends on {elsewhere:?}");
    }
}

#[test]
fn dependencies_of_tests_do_not_count() {
    let manifest = "[dependencies]\nevenkeel-tcp.workspace = true\nlibc = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nevenkeel-link = { path = \"..\" }\n\
                    [dev-dependencies]\nevenkeel-testing.workspace = true\n";
    assert_eq!(dependencies(manifest), ["evenkeel-link", "evenkeel-tcp"].map(str::to_owned).into());
}
