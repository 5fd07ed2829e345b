//! Response times of a proxy against the rate of requests, long files: Banga and Mogul, WRL 98/6, figure 5.

use crate::check::{Check, Origin::*, predicted, ranking};
use crate::experiment::{Experiment, Outcome};
use crate::s98_fig3::sooner;
use crate::s98_rates::{Benchmark, Curve, all};
use crate::s98_testbed::{Kernel, LONG, SHORT, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-fig5",
    title: "Response time of a proxy, 8192 bytes",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, figure 5",
    measure,
};

fn measure(seed: u64) -> Outcome {
    let [naive, realistic] =
        [Benchmark::Naive, Benchmark::Realistic].map(|b| all((Server::Squid, LONG), b, seed));
    let points = naive.iter().chain(&realistic).flat_map(|curve| curve.points(|m| m.response_ms)).collect();
    let checks = checks(&naive, &realistic, seed);
    let mut outcome = Outcome::new("answers/s", "response time (ms)", points, checks);
    outcome.y_max = Some(300.0);
    outcome
}

const NO_CACHE: &str = "the paper suspects collisions in the data cache between the longer packets and the \
     kernel's structures; here is no cache, and what the interface of select costs is less of a longer \
     request";

fn checks(naive: &[Curve; 3], realistic: &[Curve; 3], seed: u64) -> Vec<Check> {
    let [old, select, new] = realistic;
    let order = [("unmodified", old), ("new select", select), ("both", new)]
        .map(|(name, curve)| (name, curve.saturation()));
    let short =
        |benchmark| Curve::measure((Server::Squid, SHORT), Kernel::Modified, benchmark, seed).saturation();
    let kept = new.saturation() / naive[2].saturation();
    let kept_of_short = short(Benchmark::Realistic) / short(Benchmark::Naive);
    vec![
        predicted(Paper, "realistic: saturation, highest first")
            .equal("both > new select > unmodified", ranking(&order)),
        sooner(old, new),
        predicted(Paper, "modified: saturation, realistic of naive; of that with 1259 bytes: not as close")
            .within([0.5, 0.99], &[kept / kept_of_short])
            .known_miss(NO_CACHE),
    ]
}
