//! The shares of descriptor allocation and `select` against the rate of requests: Banga and Mogul, WRL 98/6,
//! figure 7.

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::s98_rates::{Benchmark, Curve, all};
use crate::s98_testbed::{SHORT, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-fig7",
    title: "Descriptor allocation and select() in a proxy's CPU time",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, figure 7",
    measure,
};

fn measure(seed: u64) -> Outcome {
    let curves = all((Server::Squid, SHORT), Benchmark::Realistic, seed);
    let select = curves.iter().flat_map(|curve| curve.parts("select", |m| 100.0 * m.select));
    let ufalloc = curves.iter().flat_map(|curve| curve.parts("ufalloc", |m| 100.0 * m.ufalloc));
    let points = select.chain(ufalloc).collect();
    Outcome::new("answers/s", "share of the CPU (%)", points, checks(&curves))
}

/// The least share of the old cost that remains in the new kernel, due to its interface: if sets cost
/// nothing, less than a hundredth would remain.
const SETS: f64 = 0.05;
/// The only printed ratio of them: 11.49 % of 21.91, at 220 requests/s (S98.Tab1, S98.Tab2), and 5 %.
const PRINTED: f64 = 1.05 * 11.49 / 21.91;

fn checks([old, select, new]: &[Curve; 3]) -> Vec<Check> {
    let linear = [old, select].into_iter().flat_map(Curve::all).map(|m| 100.0 * m.ufalloc);
    let ufalloc: Vec<f64> = new.beside(old).map(|(new, old)| new.ufalloc / old.ufalloc).collect();
    let cheaper: Vec<f64> = new.beside(old).map(|(new, old)| new.select / old.select).collect();
    let grows = |curve: &Curve| curve.saturated().ufalloc / curve.at(50.0).map_or(f64::NAN, |m| m.ufalloc);
    vec![
        predicted(Paper, "new ufalloc, of the old one, all rates: almost entirely eliminated")
            .within([0.0, 0.02], &ufalloc),
        predicted(Words, "ufalloc with the linear search, all rates (%)")
            .within([2.0, 30.0], &linear.collect::<Vec<_>>()),
        predicted(Words, "the same, saturated, of that at 50 requests/s: significant at higher rates")
            .within([2.0, 10.0], &[grows(old), grows(select)]),
        predicted(Words, "new select, of the old one, all rates: much less")
            .within([SETS, PRINTED], &cheaper),
    ]
}
