//! Capture rate of a network monitor against the packet rate of its network: Mogul and Ramakrishnan, TOCS
//! 1997, figure 15.
//!
//! The polling kernel filters packets and queues copies for `tcpdump`. Feedback stops polling when fewer than
//! eight of 32 slots are free. Only a timeout of 1 ms starts it again, and by then `tcpdump` has not always
//! drained much.

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::monitor_testbed::{Captured, Monitor};
use crate::router_setup::MonitorSetup;
use crate::router_testbed::{TIME, WARM_UP};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig15",
    title: "Capture rate of tcpdump",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 15",
    measure,
};

/// The figures that the paper states.
mod paper {
    /// A disk file with feedback: the input rate of saturation, and the capture rate.
    pub(super) const DISK: (u64, f64) = (9_000, 7700.0);
    /// The generator did not saturate /dev/null with feedback; the paper does not give its highest rate.
    pub(super) const HIGHEST: u64 = 10_000;
}

struct Curve {
    name: &'static str,
    measured: Vec<(u64, Captured)>,
}

impl Curve {
    fn measure(name: &'static str, setup: MonitorSetup, seed: u64) -> Self {
        let rates = (1_000..4_000).step_by(1_000).chain((4_000..=11_000).step_by(500));
        let run = |rate| (rate, Monitor::new(&setup, rate, seed ^ rate).measure(WARM_UP, TIME));
        Self { name, measured: rates.map(run).collect() }
    }

    fn at(&self, rate: u64) -> Captured {
        self.measured.iter().min_by_key(|(r, _)| r.abs_diff(rate)).expect("there are points").1
    }

    /// Returns the greatest capture rate at loads that the paper's generator could send.
    fn peak(&self) -> f64 {
        self.tested().map(|m| m.captured_pps).fold(0.0, f64::max)
    }

    fn tested(&self) -> impl Iterator<Item = &Captured> {
        self.measured.iter().filter(|(rate, _)| *rate <= paper::HIGHEST).map(|(_, m)| m)
    }

    /// Returns the maximum loss-free rate.
    fn mlfrr(&self) -> f64 {
        let free = self.measured.iter().take_while(|(_, m)| m.ring + m.queue <= 1e-3 * m.offered_pps);
        free.last().map_or(f64::NAN, |(_, m)| m.offered_pps)
    }
}

fn measure(seed: u64) -> Outcome {
    let curve = |name, disk, feedback, burst_ticks| {
        Curve::measure(name, MonitorSetup { disk, feedback, burst_ticks }, seed)
    };
    let curves = [
        curve("/dev/null, no feedback", false, false, 1),
        curve("/dev/null, feedback", false, true, 1),
        curve("disk, no feedback", true, false, 1),
        curve("disk, feedback", true, true, 1),
        curve("/dev/null, no feedback, bursts twice as long", false, false, 2),
        curve("/dev/null, feedback, bursts twice as long", false, true, 2),
    ];
    let points = curves.iter().flat_map(|c| c.measured.iter().map(|(_, m)| m.point(c.name)));
    let points = points
        .chain(Point::of_paper("loss-free", &[(0.0, 0.0), (11_000.0, 11_000.0)]))
        .chain(Point::of_paper("disk, feedback", &[(paper::DISK.0 as f64, paper::DISK.1)]));
    Outcome::new("input (pps)", "captured (pps)", points.collect(), checks(&curves))
}

fn checks(curves: &[Curve; 6]) -> Vec<Check> {
    let [null_without, null, disk_without, disk, bursts_without, bursts] = curves;
    let ring: Vec<f64> = curves.iter().flat_map(|c| c.tested().map(|m| m.ring / m.offered_pps)).collect();
    let (rate, captured) = paper::DISK;
    let rising = null.at(paper::HIGHEST).captured_pps / null.at(paper::HIGHEST - 500).captured_pps;
    let saturated = disk.at(rate + 1_000).captured_pps / disk.at(rate).captured_pps;
    let first_loss = lost(disk, disk_without.mlfrr() as u64 + 1_000);
    let better = |with: &Curve, without: &Curve| with.peak() / without.peak();
    vec![
        calibrated(DISK, Paper, "captured to disk with feedback at 9000/s (pps)").near(
            captured,
            disk.at(rate).captured_pps,
            0.05,
        ),
        calibrated(DISK, Paper, "captured to disk at 10000/s, of that at 9000/s: saturated")
            .within([0.0, 1.02], &[saturated]),
        calibrated(
            "program.tcpdump",
            Paper,
            "captured to /dev/null with feedback at 10000/s, of that at 9500/s: not saturated",
        )
        .within([1.02, 1.1], &[rising]),
        predicted(Words, "peak to /dev/null with feedback, of that without: much better")
            .within(MUCH_BETTER, &[better(null, null_without)])
            .known_miss(BURSTS),
        calibrated("bursts at every second tick", Words, "the same if bursts are twice as long: much better")
            .within(MUCH_BETTER, &[better(bursts, bursts_without)]),
        predicted(Words, "peak to disk with feedback, of that without: better")
            .within([1.05, 2.0], &[better(disk, disk_without)]),
        predicted(Words, "lost at the ring, of the input: very few").within([0.0, 0.005], &ring),
        predicted(
            Words,
            "lost with feedback to disk at the first rate that loses without, of the input: some",
        )
        .within([1e-4, 0.2], &[first_loss]),
    ]
}

/// "Clearly results in much better peak packet capture performance": the paper gives no figure.
const MUCH_BETTER: [f64; 2] = [1.1, 2.0];
const BURSTS: &str = "feedback gains what bursts lose without it, and the paper does not say how long those \
                      of its generator are: here one is sent at each tick of a clock, ten packets at the \
                      highest rate, for a queue of 32; with bursts twice as long it is a fifth";
const DISK: &str = "program.write-to-disk, cost.filter, cost.append";

fn lost(curve: &Curve, rate: u64) -> f64 {
    let m = curve.at(rate);
    (m.ring + m.queue) / m.offered_pps
}
