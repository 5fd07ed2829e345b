//! The page on conformance names tests, and files of packet scripts; they must exist.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

/// Appends all text of the Rust files below `folder`.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/reference/conformance.md")).unwrap();
    let mut text = String::new();
    let tcp = root.join("../evenkeel-tcp/src");
    sources(&root.join("src"), &mut text);
    sources(&tcp, &mut text);
    sources(&root.join("../evenkeel-apps/src/route"), &mut text);
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 10);
    for row in rows {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for test in shown_by.split(", ").map(|t| t.trim_matches('`')) {
            let exists = if test.ends_with(".txt") {
                tcp.join("tests/scripts").join(test).exists()
            } else {
                text.contains(&format!("fn {test}("))
            };
            assert!(exists, "no test is called `{test}`: {row}");
        }
    }
}
