//! An interface that refuses frames for full channels: how much passes, and that nothing is refused for good.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;

use common::extended::Extended;
use common::programs::Monitor;
use common::refusing::{Gate, Shared};
use common::{Bench, HOST, Seen, Sink, udp};
use evenkeel_core::cable::{Options, pair};
use evenkeel_core::capture::Capture;
use evenkeel_core::channel::ChannelCounters;
use evenkeel_core::drop::{LinkDrop, QueueDrop};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::id::InterfaceId;
use evenkeel_core::interface::Interface as _;
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_core::work::Work;
use proptest::prelude::*;

const FLOODED: u16 = 7;
const OTHER: u16 = 9;
const CHANNEL_PKTS: usize = 16;
const RING_PKTS: usize = 64;

/// Two sockets, and the interface that refuses.
struct World {
    bench: Bench,
    gate: Shared,
    sinks: [(ProcessId, Arc<Seen>); 2],
    /// The frames that came to the interface.
    offered: u64,
}

impl World {
    fn new(config: Config, compute: Duration) -> Self {
        let (mut wire, end) =
            pair(Options::new("wire", 1), Options { ring_pkts: RING_PKTS, ..Options::new("host", 2) });
        let mut host = Host::new(config).unwrap();
        let (refusing, gate) = Extended::refusing(end);
        let mut sink = |port| {
            let (mut sink, seen) = Sink::new(port);
            sink.compute = compute;
            (host.spawn("sink", 0, Box::new(sink)), seen)
        };
        let sinks = [sink(FLOODED), sink(OTHER)];
        let cidr = IpCidr::new(IpAddress::Ipv4(HOST), 24);
        host.add_interface(Box::new(refusing), &[cidr], Instant::ZERO).unwrap();
        let mut pool = Pool::with_limit(1024);
        wire.attach(&mut pool).unwrap();
        let bench =
            Bench { host, wire, wan: None, pool, now: Instant::ZERO, units: [0; 5], work: Vec::new() };
        let mut world = Self { bench: Bench { work: work(), ..bench }, gate, sinks, offered: 0 };
        world.bench.settle();
        world
    }

    fn soft_lrp(compute: Duration) -> Self {
        let config =
            Config { channel_pkts: CHANNEL_PKTS, feedback: None, ..Config::of(Architecture::SoftLrp) };
        Self::new(config, compute)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Gate) -> T) -> T {
        f(&mut self.gate.lock().unwrap())
    }

    /// Sends frames to the interface, which refuses some.
    fn send(&mut self, port: u16, frames: usize) {
        self.offered += frames as u64;
        let frame = udp(port, &[7; 18]);
        let passed = (0..frames).filter(|_| self.with(|gate| gate.lets_pass(&frame))).count();
        self.bench.send(&vec![frame; passed]);
    }

    fn counters(&self, sink: usize) -> ChannelCounters {
        let [socket] = self.bench.host.sockets_of(self.sinks[sink].0)[..] else { panic!("one socket") };
        self.bench.host.channel_counters(socket).unwrap()
    }

    fn received(&self) -> [u64; 2] {
        [0, 1].map(|sink: usize| self.sinks[sink].1.count())
    }

    /// Runs units until a time, or until there is nothing to do.
    fn run_units(&mut self, units: usize) {
        for _ in 0..units {
            if !self.bench.unit() {
                break;
            }
        }
    }

    /// Checks that each frame that came is somewhere.
    fn check(&self) {
        self.bench.host.check().unwrap();
        let untaken = self.bench.host.untaken(InterfaceId(0));
        let shed = untaken.dropped.get(&LinkDrop::RingFull.into()).copied().unwrap_or(0);
        let refused = untaken.dropped.get(&QueueDrop::Channel.into()).copied().unwrap_or(0);
        let discarded = self.bench.host.ledger().input_drops(QueueDrop::Channel);
        assert_eq!(refused, self.with(|gate| gate.refused()));
        let all: u64 = [0, 1].map(|sink| self.counters(sink).discarded).iter().sum();
        assert_eq!(all, refused + discarded, "each socket's discards are those of the host");
        let delivered: u64 = self.received().iter().sum();
        let waiting = self.bench.host.queued() + untaken.in_rings;
        assert_eq!(self.offered, delivered + shed + refused + discarded + waiting);
    }
}

fn work() -> Vec<(Work, u64)> {
    Work::ALL.iter().map(|&work| (work, 0)).collect()
}

#[test]
fn excess_ends_before_the_ring_and_another_socket_loses_nothing() {
    let mut world = World::soft_lrp(Duration::from_micros(4));
    // Ten frames come in the time that one takes.
    for n in 0..4_000 {
        world.send(FLOODED, 40);
        world.send(OTHER, usize::from(n % 10 == 0));
        world.run_units(6);
    }
    world.bench.settle();
    world.check();
    assert_eq!(world.received()[1], 400);
    let untaken = world.bench.host.untaken(InterfaceId(0));
    assert_eq!(untaken.dropped.get(&LinkDrop::RingFull.into()), None);
    let discarded = world.bench.host.ledger().input_drops(QueueDrop::Channel);
    let delivered = world.received()[0];
    assert!(discarded * 20 < delivered, "{discarded} discards, {delivered} delivered");
    assert!(world.with(|gate| gate.refused()) > 4 * delivered);
}

/// After a flood a burst finds the room of the ring again.
#[test]
fn nothing_is_refused_when_the_flood_is_over() {
    let mut world = World::soft_lrp(Duration::ZERO);
    assert_eq!(world.with(|gate| gate.limited()), 0);
    for _ in 0..100 {
        world.send(FLOODED, 60);
        world.run_units(4);
    }
    assert_eq!(world.with(|gate| gate.limited()), 1);
    for _ in 0..100 {
        world.send(FLOODED, 1);
        world.bench.settle();
    }
    assert_eq!(world.with(|gate| gate.limited()), 0);
    let before = (world.with(|gate| gate.refused()), world.received()[0]);
    world.send(FLOODED, RING_PKTS);
    assert_eq!(world.with(|gate| gate.refused()), before.0);
    world.bench.settle();
    world.check();
}

/// A ring that is full of other frames sheds allowed ones. One that passes even so brings new ones.
#[test]
fn frames_that_are_lost_in_the_ring_are_allowed_again() {
    let mut world = World::soft_lrp(Duration::ZERO);
    let frame = udp(FLOODED, &[7; 18]);
    while world.with(|gate| gate.limited()) == 0 {
        world.send(FLOODED, 60);
        world.run_units(4);
    }
    while world.bench.unit() {
        while world.with(|gate| gate.lets_pass(&frame)) {}
    }
    world.send(FLOODED, 1);
    assert!(!world.bench.unit(), "it was refused");
    world.with(|gate| gate.is_late = true);
    let (refused, delivered) = (world.with(|gate| gate.refused()), world.received()[0]);
    world.send(FLOODED, 1);
    world.bench.settle();
    world.send(FLOODED, CHANNEL_PKTS);
    world.bench.settle();
    assert_eq!(world.received()[0], delivered + 1 + CHANNEL_PKTS as u64);
    assert_eq!(world.with(|gate| gate.refused()), refused);
}

#[test]
fn packet_monitors_see_every_frame() {
    let mut world = World::soft_lrp(Duration::from_micros(50));
    for _ in 0..100 {
        world.send(FLOODED, 60);
        world.run_units(4);
    }
    assert_eq!(world.with(|gate| gate.limited()), 1);
    let (monitor, _) = Monitor::new(Capture::default());
    world.bench.host.spawn("monitor", 0, Box::new(monitor));
    world.run_units(100);
    assert_eq!(world.with(|gate| gate.limited()), 0);
    let refused = world.with(|gate| gate.refused());
    for _ in 0..100 {
        world.send(FLOODED, 60);
        world.run_units(4);
    }
    assert_eq!(world.with(|gate| gate.refused()), refused);
}

/// Interfaces that come later know what is open; those whose frames the host does not demultiplex are not
/// asked; a closed socket leaves no allowance.
#[test]
fn only_interfaces_whose_frames_the_host_demultiplexes_have_allowances() {
    for architecture in Architecture::ALL.into_iter().filter(|it| *it != Architecture::NiLrp) {
        let mut world = World::new(Config::of(architecture), Duration::ZERO);
        let is_lazy = architecture == Architecture::SoftLrp;
        assert_eq!(world.with(|gate| gate.opened()), if is_lazy { 2 } else { 0 }, "{architecture}");
        assert_eq!(world.with(|gate| gate.knows(HOST.into())), is_lazy, "{architecture}");
        world.bench.host.kill(world.sinks[0].0, world.bench.now);
        world.bench.settle();
        assert_eq!(world.with(|gate| gate.opened()), usize::from(is_lazy), "{architecture}");
    }
}

proptest! {
    /// Whatever comes when, and is lost in the ring: every frame is accounted for, and when the flood is
    /// over, each socket gets what is sent to it.
    #[test]
    fn a_socket_is_never_refused_for_good(
        steps in prop::collection::vec((any::<bool>(), 0..150_usize, 0..40_usize), 1..200),
        compute in 0..30_u64,
        feedback in any::<bool>(),
    ) {
        let config = Config { channel_pkts: CHANNEL_PKTS, ..Config::of(Architecture::SoftLrp) };
        let feedback = if feedback { config.feedback } else { None };
        let mut world = World::new(Config { feedback, ..config }, Duration::from_micros(compute));
        for (is_flooded, frames, units) in steps {
            world.send(if is_flooded { FLOODED } else { OTHER }, frames);
            world.run_units(units);
            world.check();
        }
        world.bench.settle();
        for port in [FLOODED, OTHER] {
            let before = world.received();
            for _ in 0..3 {
                world.with(|gate| gate.is_late = true);
                world.send(port, 1);
                world.bench.settle();
            }
            let more = world.received().iter().sum::<u64>() - before.iter().sum::<u64>();
            prop_assert_eq!(more, 3);
        }
        world.check();
    }
}
