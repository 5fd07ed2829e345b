//! Tests of what the doctor reports about machines with known settings. Most need root, and report if they
//! are skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{assert_described, command, evenkeel};
use evenkeel_testing::{Program, Running, has_xdp, in_namespace, run, wait_for};
use serde_json::Value;

const PROGRAMS: [Program; 4] =
    [("ip", "iproute2"), ("ethtool", "ethtool"), ("unshare", "util-linux"), ("setpriv", "util-linux")];

/// Runs the doctor with a view of the devices of this network namespace, and `before` it a command.
fn start(before: &str, arguments: &str) -> Output {
    let doctor = format!("{} doctor {arguments}", env!("CARGO_BIN_EXE_evenkeel"));
    let script = format!("mount -t sysfs sysfs /sys && {before} exec {doctor}");
    Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
}

/// Returns the report of the doctor, which its schema describes.
fn examine(before: &str, arguments: &str) -> Value {
    let output = start(before, &format!("{arguments} --json"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_described(&["doctor"], &report);
    report
}

/// Returns the only finding of a check, about an interface if one is given.
fn find<'a>(report: &'a Value, check: &str, interface: Option<&str>) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    let of: Vec<_> = all
        .iter()
        .filter(|it| it["check"] == check && interface.is_none_or(|name| it["interface"] == name))
        .collect();
    assert_eq!(of.len(), 1, "{check}: {report:#}");
    of[0]
}

fn verdict<'a>(report: &'a Value, check: &str, interface: &str) -> (&'a str, &'a str) {
    let finding = find(report, check, Some(interface));
    (finding["verdict"].as_str().unwrap(), finding["seen"].as_str().unwrap())
}

fn add_pair() {
    run("ip link add dr0 type veth peer name dr1");
    run("ip addr add 10.78.1.1/24 dev dr0");
    run("ip link set dr0 up");
    run("ip link set dr1 up");
}

#[test]
fn an_interface_is_described_as_it_was_set() {
    in_namespace(&[&PROGRAMS], || {
        add_pair();
        let set = |value: &str, file: &str| format!("echo {value} > /sys/class/net/dr0/{file};");
        let report = examine("", "--watch 1ms");
        assert_eq!(report["interfaces"], serde_json::json!(["dr1", "dr0"]));
        for name in ["dr0", "dr1"] {
            assert_eq!(verdict(&report, "state", name), ("good", "up, MTU 1500, driver veth"));
            assert_eq!(verdict(&report, "threaded-napi", name), ("could_be_better", "off: softirqs"));
            let mend = format!("ethtool -K {name} gro on && echo 1 > /sys/class/net/{name}/threaded");
            assert_eq!(find(&report, "threaded-napi", Some(name))["mend"], mend);
            assert_eq!(verdict(&report, "rps", name), ("good", "off"));
            assert_eq!(verdict(&report, "xdp-program", name), ("good", "none: the place is free"));
        }
        run("ethtool -K dr0 gro on");
        let before = [
            set("1", "threaded"),
            set("1", "queues/rx-0/rps_cpus"),
            set("200000", "gro_flush_timeout"),
            set("2", "napi_defer_hard_irqs"),
            "ip link set dr0 mtu 1400;".to_owned(),
        ];
        let report = examine(&before.concat(), "dr0 --watch 1ms");
        assert_eq!(report["interfaces"], serde_json::json!(["dr0"]));
        assert_eq!(verdict(&report, "state", "dr0").1, "up, MTU 1400, driver veth");
        assert_eq!(verdict(&report, "threaded-napi", "dr0"), ("good", "on: NAPI threads"));
        let rps = find(&report, "rps", Some("dr0"));
        assert_eq!(rps["seen"], "frames are steered to core 0");
        assert_eq!(rps["mend"], "echo 0 | tee /sys/class/net/dr0/queues/rx-0/rps_cpus");
        let deferral = verdict(&report, "deferral", "dr0");
        assert_eq!(deferral, ("could_be_better", "polled every 200 µs instead of by interrupts"));
        run("ip link set dr0 down");
        let report = examine("", "dr0 --watch 1ms");
        let state = find(&report, "state", Some("dr0"));
        assert_eq!(
            (&state["verdict"], &state["mend"]),
            (&"could_be_better".into(), &"ip link set dr0 up".into())
        );
    });
}

/// `/sys` belongs to a network namespace, and so may show the devices of another one.
#[test]
fn what_sys_shows_of_another_namespace_is_not_reported() {
    in_namespace(&[&PROGRAMS], || {
        add_pair();
        let report = common::json(&["doctor", "dr0", "--watch", "1ms", "--json"]);
        let expected = ("unknown", "/sys shows another network namespace");
        assert_eq!(verdict(&report, "threaded-napi", "dr0"), expected);
        assert_eq!(verdict(&report, "state", "dr0").0, "good");
    });
}

#[test]
fn a_program_at_the_interface_is_named() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        add_pair();
        let with = |arguments: &[&str]| {
            let child = command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let child = Running(child);
            wait_for("the program", || run("ip link show dr0").contains("prog/xdp"));
            let report = examine("", "dr0 --watch 1ms");
            drop(child);
            wait_for("its end", || !run("ip link show dr0").contains("prog/xdp"));
            let (verdict, seen) = verdict(&report, "xdp-program", "dr0");
            (verdict.to_owned(), seen.to_owned())
        };
        let (verdict, seen) = with(&["guard", "dr0"]);
        assert!(verdict == "good" && seen.starts_with("evenkeel guard"), "{seen}");
        let (verdict, seen) = with(&["echo", "xdp:dr0", "--address", "10.78.1.9/24"]);
        assert!(verdict == "could_be_better" && seen.starts_with("taken by program"), "{seen}");
    });
}

/// A socket that nobody reads loses what comes while the machine is watched.
#[test]
fn a_socket_that_loses_datagrams_is_named_with_its_rate_and_its_program() {
    in_namespace(&[&PROGRAMS], || {
        let flooded = UdpSocket::bind("127.0.0.1:9").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (over, to) = (AtomicBool::new(false), flooded.local_addr().unwrap());
        let report = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    other.send_to(&[7; 20], to).unwrap();
                }
            });
            let report = examine("", "--watch 300ms");
            over.store(true, Ordering::Relaxed);
            report
        });
        let losing = report["losing_sockets"].as_array().unwrap();
        assert_eq!(losing.len(), 1, "{report:#}");
        let socket = &losing[0];
        assert_eq!(socket["address"], "127.0.0.1:9");
        assert_eq!(socket["pid"], std::process::id());
        assert!(
            socket["dropped_per_s"].as_f64().unwrap() > 0.0 && socket["waiting_bytes"].as_u64() > Some(0)
        );
        let finding = find(&report, "socket", None);
        assert_eq!(finding["verdict"], "bad");
        assert_eq!(finding["mend"], "evenkeel guard IFACE --port 9");
        assert_eq!(find(&report, "udp-buffers", None)["verdict"], "bad");
        // It has lost datagrams, and loses no more.
        let report = examine("", "--watch 1ms");
        assert_eq!(find(&report, "socket", None)["verdict"], "could_be_better");
        assert_eq!(find(&report, "udp-buffers", None)["verdict"], "could_be_better");
    });
}

#[test]
fn without_root_it_says_what_it_could_not_see() {
    in_namespace(&[&PROGRAMS], || {
        let flooded = UdpSocket::bind("127.0.0.1:9").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..5_000).for_each(|_| _ = other.send_to(&[7; 20], flooded.local_addr().unwrap()).unwrap());
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let binary = env!("CARGO_BIN_EXE_evenkeel");
        if !Command::new("sh")
            .args(["-c", &format!("{nobody} {binary} --version")])
            .output()
            .unwrap()
            .status
            .success()
        {
            return common::skip("without_root", "another user may not read the program's folder");
        }
        let script = format!("{nobody} {binary} doctor --watch 1ms --json");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = serde_json::from_slice(&output.stdout).unwrap();
        assert_described(&["doctor"], &report);
        for check in ["cap-net-admin", "cap-net-raw", "cap-bpf", "af-xdp"] {
            let finding = find(&report, check, None);
            assert_eq!(finding["verdict"], "missing", "{check}: {finding}");
            assert!(
                finding["mend"].as_str().unwrap().starts_with("setcap CAP_BPF,CAP_NET_ADMIN"),
                "{finding}"
            );
        }
        assert_eq!(find(&report, "guard", None)["verdict"], "unknown");
        let socket = find(&report, "socket", None)["seen"].as_str().unwrap();
        assert!(socket.contains("a process that this user may not see"), "{socket}");
        assert_eq!(report["losing_sockets"][0]["pid"], Value::Null);
    });
}

#[test]
fn a_script_learns_by_the_status_whether_a_check_is_good() {
    let status = |arguments: &[&str]| {
        let output = evenkeel(&[&["doctor", "--watch", "1ms"], arguments].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), !output.stdout.is_empty())
    };
    let (code, said, printed) = status(&["--require", "kernel"]);
    assert!(code == Some(0) && printed, "{said}");
    let (code, said, printed) = status(&["--require", "kernel,livelock"]);
    assert_eq!((code, printed), (Some(1), true));
    assert_eq!(said, "evenkeel: not good: livelock (not examined)\n");
    let (code, said, printed) = status(&["no-such-dev"]);
    assert!(code == Some(1) && !printed && said.contains("no-such-dev"), "{said}");
    let (code, said, _) = status(&["--require", "nonsense"]);
    assert!(code == Some(2) && said.contains("expected kernel, btf"), "{said}");
}

/// Returns the network namespaces of all threads of all processes.
fn namespaces() -> BTreeSet<String> {
    let below = |folder: String| std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    below("/proc".to_owned())
        .flat_map(|process| below(format!("{}/task", process.path().display())))
        .filter_map(|thread| std::fs::read_link(thread.path().join("ns/net")).ok())
        .map(|link| link.display().to_string())
        .collect()
}

/// The namespaces of the threads of one process, without those of `except`.
fn namespaces_of(pid: u32, except: &str) -> BTreeSet<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let links = threads.filter_map(|thread| std::fs::read_link(thread.path().join("ns/net")).ok());
    links.map(|link| link.display().to_string()).filter(|link| link != except).collect()
}

#[test]
fn the_livelock_test_leaves_nothing_behind_when_it_is_killed() {
    in_namespace(&[&PROGRAMS], || {
        if evenkeel::raw::cpu::cpus().len() < 2 {
            return common::skip("livelock", "it needs two cores");
        }
        let before = run("ip -o link");
        let here = std::fs::read_link("/proc/thread-self/ns/net").unwrap().display().to_string();
        let mut doctor = command(&["doctor", "--watch", "1ms", "--livelock-test"]);
        let mut child = doctor.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut own = BTreeSet::new();
        wait_for("the namespace of the test", || {
            own = namespaces_of(child.id(), &here);
            !own.is_empty()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the end of the namespace", || namespaces().is_disjoint(&own));
        assert_eq!(run("ip -o link"), before);
    });
}

#[test]
fn the_livelock_test_reports_each_step() {
    in_namespace(&[&PROGRAMS], || {
        if evenkeel::raw::cpu::cpus().len() < 2 {
            return common::skip("livelock", "it needs two cores");
        }
        let report = common::json(&["doctor", "--watch", "1ms", "--livelock-test", "--json"]);
        let livelock = &report["livelock"];
        let number = |value: &Value, of: &str| value[of].as_f64().unwrap();
        let steps = livelock["steps"].as_array().unwrap();
        assert!(!steps.is_empty() && steps.len() <= 6, "{livelock:#}");
        assert!(steps.is_sorted_by_key(|step| number(step, "offered_pps")), "{livelock:#}");
        let peak = steps.iter().map(|step| number(step, "delivered_pps")).fold(0.0, f64::max);
        assert!(peak > 0.0);
        assert_eq!(number(livelock, "peak_pps"), peak);
        let left = number(steps.last().unwrap(), "delivered_pps") / peak;
        assert!((number(livelock, "retention") - left).abs() < 1e-9);
        // Both remedies were measured if one was needed.
        assert_eq!(livelock["threaded_pps"].is_null(), left >= 0.9, "{livelock:#}");
        find(&report, "livelock", None);
    });
}
