//! Tests that the examples work as described.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::UdpSocket;
use std::thread;

use evenkeel_timers::Duration;
use evenkeel_wan::Ratio;

#[path = "../examples/slow_udp.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod slow_udp;

/// Returns a socket of this machine, and its address.
fn socket() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is about real time")]
fn datagrams_arrive_in_order_and_never_early() {
    const COUNT: u8 = 5;
    let (sender, _) = socket();
    let (from, entrance) = socket();
    let (receiver, exit) = socket();
    let (to, _) = socket();
    to.connect(exit).unwrap();
    let forwards = thread::spawn(move || {
        slow_udp::forward(&from, &to, slow_udp::link(Ratio::ZERO), COUNT.into()).unwrap();
    });
    let start = std::time::Instant::now();
    for number in 0..COUNT {
        sender.send_to(&[number; 1_250], &entrance).unwrap();
    }
    let mut buffer = [0; 2_000];
    receiver.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for number in 0..COUNT {
        assert_eq!((receiver.recv(&mut buffer).unwrap(), buffer[0]), (1_250, number));
        // 10 ms for each to leave, and the delay.
        assert!(start.elapsed() >= Duration::from_millis(50 + 10 * (u64::from(number) + 1)), "{number}");
    }
    forwards.join().unwrap();
}
