//! The crates stand on three streets: the library, the tools, and the laboratory. What people depend on needs
//! neither a tool nor the laboratory; tools and experiments use the library through `evenkeel`.

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

/// Where `evenkeel` is used through its face: programs, the command, experiments, pages, and its own examples
/// and tests.
const USERS: [&str; 6] =
    ["evenkeel-apps", "evenkeel-cli", "evenkeel-lab", "evenkeel-book", "evenkeel/examples", "evenkeel/tests"];

/// Passes the path and the text of each source and manifest below a folder to `see`.
fn read_below(folder: &Path, see: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_below(&path, see);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "toml") {
            see(&path, &fs::read_to_string(&path).expect("text"));
        }
    }
}

/// Returns the first line that depends on a crate behind the face of the library, or that names it in code.
fn past_the_face(text: &str) -> Option<&str> {
    let depends = |line: &str| ["evenkeel-core", "evenkeel-link"].iter().any(|name| line.starts_with(name));
    let names = |line: &str| {
        line.split(|c: char| c != '_' && !c.is_alphanumeric())
            .any(|word| word == "evenkeel_core" || word == "evenkeel_link")
    };
    text.lines().find(|line| depends(line) || names(line))
}

#[test]
fn programs_and_experiments_use_the_library_through_its_face() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
    let mut files = 0;
    for user in USERS {
        read_below(&crates.join(user), &mut |path, text| {
            files += 1;
            assert_eq!(past_the_face(text), None, "{}: evenkeel::raw has what is needed", path.display());
        });
    }
    assert!(files > 400, "only {files} files");
}

#[test]
fn imports_past_the_face_are_found() {
    for line in
        ["use evenkeel_core::host::Host;", "    evenkeel_link::cpus()", "evenkeel-core.workspace = true"]
    {
        assert_eq!(past_the_face(&format!("use std::io;\n{line}\n")), Some(line));
    }
    assert_eq!(past_the_face("use evenkeel::raw::host::Host;\n# As evenkeel-core does.\n"), None);
}

#[test]
fn dependencies_of_tests_do_not_count() {
    let manifest = "[dependencies]\nevenkeel-tcp.workspace = true\nlibc = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nevenkeel-link = { path = \"..\" }\n\
                    [dev-dependencies]\nevenkeel-testing.workspace = true\n";
    assert_eq!(dependencies(manifest), ["evenkeel-link", "evenkeel-tcp"].map(str::to_owned).into());
}
