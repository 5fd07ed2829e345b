//! Output of an interrupt-driven router against its input: Mogul and Ramakrishnan, TOCS 1997, figure 2.
//!
//! Receive interrupts have priority over everything else, so work on packets that will be dropped starves
//! work on packets that could be forwarded. With `screend`, a user process that decides about each packet,
//! the last step of the path starves, and livelock begins early.

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::router_setup::Setup;
use crate::router_testbed::{Curve, rates};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig2",
    title: "Forwarding rate of the unmodified kernel",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 2",
    measure,
};

/// The figures that the paper states.
mod paper {
    pub(super) const PEAK: f64 = 4700.0;
    pub(super) const ETHERNET_MAX: f64 = 14_880.0;
    pub(super) const SCREEND_KNEE: f64 = 2000.0;
    pub(super) const SCREEND_LIVELOCK: f64 = 6000.0;
}

/// The figures that follow from the paper's.
mod derived {
    /// D.L97.dev: the device interrupt alone takes 72 µs, according to the traces.
    pub(super) const LIVELOCK: f64 = 13_890.0;
    /// D.L97.ip: output falls linearly, (1 - 72e-6 r) / 140.8e-6.
    pub(super) const BEYOND: [(u64, f64); 2] = [(6000, 4034.0), (10_000, 1989.0)];
}

fn measure(seed: u64) -> Outcome {
    let plain = Curve::measure("without screend", &Setup::UNMODIFIED, rates(14_500, &[4_400]), seed);
    let screend = Setup::UNMODIFIED.with_screend();
    let screend = Curve::measure("with screend", &screend, rates(8_000, &[1_800, 5_400]), seed);
    let points = plain
        .points()
        .chain(screend.points())
        .chain(Point::of_paper("without screend", &[(paper::PEAK, paper::PEAK)]))
        .chain(Point::derived("without screend", &[(paper::PEAK, paper::PEAK), (derived::LIVELOCK, 0.0)]))
        .chain(Point::of_paper(
            "with screend",
            &[(paper::SCREEND_KNEE, paper::SCREEND_KNEE), (paper::SCREEND_LIVELOCK, 0.0)],
        ));
    Outcome::new("input (pps)", "output (pps)", points.collect(), [without(&plain), with(&screend)].concat())
}

const DEVICE: &str = "cost.interrupt, cost.receive, cost.enqueue";
const ALL: &str =
    "cost.interrupt, cost.receive, cost.enqueue, cost.input, cost.forward, cost.transmit, cost.reclaim";
const SCREEND: &str = "architecture.eager.deliver";

fn without(plain: &Curve) -> Vec<Check> {
    let mut checks = vec![
        calibrated(ALL, Paper, "peak without screend (pps)").near(paper::PEAK, plain.peak(), 0.05),
        calibrated(DEVICE, Words, "livelock, below the maximum of the Ethernet (pps)")
            .within([plain.peak(), paper::ETHERNET_MAX], &[plain.livelock()]),
        calibrated(DEVICE, Derived, "the same, by the time of the device interrupt (pps)").near(
            derived::LIVELOCK,
            plain.livelock(),
            0.10,
        ),
    ];
    checks.extend(derived::BEYOND.map(|(rate, output)| {
        let name = format!("output at {rate}/s, on a line down to livelock (pps)");
        calibrated(ALL, Derived, name).near(output, plain.at(rate).forwarded_pps, 0.10)
    }));
    checks.push(
        predicted(Paper, "losses at 8000/s without screend").equal("IP queue", plain.at(8_000).places()),
    );
    checks
}

fn with(screend: &Curve) -> Vec<Check> {
    let knee = paper::SCREEND_KNEE;
    vec![
        calibrated(SCREEND, Paper, "peak with screend (pps)").near(knee, screend.peak(), 0.05),
        calibrated(SCREEND, Paper, "loss-free with screend up to (pps)").near(knee, screend.mlfrr(), 0.05),
        calibrated("cost.screen", Paper, "livelock with screend (pps)").near(
            paper::SCREEND_LIVELOCK,
            screend.livelock(),
            0.10,
        ),
        predicted(Paper, "losses at 4000/s with screend")
            .equal("screening queue", screend.at(4_000).places()),
    ]
}
