//! Effect of polling on a router: Mogul and Ramakrishnan, TOCS 1997, figure 5.
//!
//! Interrupts only start a thread that polls, processes each packet to completion, and alternates between
//! input and output. Excess packets are dropped in the receive ring, at no cost. Without a quota the thread
//! never reaches the output side, and packets are dropped in the output queue, after all work.

use evenkeel::raw::receive::Quota;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::router_setup::{Kernel, Setup};
use crate::router_testbed::{Curve, rates};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig5",
    title: "Forwarding rate of the modified kernel",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 5",
    measure,
};

/// The figures that the paper states, and those that follow from them.
mod paper {
    /// "With the system forwarding about 5000 packets/sec." (section 7).
    pub(super) const PEAK: f64 = 5000.0;
    /// "Slightly" better, or worse.
    pub(super) const SLIGHTLY: f64 = 0.10;
    /// "Drops almost to zero".
    pub(super) const ALMOST_ZERO: f64 = 0.05;
}

fn measure(seed: u64) -> Outcome {
    let curve = |name: &str, setup| Curve::measure(name, &setup, rates(14_000, &[4_400]), seed);
    let unmodified = curve("unmodified", Setup::UNMODIFIED);
    let off = curve("polling off", Setup { kernel: Kernel::PollingOff, ..Setup::UNMODIFIED });
    let quota = curve("polling, quota 8", Setup::POLLING);
    let none = curve("polling, no quota", Setup { quota: Quota::Unlimited, ..Setup::POLLING });
    let points = [&unmodified, &off, &quota, &none]
        .into_iter()
        .flat_map(Curve::points)
        .chain(Point::derived("polling, quota", &[(paper::PEAK, paper::PEAK), (14_000.0, paper::PEAK)]));
    let checks =
        [with_quota(&unmodified, &quota), vec![polling_off(&unmodified, &off)], no_quota(&unmodified, &none)];
    Outcome::new("input (pps)", "output (pps)", points.collect(), checks.concat())
}

const POLLING: &str = "cost.receive, cost.input, cost.forward, cost.transmit, architecture.polled.reclaim";

fn with_quota(unmodified: &Curve, quota: &Curve) -> Vec<Check> {
    let better = quota.mlfrr() / unmodified.mlfrr();
    vec![
        calibrated(POLLING, Paper, "peak with a quota (pps)").near(paper::PEAK, quota.peak(), 0.05),
        calibrated(POLLING, Words, "loss-free rate with a quota, of the unmodified: slightly better")
            .within([1.005, 1.0 + paper::SLIGHTLY], &[better]),
        predicted(Words, "output with a quota from 5000/s on, of its peak")
            .within([0.97, 1.0], &quota.shares_from(5_000)),
        predicted(Words, "losses at 8000/s with a quota").equal("ring", quota.at(8_000).places()),
        predicted(Ours, "interrupts for each packet at 500/s with a quota: one in, one out")
            .within([1.9, 2.1], &[interrupts(quota, 500)]),
        predicted(Words, "interrupts for each packet at 8000/s with a quota: next to none")
            .within([0.0, 0.05], &[interrupts(quota, 8_000)]),
    ]
}

fn interrupts(curve: &Curve, rate: u64) -> f64 {
    curve.at(rate).interrupts / curve.at(rate).offered_pps
}

fn polling_off(unmodified: &Curve, off: &Curve) -> Check {
    let shares: Vec<f64> = OVERLOAD.map(|rate| share(off, unmodified, rate)).into();
    calibrated(
        "variant.polling-off.receive",
        Words,
        "output with polling off in overload, of the unmodified: slightly worse",
    )
    .within([1.0 - paper::SLIGHTLY, 0.999], &shares)
}

/// Rates beyond the capacity of each system, and below livelock.
const OVERLOAD: [u64; 4] = [6_000, 7_000, 8_000, 10_000];

fn share(of: &Curve, whole: &Curve, rate: u64) -> f64 {
    of.at(rate).forwarded_pps / whole.at(rate).forwarded_pps
}

fn no_quota(unmodified: &Curve, none: &Curve) -> Vec<Check> {
    let worse: Vec<f64> = OVERLOAD.map(|rate| share(none, unmodified, rate)).into();
    vec![
        predicted(Words, "output without quota from 8000/s on, of its peak: almost zero")
            .within([0.0, paper::ALMOST_ZERO], &none.shares_from(8_000)),
        predicted(Words, "output without quota in overload, of the unmodified: worse")
            .within([0.0, 0.999], &worse),
        predicted(Paper, "losses at 6000/s without quota").equal("output queue", none.at(6_000).places()),
    ]
}
