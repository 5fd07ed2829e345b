//! A host that forwards: what goes in on one side comes out on the other, under every receive architecture.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::router::*;
use common::*;
use evenkeel_core::channel::ChannelId;
use evenkeel_core::demux::{Binding, Change, Class, DemuxTable};
use evenkeel_core::host::{Config, Level};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::stack::{NeighborState, Route, Via};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address};

#[test]
fn every_architecture_forwards_both_ways_unchanged_but_for_the_hop() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        bench.sent();
        bench.sent_wan();
        for n in 0..50 {
            bench.send(&[outwards(n)]);
            bench.send_wan(&[inwards(n)]);
            bench.settle();
            assert_eq!(bench.sent_wan(), [passed_on(&outwards(n), WAN_MAC, FAR_MAC)], "{architecture}");
            assert_eq!(bench.sent(), [passed_on(&inwards(n), HOST_MAC, PEER_MAC)], "{architecture}");
        }
        assert_eq!(bench.host.ledger().forwarded, 100, "{architecture}");
        assert_eq!((bench.host.queued(), bench.host.waiting_to_leave()), (0, 0), "{architecture}");
    }
}

#[test]
fn a_burst_keeps_its_order() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        let frames: Vec<_> = (0..60).map(outwards).collect();
        assert_eq!(bench.send(&frames), 60, "{architecture}");
        bench.settle();
        assert_eq!(bench.numbers_wan(), (0..60).collect::<Vec<_>>(), "{architecture}");
    }
}

#[test]
fn forwarding_happens_at_the_level_that_the_architecture_says() {
    let level = |architecture, device_work| {
        let mut bench = Bench::router(Config { device_work, ..Config::of(architecture) });
        bench.settle();
        bench.units = [0; 5];
        bench.send(&[outwards(0)]);
        bench.settle();
        assert_eq!(bench.numbers_wan(), [0]);
        // The lowest level that ran.
        *Level::ALL.iter().rev().find(|&&l| bench.at(l) > 0).unwrap()
    };
    for device_work in [DeviceWork::Polled, DeviceWork::Interrupt] {
        assert_eq!(level(Architecture::Eager, device_work), Level::SoftInterrupt);
        assert_eq!(level(Architecture::EarlyDemux, device_work), Level::SoftInterrupt);
        assert_eq!(level(Architecture::SoftLrp, device_work), Level::Process);
        assert_eq!(level(Architecture::NiLrp, device_work), Level::Process);
    }
    assert_eq!(level(Architecture::Polled, DeviceWork::Polled), Level::PollingThread);
    assert_eq!(level(Architecture::Polled, DeviceWork::Interrupt), Level::Interrupt);
}

/// Floods one side or the other with a frame a microsecond, and gives what the other way forwarded of one
/// packet every 20 us.
fn beside_a_flood(legacy: [bool; 2], flooded: usize) -> usize {
    let config = Config { batch_pkts: 1, ..Config::of(Architecture::Polled) };
    let mut bench = Setup { legacy, ..Setup::new(config) }.bench();
    bench.settle();
    let mut forwarded = 0;
    for n in 0..500 {
        if flooded == 0 {
            bench.send(&vec![outwards(n); 20]);
            bench.send_wan(&[inwards(n)]);
        } else {
            bench.send_wan(&vec![inwards(n); 20]);
            bench.send(&[outwards(n)]);
        }
        bench.run(Duration::from_micros(20));
        let (lan, wan) = (bench.sent(), bench.sent_wan());
        forwarded += if flooded == 0 { numbers(&lan).len() } else { numbers(&wan).len() };
    }
    forwarded
}

#[test]
fn a_legacy_driver_beside_a_polled_one_forwards_and_can_still_livelock_it() {
    let mut bench = Setup { legacy: [true, false], ..Setup::new(Config::of(Architecture::Polled)) }.bench();
    bench.settle();
    for n in 0..20 {
        bench.send(&[outwards(n)]);
        bench.send_wan(&[inwards(n)]);
        bench.settle();
        bench.sent();
        assert_eq!(bench.numbers_wan(), [n]);
    }
    assert_eq!(bench.host.ledger().forwarded, 40);
    assert!(bench.at(Level::SoftInterrupt) >= 20 && bench.at(Level::PollingThread) >= 20);

    let (polled, legacy) = (beside_a_flood([false, false], 0), beside_a_flood([true, false], 0));
    assert!(polled > 450, "a flooded polled interface leaves the other its turn: {polled}");
    assert!(legacy < 10, "a flooded legacy interface leaves nothing: {legacy}");
    let other = beside_a_flood([true, false], 1);
    assert!(other > 450, "and is not hurt by one that is polled: {other}");
}

/// Floods a host with transit packets while a program computes. Returns the shares of the core that the
/// daemon and the program get, and the number of packets forwarded.
fn transit_flood(architecture: Architecture, forward_nice: i8) -> (f64, f64, u64) {
    let mut bench = Bench::router(Config { forward_nice, batch_pkts: 1, ..Config::of(architecture) });
    let spinner = bench.host.spawn("spinner", 0, Box::new(Spinner));
    bench.settle_some();
    let (daemon, start) = (bench.process("forwardd"), bench.now);
    for n in 0..2_000 {
        bench.send(&vec![outwards(n); 50]);
        bench.run(Duration::from_micros(50));
        bench.sent_wan();
    }
    let share = |process| bench.host.bill(process).unwrap().used.div_duration_f64(bench.now.since(start));
    (share(daemon), share(spinner), bench.host.ledger().forwarded)
}

#[test]
fn a_transit_flood_takes_no_more_than_the_share_of_the_forwarding_daemon() {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        let (daemon, spinner, even) = transit_flood(architecture, 0);
        assert!((daemon - spinner).abs() < 0.05, "{architecture}: {daemon} and {spinner}");
        let (_, _, favoured) = transit_flood(architecture, -10);
        let (_, spared, slighted) = transit_flood(architecture, 10);
        assert!(favoured > even * 5 / 4 && slighted < even * 4 / 5, "{favoured}, {even}, {slighted}");
        assert!(spared > spinner, "{spared} against {spinner}");
    }
}

#[test]
fn forwarded_frames_leave_no_buffer_behind() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        let free = bench.host.pool();
        for n in 0..200 {
            bench.send(&[outwards(n), outwards(n)]);
            bench.send_wan(&[inwards(n)]);
            bench.settle();
            bench.sent();
            bench.sent_wan();
        }
        let (available, capacity) = bench.host.pool();
        // Rings get their buffers back in batches of a quarter of their length.
        assert!(
            capacity == free.1 && free.0.abs_diff(available) <= 3 * 32,
            "{architecture}: {available} of {free:?}"
        );
    }
}

#[test]
fn routes_neighbours_and_addresses_change_while_packets_pass() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        let passes = |bench: &mut Bench| {
            bench.sent_wan();
            bench.send(&[outwards(0)]);
            bench.settle();
            bench.sent_wan().len() == 1
        };
        assert!(passes(&mut bench), "{architecture}");
        let blackhole = Route { to: IpCidr::new(FAR.into(), 32), via: Via::Blackhole, metric: 0 };
        bench.host.set_route(blackhole.clone()).unwrap();
        assert!(!passes(&mut bench), "{architecture}");
        assert!(bench.host.routes().any(|route| route == blackhole), "{architecture}");
        assert!(bench.host.remove_route(&blackhole), "{architecture}");
        assert!(passes(&mut bench), "{architecture}");
        // Somebody else takes over the address: the next packet goes to his adaptor.
        let far = IpAddress::from(FAR);
        bench.host.set_neighbor(WAN, far, PEER_MAC, bench.now).unwrap();
        bench.send(&[outwards(9)]);
        bench.settle();
        assert_eq!(bench.sent_wan()[0][..6], PEER_MAC.0, "{architecture}");
        let known = bench.host.neighbors(bench.now).find(|neighbor| neighbor.address == far).unwrap();
        assert_eq!((known.hardware, known.state), (Some(PEER_MAC), NeighborState::Permanent));
        assert!(bench.host.remove_neighbor(WAN, far, bench.now), "{architecture}");
        bench.send(&[outwards(10)]);
        bench.settle();
        assert_eq!(bench.sent_wan()[0][12..14], [8, 6], "{architecture}: it is asked for");
    }
}

#[test]
fn an_address_added_or_taken_away_is_the_host_s_own_or_somebody_else_s() {
    let second = Ipv4Address::new(198, 51, 100, 77);
    let cidr = IpCidr::new(second.into(), 24);
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        let arrives = |bench: &mut Bench| {
            let forwarded = bench.host.ledger().forwarded;
            bench.sent();
            bench.send(&[udp_between(PEER, HOST_MAC, second, 9, b"whose?")]);
            bench.settle();
            // Port unreachable is what the host itself says.
            let told = bench.sent().iter().any(|f| f[23] == 1 && f[34..36] == [3, 3]);
            (told, bench.host.ledger().forwarded - forwarded)
        };
        assert_eq!(arrives(&mut bench), (false, 1), "{architecture}");
        bench.host.add_address(WAN, cidr, bench.now);
        assert_eq!(arrives(&mut bench), (true, 0), "{architecture}");
        assert!(bench.host.remove_address(WAN, cidr), "{architecture}");
        assert_eq!(arrives(&mut bench), (false, 1), "{architecture}");
        // Larger than the link now takes, and not to be fragmented.
        bench.host.set_mtu(WAN, 576);
        bench.sent();
        bench.send(&[udp_between(PEER, HOST_MAC, FAR, 7, &[0; 1000])]);
        bench.settle();
        let told = bench.sent();
        assert_eq!((told.len(), &told[0][34..36], &told[0][40..42]), (1, &[3, 4][..], &[2, 64][..]));
    }
}

#[test]
fn headers_behind_the_fixed_one_are_no_concern_of_a_router() {
    let forward = ChannelId(3);
    let mut table = DemuxTable::new(1);
    table.apply(Change::Hardware(HOST_MAC));
    table.apply(Change::Bind(Binding::Forward, forward));
    // Hop-by-hop options that claim to be longer than the packet.
    let mut frame = [&HOST_MAC.0[..], &PEER_MAC.0, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 0, 64]].concat();
    frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend([17, 200, 0, 0, 0, 0, 0, 0]);
    assert_eq!(table.classify(&frame), Class::Channel(forward));
    table.apply(Change::AddAddress(IpAddress::v6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)));
    // Of a packet for the host itself they are protocol input's, which may have to answer.
    let control = ChannelId(4);
    table.apply(Change::Bind(Binding::Control, control));
    assert_eq!(table.classify(&frame), Class::Channel(control));
}
