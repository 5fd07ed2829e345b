//! The kernel's clients, over a TAP in a network namespace. Needs root; says aloud if it is skipped.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use evenkeel::Engine;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel_testing::{Program, attempt, run, words};

use super::{dns, epoll, tcp_echo, three, udp_echo};

const PROGRAMS: [Program; 5] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("nc", "netcat-openbsd"),
    ("socat", "socat"),
    ("dig", "bind9-dnsutils"),
];

/// Runs an example's `serve` on a thread of its own, and `ask` once it answers.
fn beside(serve: impl FnOnce(Engine, Instant) + Send + 'static, ask: impl FnOnce() + Send + 'static) {
    evenkeel_testing::in_namespace(&[&PROGRAMS], || {
        run("ip tuntap add keel0 mode tap");
        run("ip addr add 10.77.0.1/24 dev keel0");
        run("ip link set keel0 up");
        // In the namespace, as this thread is. It goes on until its time is up; nobody waits for that.
        thread::spawn(|| {
            let engine = Engine::open("tap:keel0", "10.77.0.2/24").unwrap();
            let until = engine.clock().now() + Duration::from_secs(60);
            serve(engine, until);
        });
        let reached = (0..50).any(|_| attempt("ping -c 1 -W 1 10.77.0.2").0);
        assert!(reached, "nobody is there");
        ask();
    });
}

/// The exit status of `timeout` if it had to end the command.
const TIMED_OUT: i32 = 124;

/// Runs a client command with `input` and then end-of-file as its standard input. Returns its standard
/// output.
fn client(command: &str, input: &[u8]) -> Vec<u8> {
    let mut command = words(&format!("timeout 30 {command}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, input) = (child.stdin.take().unwrap(), input.to_vec());
    // What it does not take it need not: the answer shows that.
    let writing = thread::spawn(move || _ = to.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert_ne!(output.status.code(), Some(TIMED_OUT), "it waits for an end that does not come");
    output.stdout
}

/// Datagrams may be lost on the way to a program that has just been started.
fn until_heard(command: &str, input: &[u8], heard: impl Fn(&[u8]) -> bool) {
    let heard = (0..10).any(|_| heard(&client(command, input)));
    assert!(heard, "{command}: no answer");
}

#[test]
fn udp_echo_answers_nc_and_socat() {
    beside(
        |engine, until| udp_echo::serve(engine, until).unwrap(),
        || {
            until_heard("nc -u -w 1 10.77.0.2 7", b"by nc", |answer| answer == b"by nc");
            let long = [b'x'; 1_400];
            until_heard("socat -t 1 - UDP:10.77.0.2:7", &long, |answer| answer == long);
        },
    );
}

#[test]
fn tcp_echo_answers_nc_and_socat() {
    beside(
        |engine, until| tcp_echo::serve(engine, until).unwrap(),
        || {
            let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
            assert!(client("nc -N 10.77.0.2 7", &sent) == sent, "nc");
            assert!(client("socat -t 60 - TCP:10.77.0.2:7", &sent) == sent, "socat");
        },
    );
}

#[test]
fn dns_answers_dig() {
    beside(
        |engine, until| dns::serve(engine, until).unwrap(),
        || {
            let dig = |question: &str| run(&format!("dig +time=2 +tries=5 @10.77.0.2 {question}"));
            assert_eq!(dig("+short example.com A"), "192.0.2.1\n");
            let other = dig("example.com AAAA");
            assert!(other.contains("status: NOERROR") && other.contains("ANSWER: 0"), "{other}");
            assert!(!other.contains("extra bytes"), "{other}");
            assert!(dig("+noedns -x 192.0.2.7").contains("ANSWER: 0"));
        },
    );
}

/// `dig` takes an answer only from the address that it has asked; `nc` connects its socket.
#[test]
fn every_address_of_a_host_answers_for_itself() {
    const MORE: [&str; 3] = ["10.77.0.5/24", "fd77::5/64", "fd77::6/64"];
    let (say, said) = mpsc::channel();
    beside(
        move |mut engine, until| {
            let now = engine.clock().now();
            for address in MORE {
                let cidr = address.parse().unwrap();
                engine.host_mut().add_address(InterfaceId::default(), cidr, now);
            }
            let hardware = engine.host().interfaces().next().unwrap().properties().address;
            say.send(hardware.0).unwrap();
            dns::serve(engine, until).unwrap();
        },
        move || {
            run("ip addr add fd77::1/64 dev keel0 nodad");
            let [a, b, c, d, e, f] = said.recv().unwrap();
            let link_local =
                format!("fe80::{:x}:{:x}ff:fe{d:02x}:{e:x}{f:02x}%keel0", u16::from_be_bytes([a ^ 2, b]), c);
            for address in ["10.77.0.2", "10.77.0.5", "fd77::5", "fd77::6", &link_local] {
                let answer = run(&format!("dig +time=2 +tries=5 +short @{address} example.com A"));
                assert_eq!(answer, "192.0.2.1\n", "{address}");
            }
        },
    );
}

#[test]
fn three_hears_of_all_of_them() {
    let (say, said) = mpsc::channel();
    beside(
        move |engine, until| three::serve(engine, until, |port| say.send(port).unwrap()).unwrap(),
        move || {
            for (command, port) in [
                ("nc -u -w 1 10.77.0.2 1002", 1002),
                ("nc -N -w 1 10.77.0.2 1003", 1003),
                ("nc -u -w 1 10.77.0.2 1001", 1001),
            ] {
                until_heard(command, b"x", |_| said.try_iter().any(|came| came == port));
            }
        },
    );
}

#[test]
fn an_event_loop_answers_nc() {
    let (near, far) = UnixStream::pair().unwrap();
    beside(
        move |engine, until| _ = epoll::serve(engine, far, until).unwrap(),
        move || {
            until_heard("nc -u -w 1 10.77.0.2 7", b"by nc", |answer| answer == b"by nc");
            drop(near);
        },
    );
}
