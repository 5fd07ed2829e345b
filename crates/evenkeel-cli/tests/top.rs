//! `evenkeel top` in a terminal, next to commands under a flood; and what it prints without a terminal.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::pty::Terminal;
use common::session::{Running, Session};
use common::{command, report, signal};
use rustix::process::{Pid, Signal, kill_process};

/// A service that gets far more than it can take.
const FLOODED: [&str; 8] = ["echo", "cable", "--rate", "max", "--work", "50us", "--duration", "120s"];
/// A service that has time.
const QUIET: [&str; 6] = ["sink", "cable", "--rate", "2k", "--duration", "120s"];

/// Starts the view in a terminal that has room for all lines about one host. Root also sees processes of
/// others in /run/evenkeel, so most tests name the processes.
fn top(session: &Session, more: &[&str]) -> Terminal {
    let mut command = command(&[&["top", "--interval", "200ms"], more].concat());
    command.env("XDG_RUNTIME_DIR", session.path());
    Terminal::start(&command, 80, 32)
}

/// Returns the line of the list about a process, without its number.
fn line_of<'a>(picture: &'a [String], running: &Running<'_>) -> Option<&'a str> {
    let pid = format!(" {} ", running.pid());
    picture.iter().find(|line| line.contains(&pid)).map(String::as_str)
}

#[test]
fn a_flooded_service_is_shown_with_its_drops_sockets_and_bills() {
    let session = Session::new("top-flood");
    let flooded = session.start(&FLOODED);
    let mut top = top(&session, &[&flooded.pid()]);
    let parts = ["1 process, 1 host", "evenkeel echo", "offered", "served", "ring-full", "udp *:7", "cable0"];
    let has_all = |lines: &[String]| parts.iter().all(|part| lines.join("\n").contains(part));
    let picture = top.shows("a flood", has_all);
    let all = picture.join("\n");
    assert!(line_of(&picture, &flooded).unwrap().contains("runs"), "{all}");
    assert!(picture.len() <= 32 && picture.iter().all(|line| line.chars().count() <= 80), "{all}");
    top.types("q");
    assert_eq!(top.end(), Some(0));
    top.assert_restored();
    flooded.end();
}

#[test]
fn processes_that_come_and_go_are_followed() {
    let session = Session::new("top-follow");
    let mut top = top(&session, &[]);
    let first = session.start(&QUIET);
    top.shows("the first", |lines| line_of(lines, &first).is_some_and(|line| line.contains("runs")));
    let second = session.start(&FLOODED);
    top.shows("both", |lines| line_of(lines, &second).is_some() && line_of(lines, &first).is_some());
    let pid = second.pid();
    let picture = top.picture();
    let line = line_of(&picture, &second).unwrap();
    top.types(line.trim_start().get(..1).unwrap());
    top.shows_text(&format!("{pid}: evenkeel echo"));
    second.end();
    top.shows("the end of the second", |lines| !lines.iter().any(|line| line.contains(&pid)));
    top.shows("the first", |lines| line_of(lines, &first).is_some_and(|line| line.contains("runs")));
    top.types("\x1b");
    assert_eq!(top.end(), Some(0));
    top.assert_restored();
}

/// The other processes are asked on.
#[test]
fn a_process_that_does_not_answer_is_shown_and_stops_no_other() {
    let session = Session::new("top-silent");
    let (stopped, flooded) = (session.start(&QUIET), session.start(&FLOODED));
    let mut top = top(&session, &[&stopped.pid(), &flooded.pid()]);
    top.shows("both", |lines| {
        [&stopped, &flooded].iter().all(|it| line_of(lines, it).is_some_and(|line| line.contains("runs")))
    });
    kill_process(Pid::from_child(&stopped.child), Signal::STOP).unwrap();
    let picture =
        top.shows("silence", |lines| line_of(lines, &stopped).is_some_and(|line| line.contains("silent")));
    let before = line_of(&picture, &flooded).unwrap().to_owned();
    assert!(before.contains("runs"), "{before}");
    top.shows("news of the other", |lines| line_of(lines, &flooded).is_some_and(|line| line != before));
    kill_process(Pid::from_child(&stopped.child), Signal::CONT).unwrap();
    top.shows("its answer", |lines| line_of(lines, &stopped).is_some_and(|line| line.contains("runs")));
    top.types("q");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn keys_pause_sort_scroll_and_explain() {
    let session = Session::new("top-keys");
    let flooded = session.start(&FLOODED);
    let mut top = top(&session, &[&flooded.pid()]);
    top.shows_text("ring-full");
    top.types("p");
    top.shows_text("PAUSED");
    top.types("s");
    // The last line is drawn last, so the picture is whole; what a process just answered may still come.
    top.shows_text("sort: delivered");
    common::pause();
    let paused = top.shows_text("sort: delivered");
    top.types("?");
    top.shows_text("close this help");
    top.types("\x1b");
    let figures = |lines: &[String]| lines[..lines.len() - 1].to_vec();
    // A part of the help may be there for a moment.
    top.shows("the same figures: the picture is paused", |lines| figures(lines) == figures(&paused));
    top.resize(80, 12);
    top.shows("a part", |lines| lines.len() == 12);
    top.types("\x1b[F");
    top.shows("the end", |lines| lines[lines.len() - 2].contains("cable0"));
    top.types("p");
    top.shows("new figures", |lines| !lines[0].contains("PAUSED"));
    top.types("\x03");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn the_terminal_is_restored_after_ctrl_c_and_signals() {
    let session = Session::new("top-signals");
    let quiet = session.start(&QUIET);
    for end in ["keys", "INT", "TERM", "HUP"] {
        let mut top = top(&session, &[&quiet.pid()]);
        top.shows_text("udp *:9");
        match end {
            "keys" => top.types("\x03"),
            kind => signal(&top.child, kind),
        }
        assert_eq!(top.end(), Some(0), "{end}: {}", top.written());
        top.assert_restored();
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_view() {
    let session = Session::new("top-closed");
    let quiet = session.start(&QUIET);
    let mut top = top(&session, &[&quiet.pid()]);
    top.shows_text("udp *:9");
    top.close();
    signal(&top.child, "HUP");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn a_terminal_may_get_tiny_and_large_again() {
    let session = Session::new("top-tiny");
    let quiet = session.start(&QUIET);
    let mut top = top(&session, &[&quiet.pid()]);
    top.shows_text("udp *:9");
    for (columns, rows) in [(1, 1), (3, 2), (200, 1), (1, 60), (20, 5)] {
        top.resize(columns, rows);
        common::pause();
    }
    top.resize(120, 40);
    top.shows("a wide one", |lines| {
        lines.len() == 40 && lines[39].contains("quit") && lines.iter().any(|line| line.contains("udp *:9"))
    });
    top.types("q");
    assert_eq!(top.end(), Some(0));
    top.assert_restored();
}

#[test]
fn the_view_ends_when_its_time_is_over() {
    let session = Session::new("top-duration");
    let mut top = top(&session, &["--duration", "300ms"]);
    assert_eq!(top.end(), Some(0));
    top.assert_restored();
}

#[test]
fn one_interval_is_printed_as_text_and_as_json() {
    let session = Session::new("top-once");
    let running = session.start(&FLOODED);
    let once = ["top", "--once", "--interval", "500ms"];
    let output = session.run(&once);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in [&running.pid()[..], "evenkeel echo", "interface ring: ring-full", "udp *:7", "service"] {
        assert!(text.contains(part), "{text}");
    }
    let pid = running.pid();
    let arguments = [&once[..], &[&pid, "--json"]].concat();
    let report = report(&arguments, session.run(&arguments).stdout);
    let host = &report["processes"][0]["hosts"][0];
    let pps = |name: &str| host["frames"][name].as_f64().unwrap();
    assert!(pps("offered_pps") > 2.0 * pps("served_pps") && pps("served_pps") > 0.0, "{report:#}");
    let drops = host["drops"].as_array().unwrap().iter();
    let dropped: f64 = drops.map(|drop| drop["dropped_pps"].as_f64().unwrap()).sum();
    assert!((dropped - pps("dropped_pps")).abs() < 1.0, "{report:#}");
    let socket = host["sockets"].as_array().unwrap().iter().find(|socket| socket["port"] == 7).unwrap();
    assert_eq!((&socket["name"], &socket["process"]), (&"udp *:7".into(), &"service".into()));
    let paid: f64 =
        host["processes"].as_array().unwrap().iter().map(|bill| bill["charged"].as_f64().unwrap()).sum();
    assert!(paid > 0.0 && paid < 1.1, "{report:#}");
    running.end();
}

#[test]
fn without_a_terminal_or_a_process_one_line_says_what_to_do() {
    let session = Session::new("top-errors");
    let said = |arguments: &[&str]| {
        let output = session.run(arguments);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let no_terminal = "standard output is no terminal: `evenkeel top --once` prints one interval as text";
    assert_eq!(said(&["top"]), (Some(2), format!("evenkeel: {no_terminal}\n")));
    let none = "evenkeel: no running process serves its figures to this user\n";
    assert_eq!(said(&["top", "--once"]), (Some(1), none.to_owned()));
    let (code, said) = said(&["top", "--once", "4194304"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("process 4194304: no such process serves its figures to this user"), "{said}");
}
