//! Faults of a machine while the guard runs: many sockets, sockets that come and go, an interface that
//! goes down. Nothing is dropped for which there is room.

use std::net::UdpSocket;
use std::time::Duration;

use evenkeel::raw::kernel::allow_descriptors;
use evenkeel_testing::{pause, run, wait_for};

use crate::{Bench, FLOOD_PKTS, FLOODED, Guard, account, at_veth, closed, drain};

/// Opens a socket at the other end, which any thread may use.
fn far_socket(bench: &Bench) -> UdpSocket {
    let any = if bench.is_v6 { "[::]:0" } else { "0.0.0.0:0" };
    bench.far.here(move || UdpSocket::bind(any).unwrap())
}

/// Reads so many datagrams from a socket, or until none has come for a moment. Returns how many those were.
fn receive(socket: &UdpSocket, datagrams: u64) -> u64 {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    (0..datagrams).take_while(|_| socket.recv(&mut [0; 100]).is_ok()).count() as u64
}

/// Sends datagrams, all from one socket.
fn send(from: &UdpSocket, bench: &Bench, port: u16, datagrams: u64) {
    (0..datagrams).for_each(|_| _ = from.send_to(&[7; 20], bench.near(port)).unwrap());
}

#[test]
fn ten_thousand_sockets_get_theirs_next_to_a_flood() {
    const SOCKETS: u16 = 10_000;
    const FIRST: u16 = 20_000;
    at_veth(|bench| {
        let descriptors = u64::from(SOCKETS) + 1_000;
        assert!(allow_descriptors(descriptors) >= descriptors, "root may have as many");
        let _flooded = bench.bind(FLOODED);
        let sockets: Vec<_> = (0..SOCKETS).map(|number| bench.bind(FIRST + number)).collect();
        let guard = Guard::start(&[]);
        let from = far_socket(bench);
        for number in 0..SOCKETS {
            send(&from, bench, FLOODED, 3);
            send(&from, bench, FIRST + number, 1);
        }
        for socket in &sockets {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.recv(&mut [0; 100]).unwrap();
        }
        let report = guard.stop();
        assert_eq!(report["ports"].as_array().unwrap().len(), usize::from(SOCKETS) + 1);
        assert!(account(&report, FLOODED).1 > 2 * u64::from(SOCKETS), "{}", report["dropped"]);
        assert_eq!(account(&report, FIRST), (1, 0));
    });
}

/// A server restarts while its queue is full. What the guard knew of the old socket does not hurt the new
/// one, to which the same flow leads.
#[test]
fn a_new_socket_gets_all_though_the_old_one_was_full_a_moment_ago() {
    const RESTARTS: u64 = 1_000;
    const FEW: u64 = 20;
    at_veth(|bench| {
        let guard = Guard::start(&[]);
        let from = far_socket(bench);
        let mut missed = Vec::new();
        for restart in 0..RESTARTS {
            let old = bench.bind(FLOODED);
            send(&from, bench, FLOODED, 500);
            drop(old);
            let new = bench.bind(FLOODED);
            // It may have the memory of the old one, and the guard looks at a full one again after 20 µs.
            pause(Duration::from_micros(50));
            send(&from, bench, FLOODED, FEW);
            let got = receive(&new, FEW);
            if got < FEW {
                missed.push((restart, got));
            }
        }
        let report = guard.stop();
        assert!(account(&report, FLOODED).1 > RESTARTS * 100, "{report}");
        assert!(missed.is_empty(), "{} of {RESTARTS}: {:?}", missed.len(), missed.first());
        assert_eq!(closed(&report, "udp"), [0, 0], "{report}");
    });
}

#[test]
fn an_interface_that_was_down_is_guarded_again() {
    at_veth(|bench| {
        let flooded = bench.bind(FLOODED);
        let guard = Guard::start(&[]);
        for _ in 0..3 {
            run("ip link set gd0 down");
            run("ip link set gd0 up");
            if bench.is_v6 {
                // The kernel removes these with the interface.
                run("ip addr replace fd00:78::1/64 dev gd0 nodad");
            }
            wait_for("the first datagram", || {
                bench.send(FLOODED, 1, 1);
                drain(&flooded) > 0
            });
            bench.send(FLOODED, FLOOD_PKTS, 1);
            assert!(drain(&flooded) < FLOOD_PKTS / 2);
        }
        let report = guard.stop();
        assert!(account(&report, FLOODED).1 > FLOOD_PKTS, "{report}");
    });
}
