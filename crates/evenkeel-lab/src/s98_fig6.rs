//! Idle time of a proxy against the rate of requests, long files: Banga and Mogul, WRL 98/6, figure 6.

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::s98_rates::{Benchmark, Curve, all};
use crate::s98_testbed::{LONG, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-fig6",
    title: "Idle time of a proxy, 8192 bytes",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, figure 6",
    measure,
};

/// S98.F6.new: the highest rate at which the modified kernel is sometimes idle.
const BUSY_FROM: f64 = 300.0;

fn measure(seed: u64) -> Outcome {
    let realistic = all((Server::Squid, LONG), Benchmark::Realistic, seed);
    let points = realistic.iter().flat_map(|curve| curve.points(|m| 100.0 * m.idle)).collect();
    Outcome::new("answers/s", "idle (%)", points, checks(&realistic))
}

const LOW_RATES: &str = "the paper does not say where its rates begin; by the costs of its profiles a \
     request takes 6 ms at 50 to 100 requests/s, and the rest is idle";

fn checks(realistic: &[Curve; 3]) -> Vec<Check> {
    let [old, _, new] = realistic;
    let idle = |rates: &[f64]| -> Vec<f64> {
        rates.iter().filter_map(|rate| old.at(*rate)).map(|m| 100.0 * m.idle).collect()
    };
    vec![
        calibrated("program.copy", Paper, "modified kernel: busy all the time from (requests/s)").near(
            BUSY_FROM,
            new.saturation(),
            0.1,
        ),
        predicted(Paper, "unmodified kernel: idle at 150 requests/s and more (%)")
            .within([0.0, 1.0], &idle(&[150.0, 200.0, 300.0])),
        predicted(Paper, "unmodified kernel: idle at 50 and 100 requests/s (%)")
            .within([0.0, 1.0], &idle(&[50.0, 100.0]))
            .known_miss(LOW_RATES),
    ]
}
