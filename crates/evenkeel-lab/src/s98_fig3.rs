//! Response times of a proxy against the rate of requests, short files: Banga and Mogul, WRL 98/6, figure 3.
//!
//! The naive benchmark has only active clients; the realistic one also has 750 infinitely slow connections.

use crate::check::{Check, Origin::*, predicted, ranking};
use crate::experiment::{Experiment, Outcome};
use crate::s98_rates::{Benchmark, Curve, all};
use crate::s98_testbed::{SHORT, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-fig3",
    title: "Response time of a proxy, 1259 bytes",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, figure 3",
    measure,
};

/// S98.F3.new. The ratio would be 1 if sets and the loop around `select` cost nothing.
const SMALL_LOSS: f64 = 0.97;
/// The saturation rate of the modified kernel, divided by that of the unmodified one (S98.F3.gain).
const GAIN: f64 = 1.58;

fn measure(seed: u64) -> Outcome {
    let [naive, realistic] =
        [Benchmark::Naive, Benchmark::Realistic].map(|b| all((Server::Squid, SHORT), b, seed));
    let points = naive.iter().chain(&realistic).flat_map(|curve| curve.points(|m| m.response_ms)).collect();
    let mut outcome = Outcome::new("answers/s", "response time (ms)", points, checks(&naive, &realistic));
    outcome.y_max = Some(250.0);
    outcome
}

fn checks(naive: &[Curve; 3], realistic: &[Curve; 3]) -> Vec<Check> {
    let [old, select, new] = realistic;
    let [alone, ..] = naive;
    let same: Vec<f64> = naive.iter().map(|curve| curve.saturation() / alone.saturation()).collect();
    let order = [("unmodified", old), ("new select", select), ("both", new)]
        .map(|(name, curve)| (name, curve.saturation()));
    vec![
        predicted(Paper, "naive: saturation of each kernel, of the unmodified one's: identical")
            .within([0.98, 1.02], &same),
        predicted(
            Words,
            "realistic: saturation of the unmodified kernel, of the naive one: drastically reduced",
        )
        .within([0.4, 0.7], &[old.saturation() / alone.saturation()]),
        predicted(
            Words,
            "realistic: saturation of the modified kernel, of the naive one: nearly as high, but for \
             what the interface of select costs",
        )
        .within([0.8, SMALL_LOSS], &[new.saturation() / alone.saturation()]),
        predicted(Paper, "realistic: saturation of the modified kernel, of the unmodified one (times)").near(
            GAIN,
            new.saturation() / old.saturation(),
            0.05,
        ),
        predicted(Words, "realistic: saturation, highest first")
            .equal("both > new select > unmodified", ranking(&order)),
        sooner(old, new),
    ]
}

/// Checks the statement of S98.F5.new, which is about both sizes.
pub(crate) fn sooner(old: &Curve, new: &Curve) -> Check {
    let beside: Vec<f64> = new.beside(old).map(|(new, old)| new.response_ms / old.response_ms).collect();
    predicted(
        Paper,
        "realistic: response time with the modified kernel, of the unmodified one's, at all rates",
    )
    .within([0.05, 1.0], &beside)
}
