//! The figures of a running command, as another process reads them.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;

use common::session::Session;
use common::{command, pause};

const SERVED: [&str; 6] = ["echo", "cable", "--rate", "5k", "--duration", "60s"];

#[test]
fn the_figures_of_a_running_command_grow_and_are_conserved() {
    let session = Session::new("stats");
    let running = session.start(&SERVED);
    let mut before = 0;
    for _ in 0..3 {
        let [process] = &session.stats(&[&running.pid()])[..] else { panic!("one process") };
        assert_eq!(process["pid"], running.child.id());
        assert_eq!(process["program"], "evenkeel echo");
        let [host] = &process["hosts"].as_array().unwrap()[..] else { panic!("{process:#}") };
        let frames = |name: &str| host["frames"][name].as_u64().unwrap();
        let drops = host["drops"].as_array().unwrap().iter();
        let dropped = drops.filter(|drop| drop["place"] != "output" && drop["place"] != "interface ring");
        let dropped: u64 = dropped.map(|drop| drop["frames"].as_u64().unwrap()).sum();
        let ended = frames("delivered") + frames("consumed") + frames("forwarded") + frames("queued");
        assert_eq!(frames("received") + frames("duplicated"), ended + dropped, "{host:#}");
        let socket = host["sockets"].as_array().unwrap().iter().find(|socket| socket["port"] == 7).unwrap();
        let received = socket["received"].as_u64().unwrap();
        assert!(received >= before, "{socket:#}");
        before = received;
        // What the interval adds, the next total has, too.
        let [added] = &session.stats(&[&running.pid(), "--interval", "50ms"])[..] else {
            panic!("one process")
        };
        assert!(added["hosts"][0]["seconds"].as_f64().unwrap() < host["seconds"].as_f64().unwrap() + 60.0);
    }
    let text = String::from_utf8(session.run(&["stats"]).stdout).unwrap();
    for part in [&running.pid()[..], "evenkeel echo", "udp *:7", "service", "cable0", "% idle"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(before > 0, "{text}");
    running.end();
    assert_eq!(session.sockets(), [""; 0], "the socket is removed");
}

#[test]
fn figures_are_for_their_owner_alone() {
    let session = Session::new("stats-mode");
    let running = session.start(&SERVED);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(session.path().join("evenkeel")), 0o700);
    // The socket is there before its mode is, in a directory that is closed to others.
    let is_private = || {
        mode(running.socket()) == 0o600 || {
            pause();
            false
        }
    };
    assert!((0..100).any(|_| is_private()));
    assert!(fs::metadata(running.socket()).unwrap().file_type().is_socket());
}

#[test]
fn a_command_that_was_killed_leaves_nothing_that_is_taken_for_running() {
    let session = Session::new("stats-killed");
    let mut running = session.start(&SERVED);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert_eq!(session.sockets(), [running.pid()]);
    let output = session.run(&["stats", &running.pid()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said, format!("evenkeel: process {}: the process is gone\n", running.pid()));
    assert_eq!(session.sockets(), [""; 0]);
    let output = session.run(&["stats"]);
    if output.status.code() == Some(0) {
        // Others of root's run outside of the session.
        let shown = String::from_utf8(output.stdout).unwrap();
        return assert!(!shown.contains(&running.pid()), "{shown}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    let none = "evenkeel: no running process serves its figures to this user\n";
    assert_eq!((output.status.code(), said.as_str()), (Some(1), none));
}

/// Nobody has asked in between.
#[test]
fn a_command_that_starts_removes_the_sockets_of_those_that_were_killed() {
    let session = Session::new("stats-sweep");
    let mut killed = session.start(&SERVED);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let (first, second) = (session.start(&SERVED), session.start(&SERVED));
    let mut wanted = [first.pid(), second.pid()];
    let mut there = session.sockets();
    wanted.sort();
    there.sort();
    assert_eq!(there, wanted);
    let shown = session.stats(&[]);
    let pids: Vec<_> = shown.iter().map(|process| process["pid"].to_string()).collect();
    assert!(wanted.iter().all(|pid| pids.contains(pid)) && !pids.contains(&killed.pid()), "{pids:?}");
}

/// Commands on a cable have a host, and each shows it while it runs.
#[test]
fn every_command_with_a_host_serves_its_figures() {
    let session = Session::new("stats-commands");
    for line in [
        "sink cable --rate 5k --duration 60s",
        "http cable --duration 60s",
        "blast cable --rate 5k --duration 60s",
        "monitor cable --rate 5k --duration 60s",
        "load http://10.77.0.1/ --on cable --rate 100 --duration 60s --warm-up 0",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let running = session.start(&words);
        let [process] = &session.stats(&[&running.pid()])[..] else { panic!("{line}") };
        assert!(!process["hosts"].as_array().unwrap().is_empty(), "{line}: {process:#}");
        assert_eq!(process["program"], format!("evenkeel {}", words[0]));
    }
}

/// A place that cannot be written is no reason to fail.
#[test]
fn a_command_without_a_place_for_its_socket_runs_without_it() {
    let mut command = command(&["echo", "cable", "--rate", "5k", "--duration", "100ms"]);
    let output = command.env("XDG_RUNTIME_DIR", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_router_shows_its_devices_with_the_counters_of_the_operating_system() {
    common::in_namespace("a_router_shows_its_devices_with_the_counters_of_the_operating_system", || {
        let session = Session::new("stats-route");
        let links = ["--link", "tap:eksa,10.0.1.1/24", "--link", "tap:eksb,10.0.2.1/24"];
        let running = session.start(&[&["route"], &links[..]].concat());
        let [process] = &session.stats(&[&running.pid()])[..] else { panic!("one process") };
        let interfaces = process["hosts"][0]["interfaces"].as_array().unwrap();
        let names: Vec<_> = interfaces.iter().map(|interface| interface["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["eksa", "eksb"]);
        for interface in interfaces {
            assert!(interface["device"]["kernel"]["tx_dropped"].is_u64(), "{interface:#}");
        }
        running.end();
    });
}
