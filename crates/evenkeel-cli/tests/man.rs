//! Manual pages, as the formatters of two projects read them.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::evenkeel;
use evenkeel_skip::Lack;

/// A folder with all pages, which is removed at the end.
struct Pages(PathBuf);

impl Pages {
    fn write(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
        let output = evenkeel(&["man", "--dir", folder.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(folder)
    }

    /// Returns the names of the pages, each with its text.
    fn texts(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
    }

    /// Runs a formatter on each page, and asserts that it finds no fault. Reports if it is missing.
    fn assert_faultless(
        &self,
        test: &str,
        line: &[&str],
        package: &'static str,
        is_fault: impl Fn(&str) -> bool,
    ) {
        for name in self.texts().keys() {
            let Ok(output) = Command::new(line[0]).args(&line[1..]).arg(self.0.join(name)).output() else {
                let lack = Lack::Program { program: package, package };
                return evenkeel_skip::skip(test, &lack);
            };
            let said = String::from_utf8(output.stderr).unwrap() + &String::from_utf8_lossy(&output.stdout);
            let faults: Vec<_> = said.lines().filter(|line| is_fault(line)).collect();
            assert!(faults.is_empty(), "{name}: {faults:#?}");
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_command_has_a_page_with_its_sections() {
    let pages = Pages::write("sections").texts();
    let names: Vec<&str> = pages.keys().map(String::as_str).collect();
    for name in ["evenkeel.1", "evenkeel-demo.1", "evenkeel-lab-run.1", "evenkeel-man.1", "evenkeel-wan.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(pages.len(), 23, "{names:?}");
    for (name, page) in &pages {
        let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let sections: Vec<&str> = sections.iter().map(|section| section.trim_matches('"')).collect();
        let has_files = ["echo", "route", "wan", "lab-run", "demo"];
        let has_files = has_files.iter().any(|command| *name == format!("evenkeel-{command}.1"));
        let wanted: &[&str] = match has_files {
            true => &["EXAMPLES", "EXIT STATUS", "FILES", "SIGNALS", "SEE ALSO"],
            false => &["EXAMPLES", "EXIT STATUS", "SEE ALSO"],
        };
        assert!(
            sections.starts_with(&["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"]),
            "{name}: {sections:?}"
        );
        let places: Vec<_> = wanted.iter().map(|wanted| sections.iter().position(|s| s == wanted)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{name}: {sections:?}");
    }
}

/// A page shows all options, also those that help shows on pages of their own.
#[test]
fn a_page_is_printed_alone_with_all_its_options() {
    let page = String::from_utf8(evenkeel(&["man", "lab", "run"]).stdout).unwrap();
    assert!(page.lines().nth(2).unwrap().starts_with(".TH EVENKEEL-LAB-RUN 1 "), "{page}");
    let page = String::from_utf8(evenkeel(&["man", "echo"]).stdout).unwrap();
    for option in ["kernel\\-address", "tick\\-sampling", "congestion", "json"] {
        assert!(page.contains(&format!("\n\\fB\\-\\-{option}\\fR")), "--{option}: {page}");
    }
    assert!(page.contains("\n.SS \"Sending over TCP\"\n") && page.contains("\n.SS Addresses\n"), "{page}");
    let whole = String::from_utf8(evenkeel(&["man"]).stdout).unwrap();
    assert!(whole.contains("evenkeel\\-route(1)"), "{whole}");
    let output = evenkeel(&["man", "rouet"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("nearest: route"), "{said}");
    let output = evenkeel(&["man", "--dir", "/dev/null/man"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("cannot write /dev/null/man"), "{said}");
}

#[test]
fn groff_formats_every_page_without_a_warning() {
    let test = "groff_formats_every_page_without_a_warning";
    let line = ["groff", "-ww", "-man", "-Tutf8", "-z"];
    Pages::write("groff").assert_faultless(test, &line, "groff", |line| !line.is_empty());
}

#[test]
fn mandoc_finds_no_fault_in_any_page() {
    let test = "mandoc_finds_no_fault_in_any_page";
    // Pages have no date, so that equal sources give equal pages; and examples may be long.
    let is_fault = |line: &str| {
        let levels = ["WARNING: ", "ERROR: ", "UNSUPP: "];
        levels.iter().any(|level| line.contains(level)) && !line.contains("missing date")
    };
    Pages::write("mandoc").assert_faultless(test, &["mandoc", "-T", "lint"], "mandoc", is_fault);
}
