//! Tests of packet sockets and TAPs that refuse frames for full channels, with the kernel as sender.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::net::UdpSocket;

use evenkeel_core::demux::{Binding, Change};
use evenkeel_core::drop::{QueueDrop, Reason};
use evenkeel_core::id::ChannelId;
use evenkeel_core::refuser::{Allowance, Refuser};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_link::{Device, Packet, PacketOptions, Tap, TapOptions};
use evenkeel_skip::Lack;
use support::{Bench, in_namespace, is_ipv4, lacks, run};

const FULL: u16 = 9;
const OTHER: u16 = 10;

/// Returns the part of a device that refuses, with a channel for `FULL`. Without the privilege for it,
/// reports that.
fn refuser<D: Device>(bench: &mut Bench<D>) -> Option<(Box<dyn Refuser>, Box<dyn Allowance>)> {
    let mac = bench.device.properties().address.to_string().replace('-', ":");
    run(&format!("ip neigh replace 10.77.0.2 lladdr {mac} dev kernel0"));
    run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
    let Some(mut refuser) = bench.device.refuser() else {
        lacks(&Lack::Other("the kernel loads no BPF program"));
        return None;
    };
    let channel = ChannelId(3);
    let allowance = refuser.open(channel).unwrap();
    refuser.update(Change::AddAddress(IpAddress::v4(10, 77, 0, 2)));
    refuser.update(Change::Bind(Binding::Udp { address: None, port: FULL }, channel));
    Some((refuser, allowance))
}

fn send(count: usize, port: u16) {
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    for _ in 0..count {
        socket.send_to(&[0; 100], ("10.77.0.2", port)).unwrap();
    }
}

/// Takes all datagrams to a port that have come.
fn taken<D: Device>(bench: &mut Bench<D>, port: u16) -> u64 {
    let is_to = |frame: &[u8]| is_ipv4(frame, 17) && frame[36..38] == port.to_be_bytes();
    let mut taken = 0;
    while let Some(frame) = bench.frame_within(Duration::from_millis(200), is_to) {
        taken += 1;
        bench.pool.recycle(frame);
    }
    taken
}

fn refused<D: Device>(bench: &Bench<D>) -> u64 {
    let full = Reason::from(QueueDrop::Channel);
    bench.device.dropped().into_iter().filter(|(reason, _)| *reason == full).map(|(_, frames)| frames).sum()
}

/// Checks that a device puts only allowed frames of a channel into its ring, and all others.
fn refuses<D: Device>(mut bench: Bench<D>) {
    const ALLOWED: u32 = 20;
    let Some((refuser, mut allowance)) = refuser(&mut bench) else { return };
    send(100, FULL);
    assert_eq!((taken(&mut bench, FULL), refused(&bench)), (100, 0), "there is no limit yet");
    allowance.set(Some(ALLOWED));
    send(200, FULL);
    let passed = taken(&mut bench, FULL);
    assert_eq!((passed + refused(&bench), allowance.left()), (200, 0));
    assert!(passed >= ALLOWED.into() && refused(&bench) > 0, "{passed}");
    assert_eq!(allowance.refused(), refused(&bench));
    send(100, OTHER);
    assert_eq!(taken(&mut bench, OTHER), 100);
    allowance.set(None);
    let before = refused(&bench);
    send(100, FULL);
    assert_eq!((taken(&mut bench, FULL), refused(&bench)), (100, before));
    assert_eq!(bench.device.queue(0).missed(), 0, "what is refused is not also shed");
    drop(refuser);
}

#[test]
fn a_packet_socket_refuses_what_is_not_allowed() {
    in_namespace(|| {
        run("ip link add kernel0 type veth peer name ek0");
        run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        refuses(Bench::new(Packet::open("ek0", &PacketOptions::default()).unwrap()));
    });
}

/// The kernel counts for the whole TAP what was dropped, refused or not.
#[test]
fn a_tap_refuses_what_is_not_allowed() {
    in_namespace(|| {
        let kernel_addresses = vec!["10.77.0.1/24".parse::<IpCidr>().unwrap()];
        let options = TapOptions { kernel_addresses, ..TapOptions::default() };
        refuses(Bench::new(Tap::open("kernel0", &options).unwrap()));
    });
}
