//! `evenkeel monitor` on devices, as a user runs it, next to `tcpdump`, with `tshark` and `capinfos` as
//! judges. Needs root; reports if it is skipped. Without root: on cable, and on files.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use evenkeel::raw::capture::Reader;
use evenkeel::raw::device::{Address, Packet, PacketOptions, TxQueue as _};
use evenkeel::raw::drops::Reason;
use evenkeel::raw::frame::{LinkType, Pool};

use common::{command, evenkeel, in_namespace, json, pause, run, signal, skip, wait_for};
use evenkeel_testing::has_xdp;
use serde_json::Value;

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-monitor-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A child process that is killed at the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        run(&format!("kill -{signal} {}", self.0.id()));
    }

    /// Waits until the process ends by itself; returns its exit status and its standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.0.wait().unwrap().code(), text)
    }

    /// Interrupts the process; returns its standard output and standard error.
    fn stop(mut self) -> (String, String) {
        signal(&self.0, "INT");
        let mut text = [String::new(), String::new()];
        self.0.stdout.take().unwrap().read_to_string(&mut text[0]).unwrap();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut text[1]).unwrap();
        }
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}: {}", text[1]);
        let [out, err] = text;
        (out, err)
    }
}

/// Returns the standard output of a command; asserts that it succeeds.
fn output(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a veth pair: tests monitor `near`, and send packets at `far`.
fn veth() {
    run("ip link add near type veth peer name far");
    for end in ["near", "far"] {
        run(&format!("sysctl -qw net.ipv6.conf.{end}.disable_ipv6=1"));
        run(&format!("ip link set {end} up"));
    }
}

/// Starts a monitor of `near` and waits until it listens.
fn monitor(arguments: &[&str]) -> Running {
    let child = Running::start(command(&["monitor", "packet:near"]).args(arguments));
    wait_for("grep -qw 0003 /proc/thread-self/net/packet");
    child
}

/// Sends `count` datagrams at `rate` to a multicast group, which needs no neighbour; returns once all have
/// been sent.
fn blast(count: u64, rate: &str) {
    let sent = json(&[
        "blast",
        "packet:far",
        "--to",
        "239.1.2.3:9",
        "--count",
        &count.to_string(),
        "--rate",
        rate,
        "--json",
    ]);
    assert_eq!(sent["sent"], count);
}

/// Returns the number of frames in a file that pass `filter`, as tshark counts them.
fn frames_in(file: &Path, filter: &str) -> u64 {
    let lines = Command::new("tshark").args(["-r"]).arg(file).args(["-Y", filter]).output().unwrap();
    assert!(lines.status.success(), "{}", String::from_utf8_lossy(&lines.stderr));
    lines.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64
}

fn number(monitored: &Value, field: &str) -> u64 {
    monitored[field].as_u64().unwrap()
}

const UDP: &str = "udp port 9";
/// The filter [`UDP`] in the language of tshark.
const SHOWN: &str = "udp.dstport == 9";

/// Captured and dropped packets add up exactly to those sent, however small the ring, and the file agrees.
#[test]
fn captured_and_dropped_add_up_to_sent() {
    in_namespace("captured_and_dropped_add_up_to_sent", || {
        let scratch = Scratch::new("flood");
        veth();
        let mut missed = 0;
        for (name, ring, queue) in [("roomy", "8192", "4096"), ("tight", "32", "64")] {
            let file = scratch.file(name);
            let monitor = monitor(&["-w", &file, "--ring", ring, "--queue", queue, "--json", UDP]);
            // A stopped monitor gets as many packets as its ring holds.
            let stands_still = name == "tight";
            if stands_still {
                monitor.signal("STOP");
            }
            blast(200_000, "max");
            if stands_still {
                monitor.signal("CONT");
            }
            let result = common::report(&["monitor"], monitor.stop().0);
            let captured = number(&result, "captured");
            missed = number(&result, "missed");
            assert_eq!(captured + missed + number(&result, "dropped"), 200_000, "{result}");
            assert_eq!(number(&result, "discarded") + number(&result, "unread"), 0, "{result}");
            assert_eq!(
                (&result["filter_in_kernel"], &result["counters"]["conserved"]),
                (&true.into(), &true.into())
            );
            assert_eq!(frames_in(Path::new(&file), SHOWN), captured);
            let described = output(&format!("capinfos -M {file}"));
            assert!(described.contains(&format!("Number of packets:   {captured}")), "{described}");
            let statistics = output(&format!("tshark -r {file} -q -z io,stat,0"));
            assert!(statistics.contains(&captured.to_string()), "{statistics}");
        }
        assert!(missed > 100_000, "{missed}: the smallest ring there is held everything");
    });
}

/// Returns the number of frames that came to `near`, and the number of those that were lost on the way from
/// `far`, by the kernel's counters.
fn came_and_lost() -> [u64; 2] {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let column = |device: &str, column: usize| {
        let line = table.lines().find_map(|line| line.trim().strip_prefix(device)).unwrap();
        line.split_whitespace().nth(column).unwrap().parse().unwrap()
    };
    let (rx_packets, tx_dropped) = (1, 11);
    [column("near:", rx_packets), column("far:", tx_dropped)]
}

/// A flood of UDP from the kernel at `far`. It ends when this is dropped.
struct KernelFlood {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl KernelFlood {
    /// Begins in the network namespace of the caller, and ends after `count` datagrams.
    fn start(count: u64) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        let end = Arc::clone(&ends);
        let send = move || {
            let mut sent = 0;
            while sent < count && !end.load(Ordering::Relaxed) {
                sent += u64::from(socket.send_to(&[7; 100], "10.9.0.2:9").is_ok());
            }
            sent
        };
        Self { ends, thread: Some(std::thread::spawn(send)) }
    }

    /// Waits until all datagrams have been sent.
    fn join(mut self) -> u64 {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for KernelFlood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Creates a veth pair. The kernel sends at `far` to a station that is not there.
fn veth_with_kernel() {
    veth();
    address_far();
}

fn address_far() {
    run("ip addr add 10.9.0.1/24 dev far");
    run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev far");
}

/// Asserts that the report of a monitor through AF_XDP and its file account for each frame.
fn assert_adds_up(result: &Value, file: &str) {
    let [received, seen, missed, accepted, captured, dropped] =
        ["received", "seen", "missed", "accepted", "captured", "dropped"].map(|field| number(result, field));
    assert_eq!((received, accepted), (seen + missed, captured + dropped), "{result}");
    assert_eq!(result["counters"]["conserved"], true, "{result}");
    let drops = result["counters"]["drops"].as_array().unwrap();
    let is_at_interface =
        |drop: &&Value| Reason::PLACES_ON_INTERFACE.iter().any(|place| drop["place"] == *place);
    let at_interface = drops.iter().filter(is_at_interface).map(|drop| number(drop, "frames"));
    assert_eq!(at_interface.sum::<u64>(), missed, "{result}");
    let described = output(&format!("capinfos -M -c {file}"));
    assert!(described.contains(&format!("Number of packets:   {captured}\n")), "{described}{result}");
}

/// The kernel's counters say how many frames came. The monitor has them all, also those to other stations,
/// or says where it lost them.
#[test]
fn a_monitor_through_af_xdp_accounts_for_every_frame() {
    in_namespace("a_monitor_through_af_xdp_accounts_for_every_frame", || {
        if !has_xdp() {
            return;
        }
        let scratch = Scratch::new("xdp");
        veth_with_kernel();
        for (name, ring, queue) in [("roomy", "4096", "4096"), ("slow", "64", "4"), ("stopped", "64", "64")] {
            let file = scratch.file(name);
            let monitor = listening(&["xdp:near", "-w", &file, "--ring", ring, "--queue", queue, "--json"]);
            let before = came_and_lost();
            let stands_still = name == "stopped";
            if stands_still {
                monitor.signal("STOP");
            }
            let sent = KernelFlood::start(20_000).join() + 1;
            send_tagged();
            let mut came = 0;
            evenkeel_testing::wait_for("all frames", || {
                let [near, far] = came_and_lost();
                came = near - before[0];
                came + far - before[1] == sent
            });
            if stands_still {
                monitor.signal("CONT");
            }
            let result = common::report(&["monitor"], monitor.stop().0);
            assert_eq!(number(&result, "received"), came, "{name}: {result}");
            assert_adds_up(&result, &file);
            assert!(!stands_still || number(&result, "captured") < 1000, "{result}");
            // With a tag, a datagram is none to tcpdump.
            let by_tcpdump = output(&format!("tcpdump -Z root -n -r {file} {UDP}")).lines().count() as u64;
            assert_eq!(by_tcpdump, frames_in(Path::new(&file), "udp.dstport == 9 && !vlan"), "{name}");
        }
    });
}

/// Frames of queues that the monitor does not use are lost to everybody, and counted.
#[test]
fn a_monitor_through_af_xdp_has_all_queues_or_counts_what_comes_to_others() {
    in_namespace("a_monitor_through_af_xdp_has_all_queues", || {
        if !has_xdp() {
            return;
        }
        let scratch = Scratch::new("xdp-queues");
        run("ip link add near numrxqueues 4 numtxqueues 4 type veth peer far numtxqueues 4 numrxqueues 4");
        run("sysctl -qw net.ipv6.conf.near.disable_ipv6=1 net.ipv6.conf.far.disable_ipv6=1");
        run("ip link set near up");
        run("ip link set far up");
        address_far();
        for (link, all) in [("xdp:near", true), ("xdp:near@0", false)] {
            let file = scratch.file(link);
            let monitor = listening(&[link, "-w", &file, "--json"]);
            // Each has a port of its own, and so a queue.
            (0..200).for_each(|_| _ = KernelFlood::start(1).join());
            let result = common::report(&["monitor"], monitor.stop().0);
            assert_eq!(number(&result, "received"), 200, "{link}: {result}");
            assert_eq!(number(&result, "missed") == 0, all, "{link}: {result}");
            assert_adds_up(&result, &file);
            let reason = &result["counters"]["drops"][0]["reason"];
            assert!(all || reason == "unused-queue", "{result}");
        }
    });
}

/// The kernel leaves checksums to an adaptor; the file has them.
#[test]
fn a_monitor_through_af_xdp_filters_and_writes_whole_frames() {
    in_namespace("a_monitor_through_af_xdp_filters_and_writes_whole_frames", || {
        if !has_xdp() {
            return;
        }
        let scratch = Scratch::new("xdp-filter");
        veth_with_kernel();
        let (file, vlan) = (scratch.file("udp"), scratch.file("vlan"));
        let monitor = listening(&["xdp:near", "-w", &file, "--json", UDP]);
        KernelFlood::start(50).join();
        assert!(!common::succeeds("ping -c 1 -W 1 10.9.0.2"));
        let result = common::report(&["monitor"], monitor.stop().0);
        assert_eq!((number(&result, "captured"), number(&result, "seen")), (50, 51), "{result}");
        assert_eq!(result["filter_in_kernel"], false);
        let right = Command::new("tshark")
            .args(["-r", &file, "-o", "udp.check_checksum:TRUE", "-Y", "udp.checksum.status == 1"])
            .output()
            .unwrap();
        assert_eq!(right.stdout.iter().filter(|&&byte| byte == b'\n').count(), 50);
        let monitor = listening(&["xdp:near", "-w", &vlan, "vlan 7"]);
        send_tagged();
        monitor.stop();
        assert_eq!(frames_in(Path::new(&vlan), "vlan.id == 7"), 1);
    });
}

/// The kernel has the device again as soon as the monitor takes no more frames.
#[test]
fn a_monitor_through_af_xdp_that_ends_in_a_flood_has_accounted_for_all_and_returns_the_device() {
    in_namespace("a_monitor_through_af_xdp_that_ends_in_a_flood", || {
        if !has_xdp() {
            return;
        }
        let scratch = Scratch::new("xdp-flood");
        veth_with_kernel();
        let flood = KernelFlood::start(u64::MAX);
        for round in 0..3 {
            let file = scratch.file(&round.to_string());
            let monitor = listening(&["xdp:near", "-w", &file, "--json"]);
            let second = evenkeel(&["monitor", "xdp:near", "--duration", "1s"]);
            let told = String::from_utf8(second.stderr).unwrap();
            assert!(told.starts_with("evenkeel: `near` is in use by another program"), "{told}");
            let result = common::report(&["monitor"], monitor.stop().0);
            assert!(number(&result, "captured") > 0, "{result}");
            assert_adds_up(&result, &file);
        }
        drop(flood);
        let by_kernel = listening(&["near", "--json", UDP]);
        KernelFlood::start(10).join();
        assert_eq!(number(&common::report(&["monitor"], by_kernel.stop().0), "captured"), 10);
    });
}

/// A filter captures the same packets as in `tcpdump`, in the kernel or in our own code.
#[test]
fn a_filter_chooses_what_tcpdump_chooses() {
    in_namespace("a_filter_chooses_what_tcpdump_chooses", || {
        let scratch = Scratch::new("filters");
        veth();
        run("ip addr add 10.9.0.1/24 dev near");
        // The kernel asks for an address once, and not again while one of the two is stopped.
        run("sysctl -qw net.ipv4.neigh.near.mcast_solicit=1");
        let filters =
            ["udp port 9", "arp or igmp", "udp and greater 80", "vlan 7", "not ip", "ip protochain 17"];
        for (index, filter) in filters.into_iter().enumerate() {
            let (ours, theirs) =
                (scratch.file(&format!("{index}.pcapng")), scratch.file(&format!("{index}.pcap")));
            // A veth may deliver large frames: without a length tcpdump's buffer has places for only eight.
            let mut tcpdump = Running::start(
                Command::new("tcpdump")
                    .args(["-Z", "root", "-U", "-n", "-i", "near", "--immediate-mode", "-w", &theirs])
                    .args(["-s", "2000", "-B", "65536", filter]),
            );
            let mut stderr = BufReader::new(tcpdump.0.stderr.take().unwrap());
            let mut line = String::new();
            while !line.contains("listening on") {
                line.clear();
                assert!(stderr.read_line(&mut line).unwrap() > 0, "tcpdump ended");
            }
            tcpdump.0.stderr = Some(stderr.into_inner());
            let monitor = Running::start(command(&["monitor", "packet:near", "-w", &ours]).arg(filter));
            let sockets =
                || fs::read_to_string("/proc/thread-self/net/packet").unwrap().matches(" 0003 ").count();
            while sockets() < 2 {
                pause();
            }
            send_tagged();
            for size in ["18", "100"] {
                json(&[
                    "blast",
                    "packet:far",
                    "--to",
                    "239.1.2.3:9",
                    "--count",
                    "50",
                    "--size",
                    size,
                    "--rate",
                    "1k",
                    "--json",
                ]);
            }
            // This ping makes the kernel ask for an address that nobody has.
            assert!(!common::succeeds("ping -c 1 -W 1 10.9.0.2"));
            monitor.stop();
            tcpdump.stop();
            let columns = "-T fields -e frame.time_epoch -e frame.len -e eth.src -e eth.type -e vlan.id -e \
                ip.id -e udp.srcport";
            let frames = |file: &str| output(&format!("tshark -n -r {file} {columns}"));
            let (ours, theirs) = (frames(&ours), frames(&theirs));
            assert!(!theirs.is_empty(), "{filter}: nothing came");
            assert_eq!(ours.lines().count(), theirs.lines().count(), "{filter}:\n{ours}\n{theirs}");
            for (ours, theirs) in ours.lines().zip(theirs.lines()) {
                let ((our_time, ours), (their_time, theirs)) =
                    (ours.split_once('\t').unwrap(), theirs.split_once('\t').unwrap());
                assert_eq!(ours, theirs, "{filter}");
                // The kernel stamps a frame separately for each socket.
                let [our_time, their_time] = [our_time, their_time].map(|time| time.parse::<f64>().unwrap());
                assert!((our_time - their_time).abs() < 1.0, "{our_time} {their_time}");
            }
        }
    });
}

/// Sends a datagram with a VLAN tag, which the kernel takes out of the frame before any socket gets it.
fn send_tagged() {
    // This address differs from that of `blast`. A process that another test starts at this moment briefly
    // has a copy of this device's claim to its own address.
    let options = PacketOptions { address: Address::Random, ..PacketOptions::default() };
    let mut device = Packet::open("far", &options).unwrap();
    let mut pool = Pool::new(1);
    let mut frame = vec![0; 64];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
    frame[12..18].copy_from_slice(&[0x81, 0, 0, 7, 8, 0]);
    frame[18] = 0x45;
    frame[27] = 17;
    frame[40..42].copy_from_slice(&[0, 9]);
    assert_eq!(device.transmit(&mut VecDeque::from_iter(pool.take_copy(&frame)), &mut pool), 1);
}

/// Sends a datagram through the kernel, from one of its addresses.
fn send(from: &str, to: &str) {
    let socket = UdpSocket::bind((from, 9)).unwrap();
    socket.set_broadcast(true).unwrap();
    socket.send_to(&[7; 18], to).unwrap();
}

/// A broadcast is recognized by the netmask of the device, which tcpdump 4.99 passes to libpcap in the
/// wrong byte order.
#[test]
fn a_broadcast_is_known_by_the_devices_netmask() {
    in_namespace("a_broadcast_is_known_by_the_devices_netmask", || {
        veth();
        run("ip addr add 10.9.0.1/25 dev near");
        run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev near");
        let monitor = listening(&["near", "--print", "ip broadcast and outbound"]);
        for to in ["10.9.0.2:9", "10.9.0.127:9", "255.255.255.255:9"] {
            send("10.9.0.1", to);
        }
        let (shown, told) = monitor.stop();
        assert_eq!(shown.lines().count(), 2, "{shown}{told}");
        assert!(shown.contains(" > 10.9.0.127:9 ") && shown.contains(" > 255.255.255.255:9 "), "{shown}");
    });
}

/// On a device, evenkeel accepts the filters that tcpdump accepts, and refuses those that tcpdump refuses,
/// in the same words.
#[test]
fn a_device_has_the_filters_that_tcpdump_has_there() {
    in_namespace("a_device_has_the_filters_that_tcpdump_has_there", || {
        veth();
        run("ip addr add 10.9.0.1/24 dev near");
        for filter in DEVICE_FILTERS.into_iter().chain(FILTERS) {
            let mut tcpdump = Command::new("tcpdump");
            tcpdump.args(["-Z", "root", "-d", "-i", "near", filter]).stdin(Stdio::null());
            let theirs = tcpdump.output().unwrap();
            let ours = evenkeel(&["monitor", "near", "--duration", "1ms", "--", filter]);
            same_verdict(filter, &ours, &theirs);
        }
    });
}

/// Filters that only a device has.
const DEVICE_FILTERS: [&str; 6] =
    ["inbound", "outbound", "ifindex 2", "vlan and inbound", "inbound and ip6 protochain 6", "ip broadcast"];

/// Filters of most kinds that pcap-filter(7) has.
const FILTERS: [&str; 36] = [
    "ip",
    "ip6 and not udp",
    "arp or rarp",
    "ether host 02:00:00:00:00:01",
    "host 10.0.0.1",
    "src net 10.0.0.0/8",
    "net fd77::/16",
    "udp port 9",
    "src portrange 1-9 or tcp",
    "ip proto 17",
    "ip protochain 17",
    "ip6 protochain 17",
    "protochain 6",
    "ip broadcast",
    "ip multicast or ip6 multicast",
    "ether broadcast",
    "multicast",
    "vlan",
    "vlan 7 and udp",
    "mpls 100",
    "pppoes and ip",
    "geneve 7",
    "llc",
    "iso or stp or ipx",
    "wlan host 02:00:00:00:00:01",
    "type data subtype qos-data",
    "wlan type mgt",
    "dir tods",
    "inbound",
    "ifindex 3",
    "udp[4:2] > 20 and ip[0] & 0xf = 5",
    "link[0] != 0 or ether[1] = 2",
    "vpi 0 and vci 33",
    "action pass",
    "greater 48 and len < 1000",
    "udp prot 9",
];

/// Asserts that both accept a filter, or that both refuse it in libpcap's words.
fn same_verdict(filter: &str, ours: &Output, theirs: &Output) {
    let [our_words, their_words] = [ours, theirs].map(|it| String::from_utf8_lossy(&it.stderr).into_owned());
    assert_eq!(ours.status.success(), theirs.status.success(), "{filter}: {our_words} {their_words}");
    if !theirs.status.success() {
        let why = their_words.lines().filter_map(|line| line.strip_prefix("tcpdump: ")).next_back().unwrap();
        assert!(our_words.contains(why), "{filter}: {our_words}, tcpdump says {why}");
        assert_eq!(ours.status.code(), Some(2), "{filter}: {our_words}");
    }
}

/// Returns common link types of files, each with its byte order (`true` for big-endian) and the header
/// before a packet.
fn link_types() -> Vec<(u16, bool, Vec<u8>)> {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let stations = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3];
    let wlan = [&[0x88, 1, 0, 0][..], &stations, &[0; 4], &snap].concat();
    let cooked = [0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0].to_vec();
    let cooked_2 = [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0].to_vec();
    vec![
        (0, false, vec![2, 0, 0, 0]),
        (0, true, vec![0, 0, 0, 2]),
        (1, false, [&stations[..12], &[8, 0]].concat()),
        (1, true, [&stations[..12], &[0x81, 0, 0, 7, 8, 0]].concat()),
        (9, false, vec![0, 0x21]),
        (50, false, vec![0xff, 3, 0, 0x21]),
        (101, false, vec![]),
        (101, true, vec![]),
        (104, false, vec![0x0f, 0, 8, 0]),
        (105, false, wlan.clone()),
        (108, true, vec![0, 0, 0, 2]),
        (113, false, cooked),
        (127, false, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wlan].concat()),
        (228, false, vec![]),
        (276, true, cooked_2),
        (195, false, vec![1; 9]),
    ]
}

/// Returns a datagram of IPv4 from 10.0.0.1, and one of IPv6 from fd77::1, to port 9.
fn packets() -> [Vec<u8>; 2] {
    let udp = [0, 7, 0, 9, 0, 26, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
    let v4 = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 255];
    let mut v6 = [0; 40];
    v6[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 26, 17, 64]);
    (v6[8], v6[9], v6[23], v6[24], v6[39]) = (0xfd, 0x77, 1, 0xfd, 2);
    [[&v4[..], &udp].concat(), [&v6[..], &udp].concat()]
}

/// Returns a pcap file of these frames, as a machine of this byte order writes it.
fn classic(link_type: u16, big_endian: bool, frames: &[Vec<u8>]) -> Vec<u8> {
    let word = |word: u32| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    let version = if big_endian { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let words = [0, 0, 262_144, link_type.into()].map(word).concat();
    let mut file = [&word(0xa1b2_c3d4)[..], &version, &words].concat();
    for frame in frames {
        let len = frame.len() as u32;
        file.extend([1, 0, len, len].map(word).concat());
        file.extend(frame);
    }
    file
}

/// Returns the frames of a capture file, with their link types.
fn frames_of(file: &str) -> Vec<(LinkType, Vec<u8>)> {
    let bytes = fs::read(file).unwrap();
    let (mut reader, mut frames) = (Reader::of_any_link_type(&bytes[..]).unwrap(), Vec::new());
    while reader.advance().unwrap() {
        frames.push((reader.link_type(), reader.frame().to_vec()));
    }
    frames
}

/// From files of every common link type and byte order, evenkeel takes the frames that tcpdump takes.
#[test]
fn a_file_is_filtered_as_by_tcpdump_whatever_its_link_type() {
    // The test runs in a namespace because that checks for the programs it needs.
    in_namespace("a_file_is_filtered_as_by_tcpdump_whatever_its_link_type", || {
        let scratch = Scratch::new("link-types");
        let taken = |(link_type, big_endian, header): (u16, bool, Vec<u8>)| {
            let name = |name| scratch.file(&format!("{name}-{link_type}-{big_endian}"));
            let [file, ours, theirs] = ["file", "ours", "theirs"].map(name);
            let mut wanted = 0;
            let frames = packets().map(|packet| [&header[..], &packet].concat());
            fs::write(&file, classic(link_type, big_endian, &frames)).unwrap();
            for filter in FILTERS {
                let by_tcpdump = Command::new("tcpdump")
                    .args(["-Z", "root", "-r", &file, "-w", &theirs, filter])
                    .output()
                    .unwrap();
                let by_us = evenkeel(&["monitor", &format!("pcap:{file}"), "-w", &ours, "--", filter]);
                let what = format!("link type {link_type}, big-endian {big_endian}: {filter}");
                same_verdict(&what, &by_us, &by_tcpdump);
                if by_us.status.success() {
                    let taken = frames_of(&ours);
                    assert_eq!(taken, frames_of(&theirs), "{what}");
                    assert!(taken.iter().all(|(of, _)| of.0 == link_type), "{what}");
                    wanted += taken.len();
                }
            }
            wanted
        };
        let taken = &taken;
        let wanted: usize = std::thread::scope(|scope| {
            let all: Vec<_> = link_types().into_iter().map(|it| scope.spawn(move || taken(it))).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert!(wanted > 200, "{wanted}: the filters want too little");
    });
}

/// Frames of every size come out of a file unchanged, and the lines show what is known of each link.
#[test]
fn a_file_is_copied_byte_for_byte() {
    let scratch = Scratch::new("copied");
    let [file, copy] = ["file", "copy"].map(|name| scratch.file(name));
    let shown = |file: &str| {
        String::from_utf8(evenkeel(&["monitor", &format!("pcap:{file}"), "--print"]).stdout).unwrap()
    };
    for (link_type, big_endian, header) in link_types() {
        let mut frames: Vec<_> =
            packets().into_iter().map(|packet| [&header[..], &packet].concat()).collect();
        frames.extend([0, 1, 1_921, 9_014, 65_549, 262_144].map(|len| vec![7; len]));
        fs::write(&file, classic(link_type, big_endian, &frames)).unwrap();
        let result = json(&["monitor", &format!("pcap:{file}"), "-w", &copy, "--json"]);
        assert_eq!((number(&result, "captured"), number(&result, "cut")), (8, 0), "{result}");
        let expected: Vec<_> = frames.into_iter().map(|frame| (LinkType(link_type), frame)).collect();
        assert_eq!(frames_of(&copy), expected);
        let lines = shown(&copy);
        let first = lines.lines().next().unwrap();
        let known = first.ends_with(&format!(" In  10.0.0.1:7 > 10.0.0.255:9 udp {}", header.len() + 46));
        let unknown = first.ends_with(&format!(" In  link type 195, {} bytes", header.len() + 46));
        assert!(if link_type == 195 { unknown } else { known }, "{link_type}: {first}");
    }
    // A section may have interfaces of several link types.
    fs::write(&file, pcapng(&[113, 1, 195, 113])).unwrap();
    let result = json(&["monitor", &format!("pcap:{file}"), "-w", &copy, "--json"]);
    assert_eq!(number(&result, "captured"), 4, "{result}");
    let expected = [113, 1, 195, 113].map(|link_type| (LinkType(link_type), vec![7; 60]));
    assert_eq!(frames_of(&copy), expected);
}

/// A frame whose link type the filter does not apply to is passed over, and the report says so.
#[test]
fn frames_that_the_filter_means_nothing_on_are_passed_over() {
    let scratch = Scratch::new("mixed");
    let file = scratch.file("mixed");
    fs::write(&file, pcapng(&[127, 1, 127])).unwrap();
    let capture = format!("pcap:{file}");
    let told = evenkeel(&["monitor", &capture, "wlan type data or not wlan type data"]);
    if String::from_utf8_lossy(&told.stderr).contains("libpcap.so is not installed") {
        return skip("frames_that_the_filter_means_nothing_on_are_passed_over", "no libpcap");
    }
    let said = String::from_utf8(told.stdout).unwrap();
    assert!(said.contains("2 packets captured\n"), "{said}");
    assert!(said.contains("1 packets passed over: filter `wlan type data"), "{said}");
    let all = json(&["monitor", &capture, "--json"]);
    assert_eq!((number(&all, "captured"), number(&all, "passed_over")), (3, 0), "{all}");
}

/// The monitor captures jumbo frames, and those that an adaptor is to split or has joined, as tcpdump
/// does.
#[test]
fn frames_are_kept_whole() {
    in_namespace("frames_are_kept_whole", || {
        let scratch = Scratch::new("large");
        veth();
        for end in ["near", "far"] {
            run(&format!("ip link set {end} mtu 9000"));
        }
        run("ip addr add 10.9.0.1/24 dev far");
        run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev far");
        run("ip link set lo up");
        let [jumbo, joined, short] = ["jumbo", "joined", "short"].map(|name| scratch.file(name));
        let on_near = monitor(&["-w", &jumbo, "icmp"]);
        let mut on_lo = listening(&["lo", "-w", &joined, "-c", "1", "greater 60000"]);
        assert!(!common::succeeds("ping -c 1 -W 1 -s 8000 10.9.0.2"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sends = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || {
            drop(std::io::copy(&mut listener.accept().unwrap().0, &mut std::io::sink()))
        });
        while on_lo.0.try_wait().unwrap().is_none() {
            std::io::Write::write_all(&mut sends, &[7; 1 << 20]).unwrap();
        }
        assert_eq!(on_lo.end().0, Some(0));
        on_near.stop();
        let lengths =
            |file: &str| output(&format!("tshark -r {file} -T fields -e frame.len -e frame.cap_len"));
        assert_eq!(lengths(&jumbo).trim(), "8042\t8042");
        let joined = lengths(&joined);
        let (len, kept) = joined.trim().split_once('\t').unwrap();
        assert!(len == kept && len.parse::<u32>().unwrap() > 60_000, "{joined}");
        // A smaller `--snaplen` keeps less, and the file records the original length.
        let on_near = monitor(&["-w", &short, "-s", "60", "icmp"]);
        let lines = listening(&["near", "-s", "60", "--print", "icmp"]);
        assert!(!common::succeeds("ping -c 1 -W 1 -s 8000 10.9.0.2"));
        on_near.stop();
        assert_eq!(lengths(&short).trim(), "8042\t60");
        let (shown, told) = lines.stop();
        assert!(shown.contains(" icmp 8042 [|60]\n") && !told.contains("cut"), "{shown}{told}");
    });
}

#[test]
fn what_the_operating_system_sends_is_captured_too() {
    in_namespace("what_the_operating_system_sends_is_captured_too", || {
        let scratch = Scratch::new("outbound");
        veth();
        run("ip addr add 10.9.0.1/24 dev near");
        run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev near");
        let file = scratch.file("outbound.pcapng");
        let monitor = monitor(&["-w", &file, "icmp"]);
        assert!(!common::succeeds("ping -c 1 -W 1 10.9.0.2"));
        monitor.stop();
        let flags = output(&format!("tshark -r {file} -T fields -e frame.packet_flags_direction"));
        assert_eq!(flags.trim(), "0x00000002");
    });
}

/// Each file of a series is a complete capture; together they hold the most recent frames.
#[test]
fn files_follow_each_other() {
    in_namespace("files_follow_each_other", || {
        let scratch = Scratch::new("row");
        veth();
        let file = scratch.file("row.pcapng");
        let monitor = monitor(&["-w", &file, "-C", "100k", "-W", "3", "--json", UDP]);
        blast(10_000, "50k");
        let result = common::report(&["monitor"], monitor.stop().0);
        assert_eq!(number(&result, "captured") + number(&result, "missed"), 10_000, "{result}");
        let files = scratch.files();
        assert_eq!(files.len(), 3, "{files:?}");
        for file in &files {
            assert!(fs::metadata(file).unwrap().len() <= 101_000, "{}", file.display());
            assert!(frames_in(file, SHOWN) > 100);
        }
        assert!(files[2].file_name().unwrap().to_str().unwrap().starts_with("row_00"), "{files:?}");
    });
}

#[test]
fn a_pipe_is_read_while_it_is_written() {
    in_namespace("a_pipe_is_read_while_it_is_written", || {
        veth();
        let mut monitor = monitor(&["-w", "-", UDP]);
        let reader = Command::new("tshark")
            .args(["-n", "-l", "-r", "-", "-c", "20"])
            .stdin(monitor.0.stdout.take().unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        blast(1_000, "10k");
        let shown = reader.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&shown.stdout).lines().count(), 20);
        // The reader has gone, so the monitor ends by itself when it has something to write.
        blast(1_000, "10k");
        assert!(monitor.0.wait().unwrap().success());
    });
}

/// A disk of one mebibyte in memory, which is unmounted at the end of the test.
struct Disk(String);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = common::succeeds(&format!("umount -l {}", self.0));
    }
}

/// The monitor reports a full disk at once; when there is room again the capture goes on, and the file is
/// whole.
#[test]
fn a_full_disk_is_survived() {
    in_namespace("a_full_disk_is_survived", || {
        let scratch = Scratch::new("full");
        let disk = Disk(scratch.file("disk"));
        fs::create_dir(&disk.0).unwrap();
        if !common::succeeds(&format!("mount -t tmpfs -o size=1m evenkeel-test {}", disk.0)) {
            return skip("a_full_disk_is_survived", "no right to mount");
        }
        veth();
        let (file, told) = (format!("{}/full.pcapng", disk.0), scratch.file("told"));
        let mut command = command(&["monitor", "packet:near", "-w", &file, "--json", UDP]);
        let monitor = command
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&told).unwrap())
            .spawn()
            .map(Running)
            .unwrap();
        wait_for("grep -qw 0003 /proc/thread-self/net/packet");
        blast(60_000, "100k");
        wait_for(&format!("grep -q No.space.left.on.device {told}"));
        assert!(
            output(&format!("capinfos -c {file}")).contains("packets"),
            "a file that ends with a whole block"
        );
        run(&format!("mount -o remount,size=64m {}", disk.0));
        wait_for(&format!("grep -q writing.again {told}"));
        let before = frames_in(Path::new(&file), SHOWN);
        blast(100, "1k");
        let result = common::report(&["monitor"], monitor.stop().0);
        let captured = number(&result, "captured");
        let lost = number(&result, "missed") + number(&result, "dropped") + number(&result, "discarded");
        assert_eq!(captured + lost, 60_100, "{result}");
        assert!(number(&result, "discarded") > 0 && captured >= before + 100, "{result}");
        assert_eq!(frames_in(Path::new(&file), SHOWN), captured);
    });
}

/// Starts a monitor, and waits until it reports that it listens.
fn listening(arguments: &[&str]) -> Running {
    let mut monitor = Running::start(command(&["monitor"]).args(arguments));
    let (mut line, mut byte) = (String::new(), [0]);
    let stderr = monitor.0.stderr.as_mut().unwrap();
    while !line.ends_with('\n') && stderr.read(&mut byte).unwrap() > 0 {
        line.push(byte[0].into());
    }
    assert!(line.starts_with("evenkeel: listening on "), "{line}");
    monitor
}

/// A monitor accepts an interface by its bare name, the loopback device, where it sees each packet once,
/// and all interfaces.
#[test]
fn any_interface_can_be_listened_to() {
    in_namespace("any_interface_can_be_listened_to", || {
        let scratch = Scratch::new("any");
        veth();
        run("ip link set lo up");
        let files = ["near", "lo", "any"].map(|name| (name, scratch.file(name)));
        let monitors: Vec<_> = files
            .iter()
            .map(|(name, file)| listening(&[name, "-w", file, "--json", "udp port 9 or icmp"]))
            .collect();
        blast(10, "1k");
        run("ping -c 3 -i 0.01 127.0.0.1");
        let captured: Vec<_> = monitors
            .into_iter()
            .map(|monitor| number(&common::report(&["monitor"], monitor.stop().0), "captured"))
            .collect();
        assert_eq!(captured, [10, 6, 16], "what goes past the kernel's queues is seen where it arrives");
        let described = output(&format!("capinfos -I {}", files[2].1));
        for name in ["lo", "near", "far"] {
            assert!(described.contains(&format!("Name = {name}")), "{described}");
        }
        assert_eq!(frames_in(Path::new(&files[2].1), "frame.interface_name == \"near\""), 10);
    });
}

#[test]
fn lines_tell_flags_and_who_is_asked_for() {
    in_namespace("lines_tell_flags_and_who_is_asked_for", || {
        veth();
        run("ip link set lo up");
        run("ip addr add 10.9.0.1/24 dev far");
        let monitor = listening(&["any", "--print", "arp or tcp"]);
        assert!(!common::succeeds("ping -c 1 -W 1 10.9.0.2"));
        let _ = std::net::TcpStream::connect("127.0.0.1:9").unwrap_err();
        let (lines, told) = monitor.stop();
        assert!(lines.contains(" near In  ") && lines.contains(" far Out "), "{lines}");
        assert!(lines.contains(" arp who-has 10.9.0.2 tell 10.9.0.1 42\n"), "{lines}");
        let segment = |from: &str, rest: &str| {
            lines.lines().any(|line| line.contains(from) && line.contains(" tcp ") && line.contains(rest))
        };
        assert!(segment(" > 127.0.0.1:9 ", " [S] 74") && segment(" 127.0.0.1:9 > ", " [R.] 54"), "{lines}");
        assert!(told.contains("packets captured"), "{told}");
    });
}

#[test]
fn a_device_that_goes_is_told_of() {
    in_namespace("a_device_that_goes_is_told_of", || {
        veth();
        let monitor = listening(&["near", "--json"]);
        run("ip link del near");
        let (status, told) = monitor.end();
        assert_eq!(status, Some(1), "{told}");
        assert!(told.contains("near"), "{told}");
    });
}

/// Returns a pcapng file with a frame on each of several interfaces with these link types.
fn pcapng(linktypes: &[u16]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut file = block(0x0a0d_0d0a, &section);
    for linktype in linktypes {
        file.extend(block(1, &[&linktype.to_le_bytes()[..], &[0; 2], &65_535_u32.to_le_bytes()].concat()));
    }
    for interface in 0..linktypes.len() as u32 {
        let numbers = [interface, 0, 1, 60, 60].map(u32::to_le_bytes).concat();
        file.extend(block(6, &[&numbers[..], &[7; 60]].concat()));
    }
    file
}

/// The packet has no time of capture, so the monitor must not show the current time.
#[test]
fn a_packet_without_a_time_stamp_gets_none_of_today() {
    let scratch = Scratch::new("unstamped");
    let file = scratch.file("simple");
    let mut bytes = pcapng(&[1]);
    bytes.truncate(28 + 20);
    bytes.extend([&3_u32.to_le_bytes()[..], &76_u32.to_le_bytes(), &60_u32.to_le_bytes()].concat());
    bytes.extend([&[7; 60][..], &76_u32.to_le_bytes()].concat());
    fs::write(&file, bytes).unwrap();
    let shown = evenkeel(&["monitor", &format!("pcap:{file}"), "--print"]);
    let lines = String::from_utf8(shown.stdout).unwrap();
    assert!(lines.starts_with("00:00:00.000000 "), "{lines}");
}

/// A capture inside a host does not delay the host's own work.
#[test]
fn a_capture_inside_an_echo_service() {
    in_namespace("a_capture_inside_an_echo_service", || {
        let scratch = Scratch::new("inside");
        let file = scratch.file("echo.pcapng");
        let capture = format!("{file},filter=icmp");
        let arguments =
            ["echo", "tap:ek0", "--kernel-address", "10.77.0.1/24", "--capture", &capture, "--json"];
        let echo = Running::start(&mut command(&arguments));
        wait_for("ping -c 1 -W 1 10.77.0.2");
        run("ping -c 10 -i 0.01 -W 5 10.77.0.2");
        let result = common::report(&["echo"], echo.stop().0);
        let captured = number(&result["capture"], "captured");
        // The process that captures begins after the device does, so the first answer may precede it.
        assert!(captured >= 20, "{result}");
        assert_eq!(frames_in(Path::new(&file), "icmp.type == 8"), captured / 2);
        assert_eq!(
            frames_in(Path::new(&file), "icmp.type == 0 && frame.packet_flags_direction == 2"),
            captured / 2
        );
        // A full disk does not delay the service.
        let arguments = [
            "echo",
            "tap:ek1",
            "--kernel-address",
            "10.78.0.1/24",
            "--address",
            "10.78.0.2/24",
            "--capture",
            "/dev/full",
        ];
        let echo = Running::start(&mut command(&arguments));
        wait_for("ping -c 1 -W 1 10.78.0.2");
        run("ping -c 200 -i 0.002 -W 5 10.78.0.2");
        signal(&echo.0, "INT");
        let (status, told) = echo.end();
        assert!(told.contains("/dev/full: No space left on device"), "{told}");
        assert_eq!(status, Some(1), "and is no success: {told}");
    });
}

#[test]
fn on_cable_every_frame_is_accounted_for() {
    let scratch = Scratch::new("cable");
    let file = scratch.file("cable.pcapng");
    let result = json(&["monitor", "cable", "--rate", "200k", "--duration", "500ms", "-w", &file, "--json"]);
    let sent = result["generator"]["sent"].as_u64().unwrap();
    let (captured, missed, dropped) =
        (number(&result, "captured"), number(&result, "missed"), number(&result, "dropped"));
    assert!(captured > 0 && captured + missed + dropped == sent, "{result}");
    let again = json(&["monitor", &format!("pcap:{file}"), "--json"]);
    assert_eq!(number(&again, "captured"), captured, "{again}");
    assert_eq!(again["summary"]["protocols"][0]["name"], "udp");
}

#[test]
fn frames_are_shown_on_lines() {
    let shown = evenkeel(&["monitor", "cable", "--rate", "1k", "--duration", "5s", "--print", "-c", "5"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines.iter().all(|line| line.contains(" > 10.77.0.1:9 udp 60")), "{text}");
    let told = String::from_utf8(shown.stderr).unwrap();
    assert!(told.starts_with("evenkeel: listening on cable0\n5 packets captured\n"), "{told}");
}

#[test]
fn wrong_arguments_are_explained() {
    for (arguments, explained) in [
        (&["monitor", "cable", "-W", "3"][..], "--files needs --file-size or --file-time"),
        (&["monitor", "cable", "-C", "1M"], "--write"),
        (&["monitor", "cable", "-w", "-", "--json"], "cannot take both"),
        (&["monitor", "cable", "-w", "-", "-C", "1"], "standard output is one file"),
        (&["monitor", "xdp:near,share"], "without `,share`"),
        (&["monitor", "packet:no-such-device"], "no network device is called"),
        (&["monitor", "pcap:/no/such/file"], "No such file"),
        (&["monitor", "cable", "-w", "/no/such/folder/file"], "No such file"),
    ] {
        let output = evenkeel(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(explained), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    let unclear = evenkeel(&["monitor", "cable", "udp", "prot", "9"]);
    let told = String::from_utf8_lossy(&unclear.stderr).into_owned();
    // The message contains libpcap's error, or says that libpcap is missing.
    assert!(told.contains("`udp prot 9`") || told.contains("install"), "{told}");
    pause();
}
