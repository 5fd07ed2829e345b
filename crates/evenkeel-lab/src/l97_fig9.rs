//! Forwarding with screend, feedback, and quotas from small to large: Mogul and Ramakrishnan, TOCS 1997,
//! figure 9.
//!
//! Feedback prevents livelock with any quota. A small quota spreads the cost of a callback over few packets.

use evenkeel::raw::receive::Quota;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::l97_fig6::FLAT;
use crate::router_setup::{Setup, TICK};
use crate::router_testbed::{Curve, output_over_input, rates};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig9",
    title: "Effect of the quota on forwarding with screend and feedback",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 9",
    measure,
};

/// The figures that the paper states.
mod paper {
    /// Small quotas reduce the maximum by "about 5 %".
    pub(super) const LOSS_PERCENT: f64 = 5.0;
    /// The tolerance of a share, in percentage points.
    pub(super) const POINTS: f64 = 3.0;
}

const QUOTAS: [usize; 5] = [2, 5, 10, 20, 100];

fn measure(seed: u64) -> Outcome {
    let screening = Setup { feedback: Some(TICK), ..Setup::POLLING }.with_screend();
    let curves = Curve::by_quota(QUOTAS.map(Quota::Fixed), &screening, rates(12_000, &[2_700]), seed);
    output_over_input(&curves, checks(&curves))
}

fn checks(curves: &[Curve; 5]) -> Vec<Check> {
    let [smallest, _, ten, .., largest] = curves;
    let best = curves.iter().map(Curve::peak).fold(0.0, f64::max);
    let loss = 100.0 * (1.0 - smallest.peak() / best);
    let kept: Vec<f64> = curves.iter().flat_map(|c| c.shares_from(3_500)).collect();
    let about = [paper::LOSS_PERCENT - paper::POINTS, paper::LOSS_PERCENT + paper::POINTS];
    vec![
        calibrated("architecture.polled.poll-round", Paper, "maximum with quota 2 below the best (%)")
            .within(about, &[loss]),
        predicted(Words, "output from 3500/s on, of each peak: no livelock at any quota").within(FLAT, &kept),
        predicted(Words, "maximum with quota 100, of that with 10: nothing to gain")
            .within([0.98, 1.02], &[largest.peak() / ten.peak()]),
    ]
}
