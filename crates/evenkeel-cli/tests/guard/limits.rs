//! Kinds of packets that the kernel gets only so often: segments of no connection, and requests for an echo.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel_testing::attempt;

use super::tcp::{CLOSED, SERVED, kernel, listen, segment};
use super::{Bench, Guard, account_of, at_veth, at_veth_with, limited};

const STRAYS: u64 = 20_000;
const ECHOES: u64 = 20_000;

/// Sends a connection's bytes back until its other end closes it.
fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 1_000];
    while let Ok(len @ 1..) = stream.read(&mut bytes) {
        stream.write_all(&bytes[..len]).unwrap();
    }
}

impl Bench {
    fn send_strays(&self, port: u16) {
        // An ACK, a SYN with an ACK, and an ACK that ends what there is not.
        self.send_packets(STRAYS, move |number| {
            segment(number, port, [0x10, 0x12, 0x11][number as usize % 3], &[])
        });
    }

    fn send_echoes(&self) {
        let (protocol, kind) = if self.is_v6 { (58, 128) } else { (1, 8) };
        self.send_packets(ECHOES, move |number| {
            let message = [kind, 0, 0, 0, 0, 7, (number >> 8) as u8, number as u8];
            (protocol, message.to_vec(), 2)
        });
    }

    /// Asks a connection, over and over, until a flood that this thread sends is over.
    fn converse_during(&self, flood: impl FnOnce()) -> u64 {
        let (to, is_over) = (self.near(SERVED), Arc::new(AtomicBool::new(false)));
        let client = self.far.here({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut stream = TcpStream::connect(to).unwrap();
                // A thread stays in the namespace in which it is started.
                thread::spawn(move || {
                    let mut answers = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        let asked = answers.to_be_bytes();
                        stream.write_all(&asked).unwrap();
                        let mut answer = [0; 8];
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(answer, asked);
                        answers += 1;
                    }
                    answers
                })
            }
        });
        flood();
        is_over.store(true, Ordering::Relaxed);
        client.join().unwrap()
    }
}

/// The kernel answers as many strays by a reset as the guard lets it, at a port with a listener and at one
/// without. A connection goes on meanwhile, and another one is opened.
#[test]
fn segments_of_no_connection_are_limited_and_connections_go_on() {
    at_veth(|bench| {
        bench.route_flood();
        let guard = Guard::start(&[]);
        let listener = listen(bench);
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || echo(stream.unwrap()));
            }
        });
        let answers = bench.converse_during(|| {
            bench.send_strays(SERVED);
            bench.converse_during(|| bench.send_strays(CLOSED));
        });
        assert!(answers > 0);
        let report = guard.stop();
        let [passed, dropped] = limited(&report, "tcp_stray");
        let resets = kernel("OutRsts");
        // Before the kernel had refused some, nobody counted.
        assert!(resets > passed && resets + dropped == 2 * STRAYS, "{resets}: {report}");
        assert!(dropped > STRAYS / 2, "{report}");
        assert_eq!(account_of(&report, "tcp", SERVED), [2, 0, 0], "{report}");
    });
}

/// The kernel answers as many requests as the guard lets it, and then again those of others.
#[test]
fn requests_for_an_echo_are_limited() {
    at_veth_with(&[("ping", "iputils-ping")], |bench| {
        bench.route_flood();
        let guard = Guard::start(&[]);
        bench.send_echoes();
        let to = bench.near(0).0;
        let (answered, said) = bench.far.here(move || attempt(&format!("ping -c 3 -i 0.1 -W 5 {to}")));
        assert!(answered && said.contains("3 received"), "{said}");
        let report = guard.stop();
        let [passed, dropped] = limited(&report, "echo");
        assert_eq!(passed + dropped, ECHOES + 3, "{report}");
        assert!(dropped > 0, "{report}");
        let requests = if bench.is_v6 { "Icmp6InEchos" } else { "InEchos" };
        assert_eq!(kernel(requests), passed, "{report}");
    });
}
