//! TCP on devices, as a user runs it, with the kernel and its programs as peers. Needs root; reports if it
//! is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, evenkeel, in_namespace, pause, run, signal, wait_for};
use evenkeel_testing::has_xdp;
use evenkeel_testing::uninterrupted;
use serde_json::Value;

/// The time that any step may take; none of these tests is about speed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running command, which is killed when the test ends in any way.
struct Running {
    command: String,
    child: Option<Child>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { command: arguments[0].to_owned(), child: Some(child) }
    }

    /// Interrupts the command, and returns the JSON that it prints. Asserts that it ends by itself with
    /// its counters balanced.
    fn interrupt(self) -> Value {
        signal(self.child.as_ref().unwrap(), "INT");
        let (status, result, said) = self.end();
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(result["counters"]["conserved"], true, "{result}");
        result
    }

    /// Waits until the command ends; returns its status, its JSON (`Null` if there is none), and its
    /// standard error.
    fn end(mut self) -> (Option<i32>, Value, String) {
        let mut child = self.child.take().unwrap();
        let ended = (0..1_200).any(|_| {
            child.try_wait().unwrap().is_some() || {
                pause();
                false
            }
        });
        if !ended {
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert!(ended, "it does not end: {}", String::from_utf8_lossy(&output.stderr));
        let result = match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(_) => common::report(&[&self.command], &output.stdout),
            Err(_) => Value::Null,
        };
        (output.status.code(), result, String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The options of a TAP with the kernel as the peer.
const TAP: [&str; 5] = ["tap:keel0", "--kernel-address", "10.77.0.1/24", "--kernel-address", "fd77::1/64"];

fn with<'a>(command: &'a str, link: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&[command], link, more].concat()
}

/// Creates a veth pair: `kernel0` with the kernel's addresses, and `ek0` for evenkeel.
fn veth() {
    run("ip link add kernel0 type veth peer name ek0");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip addr add fd77::1/64 dev kernel0 nodad");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
}

/// Connects to a service. One that has just started may answer pings before it listens.
fn connect(to: (&str, u16)) -> TcpStream {
    let refused = |attempt: &std::io::Result<TcpStream>| {
        attempt.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let mut attempts = (0..100).map(|_| {
        let attempt = TcpStream::connect(to);
        if refused(&attempt) {
            pause();
        }
        attempt
    });
    let stream = attempts.find(|attempt| !refused(attempt)).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Runs a command of the shell to its end; returns its standard output.
fn shell(line: &str) -> String {
    let output = Command::new("timeout").args(["60", "sh", "-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_kernels_programs_talk_to_echo_on_a_tap() {
    in_namespace("the_kernels_programs_talk_to_echo_on_a_tap", || {
        let echo = Running::start(&with("echo", &TAP, &["--tcp", "--json", "--connections"]));
        wait_for("ping -c 1 -w 1 10.77.0.2");
        wait_for("ping -c 1 -w 1 fd77::2");
        for address in ["10.77.0.2", "fd77::2"] {
            // nc closes its direction (half-close), and still receives the rest.
            assert_eq!(shell(&format!("echo hello | nc -N {address} 7")), "hello\n");
            let sent = shell("seq 1 300000 | sha256sum");
            let target = if address.contains(':') {
                format!("TCP6:[{address}]:7")
            } else {
                format!("TCP4:{address}:7")
            };
            assert_eq!(shell(&format!("seq 1 300000 | socat -t 30 - {target} | sha256sum")), sent);
        }
        // One connection is reset, and one stays open to the end. To close the first would not do: a program
        // that another test is just starting may have its descriptor for a moment more.
        let mut reset = connect(("10.77.0.2", 7));
        reset.write_all(&[1; 100_000]).unwrap();
        pause();
        rustix::net::connect_unspec(&reset).unwrap();
        let mut open = connect(("fd77::2", 7));
        open.write_all(b"still here").unwrap();
        let mut heard = [0; 10];
        open.read_exact(&mut heard).unwrap();
        assert_eq!(heard, *b"still here");
        let result = echo.interrupt();
        assert_eq!((&result["accepted"], &result["open"]), (&6.into(), &1.into()), "{result}");
        assert_eq!(result["failed"], 1, "{result}");
        let connection = &result["connections"][0];
        assert_eq!((&connection["state"], &connection["bytes_in"]), (&"ESTABLISHED".into(), &10.into()));
        assert_eq!(connection["local"], "[fd77::2]:7", "{result}");
        // The peer received the end of the stream.
        assert_eq!(uninterrupted(|| open.read(&mut heard)).unwrap(), 0);
    });
}

#[test]
fn a_peer_that_does_not_read_is_stopped_and_others_are_not() {
    in_namespace("a_peer_that_does_not_read_is_stopped_and_others_are_not", || {
        veth();
        let echo = Running::start(&["echo", "packet:ek0", "--tcp", "--json", "--connections"]);
        wait_for("ping -c 1 -w 1 10.77.0.2");
        let mut deaf = connect(("10.77.0.2", 7));
        deaf.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut written = 0;
        let stopped = loop {
            match uninterrupted(|| deaf.write(&[7; 65_536])) {
                Ok(bytes) => written += bytes,
                Err(error) => break error.kind(),
            }
            assert!(written < 1 << 30, "nobody stops it");
        };
        assert!(matches!(stopped, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{stopped:?}");
        assert_eq!(shell("echo hello | nc -N 10.77.0.2 7"), "hello\n");
        // The stream continues where it stopped.
        deaf.shutdown(Shutdown::Write).unwrap();
        let (mut back, mut buffer) = (0, vec![0; 65_536]);
        loop {
            let read = uninterrupted(|| deaf.read(&mut buffer)).unwrap();
            if read == 0 {
                break;
            }
            assert!(buffer[..read].iter().all(|byte| *byte == 7));
            back += read;
        }
        assert_eq!(back, written);
        let result = echo.interrupt();
        assert_eq!((&result["accepted"], &result["failed"]), (&2.into(), &0.into()), "{result}");
    });
}

#[test]
fn send_reaches_the_kernel_over_a_network_interface() {
    in_namespace("send_reaches_the_kernel_over_a_network_interface", || {
        send_reaches_the_kernel("packet:ek0")
    });
}

#[test]
fn send_reaches_the_kernel_over_af_xdp() {
    in_namespace("send_reaches_the_kernel_over_af_xdp", || {
        if has_xdp() {
            send_reaches_the_kernel("xdp:ek0");
        }
    });
}

fn send_reaches_the_kernel(link: &str) {
    veth();
    for (to, from) in [("10.77.0.1", "10.77.0.2/24"), ("fd77::1", "fd77::2/64")] {
        let listener = TcpListener::bind((to, 0)).unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let arguments = ["send", link, "--to", &target, "--from", from, "--bytes", "5M", "--json"];
        let send = Running::start(&arguments);
        let (mut peer, _) = listener.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        // The peer continues after our end: its direction is open.
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        peer.write_all(&all[..1_000]).unwrap();
        drop(peer);
        let (status, result, said) = send.end();
        assert_eq!((status, all.len()), (Some(0), 5_000_000), "{said}");
        assert_eq!((&result["complete"], &result["as_sent"]), (&true.into(), &true.into()), "{result}");
        assert_eq!(result["bytes_in"], 1_000, "{result}");
        assert_eq!(result["counters"]["conserved"], true, "{result}");
    }
}

#[test]
fn what_stands_in_the_way_of_a_connection_is_said_in_a_line() {
    in_namespace("what_stands_in_the_way_of_a_connection_is_said_in_a_line", || {
        veth();
        wait_for("ip link show ek0 up");
        let complaint = |to: &str| {
            let (status, _, said) = Running::start(&["send", "packet:ek0", "--to", to, "--bytes", "5"]).end();
            assert_eq!(status, Some(1), "{said}");
            said
        };
        assert_eq!(complaint("10.77.0.1:9"), "evenkeel: 10.77.0.1:9: connection refused\n");
        assert_eq!(complaint("192.0.2.1:9"), "evenkeel: 192.0.2.1:9: no route to the destination\n");
    });
}

/// Runs `send` to a peer that does not answer; returns its standard error and its result. Asserts that no
/// byte counts as sent.
fn send_in_vain(to: &str, more: &[&str]) -> (String, Value) {
    let fixed = ["send", "packet:ek0", "--to", to, "--bytes", "65536", "--json"];
    let (status, result, said) = Running::start(&[&fixed[..], more].concat()).end();
    assert_eq!((status, &result["connected"]), (Some(1), &false.into()), "{said}");
    assert_eq!((&result["bytes_acked"], &result["bytes_in"]), (&0.into(), &0.into()), "{result}");
    (said, result)
}

fn assert_does_not_answer(who: &str, to: &str, (said, result): &(String, Value)) {
    let complaint = format!("evenkeel: {to}: no connection: {who} does not answer on this link\n");
    assert_eq!(*said, complaint, "{result}");
}

#[test]
fn send_to_nobody_says_who_does_not_answer() {
    in_namespace("send_to_nobody_says_who_does_not_answer", || {
        veth();
        wait_for("ip link show ek0 up");
        let told = send_in_vain("10.77.0.9:9", &[]);
        assert_does_not_answer("10.77.0.9", "10.77.0.9:9", &told);
        assert!((2.5..20.0).contains(&told.1["seconds"].as_f64().unwrap()), "{told:?}");
    });
}

#[test]
fn send_by_a_gateway_that_is_not_there_says_so() {
    in_namespace("send_by_a_gateway_that_is_not_there_says_so", || {
        veth();
        wait_for("ip link show ek0 up");
        let told = send_in_vain("192.0.2.1:9", &["--gateway", "10.77.0.8"]);
        assert_does_not_answer("10.77.0.8", "192.0.2.1:9", &told);
    });
}

#[test]
fn send_to_nobody_by_ipv6_says_who_does_not_answer() {
    in_namespace("send_to_nobody_by_ipv6_says_who_does_not_answer", || {
        veth();
        wait_for("ip link show ek0 up");
        let told = send_in_vain("[fd77::9]:9", &["--from", "fd77::2/64"]);
        assert_does_not_answer("fd77::9", "[fd77::9]:9", &told);
    });
}

/// The time of the run is over before it is known that the peer does not answer.
#[test]
fn send_that_got_no_answer_in_time_says_so() {
    in_namespace("send_that_got_no_answer_in_time_says_so", || {
        veth();
        wait_for("ip link show ek0 up");
        let (said, _) = send_in_vain("10.77.0.9:9", &["--duration", "500ms"]);
        assert!(said.contains("no connection so far"), "{said}");
        // This peer is on the link, but its answers go elsewhere.
        run("ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 dev kernel0 nud permanent");
        let (said, result) = send_in_vain("10.77.0.1:9", &["--connect-timeout", "1s"]);
        assert_eq!(said, "evenkeel: 10.77.0.1:9: connection timed out\n", "{result}");
        assert!(result["seconds"].as_f64().unwrap() < 30.0, "{result}");
        // The report does not count bytes that were not acknowledged.
        let plain = ["send", "packet:ek0", "--to", "10.77.0.9:9", "--bytes", "65536", "--duration", "1s"];
        let told = String::from_utf8(evenkeel(&plain).stdout).unwrap();
        assert!(told.contains("nothing in or out") && told.contains("not acknowledged"), "{told}");
    });
}

#[test]
fn a_peer_that_resets_is_told_of() {
    in_namespace("a_peer_that_resets_is_told_of", || {
        veth();
        let listener = TcpListener::bind(("10.77.0.1", 0)).unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let send = Running::start(&["send", "packet:ek0", "--to", &target, "--bytes", "1G", "--json"]);
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_exact(&mut [0; 1_000]).unwrap();
        // The kernel resets a connection that is closed with unread bytes.
        drop(peer);
        let (status, result, said) = send.end();
        assert_eq!((status, said), (Some(1), format!("evenkeel: {target}: connection reset by peer\n")));
        assert_eq!((&result["complete"], &result["connected"]), (&false.into(), &true.into()), "{result}");
    });
}

#[test]
fn curl_fetches_a_document_again_and_again_over_one_connection() {
    in_namespace("curl_fetches_a_document_again_and_again_over_one_connection", || {
        let http = Running::start(&with("http", &TAP, &["--size", "3M", "--json"]));
        wait_for("ping -c 1 -w 1 10.77.0.2");
        wait_for("ping -c 1 -w 1 fd77::2");
        let got = shell(
            "curl -s -S http://10.77.0.2/ -w '%{size_download} %{num_connects}\\n' -o /dev/null \
             http://10.77.0.2/ -o /dev/null",
        );
        assert_eq!(got, "3000000 1\n3000000 0\n");
        let hashes = shell("for i in 1 2 3; do curl -s -S -g 'http://[fd77::2]/' | sha256sum & done; wait");
        let different: std::collections::BTreeSet<_> = hashes.lines().collect();
        assert_eq!((hashes.lines().count(), different.len()), (3, 1), "{hashes}");
        let result = http.interrupt();
        assert_eq!((&result["requests"], &result["accepted"]), (&5.into(), &4.into()), "{result}");
    });
}

/// The server closes clients that send nothing, that send a byte at a time, or that do not read the
/// answer; it does not close one that reads slowly.
#[test]
fn clients_that_take_too_long_are_closed_and_slow_ones_are_not() {
    in_namespace("clients_that_take_too_long_are_closed_and_slow_ones_are_not", || {
        let arguments = with("http", &TAP, &["--size", "60M", "--timeout", "1s", "--json"]);
        let http = Running::start(&arguments);
        wait_for("ping -c 1 -w 1 10.77.0.2");
        let (mut idle, mut drip, mut deaf) =
            (connect(("10.77.0.2", 80)), connect(("10.77.0.2", 80)), connect(("10.77.0.2", 80)));
        deaf.write_all(b"GET / HTTP/1.1\r\nHost: deaf\r\n\r\n").unwrap();
        let dripping = std::thread::spawn(move || {
            drip.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            drip.write_all(b"GET / HTTP/1.1\r\nDrip: ").unwrap();
            let mut said = [0; 1_000];
            for _ in 0..600 {
                match drip.read(&mut said) {
                    Ok(len) => return String::from_utf8_lossy(&said[..len]).into_owned(),
                    Err(_) => drop(drip.write_all(b"x")),
                }
            }
            String::new()
        });
        // It asks for no more: on a slow machine a connection that stays open is idle for too long before
        // curl has read what the kernel keeps for it.
        let slow = "curl -s -S --limit-rate 20M -H 'Connection: close' http://10.77.0.2/ | wc -c";
        assert_eq!(shell(slow).trim(), "60000000");
        assert_eq!(uninterrupted(|| idle.read(&mut [0; 9])).unwrap(), 0, "closed, and nothing said");
        let said = dripping.join().unwrap();
        assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("\r\nDate: "), "{said}");
        let mut all = Vec::new();
        let cut_off = uninterrupted(|| deaf.read_to_end(&mut all)).unwrap_err();
        assert_eq!(cut_off.kind(), ErrorKind::ConnectionReset, "after {} bytes", all.len());
        // The server has closed a connection when the kernel has its FIN, too.
        drop((idle, deaf));
        let open = "ss -Htn state synchronized exclude time-wait dst 10.77.0.2";
        evenkeel_testing::wait_for("the end of all connections", || shell(open).is_empty());
        let result = http.interrupt();
        assert_eq!((&result["timed_out"], &result["accepted"]), (&3.into(), &4.into()), "{result}");
        assert_eq!(result["open"], 0, "{result}");
    });
}

/// One process serves both protocols on one port, as a service of inetd does (RFC 862).
#[test]
fn one_process_serves_udp_and_tcp() {
    in_namespace("one_process_serves_udp_and_tcp", || {
        for command in ["echo", "sink"] {
            let service = Running::start(&with(command, &TAP, &["--port", "7", "--json"]));
            wait_for("ping -c 1 -w 1 10.77.0.2");
            let mut expected = if command == "echo" { "hello\n" } else { "" };
            let (mut stream, mut over_tcp) = (connect(("10.77.0.2", 7)), String::new());
            stream.write_all(b"hello\n").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            uninterrupted(|| stream.read_to_string(&mut over_tcp)).unwrap();
            assert_eq!(over_tcp, expected, "{command} over TCP");
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"hello\n", "10.77.0.2:7").unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(if command == "echo" { 20 } else { 1 })))
                .unwrap();
            let mut over_udp = [0; 9];
            if let Ok(len) = uninterrupted(|| socket.recv(&mut over_udp)) {
                assert_eq!(&over_udp[..len], expected.as_bytes(), "{command} over UDP");
                expected = "";
            }
            assert_eq!(expected, "", "{command} over UDP: no answer");
            signal(service.child.as_ref().unwrap(), "INT");
            let (status, result, said) = service.end();
            assert_eq!(status, Some(0), "{said}");
            let listening =
                "evenkeel: listening on UDP and TCP port 7 of 10.77.0.2 and fd77::2, at tap:keel0\n";
            assert_eq!(said, listening);
            assert_eq!(
                (&result["protocol"], &result["requests"]),
                (&"udp+tcp".into(), &1.into()),
                "{result}"
            );
            let streams = &result["streams"];
            assert_eq!((&streams["accepted"], &streams["bytes_in"]), (&1.into(), &6.into()), "{result}");
        }
    });
}
