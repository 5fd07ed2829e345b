//! `evenkeel echo` on devices, as a user runs it: in a network namespace, until Ctrl-C. Needs root;
//! reports if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, in_namespace, pause, run, signal, succeeds, wait_for};
use evenkeel_testing::has_xdp;
use evenkeel_testing::uninterrupted;

fn start(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends one request through the kernel's host, and asserts that it comes back.
fn converse(from: &str, to: &str) {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.send_to(b"hello", (to, 7)).unwrap();
    let mut heard = [0; 10];
    assert_eq!(uninterrupted(|| socket.recv(&mut heard)).unwrap(), 5);
    assert_eq!(heard[..5], *b"hello");
}

/// Sends the signal `with` to an echo service, asserts that it ends within 10 s, and returns its report.
fn interrupt(mut child: Child, with: &str) -> serde_json::Value {
    signal(&child, with);
    let ended = (0..200).any(|_| {
        child.try_wait().unwrap().is_some() || {
            pause();
            false
        }
    });
    assert!(ended, "it goes on for 10 s after SIG{with}");
    result(child)
}

/// Returns the report of an echo service when it ends; asserts that it ends without an error.
fn result(child: Child) -> serde_json::Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    common::report(&["echo"], output.stdout)
}

#[test]
fn a_tap_is_served_until_ctrl_c_and_then_gone() {
    in_namespace("a_tap_is_served_until_ctrl_c_and_then_gone", || {
        let dump = std::env::temp_dir().join(format!("evenkeel-cli-{}.pcapng", std::process::id()));
        let path = dump.to_str().unwrap();
        let link = ["echo", "tap:keel0", "--kernel-address", "10.77.0.1/24", "--json", "--dump", path];
        let echo = start(&link);
        wait_for("ping -c 1 -w 1 10.77.0.2");
        converse("10.77.0.1", "10.77.0.2");
        let result = interrupt(echo, "INT");
        assert_eq!((&result["requests"], &result["answers"]), (&1.into(), &1.into()), "{result}");
        assert_eq!(result["counters"]["conserved"], true);
        assert!(!succeeds("ip link show keel0"), "the TAP is gone");
        // The file has an ARP question, a ping and a request, and the answer to each.
        assert!(fs::metadata(&dump).unwrap().len() > 6 * 60);
        fs::remove_file(&dump).unwrap();
    });
}

#[test]
fn a_network_interface_is_served_until_terminated_and_left_as_it_was() {
    in_namespace("a_network_interface_is_served_until_terminated_and_left_as_it_was", || {
        run("ip link add kernel0 type veth peer name ek0");
        run("ip addr add fd77::1/64 dev kernel0 nodad");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        let echo = start(&["echo", "packet:ek0", "--address", "fd77::2/64", "--json"]);
        wait_for("ping -c 1 -w 1 fd77::2");
        converse("fd77::1", "fd77::2");
        let result = interrupt(echo, "TERM");
        assert_eq!(result["requests"], 1, "{result}");
        let link = Command::new("ip").args(["-d", "link", "show", "ek0"]).output().unwrap();
        assert!(String::from_utf8(link.stdout).unwrap().contains("promiscuity 0"));
    });
}

/// A connected client accepts an answer only from the address that it has asked.
#[test]
fn every_address_answers_for_itself_and_nobody_who_might_answer_in_turn_is_answered() {
    in_namespace("every_address_answers_for_itself_and_nobody_who_might_answer_in_turn_is_answered", || {
        let mut link = vec!["echo", "tap:keel0", "--udp", "--kernel-address", "10.77.0.1/24"];
        link.extend(["--kernel-address", "fd77::1/64"]);
        for address in ["10.77.0.5/24", "10.77.0.6/24", "fd77::5/64", "fd77::6/64"] {
            link.extend(["--address", address]);
        }
        let echo = start(&link);
        wait_for("ping -c 1 -w 1 10.77.0.5");
        // The address is tentative at first, and nothing can be bound to it.
        wait_for("ping -c 1 -w 1 -I fd77::1 fd77::5");
        let asks = |from: &str, to: &str| {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.connect((to, 7)).unwrap();
            socket.send(b"hello").unwrap();
            assert_eq!(uninterrupted(|| socket.recv(&mut [0; 10])).unwrap(), 5, "{to}");
        };
        for to in ["10.77.0.5", "10.77.0.6"] {
            asks("10.77.0.1", to);
        }
        let reflector = UdpSocket::bind(("10.77.0.1", 7)).unwrap();
        reflector.send_to(b"for ever", ("10.77.0.5", 7)).unwrap();
        let socket = UdpSocket::bind(("10.77.0.1", 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket.send_to(b"everybody", ("10.77.0.255", 7)).unwrap();
        for to in ["fd77::5", "fd77::6"] {
            asks("fd77::1", to);
        }
        signal(&echo, "INT");
        let output = echo.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("6 requests, 4 answered, 2 not to be answered"),
            "{said}"
        );
    });
}

/// Sends requests while `child` is stopped, until `enough`, then lets it go on. The result does not depend
/// on the child's share of the processor.
fn flood_stopped(child: &Child, from: &str, to: &str, mut enough: impl FnMut() -> bool) {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    evenkeel::raw::kernel::send_in_segments(&socket, 16).unwrap();
    stopped(child, || {
        for _ in 0..10_000 {
            // The device may lose what it has no room for.
            let _ = socket.send_to(&[7; 16 * 64], (to, 7));
            if enough() {
                return;
            }
        }
        panic!("there is no end to it");
    });
}

/// Stops a process while `meanwhile` runs.
fn stopped(child: &Child, meanwhile: impl FnOnce()) {
    run(&format!("kill -STOP {}", child.id()));
    let status = format!("/proc/{}/status", child.id());
    let is_stopped = || fs::read_to_string(&status).unwrap().contains("State:\tT");
    while !is_stopped() {
        pause();
    }
    meanwhile();
    run(&format!("kill -CONT {}", child.id()));
}

/// Returns a counter of a device, as the kernel reports it.
fn statistic(device: &str, counter: &str) -> u64 {
    let shown = Command::new("ip").args(["-s", "-s", "-j", "link", "show", device]).output().unwrap();
    let links: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let (way, counter) = counter.split_once(' ').unwrap();
    links[0]["stats64"][way][counter].as_u64().unwrap()
}

fn sum(cpu: &serde_json::Value) -> f64 {
    let share = |key: &str| cpu[key].as_f64().unwrap();
    let levels = ["interrupt", "soft_interrupt", "polling_thread", "process", "idle", "halting", "run_delay"];
    levels.into_iter().map(share).sum()
}

#[test]
fn answers_to_many_requests_share_system_calls() {
    /// The number of requests, fewer than the rings hold.
    const REQUESTS: u64 = 256;
    in_namespace("answers_to_many_requests_share_system_calls", || {
        run("ip link add kernel0 type veth peer name ek0");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        let echo = start(&["echo", "packet:ek0,queues=2", "--json", "--count", &REQUESTS.to_string()]);
        wait_for("ping -c 1 -w 1 10.77.0.2");
        let before = statistic("ek0", "rx packets");
        flood_stopped(&echo, "10.77.0.1", "10.77.0.2", || {
            statistic("ek0", "rx packets") >= before + REQUESTS
        });
        let result = result(echo);
        assert_eq!((&result["link"], &result["answers"]), (&"packet:ek0,queues=2".into(), &REQUESTS.into()));
        let [ek0] = &result["counters"]["interfaces"].as_array().unwrap()[..] else { panic!("{result}") };
        assert_eq!(
            (&ek0["name"], &ek0["sent"]),
            (&"ek0".into(), &result["counters"]["transmitted"]),
            "{result}"
        );
        let [sent, calls] = ["sent", "send_calls"].map(|counter| ek0[counter].as_u64().unwrap());
        assert!(sent >= REQUESTS && sent >= 2 * calls, "{result}");
        assert!((sum(&result["counters"]["cpu"]) - 1.0).abs() < 1e-6, "{result}");
    });
}

#[test]
fn what_a_device_lost_stands_beside_what_we_lost() {
    in_namespace("what_a_device_lost_stands_beside_what_we_lost", || {
        let echo = start(&["echo", "tap:keel0", "--kernel-address", "10.77.0.1/24", "--json"]);
        wait_for("ping -c 1 -w 1 10.77.0.2");
        flood_stopped(&echo, "10.77.0.1", "10.77.0.2", || statistic("keel0", "tx dropped") > 0);
        let result = interrupt(echo, "INT");
        let drops = result["counters"]["drops"].as_array().unwrap();
        let missed = drops.iter().find(|drop| drop["reason"] == "ring-full").expect("the ring was full");
        let [keel0] = &result["counters"]["interfaces"].as_array().unwrap()[..] else { panic!("{result}") };
        assert_eq!(keel0["kernel"]["tx_dropped"], missed["frames"], "{result}");
    });
}

#[test]
fn who_sends_by_a_device_says_what_became_of_the_frames() {
    let name = "who_sends_by_a_device_says_what_became_of_the_frames";
    in_namespace(name, || sends_and_says_what_became_of_the_frames("packet:ek0"));
}

#[test]
fn who_sends_by_af_xdp_says_what_became_of_the_frames() {
    in_namespace("who_sends_by_af_xdp_says_what_became_of_the_frames", || {
        if has_xdp() {
            sends_and_says_what_became_of_the_frames("xdp:ek0");
        }
    });
}

fn sends_and_says_what_became_of_the_frames(link: &str) {
    run("ip link add kernel0 type veth peer name ek0");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
    let blast = ["blast", link, "--rate", "max", "--count", "1000"];
    wait_for("ip link show ek0 up");
    let result = common::json(&[&blast[..], &["--json"]].concat());
    let counters = &result["counters"];
    let [ek0] = &counters["interfaces"].as_array().unwrap()[..] else { panic!("{result}") };
    assert_eq!((&counters["conserved"], &result["receiver"]), (&true.into(), &().into()), "{result}");
    assert_eq!((&ek0["name"], &ek0["sent"]), (&"ek0".into(), &counters["transmitted"]), "{result}");
    let [sent, calls] = ["sent", "send_calls"].map(|what| ek0[what].as_u64().unwrap());
    assert!(calls < sent, "{result}");
    assert!((sum(&counters["cpu"]) - 1.0).abs() < 1e-6, "{result}");
    let said = String::from_utf8(common::evenkeel(&blast).stdout).unwrap();
    let [first, .., last] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(first.contains("sent 1\u{202f}000 requests") && first.contains(" % idle"), "{said}");
    assert!(last.starts_with("  ek0: ") && last.contains(" frames sent, "), "{said}");
}

/// Requests that were never given to the device do not count as offered.
#[test]
fn nothing_is_offered_to_a_peer_that_does_not_answer() {
    in_namespace("nothing_is_offered_to_a_peer_that_does_not_answer", || {
        for (more, advice) in [
            (
                &["--kernel-address", "10.77.0.1/24", "--to", "10.77.0.99:9"][..],
                "--kernel-address 10.77.0.99/24",
            ),
            (&["--to", "[fd77::99]:9"], "--kernel-address fd77::99/64"),
        ] {
            let blast = [&["blast", "tap:keel0", "--duration", "500ms", "--json"][..], more].concat();
            let output = common::evenkeel(&blast);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
            assert!(said.contains("99 does not answer") && said.contains("tap:keel0"), "{said}");
            assert!(said.contains(advice), "{said}");
            let result = common::report(&blast, output.stdout);
            for (field, value) in [("sent", 0.0), ("offered_pps", 0.0), ("unsent", 0.0)] {
                assert_eq!(result[field].as_f64(), Some(value), "{result}");
            }
            assert!(result["trouble"].as_str().unwrap().contains("does not answer"), "{result}");
        }
        let output = common::evenkeel(&["blast", "tap:keel0", "--to", "192.0.2.1:9", "--duration", "1s"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.contains("--gateway"), "{said}");
    });
}

/// The peer answers, so every request counts from the first on, and all of them reach the kernel.
#[test]
fn all_that_is_offered_to_a_peer_that_answers_leaves() {
    in_namespace("all_that_is_offered_to_a_peer_that_answers_leaves", || {
        for (more, to) in [
            (&["--kernel-address", "10.77.0.1/24"][..], "10.77.0.1:9"),
            (&["--kernel-address", "fd77::1/64"], "[fd77::1]:9"),
        ] {
            let mut blast =
                vec!["blast", "tap:keel0", "--rate", "10k", "--count", "1000", "--json", "--to", to];
            blast.extend(more);
            let result = common::json(&blast);
            let (sent, unsent) = (result["sent"].as_u64().unwrap(), result["unsent"].as_u64().unwrap());
            assert_eq!((sent + unsent, &result["trouble"]), (1_000, &().into()), "{result}");
            assert!(sent > 900 && result["counters"]["transmitted"].as_u64().unwrap() >= sent, "{result}");
            // Nothing was lost before that for lack of a hardware address.
            assert!(!result["counters"]["drops"].to_string().contains("unresolved"), "{result}");
        }
    });
}

/// A monitor can use the loopback device, a host cannot.
#[test]
fn a_host_on_the_loopback_device_is_refused_with_what_to_do() {
    in_namespace("a_host_on_the_loopback_device_is_refused_with_what_to_do", || {
        run("ip link set lo up");
        let output = common::evenkeel(&["echo", "packet:lo", "--duration", "1ms"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        for advice in ["not an Ethernet device", "--kernel-address", "`evenkeel monitor lo`"] {
            assert!(said.contains(advice), "{said}");
        }
    });
}

#[test]
fn ni_lrp_on_a_device_is_refused_with_what_to_do() {
    in_namespace("ni_lrp_on_a_device_is_refused_with_what_to_do", || {
        let output = common::evenkeel(&["echo", "tap:keel0", "--architecture", "ni-lrp"]);
        assert!(!output.status.success());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("soft-lrp") && message.trim_end().lines().count() == 1, "{message}");
        assert!(!succeeds("ip link show keel0"), "no TAP is left");
    });
}

/// Returns the number of times that the threads of a process have gone to sleep by themselves.
fn sleeps(child: &Child) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let status = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let count = |status: String| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    };
    status.map(count).sum()
}

/// Starts commands, and asserts that they sleep once they are ready: each must wake fewer times in three
/// seconds than the given number.
fn assert_sleep<const COMMANDS: usize>(commands: [(u64, String); COMMANDS], until_ready: impl FnOnce()) {
    let children = commands.map(|(most, command)| {
        let child = start(&command.split(' ').collect::<Vec<_>>());
        (most, command, child)
    });
    until_ready();
    // A host announces its addresses for three seconds.
    (0..75).for_each(|_| pause());
    let before = children.each_ref().map(|(.., child)| sleeps(child));
    (0..60).for_each(|_| pause());
    // The end of one command wakes the others, which follow the state of the links.
    let after = children.each_ref().map(|(.., child)| sleeps(child));
    for ((most, command, child), (before, after)) in children.into_iter().zip(before.into_iter().zip(after)) {
        let often = after - before;
        assert!(often < most, "{command}: {often} times in 3 s");
        signal(&child, "TERM");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A command sleeps if it prints no live lines and nothing comes. The kernel sends few frames on a new
/// link.
#[test]
fn an_idle_command_sleeps() {
    in_namespace("an_idle_command_sleeps", || {
        run("ip link set lo up");
        let folder = std::env::temp_dir().join(format!("evenkeel-{}-idle", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [all, some] = ["all.pcapng", "some.pcapng"].map(|name| folder.join(name).display().to_string());
        let on = |tap| format!("tap:keel{tap} --address 10.77.{tap}.2/24 --kernel-address 10.77.{tap}.1/24");
        let commands = [
            (50, format!("echo {}", on(1))),
            (50, format!("http {}", on(2))),
            (50, format!("echo {} --capture {all}", on(3))),
            (50, format!("monitor lo -w {some}")),
        ];
        assert_sleep(commands, || {
            (1..=3).for_each(|tap| wait_for(&format!("ping -c 1 -w 1 10.77.{tap}.2")));
            wait_for_sockets(1);
        });
        fs::remove_dir_all(&folder).unwrap();
    });
}

/// No frames come through links on which the kernel has no addresses.
#[test]
fn an_idle_router_sleeps() {
    in_namespace("an_idle_router_sleeps", || {
        for link in 1..=6 {
            run(&format!("ip link add r{link} type veth peer name h{link}"));
            for end in ["r", "h"] {
                run(&format!("sysctl -qw net.ipv6.conf.{end}{link}.disable_ipv6=1"));
                run(&format!("ip link set {end}{link} up"));
            }
        }
        let rules = std::env::temp_dir().join(format!("evenkeel-{}-idle.conf", std::process::id()));
        fs::write(&rules, "pass\n").unwrap();
        let route = |one: u8| {
            let other = one + 1;
            format!("route --link packet:r{one},10.{one}.0.1/24 --link packet:r{other},10.{other}.0.1/24")
        };
        let commands = [
            (4, route(1)),
            // The router checks its rules file every two seconds.
            (9, format!("{} --rules {}", route(3), rules.display())),
            (4, "wan --link packet:r5 --link packet:r6 --delay 10ms --loss 1%".to_owned()),
        ];
        assert_sleep(commands, || wait_for_sockets(6));
        fs::remove_file(&rules).unwrap();
    });
}

/// Every command with one device ends when the device is removed, reports that, and still prints its
/// counters.
#[test]
fn a_device_that_is_removed_ends_a_command_with_an_error() {
    in_namespace("a_device_that_is_removed_ends_a_command_with_an_error", || {
        for command in [
            "echo packet:ek0",
            "echo packet:ek0 --tcp",
            "sink packet:ek0",
            "http packet:ek0",
            "send packet:ek0 --bytes 1G",
            "blast packet:ek0 --rate 100",
            "monitor packet:ek0",
            "echo tap:ek0",
        ] {
            if command.contains("packet") {
                run("ip link add kernel0 type veth peer name ek0");
                run("ip link set kernel0 up");
                run("ip link set ek0 up");
            }
            let mut arguments: Vec<_> = command.split(' ').collect();
            arguments.extend(["--json", "--duration", "60s"]);
            let child = start(&arguments);
            if command.contains("tap") {
                wait_for("ip link show ek0");
            } else {
                wait_for_sockets(1);
            }
            run("ip link del ek0");
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{command}: {said}");
            assert!(said.contains("evenkeel: ek0: the device was removed"), "{command}: {said}");
            let result = common::report(&arguments, output.stdout);
            assert_eq!(result["device_failed"], "ek0: the device was removed", "{command}: {result}");
        }
    });
}

/// Waits until `count` packet sockets receive all frames of a device of this namespace.
fn wait_for_sockets(count: usize) {
    // A packet socket has the protocol ETH_P_ALL once it is bound.
    let bound = || fs::read_to_string("/proc/thread-self/net/packet").unwrap().matches(" 0003 ").count();
    assert!(
        (0..100).any(|_| bound() >= count || {
            pause();
            false
        }),
        "fewer than {count} listen"
    );
}
