//! How long the first packet of a burst takes to its receiver: Mogul and Ramakrishnan, TOCS 1997, figure 1 and section 4.3.
//!
//! An interrupt-driven host does the device work of a whole burst, and then the protocol work of the whole burst, before the process that
//! waits for the first packet gets to run. So the first packet's latency grows with the length of the burst behind it.

use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::Machine;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::Recorder;
use evenkeel_sim::world::{Port, World, hardware_address};

use crate::experiment::{Check, Experiment, Outcome, Point};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig1",
    title: "Latency of the first packet of a burst, interrupt-driven",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 1 and section 4.3",
    measure,
};

/// Length of the burst in packets, and the latency of its first in milliseconds (L97.F1.lat).
const PAPER: [(u32, f64); 4] = [(1, 1.23), (2, 1.54), (4, 2.02), (16, 5.03)];
/// Spacing of packets inside a burst (L97.F1.gap).
const GAP: Duration = Duration::from_micros(108);
const BURST_MAX: u32 = 16;

const PORT: u16 = 5001;
const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
/// When the burst comes: the receiver has long been waiting.
const START: Instant = Instant::from_millis(100);
const END: Instant = Instant::from_millis(200);

fn measure(seed: u64) -> Outcome {
    let latencies: Vec<(u32, f64)> =
        (1..=BURST_MAX).map(|pkts| (pkts, first_latency_ms(pkts, seed))).collect();
    let here = latencies.iter().map(|&(pkts, ms)| point("eager", pkts, ms));
    let paper = PAPER.iter().map(|&(pkts, ms)| point("paper", pkts, ms));
    let check = |&(pkts, ms): &(u32, f64)| {
        let measured = latencies[pkts as usize - 1].1;
        Check::near(format!("first packet of a burst of {pkts} (ms)"), ms, measured, 0.10)
    };
    Outcome {
        x: "burst (packets)",
        y: "latency of the first (ms)",
        y_max: None,
        points: here.chain(paper).collect(),
        checks: PAPER.iter().map(check).collect(),
    }
}

fn point(series: &str, pkts: u32, ms: f64) -> Point {
    Point { series: series.into(), x: f64::from(pkts), y: ms, more: Default::default() }
}

/// From the arrival of the first packet at the interface to the return of the call that received it.
fn first_latency_ms(pkts: u32, seed: u64) -> f64 {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let machine = Machine::built_in("decstation-3100").expect("a test checks the built-in models");
    let config = Config { batch_pkts: 1, ..Config::of(Architecture::Eager) };
    let port = Port::new(segment, IpCidr::new(ADDRESS.into(), 24));
    let host = world
        .add_host(config, machine.costs(Architecture::Eager), &[port])
        .expect("the defaults have room for one interface");
    let (recorder, log) = Recorder::new(PORT);
    world.host_mut(host).spawn("receiver", 0, Box::new(recorder));
    world.add_source(segment, burst(pkts), Conditions::PERFECT);
    world.run_until(END);
    log.take().first().map_or(f64::NAN, |first| first.at.since(START).as_secs_f64() * 1e3)
}

fn burst(pkts: u32) -> Flow {
    Flow {
        from: Station {
            hardware: hardware_address(9, 0),
            address: Ipv4Address::new(10, 0, 0, 9),
            port: 4000,
        },
        to: Station { hardware: hardware_address(0, 0), address: ADDRESS, port: PORT },
        payload_bytes: 4,
        rate_pps: 1,
        pattern: Pattern::Once { pkts, gap: GAP },
        start: START,
        stop: END,
    }
}
