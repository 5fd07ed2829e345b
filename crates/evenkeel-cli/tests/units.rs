//! Numbers and units have one spelling in all reports: `1.05 Mpps`, `48.1 Mbit/s`, `25 µs`, `99.7 %`, `12
//! 345`.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::path::PathBuf;

use common::command;

/// Spellings of units that reports must not use.
const OTHER_SPELLINGS: [&str; 10] = [
    "packets/s",
    "pkts/s",
    "frames/s",
    "packets per second",
    "Kbit",
    "kbps",
    "Mbps",
    "usec",
    "microsec",
    "msec",
];

/// Units that follow a space.
const UNITS: [&str; 13] =
    ["%", "us", "µs", "ns", "ms", "s", "pps", "kpps", "Mpps", "bit/s", "kbit/s", "Mbit/s", "MB/s"];

/// Returns the words of a report that break the rules of spelling.
fn other_spellings(report: &str) -> Vec<String> {
    let known = OTHER_SPELLINGS.iter().filter(|spelling| report.contains(**spelling));
    let mut found: Vec<String> = known.map(|spelling| (*spelling).to_owned()).collect();
    for word in report.split(|c: char| c.is_whitespace() && c != '\u{202f}') {
        let word = word.trim_matches(|c: char| "(),;:".contains(c));
        let number = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let joined = number.len() < word.len() && UNITS.contains(&number);
        // Five digits without a gap: a port behind an address is part of another word.
        let ungrouped = word.len() >= 5 && word.bytes().all(|byte| byte.is_ascii_digit());
        if ["us", "percent"].contains(&word) || joined || ungrouped {
            found.push(word.to_owned());
        }
    }
    found
}

#[test]
fn other_spellings_are_found() {
    assert_eq!(other_spellings("50 %, 12 345 packets at 1.05 Mpps; 25 µs (0.5 s)"), [""; 0]);
    let wrong = ["50%", "3ms,", "(us)", "12345", "4 packets/s"].map(|report| other_spellings(report).len());
    assert_eq!(wrong, [1; 5]);
    assert_eq!(other_spellings("12\u{202f}345 and 10.0.0.1:51023"), [""; 0]);
}

/// Returns the text of a page or picture, without its markup and styles.
fn words(page: &str) -> String {
    let mut text = String::new();
    for (index, part) in page.split("<style").enumerate() {
        let part = if index == 0 { part } else { part.split_once("</style>").map_or("", |(_, rest)| rest) };
        for (index, piece) in part.split('<').enumerate() {
            let shown = if index == 0 { piece } else { piece.split_once('>').map_or("", |(_, rest)| rest) };
            text.push_str(shown);
            text.push(' ');
        }
    }
    text
}

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The longest run, which takes as long as all others together.
const LONGEST: &str =
    "demo --no-kernel --architectures eager,soft-lrp --points 3 --seconds-per-point 0.05 --report demo.html";

/// Short runs of every other command that reports something.
const RUNS: [&str; 13] = [
    "echo cable --duration 300ms",
    "echo cable --tcp --connections --bytes 100k --duration 2s",
    "sink cable --duration 300ms --stats-interval 100ms",
    "send cable --bytes 100k",
    "http cable --duration 500ms --connections",
    "blast cable --duration 300ms",
    "monitor cable --duration 300ms --stats-interval 100ms",
    "monitor cable --duration 300ms -w frames.pcapng",
    "monitor pcap:frames.pcapng",
    "wan cable --duration 500ms --delay 5ms --loss 1% --rate 5mbit",
    "load http://10.77.0.1/ --on cable --rate 200 --duration 500ms --interval 100ms",
    "lab list",
    "lab run t00-fig1 --csv . --svg . --markdown survey.md",
];

#[test]
fn every_report_spells_numbers_and_units_alike() {
    let scratch = Scratch(std::env::temp_dir().join(format!("evenkeel-units-{}", std::process::id())));
    fs::create_dir_all(&scratch.0).unwrap();
    let run = |line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = command(&arguments).current_dir(&scratch.0).output().unwrap();
        let report = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
        assert!(report.lines().count() > 1, "{line}: {report}");
        other_spellings(&report).into_iter().map(|spelling| format!("{line}: {spelling}")).collect()
    };
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let longest = scope.spawn(|| run(LONGEST));
        let others: Vec<_> = RUNS.into_iter().flat_map(run).collect();
        [others, longest.join().unwrap()].concat()
    });
    let pages: Vec<_> = fs::read_dir(&scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|it| ["html", "svg", "md"].iter().any(|known| it == *known))
        })
        .collect();
    assert!(pages.len() >= 3, "{pages:?}");
    for page in pages {
        let shown = words(&fs::read_to_string(&page).unwrap());
        let found = other_spellings(&shown).into_iter();
        wrong.extend(found.map(|spelling| format!("{}: {spelling}", page.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
