//! Threads that do the interface's work, and what is left of them at the end.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use evenkeel_testing::{Program, run, wait_for};
use serde_json::Value;

use crate::common::signal;
use crate::{Bench, FLOODED, at_veth_with, script};

const PROGRAMS: [Program; 2] = [("unshare", "util-linux"), ("renice", "util-linux")];

fn output_of(text: &str) -> String {
    let output = script(text).output().unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether threads do the work of the interface, and which processors help.
fn settings() -> String {
    output_of("cd /sys/class/net/gd0 && cat threaded queues/rx-0/rps_cpus").replace('\n', " ")
}

/// Held by each of these tests: threads are found by the interface's name here, which all tests use.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the threads of interfaces of that name, in any network namespace, and their niceness.
fn threads() -> Vec<(u32, i32)> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may be gone.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let (called, rest) = stat.split_once(") ").unwrap();
        if called.contains("(napi/gd0-") {
            threads.push((pid, rest.split(' ').nth(16).unwrap().parse().unwrap()));
        }
    }
    threads
}

fn niceness() -> Vec<i32> {
    threads().iter().map(|(_, niceness)| *niceness).collect()
}

/// A guard that has threads do the work.
struct Guard(Child);

impl Guard {
    fn start(options: &str) -> Self {
        let guard = format!("exec {} guard gd0 --json {options}", env!("CARGO_BIN_EXE_evenkeel"));
        let child = script(&guard).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let guard = Self(child);
        wait_for("the threads", || settings().starts_with('1'));
        guard
    }

    /// Ends the guard. Returns its report.
    fn stop(self) -> Value {
        signal(&self.0, "INT");
        self.wait()
    }

    fn wait(mut self) -> Value {
        let printed = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(&printed).unwrap()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills a socket that nobody reads, until the threads have less weight.
fn flood(bench: &Bench, lowered: i32) {
    wait_for("less weight", || {
        bench.send(FLOODED, 1_000, 1);
        niceness() == [lowered]
    });
}

/// Runs a test while no other one has threads.
fn alone(programs: &'static [Program], test: fn(&Bench)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    at_veth_with(programs, test);
}

#[test]
fn threads_weigh_less_during_a_flood_and_all_is_as_before_at_the_end() {
    alone(&[PROGRAMS[0]], |bench| {
        output_of("echo 1 > /sys/class/net/gd0/queues/rx-0/rps_cpus");
        let _flooded = bench.bind(FLOODED);
        for share in ["--threaded", "--threaded=25"] {
            let guard = Guard::start(share);
            assert_eq!((settings(), niceness()), ("1 0 ".to_owned(), vec![0]));
            flood(bench, if share == "--threaded" { 10 } else { 5 });
            wait_for("the whole weight", || niceness() == [0]);
            flood(bench, if share == "--threaded" { 10 } else { 5 });
            let report = guard.stop();
            assert!(report["threads"]["lowered_seconds"].as_f64().unwrap() >= 1.0, "{report}");
            assert_eq!((settings(), threads()), ("0 1 ".to_owned(), vec![]));
        }
    });
}

#[test]
fn a_guard_that_is_killed_leaves_threads_as_they_were() {
    alone(&PROGRAMS, |bench| {
        let _flooded = bench.bind(FLOODED);
        let guard = Guard::start("--threaded");
        flood(bench, 10);
        drop(guard);
        wait_for("the end of the threads", || settings() == "0 0 " && threads().is_empty());
        // Who had threads before keeps them, with the weight that they had. A veth has threads with GRO.
        output_of("ethtool -K gd0 gro on && echo 1 > /sys/class/net/gd0/threaded");
        let [(thread, 0)] = threads()[..] else { panic!("{:?}", threads()) };
        run(&format!("renice -n 3 -p {thread}"));
        let guard = Guard::start("--threaded");
        flood(bench, 10);
        drop(guard);
        wait_for("the weight of before", || threads() == [(thread, 3)]);
        assert_eq!(settings(), "1 0 ");
    });
}

/// If the process that puts settings back is killed, too, the next guard does it.
#[test]
fn what_two_killed_processes_leave_the_next_guard_puts_back() {
    alone(&PROGRAMS, |bench| {
        let _flooded = bench.bind(FLOODED);
        output_of("ethtool -K gd0 gro on && echo 1 > /sys/class/net/gd0/threaded");
        output_of("echo 1 > /sys/class/net/gd0/queues/rx-0/rps_cpus");
        let [(thread, 0)] = threads()[..] else { panic!("{:?}", threads()) };
        run(&format!("renice -n 3 -p {thread}"));
        let guard = Guard::start("--threaded");
        wait_for("the settings", || settings() == "1 0 ");
        flood(bench, 10);
        run(&format!("pkill -KILL -P {}", guard.0.id()));
        drop(guard);
        assert_eq!((settings(), threads()), ("1 0 ".to_owned(), vec![(thread, 10)]));
        let said = |_| {
            let guard = format!("{} guard gd0 --duration 100ms", env!("CARGO_BIN_EXE_evenkeel"));
            String::from_utf8(script(&guard).output().unwrap().stderr).unwrap()
        };
        let [first, second] = [1, 2].map(said);
        assert_eq!((settings(), threads()), ("1 1 ".to_owned(), vec![(thread, 3)]));
        assert!(first.contains("put back the settings of gd0"), "{first}");
        assert!(!second.contains("put back"), "{second}");
    });
}

/// Interfaces of other network namespaces have threads of the same name.
#[test]
fn threads_of_others_keep_their_weight() {
    alone(&[PROGRAMS[0]], |bench| {
        bench.far.here(|| {
            run("ip link add gd0 type veth peer name gd9");
            run("ip link set gd0 up");
            output_of("ethtool -K gd0 gro on && echo 1 > /sys/class/net/gd0/threaded");
        });
        let [(other, 0)] = threads()[..] else { panic!("{:?}", threads()) };
        let _flooded = bench.bind(FLOODED);
        let guard = Guard::start("--threaded");
        wait_for("less weight", || {
            bench.send(FLOODED, 1_000, 1);
            threads().iter().any(|(_, niceness)| *niceness == 10)
        });
        assert!(threads().contains(&(other, 0)), "{:?}", threads());
        guard.stop();
        assert_eq!(threads(), [(other, 0)]);
    });
}

#[test]
fn a_guard_whose_interface_goes_away_under_a_flood_goes_on() {
    alone(&[PROGRAMS[0]], |bench| {
        let _flooded = bench.bind(FLOODED);
        let guard = Guard::start("--threaded --duration 4s");
        flood(bench, 10);
        run("ip link del gd0");
        // The flood is over after a second, and there are no threads to be given their weight.
        let report = guard.wait();
        assert!(report["seconds"].as_f64().unwrap() >= 4.0, "{report}");
    });
}

#[test]
fn the_guard_says_why_it_cannot_have_threads() {
    at_veth_with(&[], |_| {
        let said = |command: &mut Command| {
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            String::from_utf8(output.stderr).unwrap()
        };
        let guard = format!("{} guard gd0 --threaded", env!("CARGO_BIN_EXE_evenkeel"));
        let elsewhere = said(Command::new("sh").args(["-c", &guard]));
        assert!(elsewhere.contains("/sys shows another network namespace"), "{elsewhere}");
        let unwritable = said(&mut script(&format!("mount -o remount,ro /sys && exec {guard}")));
        assert!(unwritable.contains("/sys/class/net/gd0/threaded"), "{unwritable}");
        assert!(!run("ip link show gd0").contains("prog/xdp"));
    });
}
