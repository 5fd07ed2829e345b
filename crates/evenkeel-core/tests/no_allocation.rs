//! Nothing is allocated per frame: not on the way up, not on the way down, not for a frame that is discarded
//! or cut in transit.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use allocation_counter::measure;
use common::router::{FAR, WAN};
use common::*;
use evenkeel_core::host::{Config, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::stack::{self, InterfaceId, Route, Via};
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address, Ipv4Packet, UdpPacket};

const ECHO: u16 = 7;
/// Sleeps most of the time, so that its queues overflow.
const SLOW: u16 = 8;
const WARM_UP: usize = 200;
const BATCHES: usize = 200;

/// Sends every datagram back.
#[derive(Debug)]
struct Echo {
    port: u16,
    nap: Duration,
    socket: Option<UdpSocket>,
}

impl Program for Echo {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(UdpSocket::bind(system, None, self.port).unwrap());
            return Step::Again;
        };
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        let payload = datagram.as_slice().unwrap();
        let mut copy = [0; 64];
        let copy = &mut copy[..payload.len()];
        copy.copy_from_slice(payload);
        socket.send(system, datagram.source(), copy).unwrap();
        system.recycle(datagram);
        if self.nap.is_zero() { Step::Again } else { Step::Sleep(system.now() + self.nap) }
    }
}

/// Returns frames of every fate that needs no setup: delivered, queue full, unbound port, another host's
/// address, wrong checksum, ARP.
fn frames() -> Vec<Vec<u8>> {
    let mut wrong = udp(ECHO, b"wrong checksum");
    UdpPacket::new_unchecked(&mut wrong[34..]).set_checksum(0x1234);
    let mut frames = vec![
        udp(9, b"nobody's"),
        udp_to(HOST_MAC, Ipv4Address::new(10, 0, 0, 99), ECHO, b"for another host"),
        wrong,
        arp_request(),
    ];
    for n in 0..14_u8 {
        frames.push(udp(ECHO, &[n; 18]));
        frames.push(udp(SLOW, &[n; 18]));
    }
    frames
}

fn configs() -> Vec<Config> {
    let small = |config| Config { socket_queue_pkts: 16, channel_pkts: 16, ip_queue_pkts: 16, ..config };
    let mut configs: Vec<_> = Architecture::ALL.map(|a| small(Config::of(a))).into();
    let soft_lrp = &Config::of(Architecture::SoftLrp);
    configs.push(small(Config { device_work: DeviceWork::Interrupt, ..soft_lrp.clone() }));
    configs.push(small(Config { feedback: None, ..soft_lrp.clone() }));
    configs.push(small(Config { feedback: None, ..Config::of(Architecture::Polled) }));
    configs
}

/// Keeps what the host sends from filling the wire, without allocating.
fn discard_sent(bench: &mut Bench) -> u64 {
    let mut sent = 0;
    while let Some(frame) = bench.take() {
        bench.pool.recycle(frame);
        sent += 1;
    }
    sent
}

#[test]
fn no_architecture_allocates_once_it_is_warm() {
    for config in configs() {
        let what = format!("{}, {:?}, {:?}", config.architecture, config.device_work, config.feedback);
        let mut bench = Bench::new(config);
        for (port, nap) in [(ECHO, Duration::ZERO), (SLOW, Duration::from_micros(500))] {
            bench.host.spawn("echo", 0, Box::new(Echo { port, nap, socket: None }));
        }
        bench.settle();
        let frames = frames();
        let mut sent = 0;
        let mut batch = || {
            bench.send(&frames);
            bench.run(Duration::from_micros(400));
            sent += discard_sent(&mut bench);
        };
        (0..WARM_UP).for_each(|_| batch());
        let allocated = measure(|| (0..BATCHES).for_each(|_| batch()));
        assert_eq!(allocated.count_total, 0, "{what}: {allocated:?}");
        let ledger = bench.host.ledger();
        assert!(ledger.delivered > 500 && sent > 500, "{what}: {ledger:?}, {sent} sent");
    }
}

/// Returns packets for other hosts: through a gateway, on the link, without a route, and for a neighbour
/// that does not answer.
fn packets_in_transit() -> Vec<Vec<u8>> {
    let to = |a, b, c, d| udp_to(HOST_MAC, Ipv4Address::new(a, b, c, d), ECHO, b"for another host");
    let mut frames = vec![arp_request(), to(192, 0, 2, 1), to(10, 0, 0, 77)];
    frames.extend((0..20).map(|n| to(203, 0, 113, n)));
    frames
}

#[test]
fn no_architecture_allocates_to_forward() {
    let forwarding = stack::Config { forwarding: true, ..stack::Config::default() };
    for config in configs() {
        let what = format!("{}, {:?}, {:?}", config.architecture, config.device_work, config.feedback);
        let mut bench = Bench::new(Config { stack: forwarding.clone(), ..config });
        let to = IpCidr::new(IpAddress::v4(203, 0, 113, 0), 24);
        let route = Route { to, via: Via::Gateway(InterfaceId(0), PEER.into()), metric: 0 };
        bench.host.set_route(route).unwrap();
        bench.settle();
        let frames = packets_in_transit();
        let mut batch = || {
            bench.send(&frames);
            bench.run(Duration::from_micros(400));
            discard_sent(&mut bench);
        };
        (0..WARM_UP).for_each(|_| batch());
        let allocated = measure(|| (0..BATCHES).for_each(|_| batch()));
        assert_eq!(allocated.count_total, 0, "{what}: {allocated:?}");
        let ledger = bench.host.ledger();
        assert!(ledger.forwarded > 1000, "{what}: {ledger:?}");
    }
}

/// Packets of the LAN's size for the WAN, which takes less.
#[test]
fn no_architecture_allocates_to_cut_packets_in_transit() {
    for config in configs() {
        let what = format!("{}, {:?}, {:?}", config.architecture, config.device_work, config.feedback);
        let mut bench = Bench::router(config);
        bench.host.set_mtu(WAN, 576);
        let mut frame = udp_between(PEER, HOST_MAC, FAR, ECHO, &[7; 1400]);
        let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
        packet.set_dont_frag(false);
        packet.fill_checksum();
        let frames = vec![frame; 4];
        let (mut sent, mut large) = (0, 0);
        let mut batch = || {
            bench.send(&frames);
            bench.run(Duration::from_micros(400));
            let wan = bench.wan.as_mut().unwrap();
            while let Some(frame) = wan.queue_mut(0).take(&mut bench.pool) {
                sent += 1;
                large += usize::from(frame.len() > 14 + 576);
                bench.pool.recycle(frame);
            }
        };
        (0..WARM_UP).for_each(|_| batch());
        let allocated = measure(|| (0..BATCHES).for_each(|_| batch()));
        assert_eq!(allocated.count_total, 0, "{what}: {allocated:?}");
        assert_eq!((sent, large), ((WARM_UP + BATCHES) * 4 * 3, 0), "{what}");
    }
}
