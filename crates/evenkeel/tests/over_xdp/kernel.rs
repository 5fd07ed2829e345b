//! The kernel at the other end: what it sends, and how much.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::VecDeque;
use std::net::UdpSocket;

use evenkeel::net::Net;
use evenkeel::raw::device::{Packet, PacketOptions, TxQueue as _};
use evenkeel::raw::frame::Pool;
use evenkeel_testing::{Place, attempt, run};

/// Opens a host beside the kernel at one end of a veth pair. The other end is in another namespace.
pub(crate) fn beside(far: &Place) -> Net {
    link(far);
    Net::builder().link("xdp:ek0").address("10.77.0.2/24").open().unwrap()
}

/// Makes a veth pair, with the kernel at both ends. The other end is in another namespace.
pub(crate) fn link(far: &Place) {
    let here = std::fs::read_link("/proc/thread-self").unwrap();
    let here = format!("/proc/{}/ns/net", here.display());
    far.run(&format!("ip link add kernel0 type veth peer name ek0 netns {here}"));
    far.run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
    far.run("ip addr add 10.77.0.1/24 dev kernel0");
    far.run("ip link set kernel0 up");
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
    run("ip addr add 10.77.0.3/24 dev ek0");
    run("ip link set ek0 up");
}

/// Returns whether the kernel at our end answers a ping. Called in the other namespace.
pub(crate) fn answers() -> bool {
    attempt("ping -c 1 -W 1 10.77.0.3").0
}

/// Returns the number of frames that have left the kernel's end and reached ours.
pub(crate) fn sent() -> u64 {
    let shown = run("ip -j -s link show kernel0");
    let transmitted = shown.split("\"tx\":").nth(1).unwrap();
    let packets = transmitted.split("\"packets\":").nth(1).unwrap();
    packets.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Sends datagrams of `bytes` to a port of ours.
pub(crate) fn send(count: usize, port: u16, bytes: usize) {
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    for _ in 0..count {
        socket.send_to(&vec![0; bytes], ("10.77.0.2", port)).unwrap();
    }
}

/// The other end as a device that sends any frames.
pub(crate) struct Raw {
    device: Packet,
    pool: Pool,
}

impl Raw {
    pub(crate) fn open() -> Self {
        let options = PacketOptions { jumbo: true, ..PacketOptions::default() };
        let device = Packet::open("kernel0", &options).unwrap();
        Self { device, pool: Pool::new(8) }
    }

    pub(crate) fn send(&mut self, count: usize, frame: &[u8]) {
        for _ in 0..count {
            let mut frames = VecDeque::from_iter(self.pool.take_copy(frame));
            assert_eq!(self.device.transmit(&mut frames, &mut self.pool), 1);
        }
    }
}

/// Returns a frame to the address `to`, with a header of IP as far as a demultiplexer looks.
pub(crate) fn frame(to: [u8; 6], ethertype: u16, version: u8, host: u8) -> Vec<u8> {
    let mut packet = [0; 46];
    (packet[0], packet[3], packet[9]) = (version << 4 | 5, 46, 17);
    packet[16..20].copy_from_slice(&[10, 77, 0, host]);
    [&to[..], &[2, 8, 8, 8, 8, 8], &ethertype.to_be_bytes(), &packet].concat()
}
