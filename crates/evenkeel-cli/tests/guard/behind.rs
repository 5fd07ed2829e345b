//! The guard on an interface whose XDP program is another's: that of a host of evenkeel, which shares the
//! interface with the kernel.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::time::Duration;

use evenkeel_testing::{run, wait_for};
use serde_json::{Value, json};

use crate::common::{command, signal};
use crate::{Bench, FLOOD_PKTS, FLOODED, OTHER, account, at_veth, closed, drain, dropped_by_kernel};
use crate::{refused_by_kernel, tcp};

/// The port that the host of evenkeel has taken from the kernel.
const TAKEN: u16 = 4_000;

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        Self(command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Reads its standard error until a line has the words.
    fn until(&mut self, words: &str) {
        let mut lines = BufReader::new(self.0.stderr.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(words)), "it ended before it said `{words}`");
    }

    /// Ends it. Returns its report.
    fn stop(mut self) -> Value {
        signal(&self.0, "INT");
        let printed = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(&printed).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It runs still if the test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a host that shares the near end with the kernel.
fn host() -> Running {
    let host = Running::start(&["echo", "xdp:gd0,share", "--port", &TAKEN.to_string(), "--json"]);
    wait_for("the host", || run("ip link show gd0").contains("prog/xdp"));
    host
}

/// Starts a guard behind the host's program.
fn guard(options: &[&str]) -> Running {
    let mut guard = Running::start(&[&["guard", "gd0", "--json"], options].concat());
    guard.until("gd0 has another XDP program: guarding behind it");
    guard
}

/// Asserts that the host answers.
fn assert_answers(bench: &Bench) {
    let (to, any) = (bench.near(TAKEN), if bench.is_v6 { "[::]:0" } else { "0.0.0.0:0" });
    bench.far.here(move || {
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.connect(to).unwrap();
        wait_for("the answer", || {
            socket.send(b"anybody?").unwrap();
            socket.recv(&mut [0; 10]).is_ok_and(|len| len == 8)
        });
    });
}

#[test]
fn behind_another_program_a_full_socket_loses_in_front_of_the_kernel() {
    at_veth(|bench| {
        let (flooded, other) = (bench.bind(FLOODED), bench.bind(OTHER));
        let host = host();
        let guard = guard(&[]);
        for sockets in [1, 50] {
            bench.send(FLOODED, FLOOD_PKTS, sockets);
            bench.send(OTHER, 50, 1);
        }
        assert_answers(bench);
        assert_eq!((drain(&other), dropped_by_kernel()), (100, 0));
        let held = drain(&flooded);
        let report = guard.stop();
        assert!(held > 100 && held < FLOOD_PKTS / 2, "{held}");
        assert_eq!(account(&report, FLOODED), (held, 2 * FLOOD_PKTS - held), "{report}");
        assert_eq!(account(&report, OTHER), (100, 0), "{report}");
        assert_eq!((&report["behind"], &report["mute"]), (&json!(["gd0"]), &json!(["gd0"])));
        assert_answers(bench);
        drop(host);
    });
}

/// The kernel answers SYNs, also when a listener is full of them.
#[test]
fn behind_another_program_syns_are_the_kernels() {
    at_veth(|bench| {
        bench.route_flood();
        let _host = host();
        let guard = guard(&[]);
        let served = tcp::serve(tcp::listen(bench), tcp::CLIENTS);
        bench.send_syns(tcp::SERVED, tcp::SYNS);
        bench.send_syns(tcp::CLOSED, tcp::SYNS);
        bench.connect(tcp::CLIENTS);
        served.join().unwrap();
        let report = guard.stop();
        let [passed, dropped, answered] = crate::account_of(&report, "tcp", tcp::SERVED);
        assert_eq!((passed, dropped, answered), (tcp::SYNS + tcp::CLIENTS, 0, 0), "{report}");
        let [passed, dropped] = closed(&report, "tcp");
        assert_eq!((passed, passed + dropped), (tcp::kernel("OutRsts"), tcp::SYNS), "{report}");
        assert!(dropped > 0, "{report}");
    });
}

/// A killed guard is gone; a dry run drops nothing; the host's program stays.
#[test]
fn behind_another_program_nothing_stays_of_a_killed_guard() {
    at_veth(|bench| {
        let _flooded = bench.bind(FLOODED);
        let _host = host();
        let mut killed = guard(&[]);
        let second = command(&["guard", "gd0"]).output().unwrap();
        let said = String::from_utf8(second.stderr).unwrap();
        assert!(second.status.code() == Some(1) && said.contains("in use by another program"), "{said}");
        bench.send(FLOODED, FLOOD_PKTS, 1);
        assert_eq!(dropped_by_kernel(), 0);
        killed.0.kill().unwrap();
        killed.0.wait().unwrap();
        wait_for("the end of the guard", || {
            bench.send(FLOODED, 100, 1);
            dropped_by_kernel() > 0
        });
        let (before, dry) = (dropped_by_kernel(), guard(&["--dry-run"]));
        bench.send(FLOODED, FLOOD_PKTS, 1);
        assert_eq!(dropped_by_kernel(), before + FLOOD_PKTS);
        assert_eq!(account(&dry.stop(), FLOODED), (0, FLOOD_PKTS));
        assert_eq!(refused_by_kernel(), 0);
        assert_answers(bench);
    });
}
