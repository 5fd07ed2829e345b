//! Latency of the first packet of a burst at its receiver: Mogul and Ramakrishnan, TOCS 1997, figure 1 and
//! section 4.3.
//!
//! An interrupt-driven host does the device work and then the protocol work of the whole burst, before the
//! process that waits for the first packet runs. So the first packet's latency grows with the length of the
//! burst.

use evenkeel::raw::host::{Config, Work};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::Machine;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::{Delivery, Log, Recorder};
use evenkeel_sim::world::{HostId, Port, World, hardware_address};

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig1",
    title: "Latency of the first packet of a burst, interrupt-driven",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 1 and section 4.3",
    measure,
};

/// The length of the burst in packets, and the latency of its first packet in milliseconds (L97.F1.lat).
const PAPER: [(u32, f64); 4] = [(1, 1.23), (2, 1.54), (4, 2.02), (16, 5.03)];
/// The two sums that were fitted to these four values.
const FITTED: &str = "the prices of decstation-3100";
/// The time until the third packet of a burst of four is copied, in milliseconds (L97.F1.copy3).
const THIRD_COPY: f64 = 1.33;
/// The spacing of packets inside a burst (L97.F1.gap).
const GAP: Duration = Duration::from_micros(108);
const BURST_MAX: u32 = 16;

const PORT: u16 = 5001;
const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
/// The start of the burst, when the receiver is already waiting.
const START: Instant = Instant::from_millis(100);
const END: Instant = Instant::from_millis(200);

fn measure(seed: u64) -> Outcome {
    let latencies: Vec<(u32, f64)> =
        (1..=BURST_MAX).map(|pkts| (pkts, first_latency_ms(pkts, seed))).collect();
    let point = |series, pkts: u32, ms| Point::new(series, f64::from(pkts), ms);
    let here = latencies.iter().map(|&(pkts, ms)| point("eager", pkts, ms));
    let paper = PAPER.iter().map(|&(pkts, ms)| point("paper: ULTRIX", pkts, ms));
    let check = |&(pkts, ms): &(u32, f64)| {
        let name = format!("first packet of a burst of {pkts} (ms)");
        calibrated(FITTED, Paper, name).near(ms, latencies[pkts as usize - 1].1, 0.05)
    };
    let checks = PAPER.iter().map(check).chain([linear(&latencies), third_copy(seed)]);
    Outcome::new(
        "burst (packets)",
        "latency of the first (ms)",
        here.chain(paper).collect(),
        checks.collect(),
    )
}

/// "Nearly linear in the burst size": this follows from the two prices, of a packet's device work and of the
/// rest.
fn linear(latencies: &[(u32, f64)]) -> Check {
    let (first, last) = (latencies[0].1, latencies[latencies.len() - 1].1);
    let step = (last - first) / f64::from(BURST_MAX - 1);
    let line = |pkts: u32| first + step * f64::from(pkts - 1);
    let off: Vec<f64> = latencies.iter().map(|&(pkts, ms)| ms / line(pkts)).collect();
    calibrated(FITTED, Words, "latency of the first of 1 to 16 packets, of a straight line from end to end")
        .within([0.95, 1.05], &off)
}

const SOONER: &str = "by the paper's own latencies a packet takes 0.25 ms of device work at most, and the \
    third \
     comes 0.216 ms after the first";

/// Checks the end of the third copy, at which the next piece of work on the packet begins.
fn third_copy(seed: u64) -> Check {
    let mut bench = Bench::new(4, seed);
    bench.world.cpu_mut(bench.host).record();
    bench.world.run_until(END);
    let timeline = bench.world.cpu(bench.host).timeline().expect("it records");
    let queued = timeline.times(Work::Enqueue).nth(2).map_or(f64::NAN, since_start_ms);
    let claim = predicted(Paper, "end of the copy of the third packet of four (ms)");
    claim.near(THIRD_COPY, queued, 0.10).known_miss(SOONER)
}

fn since_start_ms(at: Instant) -> f64 {
    at.since(START).as_secs_f64() * 1e3
}

struct Bench {
    world: World,
    host: HostId,
    log: Log<Delivery>,
}

impl Bench {
    fn new(pkts: u32, seed: u64) -> Self {
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
        Self { world, host, log }
    }
}

/// Returns the time from the arrival of the first packet at the interface to the return of the call that
/// received it.
fn first_latency_ms(pkts: u32, seed: u64) -> f64 {
    let mut bench = Bench::new(pkts, seed);
    bench.world.run_until(END);
    bench.log.take().first().map_or(f64::NAN, |first| since_start_ms(first.at))
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
