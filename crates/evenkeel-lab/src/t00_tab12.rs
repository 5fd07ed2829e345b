//! Network polling by soft timers: Aron and Druschel, TOCS 2000, table XII.

use evenkeel::raw::receive::PollInterval;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel_sim::cpu::Cpu;
use evenkeel_sim::trigger::{Devices, Handlers, Source};
use evenkeel_sim::workload::Log;
use evenkeel_timers::SoftTimers;

use crate::check::{Check, Origin::*, calibrated, condition, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::statistics::mean;
use crate::t00_clocking::ticks;
use crate::t00_testbed::{BACKING, Bench, Load, Pentium, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab12",
    title: "Throughput with network polling by soft timers, by aggregation quota",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table XII (its cells are missing: the range its \
        text gives)",
    measure,
};

/// T00.T12.quota: the first and the last quota are the paper's.
const QUOTAS: [u32; 5] = [1, 2, 5, 10, 15];
/// The gains that the paper states in percent: the least and the greatest (T00.T12.gain).
const GAINS: [f64; 2] = [3.0, 25.0];
/// The number of requests on a persistent connection.
const REQUESTS: u32 = 10;
/// The time of a measurement, which shows a gain of a few tenths of a percent: Apache answers hundreds of
/// requests a second.
const TIME: Duration = Duration::from_secs(2);
/// The shortest interval between two polls.
const SHORTEST: Duration = Duration::from_micros(10);

/// Handlers that poll the interfaces at an interval that adapts.
#[derive(Debug)]
struct Poller {
    events: SoftTimers<()>,
    interval: PollInterval,
    price: Duration,
    found: Log<f64>,
}

impl Poller {
    fn new(on: Pentium, quota: u32, found: Log<f64>) -> Self {
        let mut events = SoftTimers::new(on.hz(), 1_000);
        events.schedule_soft_event(0, 0, ());
        let interval = PollInterval::new(quota, [SHORTEST, BACKING * 10]);
        Self { events, interval, price: on.program("poll"), found }
    }
}

impl Handlers for Poller {
    fn trigger(&mut self, now: Instant, _: Source, devices: &mut Devices) -> Duration {
        let measure_time = self.events.measure_time(now);
        if self.events.poll_event(measure_time).is_none() {
            return Duration::ZERO;
        }
        let found = devices.poll();
        self.found.push(found as f64);
        let next = self.interval.polled(found);
        self.events.schedule_soft_event(measure_time, ticks(&self.events, next), ());
        self.price
    }

    fn next_due(&self) -> Option<Instant> {
        // An idle CPU has interrupts on.
        None
    }
}

/// Handlers for interrupts without events.
#[derive(Debug)]
struct Nothing;

impl Handlers for Nothing {
    fn trigger(&mut self, _: Instant, _: Source, _: &mut Devices) -> Duration {
        Duration::ZERO
    }

    fn next_due(&self) -> Option<Instant> {
        None
    }
}

/// A server over one protocol.
struct Curve {
    server: Server,
    persistent: bool,
    interrupts: f64,
    /// The throughput and the packets found by a poll, by quota.
    polled: Vec<(u32, f64, f64)>,
}

impl Curve {
    fn measure(server: Server, persistent: bool, seed: u64) -> Self {
        let on = Pentium::Ii333;
        let requests = if persistent { REQUESTS } else { 1 };
        let load = Load { requests, ..Load::new(server, on) };
        let warm = on.program("warm-packet");
        let entry = on.program("device-entry");
        let set_up = |cpu: &mut Cpu| {
            cpu.set_warm(warm);
            cpu.set_device_entry(entry);
        };
        let interrupts = Bench::with(load, Box::new(Nothing), set_up, seed).run(TIME);
        let polled = QUOTAS.map(|quota| {
            let found = Log::default();
            let poller = Box::new(Poller::new(on, quota, found.clone()));
            let set_up = |cpu: &mut Cpu| {
                set_up(cpu);
                cpu.poll_devices();
            };
            let mut bench = Bench::with(load, poller, set_up, seed);
            let _ = found.take();
            let throughput = bench.run(TIME);
            (quota, throughput, mean(&found.take()))
        });
        Self { server, persistent, interrupts, polled: polled.into() }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.server.name(), if self.persistent { "P-HTTP" } else { "HTTP" })
    }

    /// Returns the percentage by which polling is better, for each quota.
    fn gains(&self) -> Vec<f64> {
        self.polled.iter().map(|(_, throughput, _)| 100.0 * (throughput / self.interrupts - 1.0)).collect()
    }

    fn points(&self) -> Vec<Point> {
        let polled = self.polled.iter().map(|(quota, throughput, found)| {
            Point::new(self.name(), f64::from(*quota), *throughput).with([("found_per_poll", *found)])
        });
        [Point::new(self.name(), 0.0, self.interrupts)].into_iter().chain(polled).collect()
    }
}

fn measure(seed: u64) -> Outcome {
    let of = [(Server::Apache, false), (Server::Apache, true), (Server::Flash, false), (Server::Flash, true)];
    let curves = of.map(|(server, persistent)| Curve::measure(server, persistent, seed));
    let points = curves.iter().flat_map(Curve::points).collect();
    Outcome::new("aggregation quota (0 is interrupts)", "requests/s", points, checks(&curves))
}

fn checks(curves: &[Curve; 4]) -> Vec<Check> {
    let gains = curves.each_ref().map(Curve::gains);
    let all = gains.concat();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [apache, apache_p, flash, flash_p] = gains.each_ref().map(|gains| gains[gains.len() - 1]);
    let aggregation = gains.each_ref().map(|gains| gains[gains.len() - 1] - gains[0]);
    let found: Vec<f64> = curves
        .iter()
        .flat_map(|curve| curve.polled.iter().map(|(quota, _, found)| found / f64::from(*quota)))
        .collect();
    vec![
        calibrated("program.device-entry", Paper, "the greatest gain (%)").within([22.0, 28.0], &[most]),
        predicted(Paper, "the least gain (%)").within(GAINS, &[least]),
        calibrated(
            "program.warm-packet",
            Words,
            "gain with 15 packets a poll, less that with one (points): aggregation adds",
        )
        .within([0.5, 25.0], &aggregation),
        predicted(Words, "gain of Flash, less that of Apache (points), HTTP and P-HTTP: more pronounced")
            .within([0.5, 25.0], &[flash - apache, flash_p - apache_p]),
        predicted(Words, "throughput with P-HTTP, of that with HTTP: much higher").within(
            [1.2, 4.0],
            &[curves[1].interrupts / curves[0].interrupts, curves[3].interrupts / curves[2].interrupts],
        ),
        condition("packets that a poll finds, of the quota").within([0.8, 1.25], &found),
    ]
}
