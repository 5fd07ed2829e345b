//! Forwarding with quotas from small to none: Mogul and Ramakrishnan, TOCS 1997, figure 7.
//!
//! With a larger quota the transmit side waits longer for its turn, and more packets are dropped in the
//! output queue.

use evenkeel::raw::receive::Quota;

use crate::check::{Check, Origin::*, calibrated, predicted, ranking};
use crate::experiment::{Experiment, Outcome};
use crate::router_setup::Setup;
use crate::router_testbed::{Curve, TRANSMIT_RING, output_over_input, rates};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig7",
    title: "Effect of the quota on forwarding",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 7",
    measure,
};

const QUOTAS: [Quota; 7] = [
    Quota::Fixed(2),
    Quota::Fixed(5),
    Quota::Fixed(8),
    Quota::Fixed(10),
    Quota::Fixed(20),
    Quota::Fixed(100),
    Quota::Unlimited,
];

fn measure(seed: u64) -> Outcome {
    let curves = Curve::by_quota(QUOTAS, &Setup::POLLING, rates(12_000, &[4_500]), seed);
    output_over_input(&curves, checks(&curves))
}

fn checks(curves: &[Curve; 7]) -> Vec<Check> {
    let [small @ .., _, _, _, _] = curves;
    let flat: Vec<f64> = small.iter().flat_map(|c| c.shares_from(6_000)).collect();
    let order: Vec<(&str, f64)> = curves[2..].iter().map(|c| (c.name.as_str(), c.asymptote())).collect();
    let none = &curves[6];
    vec![
        predicted(Words, "output at 12000/s, best first: smaller quotas work better")
            .equal("quota 8 > quota 10 > quota 20 > quota 100 > no quota", ranking(&order)),
        calibrated(
            TRANSMIT_RING,
            Words,
            "output with quotas up to 8 from 6000/s on, of their peaks: no livelock",
        )
        .within([0.97, 1.0], &flat),
        predicted(Words, "output without quota at 12000/s, of its peak: livelock")
            .within([0.0, 0.05], &[none.asymptote() / none.peak()]),
    ]
}
