//! Another device in the place of an interface's: one that was removed has returned.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use evenkeel_core::cable::{Completion, Options, pair};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{AddInterfaceError, Config, Host, Transmit};
use evenkeel_core::interface::Interface as _;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};

const LAN: InterfaceId = InterfaceId(0);

fn replace(bench: &mut Bench, options: Options) -> Result<(), AddInterfaceError> {
    let (mut wire, end) = pair(Options::new("wire", 1), Options { ring_pkts: 64, ..options });
    bench.host.replace_interface(LAN, Box::new(end), bench.now)?;
    bench.pool = Pool::with_limit(1024);
    wire.attach(&mut bench.pool).unwrap();
    bench.wire = wire;
    Ok(())
}

#[test]
fn it_answers_by_the_new_hardware_address_and_knows_neighbours_no_more() {
    for architecture in Architecture::ALL.into_iter().filter(|a| *a != Architecture::NiLrp) {
        let mut bench = Bench::new(Config::of(architecture));
        let (set, hardware) = (IpAddress::v4(10, 0, 0, 77), EthernetAddress([2, 0, 0, 0, 0, 77]));
        bench.host.set_neighbor(LAN, set, hardware, bench.now).unwrap();
        let answers = |bench: &mut Bench| -> Vec<Vec<u8>> {
            bench.sent();
            bench.send(&[arp_request()]);
            bench.settle();
            bench
                .sent()
                .into_iter()
                .filter(|frame| frame[12..14] == [8, 6])
                .map(|f| f[6..12].to_vec())
                .collect()
        };
        assert_eq!(answers(&mut bench), [HOST_MAC.0]);
        assert_eq!(bench.host.neighbors(bench.now).count(), 2);
        for number in [7, 8, 7] {
            replace(&mut bench, Options::new("host", number)).unwrap();
            let known: Vec<_> = bench.host.neighbors(bench.now).map(|n| n.address).collect();
            assert_eq!(known, [set], "{architecture}: what was set stays");
            let hardware = EthernetAddress([2, 0, 0, 0, 0, number]);
            assert_eq!(answers(&mut bench), [hardware.0], "{architecture}");
            let before = bench.host.ledger().received;
            bench.send(&[udp_to(HOST_MAC, HOST, 9, b"x")]);
            bench.settle();
            assert_eq!(bench.host.ledger().received, before + 1);
            assert!(bench.sent().is_empty(), "{architecture}: the earlier hardware address is not its own");
        }
    }
}

#[test]
fn one_of_another_shape_is_refused() {
    let mut bench = Bench::new(Config::of(Architecture::SoftLrp));
    let two = Options { queues: 2, ..Options::new("host", 7) };
    assert_eq!(replace(&mut bench, two), Err(AddInterfaceError::CannotReplace));
    let demultiplexes = Options { demultiplexes: true, ..Options::new("host", 7) };
    assert_eq!(replace(&mut bench, demultiplexes), Err(AddInterfaceError::CannotReplace));
}

/// The earlier one was removed while it was sending, and will not say any more that it has sent.
#[test]
fn one_that_was_active_does_not_hold_up_what_its_successor_is_to_send() {
    let by_peer = |number| Options { completion: Completion::ByPeer, ..Options::new("host", number) };
    let config =
        Config::of(Architecture::Polled).with_paper_policies(|all| all.transmit = Transmit::Throughput);
    let mut bench = Bench::new(config.clone());
    let (mut wire, end) = pair(Options::new("wire", 1), by_peer(2));
    bench.host = Host::new(config).unwrap();
    bench.host.add_interface(Box::new(end), &[IpCidr::new(HOST.into(), 24)], Instant::ZERO).unwrap();
    wire.attach(&mut bench.pool).unwrap();
    bench.wire = wire;
    bench.send(&[arp_request()]);
    bench.settle();
    replace(&mut bench, by_peer(2)).unwrap();
    bench.send(&[arp_request()]);
    bench.settle();
    assert_eq!(bench.sent().len(), 1);
}
