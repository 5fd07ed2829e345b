//! The guard in front of the kernel's own sockets, on a veth pair. Needs root; reports if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod behind;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod figures;
mod groups;
mod limits;
mod reload;
mod tcp;
mod threads;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, signal};
use evenkeel_testing::{Place, Program, attempt, has_xdp, in_namespace, pause, run, skip, wait_for};
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde_json::Value;

const PROGRAMS: [Program; 2] = [("ip", "iproute2"), ("sysctl", "procps")];
const FLOODED: u16 = 7;
const OTHER: u16 = 9;
const FLOOD_PKTS: u64 = 5_000;

/// The other end of a veth pair, whose near end is `gd0` with addresses of both families.
struct Bench {
    far: Place,
    /// Whether datagrams come to an address of IPv6.
    is_v6: bool,
}

/// Runs a test at a veth pair in namespaces of their own, for each family.
fn at_veth(test: fn(&Bench)) {
    at_veth_with(&[], test);
}

/// Runs a test that needs further programs.
fn at_veth_with(programs: &'static [Program], test: fn(&Bench)) {
    for is_v6 in [false, true] {
        in_namespace(&[&PROGRAMS, programs], move || {
            if !has_xdp() {
                return;
            }
            let far = Place::new();
            let here = std::fs::read_link("/proc/thread-self").unwrap();
            let here = format!("/proc/{}/ns/net", here.display());
            far.run(&format!("ip link add gd1 type veth peer name gd0 netns {here}"));
            let commands = |device: &str, host: u8| {
                [
                    format!("ip addr add 10.78.0.{host}/24 dev {device}"),
                    format!("ip addr add fd00:78::{host}/64 dev {device} nodad"),
                    format!("ip link set {device} up"),
                ]
            };
            commands("gd1", 2).iter().for_each(|command| _ = far.run(command));
            commands("gd0", 1).iter().for_each(|command| _ = run(command));
            test(&Bench { far, is_v6 });
        });
    }
}

impl Bench {
    fn near(&self, port: u16) -> (&'static str, u16) {
        (if self.is_v6 { "fd00:78::1" } else { "10.78.0.1" }, port)
    }

    /// Opens a socket. One of that port may be open for a moment still: a program that is being started by
    /// another test has it until then.
    fn bind(&self, port: u16) -> UdpSocket {
        let mut socket = None;
        wait_for("the port", || {
            socket = UdpSocket::bind(self.near(port)).ok();
            socket.is_some()
        });
        socket.unwrap()
    }

    /// Sends datagrams to a port from the other end, from as many sockets as are wanted.
    fn send(&self, port: u16, datagrams: u64, sockets: usize) {
        self.send_to(self.near(port), datagrams, sockets);
    }

    fn send_to(&self, to: (&'static str, u16), datagrams: u64, sockets: usize) {
        let from = if self.is_v6 { "[fd00:78::2]:0" } else { "10.78.0.2:0" };
        self.far.here(move || {
            let sockets: Vec<_> = (0..sockets).map(|_| UdpSocket::bind(from).unwrap()).collect();
            for number in 0..datagrams {
                sockets[number as usize % sockets.len()].send_to(&[7; 20], to).unwrap();
            }
        });
    }
}

/// Runs a script that sees the devices of this network namespace in `/sys`.
fn script(text: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("mount -t sysfs sysfs /sys && {text}")]);
    command
}

/// Returns the hardware address of the near end.
fn hardware() -> String {
    let shown = run("ip -j link show gd0");
    shown.split("\"address\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// A guard that runs in a process of its own.
struct Guard(Child);

impl Guard {
    fn start(options: &[&str]) -> Self {
        let arguments = [&["guard", "gd0", "--json"], options].concat();
        Self::attached(&mut command(&arguments))
    }

    /// Starts a guard that sees the devices of this network namespace in `/sys`.
    fn with_sys() -> Self {
        Self::attached(&mut script(&format!("exec {} guard gd0 --json", env!("CARGO_BIN_EXE_evenkeel"))))
    }

    fn attached(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the guard", || run("ip link show gd0").contains("prog/xdp"));
        Self(child)
    }

    /// Ends the guard. Returns its report.
    fn stop(mut self) -> Value {
        signal(&self.0, "INT");
        let printed = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        assert!(self.0.wait().unwrap().success());
        assert!(!run("ip link show gd0").contains("prog/xdp"), "it is detached");
        serde_json::from_str(&printed).unwrap()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It runs still if the test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns how many datagrams passed to a port, and how many were dropped.
fn account(report: &Value, port: u16) -> (u64, u64) {
    let [passed, dropped, answered] = account_of(report, "udp", port);
    assert_eq!(answered, 0, "{report}");
    (passed, dropped)
}

/// Returns how many packets passed to a port, were dropped, and were answered.
fn account_of(report: &Value, protocol: &str, port: u16) -> [u64; 3] {
    let ports = report["ports"].as_array().unwrap();
    let is_it = |account: &&Value| account["port"] == port && account["protocol"] == protocol;
    let Some(account) = ports.iter().find(is_it) else { return [0; 3] };
    ["passed", "dropped", "answered"].map(|what| account[what].as_u64().unwrap())
}

/// Returns how many packets for ports without a socket passed, and how many were dropped.
fn closed(report: &Value, protocol: &str) -> [u64; 2] {
    limited(report, &format!("{protocol}_closed"))
}

/// Returns how many packets of a kind that is limited passed, and how many were dropped.
fn limited(report: &Value, kind: &str) -> [u64; 2] {
    let Some(account) = report["limited"].as_array().unwrap().iter().find(|account| account["kind"] == kind)
    else {
        return [0; 2];
    };
    ["passed", "dropped"].map(|what| account[what].as_u64().unwrap())
}

/// Reads what a socket has. Returns how many datagrams that are.
fn drain(socket: &UdpSocket) -> u64 {
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    std::iter::from_fn(|| socket.recv(&mut [0; 100]).ok()).count() as u64
}

/// Returns how many datagrams the kernel dropped because the queue of a socket was full.
fn dropped_by_kernel() -> u64 {
    let of = |file: &str| -> u64 {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().skip(1).map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
    };
    of("/proc/thread-self/net/udp") + of("/proc/thread-self/net/udp6")
}

/// The queue of a socket that nobody reads fills; what comes then is dropped in front of the kernel, which
/// has nothing left to drop. Another socket gets all that comes for it.
#[test]
fn what_a_full_socket_cannot_take_is_dropped_in_front_of_the_kernel() {
    at_veth(|bench| {
        let (flooded, other) = (bench.bind(FLOODED), bench.bind(OTHER));
        let guard = Guard::start(&[]);
        for sockets in [1, 50] {
            bench.send(FLOODED, FLOOD_PKTS, sockets);
            bench.send(OTHER, 50, 1);
        }
        assert_eq!((drain(&other), dropped_by_kernel()), (100, 0));
        let held = drain(&flooded);
        bench.send(FLOODED, 50, 1);
        assert_eq!(drain(&flooded), 50, "there is room again");
        let report = guard.stop();
        assert!(held > 100 && held < FLOOD_PKTS / 2, "{held}");
        assert_eq!(account(&report, FLOODED), (held + 50, 2 * FLOOD_PKTS - held), "{report}");
        assert_eq!(account(&report, OTHER), (100, 0), "{report}");
    });
}

#[test]
fn a_dry_run_drops_nothing_and_says_what_it_would_have() {
    at_veth(|bench| {
        let flooded = bench.bind(FLOODED);
        let guard = Guard::start(&["--dry-run"]);
        bench.send(FLOODED, FLOOD_PKTS, 1);
        let report = guard.stop();
        let (passed, dropped) = account(&report, FLOODED);
        assert_eq!(passed + dropped, FLOOD_PKTS, "{report}");
        assert_eq!(drain(&flooded) + dropped_by_kernel(), FLOOD_PKTS);
        assert!(dropped > FLOOD_PKTS / 2 && dropped_by_kernel() > FLOOD_PKTS / 2, "{report}");
    });
}

/// Ports that are not named, and datagrams for no socket, are the kernel's business alone.
#[test]
fn other_ports_than_the_named_are_left_alone() {
    at_veth(|bench| {
        let _flooded = bench.bind(FLOODED);
        let guard = Guard::start(&["--port", &format!("{OTHER},53")]);
        bench.send(FLOODED, FLOOD_PKTS, 1);
        let report = guard.stop();
        assert_eq!((report["passed"].as_u64(), report["dropped"].as_u64()), (Some(0), Some(0)), "{report}");
        assert!(dropped_by_kernel() > FLOOD_PKTS / 2);
        // The kernel answers for a port without a socket.
        let guard = Guard::start(&[]);
        let (to, is_v6) = (bench.near(11), bench.is_v6);
        bench.far.here(move || {
            let socket = UdpSocket::bind(if is_v6 { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.connect(to).unwrap();
            socket.send(b"anybody?").unwrap();
            let refused = socket.recv(&mut [0; 10]).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        });
        let report = guard.stop();
        assert_eq!((&report["ports"], closed(&report, "udp")), (&Value::Array(Vec::new()), [1, 0]));
    });
}

/// Returns for how many datagrams the kernel has found no socket in this network namespace.
fn refused_by_kernel() -> u64 {
    let text = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let (v4, v6) = (text("snmp"), text("snmp6"));
    // The second number of the line of numbers, which follows that of names.
    let v4 = v4.lines().filter_map(|line| line.strip_prefix("Udp: ")).nth(1).unwrap();
    let v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6NoPorts")).unwrap();
    [v4.split_whitespace().nth(1).unwrap(), v6.trim()].map(|count| count.parse::<u64>().unwrap()).iter().sum()
}

/// The kernel refuses as many datagrams as the guard lets it. Once there is a socket, that gets them all.
#[test]
fn datagrams_for_no_socket_are_limited_once_the_kernel_has_refused_some() {
    at_veth(|bench| {
        let guard = Guard::start(&[]);
        bench.send(FLOODED, 3 * FLOOD_PKTS, 5);
        let socket = bench.bind(FLOODED);
        bench.send(FLOODED, 50, 1);
        assert_eq!(drain(&socket), 50);
        let report = guard.stop();
        let [passed, dropped] = closed(&report, "udp");
        assert_eq!(passed + dropped, 3 * FLOOD_PKTS, "{report}");
        assert_eq!(refused_by_kernel(), passed);
        assert!(dropped > FLOOD_PKTS, "{report}");
        assert_eq!(account(&report, FLOODED), (50, 0), "{report}");
    });
}

/// Ports that the kernel forwards have no socket here, and refuse nothing.
#[test]
fn ports_that_the_kernel_forwards_are_not_limited() {
    at_veth_with(&[("nft", "nftables")], |bench| {
        let (family, to) = if bench.is_v6 { ("ip6", "[fd00:78::1]") } else { ("ip", "10.78.0.1") };
        let (done, said) = attempt(&format!("nft add table {family} nat"));
        if !done {
            return skip("ports_that_the_kernel_forwards_are_not_limited", &said);
        }
        run(&format!("nft add chain {family} nat in {{ type nat hook prerouting priority -100 ; }}"));
        run(&format!("nft add rule {family} nat in udp dport {FLOODED} dnat to {to}:{OTHER}"));
        let guard = Guard::start(&[]);
        let socket = bench.bind(OTHER);
        for _ in 0..20 {
            bench.send(FLOODED, 100, 1);
            assert_eq!(drain(&socket), 100);
        }
        let report = guard.stop();
        assert_eq!(closed(&report, "udp"), [2_000, 0], "{report}");
    });
}

/// A socket is opened anew under a flood, as when a server restarts. It gets what it has room for.
#[test]
fn a_socket_that_takes_the_place_of_a_full_one_gets_its_own_room() {
    at_veth(|bench| {
        let guard = Guard::start(&[]);
        for _ in 0..5 {
            let socket = bench.bind(FLOODED);
            bench.send(FLOODED, FLOOD_PKTS, 3);
            let held = drain(&socket);
            assert!(held > 100, "{held}");
        }
        let report = guard.stop();
        assert!(account(&report, FLOODED).1 > 3 * FLOOD_PKTS, "{report}");
    });
}

/// A socket of any address would be found for datagrams in transit, too. Those are none of its business.
#[test]
fn only_datagrams_to_addresses_of_the_machine_are_judged() {
    at_veth(|bench| {
        let (any, further, cidr) = match bench.is_v6 {
            false => ("0.0.0.0", "10.78.0.9", "10.78.0.9/24"),
            true => ("::", "fd00:78::9", "fd00:78::9/64 nodad"),
        };
        let hardware = hardware();
        bench.far.run(&format!("ip neigh replace {further} lladdr {hardware} dev gd1"));
        let socket = UdpSocket::bind((any, FLOODED)).unwrap();
        let guard = Guard::start(&[]);
        bench.send_to((further, FLOODED), FLOOD_PKTS, 1);
        assert_eq!(guard.stop()["ports"], Value::Array(Vec::new()));
        assert_eq!(drain(&socket), 0);
        let guard = Guard::start(&[]);
        run(&format!("ip addr add {cidr} dev gd0"));
        // The guard learns of it a moment later.
        for _ in 0..20 {
            bench.send_to((further, FLOODED), FLOOD_PKTS / 10, 1);
            pause(Duration::from_millis(20));
        }
        let report = guard.stop();
        assert!(account(&report, FLOODED).1 > FLOOD_PKTS / 2, "{report}");
    });
}

/// Opens a socket that shares its port with others. If `peer` is given, it gets datagrams from there alone.
fn sharing(at: (&str, u16), peer: Option<(&str, u16)>) -> UdpSocket {
    let address: SocketAddr = (at.0.parse::<IpAddr>().unwrap(), at.1).into();
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    let socket = UdpSocket::from(socket);
    if let Some(peer) = peer {
        socket.connect(peer).unwrap();
    }
    socket
}

/// Sockets at one port have queues of their own: those of a group, and one that is connected to a peer.
#[test]
fn each_socket_at_a_port_is_judged_by_its_own_queue() {
    const PEER: u16 = 5_000;
    at_veth(|bench| {
        let (near, far) = (bench.near(FLOODED), if bench.is_v6 { "fd00:78::2" } else { "10.78.0.2" });
        let group = [(); 2].map(|()| sharing(near, None));
        let connected = sharing(near, Some((far, PEER)));
        let guard = Guard::start(&[]);
        // From one port, so all of them lead to one socket of the group.
        bench.send(FLOODED, FLOOD_PKTS, 1);
        // From many, so there are some for the other one, too.
        bench.send(FLOODED, 50, 50);
        bench.far.here(move || {
            let peer = UdpSocket::bind((far, PEER)).unwrap();
            (0..50).for_each(|_| _ = peer.send_to(&[5; 20], near).unwrap());
        });
        let report = guard.stop();
        assert_eq!(drain(&connected), 50, "{report}");
        let mut held = group.map(|socket| drain(&socket));
        held.sort_unstable();
        assert!((1..50).contains(&held[0]) && held[1] > 100, "{held:?}: {report}");
        let (passed, dropped) = account(&report, FLOODED);
        assert_eq!(
            (passed, dropped),
            (50 + held[0] + held[1], FLOOD_PKTS + 50 - held[0] - held[1]),
            "{report}"
        );
    });
}

/// The kernel charges a large datagram more than a small one.
#[test]
fn large_datagrams_do_not_overfill_a_queue() {
    at_veth(|bench| {
        let flooded = bench.bind(FLOODED);
        let guard = Guard::start(&[]);
        let (to, from) = (bench.near(FLOODED), if bench.is_v6 { "[::]:0" } else { "0.0.0.0:0" });
        bench.far.here(move || {
            let socket = UdpSocket::bind(from).unwrap();
            (0..FLOOD_PKTS).for_each(|_| _ = socket.send_to(&[7; 1_400], to).unwrap());
        });
        let report = guard.stop();
        assert_eq!(dropped_by_kernel(), 0, "{report}");
        assert_eq!(account(&report, FLOODED), (drain(&flooded), account(&report, FLOODED).1), "{report}");
    });
}

#[test]
fn a_killed_guard_leaves_nothing_and_a_second_one_is_refused() {
    at_veth(|_| {
        let mut guard = Guard::start(&[]);
        let second = command(&["guard", "gd0"]).output().unwrap();
        let said = String::from_utf8(second.stderr).unwrap();
        assert!(second.status.code() == Some(1) && said.contains("in use by another program"), "{said}");
        guard.0.kill().unwrap();
        guard.0.wait().unwrap();
        wait_for("the end of the guard", || !run("ip link show gd0").contains("prog/xdp"));
        assert!(attempt("ip link del gd0").0);
        let none = command(&["guard", "gd0"]).output().unwrap();
        assert_eq!(none.status.code(), Some(1), "{}", String::from_utf8_lossy(&none.stderr));
    });
}
