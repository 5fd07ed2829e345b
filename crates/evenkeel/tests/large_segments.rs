//! Bulk transfers between the kernel and a host, over links on which segments of TCP pass uncut.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener as KernelListener};
use std::thread;

use evenkeel::net::{Net, TcpStream};
use evenkeel::raw::tcp::Counter;
use evenkeel_testing::{in_namespace, run};

/// Bytes of each transfer.
const BYTES: usize = 64 << 20;
/// The payload of the segments of an MTU of 1500 bytes, with timestamps.
const MSS: usize = 1_448;

fn over_packet_socket() -> Net {
    run("ip link add kernel0 type veth peer name ek0");
    run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
    Net::builder().link("packet:ek0").address("10.77.0.2/24").open().unwrap()
}

fn over_tap() -> Net {
    Net::builder().link("tap:ek0").address("10.77.0.2/24").kernel_address("10.77.0.1/24").open().unwrap()
}

/// Returns a mebibyte of data in which no two places are alike.
fn pattern() -> Vec<u8> {
    (0..1_u64 << 20).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u8).collect()
}

fn send(mut stream: impl Write) {
    let pattern = pattern();
    (0..BYTES / pattern.len()).for_each(|_| stream.write_all(&pattern).unwrap());
}

fn receive(mut stream: impl Read) {
    let (pattern, mut piece) = (pattern(), vec![0; 1 << 20]);
    for number in 0..BYTES / pattern.len() {
        stream.read_exact(&mut piece).unwrap();
        assert!(piece == pattern, "mebibyte {number}");
    }
    assert_eq!(stream.read(&mut piece).unwrap(), 0);
}

/// Returns the frames that a host has received and sent so far.
fn frames(net: &Net) -> [usize; 2] {
    net.raw(|host| [host.ledger().received, host.ledger().transmitted].map(|frames| frames as usize))
}

/// Transfers data in both directions, one after the other, and compares it. Checks that there were fewer
/// frames than segments, in the directions that are to be large, and that few segments were lost.
fn transfers(net: &Net, large: [bool; 2]) {
    let listener = KernelListener::bind("10.77.0.1:4000").unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        receive(&stream);
        let (stream, _) = listener.accept().unwrap();
        send(&stream);
    });
    let stream = TcpStream::connect(net, "10.77.0.1:4000").unwrap();
    let before = frames(net);
    send(&stream);
    stream.shutdown(Shutdown::Write).unwrap();
    let sent = frames(net)[1] - before[1];
    let stream = TcpStream::connect(net, "10.77.0.1:4000").unwrap();
    let before = frames(net);
    receive(&stream);
    let received = frames(net)[0] - before[0];
    server.join().unwrap();
    net.check().unwrap();
    let segments = BYTES / MSS;
    let again = net.raw(|host| host.tcp_counters().get(Counter::RetransSegs)) as usize;
    assert!(again < segments / 10, "{again} of {segments} segments were sent again");
    for (name, frames, large) in [("received", received, large[0]), ("sent", sent, large[1])] {
        assert_eq!(frames < segments / 2, large, "{frames} frames {name} for {segments} segments");
    }
}

#[test]
fn segments_pass_uncut_over_a_packet_socket() {
    in_namespace(&[], || transfers(&over_packet_socket(), [true, true]));
}

#[test]
fn segments_pass_uncut_over_a_tap() {
    in_namespace(&[], || transfers(&over_tap(), [true, true]));
}

/// The kernel cuts what it sends, and what we send is cut in the kernel.
#[test]
fn transfers_are_right_over_a_device_without_offloads() {
    in_namespace(&[], || {
        let net = over_packet_socket();
        for device in ["kernel0", "ek0"] {
            run(&format!("ethtool -K {device} tso off gso off gro off tx off"));
        }
        transfers(&net, [false, true]);
    });
}
