//! `evenkeel wan`: in memory, and between two hosts of the Linux kernel, A - R - B, three network namespaces,
//! with the kernel's own tools.
//!
//! Tests assert that no frame comes early. They do not assert how late it comes, because that depends on the
//! machine. Tests on devices need root, and report if they are skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use common::{command, json};
use evenkeel::raw::time::Clock;
use evenkeel_testing::{
    Place, Program, Running, Scratch, attempt, has_xdp, in_namespace, run, wait_for, words,
};
use serde_json::Value;

const PROGRAMS: [Program; 3] = [("ip", "iproute2"), ("ping", "iputils-ping"), ("iperf3", "iperf3")];
const LINKS: &str = "--link left=packet:r1 --link right=packet:r2";

/// Returns two other namespaces, A and B, which are 10.0.0.1 and 10.0.0.2 on one network. This namespace
/// is R, with a link to each.
fn hosts() -> [Place; 2] {
    run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    [1, 2].map(|n| {
        let host = Place::new();
        connect(n, &host);
        host
    })
}

/// Creates the link between this namespace and a host.
fn connect(n: usize, host: &Place) {
    let thread = host.here(|| std::fs::read_link("/proc/thread-self").unwrap());
    let name = format!("/proc/{}/ns/net", thread.display());
    // The device is created here, and the process in the other namespace moves one end there.
    run(&format!("ip link add r{n} type veth peer name h{n}"));
    let file = std::fs::File::open(name).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    run(&format!("ip link set h{n} netns /proc/{}/fd/{fd}", std::process::id()));
    run(&format!("ip link set r{n} up"));
    host.run(&format!("ip addr add 10.0.0.{n}/24 dev h{n}"));
    host.run(&format!("ip addr add fd00::{n}/64 dev h{n} nodad"));
    host.run(&format!("ip link set h{n} up"));
}

/// An emulator that runs in R.
struct Emulator {
    child: Option<Child>,
    said: BufReader<ChildStderr>,
    at_start: String,
}

impl Emulator {
    /// Starts the emulator and waits until it lets frames through.
    fn start(arguments: &str) -> Self {
        // The time is limited so that the test does not wait for ever.
        let mut all = vec!["wan", "--json", "--stats-interval", "100ms", "--duration", "120s"];
        all.extend(arguments.split_whitespace());
        let mut child = command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut emulator = Self { child: Some(child), said, at_start: String::new() };
        emulator.at_start = emulator.until_said("under way");
        emulator
    }

    /// Reads the emulator's messages up to a line that contains `sign`, and returns them.
    fn until_said(&mut self, sign: &str) -> String {
        let mut all = String::new();
        while !all.contains(sign) {
            assert!(self.said.read_line(&mut all).unwrap() > 0, "it ended without `{sign}`: {all}");
        }
        all
    }

    /// Ends the emulator as Ctrl-C does, and returns its report; asserts that every frame is accounted
    /// for.
    fn stop(mut self) -> Value {
        let child = self.child.take().unwrap();
        run(&format!("kill -INT {}", child.id()));
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{rest}");
        let done = common::report(&["wan"], output.stdout);
        check(&done);
        done
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {value}"))
}

/// Asserts that a report accounts for every frame.
fn check(done: &Value) {
    assert_eq!(done["conserved"], true, "{done}");
    for way in done["ways"].as_array().unwrap() {
        let all = |names: &[&str]| names.iter().map(|name| number(way, name)).sum::<u64>();
        let came = all(&["/received", "/duplicated"]);
        let went =
            all(&["/sent", "/lost", "/queue_full", "/under_way", "/own/unsent", "/own/refused", "/own/gone"])
                + number(way, "/own/too_long");
        assert_eq!(came, went, "{done}");
    }
}

/// Returns the shortest time of an answer to a ping, in milliseconds.
fn fastest(said: &str) -> f64 {
    let times = said.split("rtt min/avg/max/mdev = ").nth(1).unwrap_or_else(|| panic!("{said}"));
    times.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn in_memory_nothing_is_early_and_everything_is_accounted_for() {
    let done = json(&[
        "wan",
        "cable",
        "--rate",
        "none/20mbit",
        "--offered",
        "4mbit/10mbit",
        "--delay",
        "20ms/30ms",
        "--loss",
        "20%/0%",
        "--reorder",
        "none/5%,5ms",
        "--duration",
        "2s",
        "--json",
    ]);
    check(&done);
    let ends = done["measured"].as_array().unwrap();
    for (way, least_us) in [(0, 20_000.0), (1, 30_000.0)] {
        let (seen, counted) = (&ends[way], &done["ways"][way]);
        assert_eq!(
            number(seen, "/received") + number(counted, "/own/ring"),
            number(counted, "/sent"),
            "{done}"
        );
        assert_eq!(number(seen, "/sent"), number(counted, "/received"), "{done}");
        assert!(seen["least_us"].as_f64().unwrap() >= least_us, "early: {done}");
        let (given, late) = (&counted["given"], &counted["late"]);
        assert!(given["p50_us"].as_f64() <= late["p50_us"].as_f64(), "{done}");
        assert_eq!(number(late, "/frames"), number(counted, "/sent"), "each is measured: {done}");
    }
    let share = |way: usize| number(&done["ways"][way], "/lost") as f64 / number(&ends[way], "/sent") as f64;
    assert!((0.12..0.28).contains(&share(0)) && share(1) == 0.0, "{done}");
    assert_eq!(number(&ends[0], "/out_of_order"), 0, "{done}");
    assert!(number(&ends[1], "/out_of_order") > 0, "{done}");
}

/// Settings that are not given are those of every cable.
#[test]
fn in_memory_there_is_a_delay_that_jitter_is_about() {
    let done = json(&["wan", "cable", "--jitter", "5ms", "--duration", "200ms", "--json"]);
    check(&done);
    let settings = done["settings"][1].as_str().unwrap();
    assert!(settings.contains("5 Mbit/s") && settings.contains("20 ms to 30 ms of delay"), "{done}");
    assert!(done["measured"][0]["least_us"].as_f64().unwrap() >= 20_000.0, "early: {done}");
}

#[test]
fn pings_of_the_kernel_take_their_time_and_never_less() {
    in_namespace(&[&PROGRAMS], || {
        let [a, _b] = hosts();
        let emulator = Emulator::start(&format!("{LINKS} --delay 10ms/25ms"));
        let said = &emulator.at_start;
        assert!(said.contains("left -> right: 10 ms of delay") && said.contains("25 ms of delay"), "{said}");
        // The hosts find the addresses by ARP and NDP, which pass as well.
        for to in ["10.0.0.2", "fd00::2"] {
            let said = a.run(&format!("ping -c 30 -i 0.02 -W 5 {to}"));
            assert!(said.contains(" 0% packet loss"), "{said}");
            assert!(fastest(&said) >= 35.0, "early: {said}");
        }
        let done = emulator.stop();
        assert!(number(&done, "/ways/0/sent") >= 60 && number(&done, "/ways/1/sent") >= 60, "{done}");
        assert_eq!(done["ways"][0]["own"]["ring"], 0, "{done}");
        let late = done["ways"][0]["late"]["p50_us"].as_f64().unwrap();
        assert!(late > 0.0, "its own error is measured: {done}");
    });
}

/// Links through AF_XDP, alone and mixed with others. Frames to any station pass, also those to groups.
#[test]
fn frames_pass_through_af_xdp() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        let [a, b] = hosts();
        for (links, jumbo) in
            [("xdp:r1 xdp:r2", true), ("packet:r1 xdp:r2@0", true), ("xdp:r1 packet:r2", false)]
        {
            let mtu = if jumbo { 9_000 } else { 1_500 };
            set_mtus([&a, &b], mtu);
            let [left, right] = [0, 1].map(|n| links.split(' ').nth(n).unwrap());
            let emulator =
                Emulator::start(&format!("--link left={left} --link right={right} --delay 10ms/25ms"));
            [&a, &b].iter().for_each(|host| _ = host.run("ip neigh flush all"));
            for to in ["10.0.0.2", "fd00::2"] {
                let said = a.run(&format!("ping -c 20 -i 0.02 -W 5 {to}"));
                assert!(said.contains(" 0% packet loss") && fastest(&said) >= 35.0, "{links}: {said}");
            }
            let said = a.run(&format!("ping -M do -c 3 -i 0.05 -s {} -W 5 10.0.0.2", mtu - 28));
            assert!(said.contains(" 0% packet loss"), "{links}: {said}");
            // The checksums that these hosts leave to their devices are whole.
            let _server = b.here(|| Running(words("iperf3 -s -1").stdout(Stdio::null()).spawn().unwrap()));
            wait_for("a server", || b.run("ss -ltn").contains(":5201"));
            let said = a.run("iperf3 -J -c 10.0.0.2 -t 1 --connect-timeout 3000");
            let said: Value = serde_json::from_str(&said).unwrap();
            assert!(number(&said["end"]["sum_received"], "/bytes") >= 100_000, "{links}: {said}");
            let done = emulator.stop();
            assert!(number(&done, "/ways/0/sent") >= 43 && number(&done, "/ways/1/sent") >= 43, "{done}");
            for way in 0..2 {
                for own in ["oversized", "too_long", "refused", "gone", "uncopied"] {
                    assert_eq!(done["ways"][way]["own"][own], 0, "{links}: {done}");
                }
            }
        }
        let is_attached = |device: &str| run(&format!("ip -d link show {device}")).contains("prog/xdp");
        assert!(!is_attached("r1") && !is_attached("r2"), "nothing is left");
    });
}

/// Many frames are on their way at a time, more than the memory of the device's queue has for the host.
#[test]
fn more_frames_are_under_way_than_af_xdp_lends() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        let [a, b] = hosts();
        let address = |n: usize| format!("02:00:00:00:00:0{n}");
        for (host, n) in [(&a, 1), (&b, 2)] {
            host.run(&format!("ip link set h{n} address {}", address(n)));
        }
        // No packet waits for an answer that takes so long.
        a.run(&format!("ip neigh replace 10.0.0.2 lladdr {} dev h1 nud permanent", address(2)));
        let emulator = Emulator::start("--link xdp:r1 --link xdp:r2 --delay 60s/none");
        a.here(|| attempt("ping -q -l 3000 -c 3000 -w 4 10.0.0.2"));
        let done = emulator.stop();
        let way = &done["ways"][0];
        assert!(number(way, "/under_way") > 2_500, "{done}");
        assert_eq!((number(way, "/sent"), number(way, "/own/unsent")), (0, 0), "{done}");
    });
}

#[test]
fn a_device_of_af_xdp_that_goes_is_taken_up_again_when_it_returns() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        let [a, b] = hosts();
        let mut emulator = Emulator::start("--link xdp:r1 --link xdp:r2 --delay 1ms");
        a.run("ping -c 1 -W 10 10.0.0.2");
        run("ip link del r2");
        emulator.until_said("r2: the device was removed");
        connect(2, &b);
        emulator.until_said("r2: the device is in use again");
        wait_for("the way", || a.here(|| attempt("ping -c 1 -W 1 10.0.0.2")).0);
        emulator.stop();
    });
}

#[test]
fn a_device_of_af_xdp_with_several_queues_is_refused() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        run("ip link add r1 numrxqueues 2 numtxqueues 2 type veth peer name h1 numrxqueues 2 numtxqueues 2");
        run("ip link set r1 up");
        run("ip link set h1 up");
        for (device, why) in [("xdp:r1", "r1 has 2 queues"), ("xdp:r1@0,1", "one queue")] {
            let output = common::evenkeel(&["wan", "--link", device, "--link", "packet:h1"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(why), "{said}");
        }
    });
}

#[test]
fn as_many_are_lost_as_were_to_be() {
    in_namespace(&[&PROGRAMS], || {
        let [a, _b] = hosts();
        let emulator = Emulator::start(&format!("{LINKS} --loss 20%/none"));
        a.run("ping -c 1 -w 30 10.0.0.2");
        // Each ping waits for its answer.
        let pings = || attempt("ping -q -i 0.002 -c 500 -W 1 10.0.0.2").1;
        let said = a.here(move || {
            let all = [(); 6].map(|()| std::thread::spawn(pings));
            all.map(|pings| pings.join().unwrap())
        });
        let done = emulator.stop();
        let way = &done["ways"][0];
        let share = number(way, "/lost") as f64 / number(way, "/received") as f64;
        // The sample has 3000 pings; the interval is five standard deviations.
        assert!((0.163..0.237).contains(&share), "{share}: {said:?}");
        assert_eq!(number(&done, "/ways/1/lost"), 0, "{done}");
    });
}

/// The kernel's TCP gets no more than the rate, and fills the queue.
#[test]
fn tcp_of_the_kernel_gets_the_rate_and_no_more() {
    in_namespace(&[&PROGRAMS], || {
        let [a, b] = hosts();
        let emulator = Emulator::start(&format!("{LINKS} --rate 20mbit/none --queue 5/1000 --delay 5ms"));
        let _server = b.here(|| Running(words("iperf3 -s -1").stdout(Stdio::null()).spawn().unwrap()));
        wait_for("a server", || b.run("ss -ltn").contains(":5201"));
        let said = a.run("iperf3 -J -c 10.0.0.2 -t 3 --connect-timeout 3000");
        let said: Value = serde_json::from_str(&said).unwrap();
        let received = &said["end"]["sum_received"];
        let done = emulator.stop();
        // This is the rate for the whole time; of a frame of 1514 bytes, 1448 are TCP's.
        let most = done["seconds"].as_f64().unwrap() * 20e6 / 8.0;
        let (bytes, out) = (number(received, "/bytes"), number(&done, "/ways/0/bytes_out"));
        assert!(
            bytes > 0 && bytes as f64 <= most * 1_448.0 / 1_514.0,
            "more than the rate: {received}, {done}"
        );
        assert!(out > bytes && out as f64 <= most, "more than the rate: {done}");
        assert!(number(&done, "/ways/0/queue_full") > 0, "five are fewer than are sent at once: {done}");
        assert_eq!(done["ways"][1]["queue_full"], 0, "{done}");
    });
}

/// The trace has an opportunity in every 40 ms, each of which lets one packet of 1500 bytes through,
/// however many are sent at once.
#[test]
fn a_trace_lets_a_packet_through_at_each_opportunity() {
    in_namespace(&[&PROGRAMS], || {
        let [a, _b] = hosts();
        let files = Scratch::new();
        let trace = files.write("slow.trace", "40\n");
        let emulator = Emulator::start(&format!("{LINKS} --trace {trace} --trace none"));
        assert!(emulator.at_start.contains("a trace of 0.04 s and 1 opportunities"), "{}", emulator.at_start);
        a.run("ping -c 1 -W 30 10.0.0.2");
        // The burst has 20 packets of 1500 bytes of IP: the last one leaves 19 opportunities after the first.
        let clock = Clock::start();
        let begin = clock.now();
        let said = a.run("ping -l 20 -c 20 -s 1472 -W 30 10.0.0.2");
        let took = clock.now().since(begin);
        assert_eq!(said.matches("time=").count(), 20, "{said}");
        assert!(took >= 19 * Duration::from_millis(40), "too soon, {took:?}: {said}");
        emulator.stop();
    });
}

#[test]
fn a_device_that_goes_is_said_and_taken_up_again_when_it_returns() {
    in_namespace(&[&PROGRAMS], || {
        let [a, _b] = hosts();
        run("ip tuntap add t0 mode tap");
        let mut emulator = Emulator::start("--link packet:r1 --link tap:t0 --delay 1ms");
        run("ip addr add 10.0.0.3/24 dev t0");
        a.run("ping -c 1 -W 10 10.0.0.3");
        run("ip link del t0");
        emulator.until_said("t0: the device was removed");
        assert!(!a.here(|| attempt("ping -c 1 -W 1 10.0.0.3")).0);
        run("ip tuntap add t0 mode tap");
        run("ip addr add 10.0.0.3/24 dev t0");
        run("ip link set t0 up");
        emulator.until_said("t0: the device is in use again");
        a.run("ip neigh flush dev h1");
        wait_for("the way", || a.here(|| attempt("ping -c 1 -W 1 10.0.0.3")).0);
        let done = emulator.stop();
        assert!(number(&done, "/ways/0/own/gone") > 0, "what came meanwhile is its own loss: {done}");
    });
}

/// A ping command whose packets fill an MTU of 9000 bytes and may not be fragmented.
const JUMBO_PING: &str = "ping -M do -c 3 -i 0.05 -s 8972 -W 5 10.0.0.2";

/// Sets the MTU of both hosts' links, at both ends.
fn set_mtus(hosts: [&Place; 2], mtu: usize) {
    for (n, host) in (1..).zip(hosts) {
        run(&format!("ip link set r{n} mtu {mtu}"));
        host.run(&format!("ip link set h{n} mtu {mtu}"));
    }
}

#[test]
fn jumbo_frames_pass() {
    in_namespace(&[&PROGRAMS], || {
        let hosts = hosts();
        set_mtus(hosts.each_ref(), 9_000);
        let emulator = Emulator::start(&format!("{LINKS} --delay 5ms --duplicate 100%/none"));
        let said = hosts[0].run(JUMBO_PING);
        assert!(said.contains(" 0% packet loss") && fastest(&said) >= 10.0, "{said}");
        let done = emulator.stop();
        assert!(number(&done, "/ways/0/bytes_in") >= 3 * 9_014, "{done}");
        assert!(number(&done, "/ways/0/duplicated") >= 3, "a copy is as large: {done}");
        for way in 0..2 {
            for own in ["ring", "oversized", "too_long", "refused", "uncopied"] {
                assert_eq!(done["ways"][way]["own"][own], 0, "{done}");
            }
        }
        run("ip tuntap add t0 mode tap");
        run("ip link set t0 mtu 9000");
        let emulator = Emulator::start("--link packet:r1 --link tap:t0 --delay 1ms");
        run("ip addr add 10.0.0.3/24 dev t0");
        let said = hosts[0].run(&JUMBO_PING.replace("10.0.0.2", "10.0.0.3"));
        assert!(said.contains(" 0% packet loss"), "{said}");
        let done = emulator.stop();
        assert!(number(&done, "/ways/1/bytes_in") >= 3 * 9_014, "{done}");
    });
}

#[test]
fn an_mtu_that_changes_is_followed_and_what_is_too_long_is_counted_as_such() {
    in_namespace(&[&PROGRAMS], || {
        let hosts = hosts();
        let mut emulator = Emulator::start(&format!("{LINKS} --delay 5ms"));
        set_mtus(hosts.each_ref(), 9_000);
        for link in [1, 2] {
            emulator.until_said(&format!("r{link}: the MTU is 9000 now"));
        }
        let [a, _b] = &hosts;
        let said = a.run(JUMBO_PING);
        assert!(said.contains(" 0% packet loss"), "{said}");
        run("ip link set r2 mtu 1500");
        let said = emulator.until_said("ip link set r2 mtu 9000");
        assert!(said.contains("the MTU of left is 9000 and that of right is 1500"), "{said}");
        assert!(!a.here(|| attempt(JUMBO_PING)).0);
        a.run("ping -c 1 -W 5 10.0.0.2");
        let done = emulator.stop();
        assert_eq!(number(&done, "/ways/0/own/too_long"), 3, "{done}");
        assert_eq!(done["ways"][0]["own"]["refused"], 0, "{done}");
        assert_eq!(done["ways"][1]["own"]["too_long"], 0, "{done}");
    });
}

#[test]
fn what_a_device_without_carrier_refuses_has_that_reason() {
    in_namespace(&[&PROGRAMS], || {
        let [a, b] = hosts();
        let emulator = Emulator::start(&format!("{LINKS} --delay 1ms"));
        b.run("ip link set h2 down");
        assert!(!a.here(|| attempt("ping -c 2 -W 1 10.0.0.2")).0);
        let done = emulator.stop();
        let own = &done["ways"][0]["own"];
        assert!(number(own, "/refused") > 0, "{done}");
        assert_eq!(own["refused_because"], "it had no carrier", "{done}");
    });
}

/// New settings apply to a running emulator, as with `tc qdisc change`.
#[test]
fn at_sighup_frames_are_treated_as_the_file_says_now() {
    in_namespace(&[&PROGRAMS], || {
        let [a, _b] = hosts();
        let files = Scratch::new();
        let link = |n, name| format!("[[link]]\nname = \"{name}\"\ndevice = \"packet:r{n}\"\n");
        let links = link(1, "left") + &link(2, "right");
        let write = |settings: &str| files.write("wan.toml", &format!("{settings}\n{links}"));
        let file = write("delay = \"10ms\"");
        let mut emulator = Emulator::start(&format!("--config {file}"));
        assert!(emulator.at_start.contains("left -> right: 10 ms of delay"), "{}", emulator.at_start);
        let pid = emulator.child.as_ref().unwrap().id();
        let hang_up = || run(&format!("kill -HUP {pid}"));
        let ping = || a.run("ping -c 5 -i 0.05 -W 5 10.0.0.2");
        assert!(fastest(&ping()) >= 20.0);
        write("delay = \"30ms/40ms\"");
        hang_up();
        emulator.until_said("right -> left: 40 ms of delay");
        assert!(fastest(&ping()) >= 70.0);
        // A file that cannot be used changes nothing.
        write("delay = \"30ms/40ms\"\nloss = \"150%\"");
        hang_up();
        let said = emulator.until_said("all stays as it was");
        assert!(said.contains("wan.toml:2"), "{said}");
        assert!(fastest(&ping()) >= 70.0);
        write("loss = \"100%/none\"");
        hang_up();
        emulator.until_said("right -> left: ");
        assert!(!a.here(|| attempt("ping -c 3 -i 0.05 -W 1 10.0.0.2")).0);
        let done = emulator.stop();
        assert!(number(&done, "/ways/0/lost") >= 3, "{done}");
        assert!(done["settings"][0].as_str().unwrap().contains("100 % lost"), "{done}");
    });
}

#[test]
fn in_memory_frames_are_treated_as_the_file_says_now() {
    let files = Scratch::new();
    let file = files.write("wan.toml", "rate = \"1mbit\"\ndelay = \"20ms\"\nduration = \"60s\"\n");
    let mut child = command(&["wan", "cable", "--config", &file, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut reports = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
    let mut until = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        for _ in 0..200 {
            common::signal(&child, "USR1");
            let report = reports.next().unwrap().unwrap();
            common::assert_described(&["wan"], &report);
            if holds(&report) {
                return;
            }
            common::pause();
        }
        panic!("not {what}");
    };
    until("received", &|report| number(report, "/measured/0/received") > 0);
    files.write("wan.toml", "rate = \"1mbit\"\ndelay = \"60ms\"\nloss = \"100%/none\"\n");
    common::signal(&child, "HUP");
    until("lost", &|report| number(report, "/ways/0/lost") > 0);
    common::signal(&child, "TERM");
    let done = reports.next().unwrap().unwrap();
    common::assert_described(&["wan"], &done);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(done["settings"][1].as_str().unwrap().contains("60 ms of delay"), "{done}");
    check(&done);
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    in_namespace(&[&PROGRAMS], || {
        let [_a, _b] = hosts();
        let emulator = Emulator::start("--link tap:t7,kernel=10.0.0.9/24 --link packet:r2 --delay 5ms");
        let said = run("ping -c 5 -i 0.05 -W 10 10.0.0.2");
        assert!(fastest(&said) >= 10.0, "{said}");
        emulator.stop();
        assert!(!run("ip link").contains("t7"));
    });
}
