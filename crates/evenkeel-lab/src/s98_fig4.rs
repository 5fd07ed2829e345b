//! Idle time of a proxy against the rate of requests, short files: Banga and Mogul, WRL 98/6, figure 4.

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::s98_rates::{Benchmark, Curve, all};
use crate::s98_testbed::{SHORT, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-fig4",
    title: "Idle time of a proxy, 1259 bytes",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, figure 4",
    measure,
};

fn measure(seed: u64) -> Outcome {
    let [naive, realistic] =
        [Benchmark::Naive, Benchmark::Realistic].map(|b| all((Server::Squid, SHORT), b, seed));
    let points = naive.iter().chain(&realistic).flat_map(|curve| curve.points(|m| 100.0 * m.idle)).collect();
    Outcome::new("answers/s", "idle (%)", points, checks(&naive, &realistic))
}

/// The rates at which the server is underutilized with any kernel.
const LOW: [f64; 2] = [50.0, 100.0];

fn checks(naive: &[Curve; 3], realistic: &[Curve; 3]) -> Vec<Check> {
    let idle = |curve: &Curve, rate| curve.at(rate).map_or(f64::NAN, |m| 100.0 * m.idle);
    let [old, _, new] = realistic;
    let more = LOW.map(|rate| idle(new, rate) - idle(old, rate));
    let same: Vec<f64> =
        naive.iter().flat_map(|c| LOW.map(|rate| idle(c, rate) - idle(&naive[0], rate))).collect();
    vec![
        predicted(Words, "realistic: idle, modified less unmodified (points): much more")
            .within([15.0, 100.0], &more),
        predicted(Paper, "naive: idle, each kernel less the unmodified (points): identical")
            .within([-2.0, 2.0], &same),
        predicted(Words, "idle when saturated, every kernel and benchmark (%)").within(
            [0.0, 1.0],
            &naive.iter().chain(realistic).map(|c| 100.0 * c.saturated().idle).collect::<Vec<_>>(),
        ),
    ]
}
