//! Commands on AF_XDP that are killed, started twice, or started where memory is short. Needs root; reports
//! if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{command, signal};
use evenkeel_testing::{Place, Program, Running, attempt, has_xdp, in_namespace, run, wait_for};

const PROGRAMS: [Program; 3] = [("ip", "iproute2"), ("ping", "iputils-ping"), ("setpriv", "util-linux")];
const ECHO: [&str; 7] =
    ["echo", "xdp:ek0", "--address", "10.77.0.2/24", "--architecture", "ni-lrp", "--json"];

/// Runs `test` at a veth pair whose one end is the kernel's.
fn at_veth(test: impl FnOnce() + Send + 'static) {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        run("ip link add kernel0 type veth peer name ek0");
        run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1 net.ipv6.conf.kernel0.disable_ipv6=1");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        test();
    });
}

fn start(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the service answers.
fn converse() {
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    wait_for("an answer", || {
        let _ = socket.send_to(b"hello", "10.77.0.2:7");
        socket.recv(&mut [0; 10]).is_ok_and(|len| len == 5)
    });
}

/// A flood of a port from the kernel, which ends when this is dropped.
struct Flood {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Begins in the network namespace of the caller.
    fn start(port: u16) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let end = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let _ = socket.send_to(&[0; 100], ("10.77.0.2", port));
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns whether nothing of a command is left in the kernel: a program, a socket, promiscuity.
fn is_clean() -> bool {
    let device = run("ip -details link show ek0");
    let protocols = fs::read_to_string("/proc/thread-self/net/protocols").unwrap();
    let sockets = protocols.lines().find_map(|line| line.strip_prefix("XDP "));
    let is_unused = sockets.is_none_or(|line| line.split_whitespace().nth(1) == Some("0"));
    device.contains("promiscuity 0 ") && !device.contains("prog/xdp") && is_unused
}

#[test]
fn one_that_is_killed_under_flood_leaves_nothing_and_the_next_one_serves_at_once() {
    at_veth(|| {
        let flood = Flood::start(7);
        for _ in 0..5 {
            let mut echo = Running(start(&ECHO));
            converse();
            assert!(!is_clean());
            echo.0.kill().unwrap();
            echo.0.wait().unwrap();
        }
        drop(flood);
        wait_for("the end of what it had in the kernel", is_clean);
    });
}

/// Returns what a command prints that cannot start.
fn complaint(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_second_one_says_that_the_device_is_in_use_and_the_first_one_goes_on() {
    at_veth(|| {
        let first = Running(start(&ECHO));
        converse();
        let same = complaint(&mut command(&ECHO));
        assert!(same.starts_with("evenkeel: another evenkeel is ") && same.lines().count() == 1, "{same}");
        let random = complaint(&mut command(&[&ECHO[..], &["--mac", "random"]].concat()));
        assert!(
            random.starts_with("evenkeel: `ek0` is in use by another program: stop that one"),
            "{random}"
        );
        converse();
        drop(first);
    });
}

#[test]
fn memory_that_is_short_is_named_with_what_to_do() {
    at_veth(|| {
        if !attempt("setpriv --bounding-set=-ipc_lock true").0 {
            return common::skip("memory_that_is_short_is_named_with_what_to_do", "no setpriv");
        }
        let mut limited = Command::new("prlimit");
        limited.args(["--memlock=1048576", "setpriv", "--bounding-set=-ipc_lock"]);
        let said = complaint(limited.arg(env!("CARGO_BIN_EXE_evenkeel")).args(ECHO));
        assert!(said.contains("ulimit -l") && said.lines().count() == 1, "{said}");
        assert!(is_clean());
    });
}

#[test]
fn what_the_device_drops_is_in_the_report() {
    at_veth(|| {
        let echo = start(&ECHO);
        converse();
        let neighbour = run("ip neigh show 10.77.0.2");
        let ours = neighbour.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap();
        run(&format!("ip neigh add 10.77.0.9 lladdr {ours} dev kernel0"));
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        (0..5).for_each(|_| _ = socket.send_to(b"for another", "10.77.0.9:7").unwrap());
        converse();
        signal(&echo, "INT");
        let output = echo.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = common::report(&ECHO, output.stdout);
        assert_eq!(report["counters"]["conserved"], true, "{report}");
        let drop = &report["counters"]["drops"][0];
        assert_eq!((&drop["reason"], &drop["frames"]), (&"ip-not-local".into(), &5.into()), "{report}");
        assert_eq!(drop["place"], "demultiplexer on the interface");
    });
}

/// Packets that fill the MTU and may not be fragmented, datagrams, and a stream that comes back. The kernel
/// leaves checksums to an adaptor, or not.
#[test]
fn packets_of_a_large_mtu_are_answered() {
    for (mtu, offload) in [(3_000, "on"), (9_000, "on"), (9_000, "off")] {
        at_veth(move || {
            for name in ["kernel0", "ek0"] {
                run(&format!("ip link set {name} mtu {mtu}"));
            }
            if offload == "off" && !attempt("ethtool -K kernel0 tx off").0 {
                return common::skip("packets_of_a_large_mtu_are_answered", "no ethtool");
            }
            let echo = start(&ECHO);
            converse();
            let said = run(&format!("ping -M do -c 5 -i 0.05 -s {} -W 10 10.77.0.2", mtu - 28));
            assert!(said.contains(" 0% packet loss"), "{said}");
            let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // The largest packet in one frame, and one in fragments that fill the MTU.
            for len in [8, mtu - 28, 20_000] {
                let sent: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
                socket.send_to(&sent, "10.77.0.2:7").unwrap();
                let mut got = vec![0; 30_000];
                let got_len = socket.recv(&mut got).unwrap();
                assert!(got[..got_len] == sent, "{len} bytes came back as {got_len}");
            }
            let came_back = through_a_stream(32 << 20);
            assert!(came_back, "bytes of the stream have changed");
            signal(&echo, "INT");
            let output = echo.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let report = common::report(&ECHO, output.stdout);
            assert_eq!(report["counters"]["conserved"], true, "{report}");
            let frames = report["counters"]["received"].as_u64().unwrap();
            let fewest = (32 << 20) / (mtu as u64 - 52);
            assert!(frames < 3 * fewest, "the segments fill the MTU: {report}");
        });
    }
}

/// Sends so many bytes to the service and returns whether they come back as they were.
fn through_a_stream(bytes: usize) -> bool {
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 65_537) as u8 ^ (at >> 16) as u8).collect();
    let mut stream = TcpStream::connect("10.77.0.2:7").unwrap();
    let mut reader = stream.try_clone().unwrap();
    let receiver = thread::spawn(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        got
    });
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    receiver.join().unwrap() == sent
}

/// The kernel's address is served beside the kernel: pings are answered by the kernel, requests by the
/// command, which may be killed under flood.
#[test]
fn a_command_that_shares_the_kernels_addresses_leaves_the_kernel_its_own() {
    at_veth(|| {
        let far = Place::new();
        let there =
            far.here(|| format!("/proc/{}/ns/net", fs::read_link("/proc/thread-self").unwrap().display()));
        run(&format!("ip link set kernel0 netns {there}"));
        run("ip addr add 10.77.0.2/24 dev ek0");
        far.run("ip addr add 10.77.0.1/24 dev kernel0");
        far.run("ip link set kernel0 up");
        let theirs = UdpSocket::bind("10.77.0.2:53").unwrap();
        let echo = ["echo", "xdp:ek0,share", "--json"];
        let taken = complaint(&mut command(&[&echo[..], &["--port", "53"]].concat()));
        assert!(taken.contains("address and port are in use"), "{taken}");
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"]);
        unprivileged.arg(command(&[]).get_program()).args(echo);
        let refused = complaint(&mut unprivileged);
        assert!(refused.contains("give the program CAP_NET_BIND_SERVICE"), "{refused}");
        let flood = far.here(|| Flood::start(7));
        for _ in 0..3 {
            let mut echo = Running(start(&echo));
            far.here(|| {
                converse();
                assert!(attempt("ping -c 1 -W 5 10.77.0.2").0);
                UdpSocket::bind("10.77.0.1:0").unwrap().send_to(b"theirs", "10.77.0.2:53").unwrap();
            });
            assert_eq!(theirs.recv(&mut [0; 10]).unwrap(), 6);
            assert!(UdpSocket::bind("10.77.0.2:7").is_err(), "it is reserved");
            echo.0.kill().unwrap();
            echo.0.wait().unwrap();
            wait_for("the port", || UdpSocket::bind("10.77.0.2:7").is_ok());
        }
        drop(flood);
        wait_for("the end of what it had in the kernel", is_clean);
    });
}

/// Two hosts on two cores answer as one, also while one flow floods. What they did is in the report, of each
/// and of both. Nothing is left of them if they are killed.
#[test]
fn a_service_on_two_cores_answers_as_one() {
    let [first, second, ..] = evenkeel::raw::cpu::cpus()[..] else {
        return common::skip("a_service_on_two_cores_answers_as_one", "needs two processors");
    };
    at_veth(move || {
        let queues = "numrxqueues 2 numtxqueues 2";
        run("ip link del kernel0");
        run(&format!("ip link add kernel0 {queues} type veth peer name ek0 {queues}"));
        run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1 net.ipv6.conf.kernel0.disable_ipv6=1");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        let cores = format!("{first},{second}");
        let arguments = [&ECHO[..], &["--cores", &cores]].concat();
        let killed = Running(start(&arguments));
        converse();
        drop(killed);
        wait_for("the end of what it had in the kernel", is_clean);
        let echo = start(&arguments);
        converse();
        let flood = Flood::start(9);
        for _ in 0..32 {
            converse();
            let mut stream = TcpStream::connect("10.77.0.2:7").unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            std::io::Write::write_all(&mut stream, b"hello").unwrap();
            std::io::Read::read_exact(&mut stream, &mut [0; 5]).unwrap();
        }
        drop(flood);
        signal(&echo, "INT");
        let output = echo.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = common::report(&arguments, output.stdout);
        let [a, b] = &report["cores"].as_array().unwrap()[..] else { panic!("{report}") };
        for (part, core) in [(a, first), (b, second)] {
            assert_eq!(
                (&part["core"], &part["counters"]["conserved"]),
                (&core.into(), &true.into()),
                "{part}"
            );
            assert!(part["answers"].as_u64().unwrap() > 0 && part["streams"]["accepted"] != 0, "{part}");
        }
        let sum = |of: &dyn Fn(&serde_json::Value) -> u64| of(a) + of(b);
        let accepted = |of: &serde_json::Value| of["streams"]["accepted"].as_u64().unwrap();
        assert_eq!((sum(&accepted), accepted(&report)), (32, 32), "{report}");
        let answers = |of: &serde_json::Value| of["answers"].as_u64().unwrap();
        assert_eq!(sum(&answers), answers(&report), "{report}");
    });
}
