//! The intervals of a clocked train: Aron and Druschel, TOCS 2000, tables VIII and IX.

use evenkeel::raw::time::{Duration, Instant};
use evenkeel_sim::trigger::{Devices, Handlers, PeriodicTimer, Source};
use evenkeel_sim::workload::Log;

use crate::check::{Check, Origin::*, calibrated, condition, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::statistics::{deviation, mean};
use crate::t00_clocking::{adaptive, fixed, intervals, spacing};
use crate::t00_fig2::{CALLS, VARIATION};
use crate::t00_testbed::{Bench, Load, Pentium, Server};
use crate::t00_workloads::{Trace, Workload, trace};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab8",
    title: "Rate-based clocking at a target of 40 µs, ST-Apache",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table VIII (its cells are missing: the two rows its \
        text repeats)",
    measure: |seed| measure(40, seed),
};

pub(crate) const EXPERIMENT_60: Experiment = Experiment {
    id: "t00-tab9",
    title: "Rate-based clocking at a target of 60 µs, ST-Apache",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table IX (its cells are missing: what its text \
        says of them)",
    measure: |seed| measure(60, seed),
};

/// The minima for a gigabit link, and larger ones, in microseconds.
const MINIMA: [u64; 6] = [12, 15, 20, 25, 30, 35];
/// The range of standard deviations of the intervals, in microseconds (T00.T8.sd).
const DEVIATION: [f64; 2] = [30.0, 35.0];

const TWO_INTERVALS: &str = "packets are scheduled 12 or 60 µs ahead, and that alone deviates by over 20 \
    µs, beside what trigger states do";

/// A train: the minimum interval, and the intervals in microseconds.
struct Train {
    minimum: u64,
    intervals: Vec<f64>,
}

struct Trains {
    adaptive: Vec<Train>,
    hard: Vec<f64>,
    fixed: Vec<f64>,
}

impl Trains {
    fn of(trace: &Trace, target: u64, seed: u64) -> Self {
        let hz = Pentium::Ii.hz();
        let train = |minimum| adaptive(&trace.states, hz, spacing([target, minimum]));
        let adaptive = MINIMA.map(|minimum| Train { minimum, intervals: train(minimum) });
        let fixed = fixed(&trace.states, hz, target);
        Self { adaptive: adaptive.into(), hard: hard(target, seed), fixed }
    }

    fn with_minimum(&self, minimum: u64) -> &[f64] {
        let found = self.adaptive.iter().find(|train| train.minimum == minimum);
        found.map_or(&[], |train| &train.intervals)
    }
}

/// Sends a packet whenever a timer has had it dispatched.
#[derive(Debug)]
struct Interrupted(Log<Instant>);

impl Handlers for Interrupted {
    fn trigger(&mut self, _: Instant, _: Source, _: &mut Devices) -> Duration {
        Duration::ZERO
    }

    fn next_due(&self) -> Option<Instant> {
        None
    }

    fn periodic(&mut self, now: Instant, _: &mut Devices) -> Duration {
        self.0.push(now);
        Duration::ZERO
    }
}

/// Returns the intervals by a hardware timer that is programmed to the target.
fn hard(target: u64, seed: u64) -> Vec<f64> {
    let log = Log::default();
    let timer =
        PeriodicTimer { period: Duration::from_micros(target), interrupt: Pentium::fixed("timer-8253-ii") };
    let load = Load::new(Server::Apache, Pentium::Ii);
    let handlers = Box::new(Interrupted(log.clone()));
    let mut bench = Bench::with(load, handlers, |cpu| cpu.set_periodic_timer(timer), seed);
    let _ = log.take();
    bench.run(Duration::from_millis(600));
    intervals(&log.take())
}

fn measure(target: u64, seed: u64) -> Outcome {
    let trains = Trains::of(&trace(Workload::APACHE, seed), target, seed);
    let mut points: Vec<Point> = Vec::new();
    for train in &trains.adaptive {
        let at = train.minimum as f64;
        points.push(Point::new("mean", at, mean(&train.intervals)));
        points.push(Point::new("deviation", at, deviation(&train.intervals)));
    }
    points.push(Point::new("8253: mean", target as f64, mean(&trains.hard)));
    points.push(Point::new("8253: deviation", target as f64, deviation(&trains.hard)));
    let paper: &[(f64, f64)] =
        if target == 40 { &[(12.0, 40.0), (35.0, 65.9)] } else { &[(12.0, 60.0), (30.0, 60.0)] };
    points.extend(Point::of_paper("mean", paper));
    let mut checks = if target == 40 { checks_40(&trains) } else { checks_60(&trains) };
    checks.extend(checks_of_both(&trains));
    Outcome::new("minimum interval (µs)", "interval (µs)", points, checks)
}

fn checks_40(trains: &Trains) -> Vec<Check> {
    vec![
        calibrated(VARIATION, Paper, "minimum 12 µs: mean (µs): the target is held").near(
            40.0,
            mean(trains.with_minimum(12)),
            0.05,
        ),
        calibrated(VARIATION, Paper, "minimum 35 µs: mean (µs)").near(
            65.9,
            mean(trains.with_minimum(35)),
            0.05,
        ),
        predicted(Derived, "8253: mean (µs): short of the target by 3").near(43.0, mean(&trains.hard), 0.05),
        deviations(trains),
    ]
}

fn checks_60(trains: &Trains) -> Vec<Check> {
    let means = [12, 15, 20, 25, 30].map(|minimum| mean(trains.with_minimum(minimum)));
    vec![
        calibrated(VARIATION, Paper, "minimum up to 30 µs: means (µs): the target is held")
            .within([57.0, 63.0], &means),
        predicted(Derived, "8253: mean (µs): short of the target by 3.6").near(
            63.6,
            mean(&trains.hard),
            0.05,
        ),
        deviations(trains).known_miss(TWO_INTERVALS),
    ]
}

fn deviations(trains: &Trains) -> Check {
    let all: Vec<f64> = trains.adaptive.iter().map(|train| deviation(&train.intervals)).collect();
    calibrated(CALLS, Paper, "deviations with all minima (µs)").within(DEVIATION, &all)
}

fn checks_of_both(trains: &Trains) -> Vec<Check> {
    let deviations: Vec<f64> = trains.adaptive.iter().map(|train| deviation(&train.intervals)).collect();
    let [first, last] = [deviations[0], deviations[deviations.len() - 1]];
    let shortest = trains
        .adaptive
        .iter()
        .map(|train| train.intervals.iter().copied().fold(f64::INFINITY, f64::min) / train.minimum as f64);
    let at_once =
        |of: &[f64]| of.iter().filter(|interval| **interval < 12.0).count() as f64 / of.len() as f64;
    vec![
        predicted(Words, "deviation with the longest minimum, of that with the shortest: improves")
            .within([0.5, 0.999], &[last / first]),
        predicted(Words, "deviation by the 8253, of that by soft timers: somewhat better")
            .within([0.5, 0.999], &[deviation(&trains.hard) / first]),
        predicted(Words, "a chain at fixed intervals: packets closer than the link sends them: bursts")
            .within([0.1, 1.0], &[at_once(&trains.fixed)]),
        condition("the shortest interval, of the minimum").within([1.0, 2.0], &shortest.collect::<Vec<_>>()),
    ]
}
