//! The excess of full channels in one vector: how it is counted, and what is between it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Bench, Sink, udp};
use evenkeel_core::channel::ChannelCounters;
use evenkeel_core::drop::{IpDrop, QueueDrop};
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::Instant;

/// The ports of two sockets that are not read, and of one that is.
const UNREAD: [u16; 2] = [7, 8];
const READ: u16 = 9;
const CHANNEL_PKTS: usize = 32;

/// Opens a port and does not read it.
#[derive(Debug)]
struct Unread(u16);

impl Program for Unread {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        UdpSocket::bind(system, None, self.0).unwrap();
        Step::Sleep(Instant::NEVER)
    }
}

fn to(port: u16, count: usize) -> Vec<Vec<u8>> {
    vec![udp(port, &[7; 18]); count]
}

/// Returns a datagram with a field of its IP header changed.
fn odd(port: u16, at: usize, bytes: [u8; 2]) -> Vec<u8> {
    let mut frame = udp(port, &[7; 18]);
    frame[at..at + 2].copy_from_slice(&bytes);
    frame
}

/// Sends datagrams to a port until its socket and its channel are full.
fn fill(bench: &mut Bench, port: u16) {
    for _ in 0..20 {
        bench.send(&to(port, 16));
        bench.settle();
    }
}

fn counters(bench: &Bench, process: ProcessId) -> ChannelCounters {
    bench.host.channel_counters(bench.host.sockets_of(process)[0]).unwrap()
}

#[test]
fn the_excess_of_each_channel_is_counted_as_its_own_and_other_frames_are_not_excess() {
    let config = Config { channel_pkts: CHANNEL_PKTS, feedback: None, ..Config::of(Architecture::SoftLrp) };
    // Its ring has 64 places.
    let mut bench = Bench::new(config);
    let unread = UNREAD.map(|port| bench.host.spawn("unread", 0, Box::new(Unread(port))));
    let (sink, seen) = Sink::new(READ);
    bench.host.spawn("read", 0, Box::new(sink));
    bench.settle();
    UNREAD.iter().for_each(|&port| fill(&mut bench, port));
    let before = unread.map(|process| counters(&bench, process));
    let malformed = bench.host.ledger().input_drops(IpDrop::Malformed);
    let [a, b] = UNREAD;
    let mixed = [
        to(a, 20),
        to(b, 5),
        // Longer than the frame; and too short for its headers, which protocol input would find.
        vec![odd(a, 16, [0xff, 0xff]), odd(a, 16, [0, 27])],
        to(a, 3),
        to(READ, 1),
        to(b, 9),
        to(READ, 2),
        to(a, 1),
    ];
    for _ in 0..3 {
        bench.send(&mixed.concat());
        bench.settle();
    }
    let after = unread.map(|process| counters(&bench, process));
    for (socket, excess) in [25, 14].into_iter().enumerate() {
        let (before, after) = (before[socket], after[socket]);
        assert_eq!([after.arrived - before.arrived, after.discarded - before.discarded], [3 * excess; 2]);
    }
    let ledger = bench.host.ledger();
    assert_eq!(ledger.input_drops(QueueDrop::Channel), after.iter().map(|it| it.discarded).sum::<u64>());
    assert_eq!(ledger.input_drops(IpDrop::Malformed) - malformed, 3);
    assert_eq!((seen.count(), bench.wire.sent().missed), (3 * 3, 0));
    bench.host.check().unwrap();
}

#[test]
fn a_turn_discards_more_frames_than_it_takes_and_not_without_end() {
    let config =
        Config { channel_pkts: 8, feedback: None, batch_pkts: 4, ..Config::of(Architecture::SoftLrp) };
    let mut bench = Bench::new(config);
    bench.host.spawn("unread", 0, Box::new(Unread(UNREAD[0])));
    bench.settle();
    fill(&mut bench, UNREAD[0]);
    let (all, sent) = (bench.host.ledger().input_drops(QueueDrop::Channel), bench.send(&to(UNREAD[0], 64)));
    let most = (0..).map_while(|_| {
        let before = bench.host.ledger().input_drops(QueueDrop::Channel);
        bench.unit().then(|| bench.host.ledger().input_drops(QueueDrop::Channel) - before)
    });
    assert_eq!(most.max(), Some(8 * 4));
    assert!(sent > 8 * 4);
    assert_eq!(bench.host.ledger().input_drops(QueueDrop::Channel) - all, sent as u64);
}
