//! Tests of several sockets behind one ring on a machine of the papers. A flood of one socket takes nothing
//! from the others as long as the core can examine all frames, and the flooded process pays the cost (OSDI
//! 1996, section 3; TOCS 1997, section 10).

use evenkeel_core::host::{Config, System};
use evenkeel_core::poll::Feedback;
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::system::TcpListener;
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::Machine;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::{Station, flood_syn, udp_frame};
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::{Sink, Spinner};
use evenkeel_sim::world::{Port, SegmentId, World, hardware_address};

const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const FLOODED: u16 = 5_001;
const QUIET: u16 = 5_002;
const QUIET_PPS: u64 = 300;
const START: Instant = Instant::from_millis(100);
const FLOOD: Instant = Instant::from_millis(1_000);
const STOP: Instant = Instant::from_millis(4_100);

/// The packets that flood the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Valid,
    /// Datagrams with a wrong checksum.
    Corrupt,
    /// Datagrams for a port without a socket.
    Closed,
    /// SYNs for a listener that accepts no connection.
    Syns,
}

/// A DECstation under `soft-lrp` with default settings, and a flood from the first second on.
#[derive(Debug, Clone, Copy)]
struct Scene {
    kind: Kind,
    pps: u64,
    ring_pkts: usize,
    /// The number of other processes that compute all the time.
    spinners: usize,
    discard_percent: u8,
}

/// The results of a scene, over the time of the flood.
#[derive(Debug)]
struct Outcome {
    quiet_sent: u64,
    quiet: u64,
    flooded: u64,
    /// Shares of the core, in percent: that of all computing processes, and that of the flooded program.
    spinners: f64,
    flooded_core: f64,
}

impl Outcome {
    fn lost(&self) -> u64 {
        self.quiet_sent - self.quiet
    }
}

/// A listener that accepts no connection.
#[derive(Debug)]
struct Listens;

impl Program for Listens {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let config = ListenerConfig { backlog: 8, ..ListenerConfig::default() };
        Step::Wait(TcpListener::listen(system, None, FLOODED, &config).expect("the port is free").fd())
    }
}

impl Scene {
    const fn new(kind: Kind, pps: u64) -> Self {
        Self { kind, pps, ring_pkts: 64, spinners: 0, discard_percent: 25 }
    }

    fn station(number: u8) -> Station {
        Station {
            hardware: hardware_address(usize::from(number), 0),
            address: Ipv4Address::new(10, 0, 0, number),
            port: 4_000,
        }
    }

    fn flow(number: u8, port: u16, rate_pps: u64, start: Instant, stop: Instant) -> Flow {
        let to = Station { hardware: hardware_address(0, 0), address: ADDRESS, port };
        let pattern = Pattern::Poisson;
        Flow { from: Self::station(number), to, payload_bytes: 14, rate_pps, pattern, start, stop }
    }

    fn flood(self, world: &mut World, segment: SegmentId) {
        let flow = Self::flow(9, FLOODED, self.pps, FLOOD, Instant::NEVER);
        let (from, to, mut rng) = (flow.from, flow.to, world.fork_rng());
        world.add_source_of(segment, flow, Conditions::PERFECT, move |n, _| match self.kind {
            Kind::Valid => udp_frame(from, to, &[n as u8; 14]),
            Kind::Closed => udp_frame(from, Station { port: 9, ..to }, &[n as u8; 14]),
            Kind::Syns => flood_syn(from, to, &mut rng),
            Kind::Corrupt => {
                let mut frame = udp_frame(from, to, &[n as u8; 14]);
                // The checksum does not occur otherwise.
                frame[40..42].copy_from_slice(&[0xde, 0xad]);
                frame
            }
        });
    }

    fn run(self, seed: u64) -> Outcome {
        let mut world = World::new(seed);
        let segment = world.add_segment();
        let feedback = Some(Feedback { discard_percent: self.discard_percent, ..Feedback::default() });
        let config = Config { feedback, batch_pkts: 1, ..Config::of(Architecture::SoftLrp) };
        let machine = Machine::built_in("decstation-3000-300").expect("a sound model");
        let address = IpCidr::new(ADDRESS.into(), 24);
        let port = Port { ring_pkts: self.ring_pkts, ..Port::new(segment, address) };
        let costs = machine.costs(Architecture::Polled);
        let host = world.add_host(config, costs, &[port]).expect("a host of default size");
        let spawn = |world: &mut World, name: &str, program: Box<dyn Program>| {
            world.host_mut(host).spawn(name, 0, program)
        };
        let (sink, received) = Sink::new(FLOODED, Duration::ZERO);
        let flooded = match self.kind {
            Kind::Syns => spawn(&mut world, "flooded", Box::new(Listens)),
            _ => spawn(&mut world, "flooded", Box::new(sink)),
        };
        let (sink, quiet) = Sink::new(QUIET, Duration::ZERO);
        spawn(&mut world, "quiet", Box::new(sink));
        let spinners: Vec<_> =
            (0..self.spinners).map(|_| spawn(&mut world, "spinner", Box::new(Spinner))).collect();
        let flow = Self::flow(10, QUIET, QUIET_PPS, START, STOP);
        let source = world.add_source(segment, flow, Conditions::PERFECT);
        self.flood(&mut world, segment);
        // The flood has begun.
        world.run_until(FLOOD + Duration::from_millis(100));
        let used = |world: &World, id: ProcessId| world.host(host).bill(id).expect("it runs").used;
        let all = |world: &World| spinners.iter().map(|&id| used(world, id)).sum::<Duration>();
        let before = (all(&world), used(&world, flooded), received.get());
        let began = FLOOD + Duration::from_millis(100);
        world.run_until(STOP);
        let core = |used: Duration| 100.0 * used.div_duration_f64(STOP.since(began));
        let (spinners, flooded_core) = (core(all(&world) - before.0), core(used(&world, flooded) - before.1));
        let flooded = received.get() - before.2;
        world.run_until(STOP + Duration::from_millis(100));
        world.host(host).check().expect("the counters add up");
        Outcome { quiet_sent: world.sent(source), quiet: quiet.get(), flooded, spinners, flooded_core }
    }
}

const KINDS: [Kind; 4] = [Kind::Valid, Kind::Corrupt, Kind::Closed, Kind::Syns];

/// The core can examine 14 000 frames a second, and then does nothing else. Up to that rate the other socket
/// loses nothing, for any kind of flood.
#[test]
fn a_flood_takes_nothing_from_another_socket_on_its_ring() {
    for kind in KINDS {
        // At the beginning of a flood the ring is paused once, as for a burst.
        for (seed, pps, ring_pkts, lost) in [
            (1, 8_000, 64, 0),
            (2, 12_000, 64, 0),
            (3, 12_000, 256, 0),
            (4, 13_000, 64, 2),
            (1, 14_000, 64, 2),
        ] {
            let seen = Scene { ring_pkts, ..Scene::new(kind, pps) }.run(seed);
            assert!(seen.quiet_sent > 1_000 && seen.lost() <= lost, "{kind:?}, {pps}/s: {seen:?}");
            assert!(kind != Kind::Valid || seen.flooded > 1_000, "it goes on receiving, {pps}/s: {seen:?}");
        }
    }
}

/// The flooded process pays for the separation of its packets. A process that computes keeps at least as much
/// of the core as under a flood of which only the share for discarding is examined. A flood of 8 000 pps
/// leaves time for the separation.
#[test]
fn what_it_takes_to_separate_the_flooded_process_pays() {
    for kind in KINDS {
        let beside = |pps, seed| Scene { spinners: 1, ..Scene::new(kind, pps) }.run(seed);
        let (separated, too_many) = (beside(8_000, 1), beside(25_000, 2));
        assert_eq!(separated.lost(), 0, "{kind:?}: {separated:?}");
        assert!(separated.spinners > too_many.spinners, "{kind:?}: {separated:?}, {too_many:?}");
        assert!(too_many.lost() > 100, "{kind:?}: {too_many:?}");
        if matches!(kind, Kind::Valid | Kind::Corrupt) {
            assert!(separated.flooded_core > 5.0, "{kind:?}: {separated:?}");
            assert!(separated.flooded_core < too_many.flooded_core, "{kind:?}: {separated:?}, {too_many:?}");
        }
    }
}

/// Under a flood that is too large to examine, discarding takes its share, and no more: the flooded program
/// has the rest of the core.
#[test]
fn a_flood_that_is_too_large_for_that_leaves_time_to_programs() {
    for (seed, pps) in [(1, 25_000), (2, 40_000)] {
        let seen = |discard_percent| Scene { discard_percent, ..Scene::new(Kind::Valid, pps) }.run(seed);
        let (bound, none) = (seen(25), seen(100));
        assert!(bound.flooded > 6 * 3_000, "{pps}/s: {bound:?}");
        assert!(none.flooded * 4 < bound.flooded, "{pps}/s without a bound: {none:?}, with: {bound:?}");
    }
}
