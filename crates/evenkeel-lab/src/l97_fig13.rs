//! How long a packet takes from its interrupt to IP input: Mogul and Ramakrishnan, TOCS 1997, figure 13.
//!
//! Under polling a packet is not put into the shared IP queue and taken out again, and no software interrupt is dispatched for it.

use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::Work;

use crate::experiment::{Check, Experiment, Outcome, Point};
use crate::router_setup::{Kernel, Setup};
use crate::router_testbed::{Load, Router, START};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig13",
    title: "Latency from the receive interrupt to IP input",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 13 and section 8.1",
    measure,
};

/// What the paper says.
mod paper {
    /// L97.F13.n.
    pub(super) const PACKETS: u32 = 10_000;
    pub(super) const MEDIAN_US: f64 = 13.0;
}

/// One packet at a random moment of each of these: the paper's were echo requests, each sent when the last one had been answered.
const INTERVAL: Duration = Duration::from_millis(10);
const BIN_US: f64 = 2.0;

fn measure(seed: u64) -> Outcome {
    let polling = Latencies::measure(&Setup::POLLING, seed);
    // The same kernel, as in the paper: with polling off.
    let off = Latencies::measure(&Setup { kernel: Kernel::PollingOff, ..Setup::UNMODIFIED }, seed);
    let saved = off.median() - polling.median();
    let sooner = if polling.deviation() <= off.deviation() { "polling" } else { "no polling" };
    Outcome {
        x: "latency (us)",
        y: "share of packets (%)",
        y_max: None,
        points: [polling.points("polling"), off.points("no polling")].concat(),
        checks: vec![
            Check::within(
                "packets measured",
                [f64::from(paper::PACKETS), f64::INFINITY],
                &[polling.count(), off.count()],
            ),
            Check::near("median saved by polling (us)", paper::MEDIAN_US, saved, 0.10),
            Check::equal("less variable", "polling", sooner),
        ],
    }
}

/// Microseconds, sorted.
struct Latencies(Vec<f64>);

impl Latencies {
    fn measure(setup: &Setup, seed: u64) -> Self {
        let mut router = Router::new(setup, Load::Single(INTERVAL), seed);
        let cpu = router.record(START + INTERVAL * (paper::PACKETS + 10));
        let timeline = cpu.timeline().expect("it records");
        let inputs: Vec<Instant> = timeline.times(Work::Input).filter(|at| *at >= START).collect();
        let pairs = timeline.arrivals().iter().zip(&inputs);
        let mut latencies: Vec<f64> = pairs.map(|(from, to)| to.since(*from).as_secs_f64() * 1e6).collect();
        latencies.sort_by(f64::total_cmp);
        Self(latencies)
    }

    fn count(&self) -> f64 {
        self.0.len() as f64
    }

    fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn deviation(&self) -> f64 {
        let mean = self.0.iter().sum::<f64>() / self.count();
        (self.0.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / self.count()).sqrt()
    }

    /// The distribution in bins.
    fn points(&self, series: &str) -> Vec<Point> {
        let (first, last) = (self.0.first().copied().unwrap_or(0.0), self.0.last().copied().unwrap_or(0.0));
        let bins = (first / BIN_US) as u32..=(last / BIN_US) as u32;
        let share = |bin: u32| {
            let within = self.0.iter().filter(|us| (**us / BIN_US) as u32 == bin).count();
            100.0 * within as f64 / self.count()
        };
        let more = [("median", self.median()), ("deviation", self.deviation())];
        let point = |bin| Point {
            series: series.into(),
            x: f64::from(bin) * BIN_US,
            y: share(bin),
            more: more.into(),
        };
        bins.map(point).collect()
    }
}
