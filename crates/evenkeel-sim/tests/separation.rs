//! Several sockets behind one ring on a machine of the papers: a flood of one of them, valid or corrupt,
//! takes nothing from the others, and what it costs has a bound (OSDI 1996, section 3; TOCS 1997, section
//! 10).

use evenkeel_core::host::Config;
use evenkeel_core::poll::Feedback;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::Machine;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::{Station, udp_frame};
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::Sink;
use evenkeel_sim::world::{Port, World, hardware_address};

const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const FLOODED: u16 = 5_001;
const QUIET: u16 = 5_002;
const QUIET_PPS: u64 = 300;
const START: Instant = Instant::from_millis(100);
const STOP: Instant = Instant::from_millis(4_100);

/// What has become of it.
#[derive(Debug)]
struct Outcome {
    quiet_sent: u64,
    quiet: u64,
    flooded: u64,
}

/// A DECstation under `soft-lrp` as it is by default, flooded from the first second on.
fn flooded(pps: u64, is_corrupt: bool, discard_percent: u8, seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let feedback = Some(Feedback { discard_percent, ..Feedback::default() });
    let config = Config { feedback, batch_pkts: 1, ..Config::of(Architecture::SoftLrp) };
    let machine = Machine::built_in("decstation-3000-300").expect("a sound model");
    let port = Port::new(segment, IpCidr::new(ADDRESS.into(), 24));
    let costs = machine.costs(Architecture::Polled);
    let host = world.add_host(config, costs, &[port]).expect("a host of default size");
    let mut sink = |port| {
        let (program, tally) = Sink::new(port, Duration::ZERO);
        world.host_mut(host).spawn("sink", 0, Box::new(program));
        tally
    };
    let (received, quiet) = (sink(FLOODED), sink(QUIET));
    let flow = |number: u8, port, rate_pps, stop| Flow {
        from: Station {
            hardware: hardware_address(usize::from(number), 0),
            address: Ipv4Address::new(10, 0, 0, number),
            port: 4_000,
        },
        to: Station { hardware: hardware_address(0, 0), address: ADDRESS, port },
        payload_bytes: 14,
        rate_pps,
        pattern: Pattern::Poisson,
        start: START,
        stop,
    };
    let source = world.add_source(segment, flow(10, QUIET, QUIET_PPS, STOP), Conditions::PERFECT);
    if pps > 0 {
        let flood = Flow { start: Instant::from_millis(1_000), ..flow(9, FLOODED, pps, Instant::NEVER) };
        let (from, to) = (flood.from, flood.to);
        world.add_source_of(segment, flood, Conditions::PERFECT, move |n, _| {
            let mut frame = udp_frame(from, to, &[n as u8; 14]);
            if is_corrupt {
                // The checksum, which is none else.
                frame[40..42].copy_from_slice(&[0xde, 0xad]);
            }
            frame
        });
    }
    world.run_until(STOP + Duration::from_millis(100));
    world.host(host).check().expect("the counters add up");
    Outcome { quiet_sent: world.sent(source), quiet: quiet.get(), flooded: received.get() }
}

/// To discard what is too much takes up to three quarters of the core here, which is enough for all that
/// comes.
#[test]
fn a_flood_takes_nothing_from_another_socket_on_its_ring() {
    for is_corrupt in [true, false] {
        // 14 000/s fill the core, and so does no bound at all: one in a thousand may find a queue full.
        for (seed, pps, lost) in
            [(1, 8_000, 0), (2, 10_000, 0), (3, 12_000, 0), (4, 13_000, 0), (1, 14_000, 1)]
        {
            let seen = flooded(pps, is_corrupt, 25, seed);
            let is_lost = seen.quiet_sent - seen.quiet;
            assert!(is_lost <= lost, "{pps}/s, corrupt: {is_corrupt}: {seen:?}");
            assert!(seen.quiet_sent > 1_000 && (seen.flooded > 0) != is_corrupt, "{seen:?}");
        }
    }
}

/// Of a flood that is too large to be looked at discarding takes its share: the flooded program has three
/// quarters of the core, less what it takes to receive.
#[test]
fn a_flood_that_is_too_large_for_that_leaves_time_to_programs() {
    for (seed, pps) in [(1, 25_000), (2, 40_000)] {
        let (bound, none) = (flooded(pps, false, 25, seed), flooded(pps, false, 100, seed));
        assert!(bound.flooded > 6 * 1_000, "{pps}/s: {bound:?}");
        assert!(none.flooded * 4 < bound.flooded, "{pps}/s without a bound: {none:?}, with: {bound:?}");
    }
}
