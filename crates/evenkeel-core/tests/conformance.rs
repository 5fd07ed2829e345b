//! The page on conformance names tests, and files of packet scripts; they must exist.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

/// The beginning of a paragraph that names tests.
const SHOWN_BY: &str = "Shown by ";

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

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("../../docs/reference/conformance.md")).unwrap()
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = page();
    let mut text = String::new();
    let tcp = root.join("../evenkeel-tcp/src");
    sources(&root.join("src"), &mut text);
    sources(&tcp, &mut text);
    sources(&root.join("../evenkeel/src/kernel"), &mut text);
    sources(&root.join("../evenkeel-apps/src/route"), &mut text);
    sources(&root.join("../evenkeel-link/src/xdp/program"), &mut text);
    let paragraphs: Vec<&str> = page.split("\n\n").filter_map(|text| text.strip_prefix(SHOWN_BY)).collect();
    assert!(paragraphs.len() > 60);
    let begun = page.lines().filter(|line| line.starts_with(SHOWN_BY)).count();
    assert_eq!(begun, paragraphs.len(), "a line that names tests begins no paragraph");
    for paragraph in paragraphs {
        for test in paragraph.trim_end().trim_end_matches('.').split(',').map(|t| t.trim().trim_matches('`'))
        {
            let exists = if test.ends_with(".txt") {
                tcp.join("tests/scripts").join(test).exists()
            } else {
                text.contains(&format!("fn {test}("))
            };
            assert!(exists, "no test is called `{test}`: {paragraph}");
        }
    }
}

/// Each row of the table links to a section that names tests, except rows of which nothing is implemented.
#[test]
fn every_row_of_the_table_has_details_with_tests() {
    let page = page();
    let (table, details) = page.split_once("\n## ").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() > 60);
    for row in rows {
        let mut cells = row.trim_matches(['|', ' ']).split(" | ").skip(2);
        let (state, link) = (cells.next().unwrap(), cells.next());
        let title = link.and_then(|link| link.strip_prefix('[')?.split_once(']')).map(|(title, _)| title);
        let Some(title) = title else {
            assert!(state.starts_with("no"), "no details: {row}");
            continue;
        };
        let (_, section) = details.split_once(&format!("\n### {title}\n")).unwrap_or_else(|| panic!("{row}"));
        let section = section.split("\n#").next().unwrap();
        assert!(section.lines().any(|line| line.starts_with(SHOWN_BY)), "no tests: {row}");
    }
}
