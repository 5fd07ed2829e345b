//! Trigger intervals over time: Aron and Druschel, TOCS 2000, figure 3.

use evenkeel::raw::time::Duration;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_fig2::VARIATION;
use crate::t00_gaps::medians;
use crate::t00_workloads::{Workload, trace};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-fig3",
    title: "Medians of trigger intervals in windows of 1 and 10 ms",
    source: "Aron and Druschel, Soft timers, TOCS 2000, figure 3 (a picture: what its text says of it)",
    measure,
};

const BAND: &str = "the median over all is over 18 µs here, and what a server of 24 processes does in 10 ms \
    varies with how far each has come";

fn measure(seed: u64) -> Outcome {
    let trace = trace(Workload::ApacheCompute, seed);
    let [one, ten] = [1, 10].map(|ms| medians(&trace.states, Duration::from_millis(ms)));
    // The picture has only the windows of the first tenth.
    let drawn = |windows: &[(f64, f64)], series: &'static str| -> Vec<Point> {
        let early = windows.iter().filter(|(at, _)| *at < 0.1);
        early.map(|(at, median)| Point::new(series, (at * 1e3).round(), *median)).collect()
    };
    let points = [drawn(&one, "1 ms"), drawn(&ten, "10 ms")].concat();
    let sorted = |windows: Vec<(f64, f64)>| {
        let mut of: Vec<f64> = windows.into_iter().map(|(_, median)| median).collect();
        of.sort_by(f64::total_cmp);
        of
    };
    let checks = checks(&sorted(one), &sorted(ten));
    Outcome::new("time (ms)", "median interval in a window (µs)", points, checks)
}

fn checks(one: &[f64], ten: &[f64]) -> Vec<Check> {
    let at = |of: &[f64], percent: usize| of.get(of.len() * percent / 100).copied().unwrap_or(f64::NAN);
    let over =
        |limit: f64| 100.0 * one.iter().filter(|median| **median > limit).count() as f64 / one.len() as f64;
    let width = |of: &[f64]| at(of, 95) - at(of, 5);
    vec![
        calibrated(VARIATION, Paper, "1 ms: from the 5th to the 95th percentile (µs): the bulk")
            .within([14.0, 26.0], &[at(one, 5), at(one, 95)]),
        predicted(Paper, "1 ms: over 40 µs (%)").within([0.0, 1.13], &[over(40.0)]),
        calibrated(VARIATION, Paper, "10 ms: from the 5th to the 95th percentile (µs): almost all")
            .within([17.0, 19.0], &[at(ten, 5), at(ten, 95)])
            .known_miss(BAND),
        predicted(Words, "10 ms: width of that band, of that of 1 ms: little variability")
            .within([0.0, 0.5], &[width(ten) / width(one)]),
    ]
}
