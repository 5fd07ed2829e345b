//! Sources of trigger states: Aron and Druschel, TOCS 2000, table V.

use evenkeel_sim::trigger::Source;

use crate::check::{Check, Origin::*, condition, predicted, ranking};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_workloads::{Trace, Workload, trace};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab5",
    title: "Sources of trigger states, ST-Apache",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table V (its cells are missing: the order its \
        text gives)",
    measure,
};

/// The sources that the paper names.
pub(crate) const SOURCES: [Source; 5] =
    [Source::SystemCall, Source::Output, Source::Input, Source::Others, Source::Trap];

/// Returns the percentage of the states that come from `source`.
fn share(trace: &Trace, source: Source) -> f64 {
    let of = trace.states.iter().filter(|state| state.source == source).count();
    100.0 * of as f64 / trace.states.len() as f64
}

fn measure(seed: u64) -> Outcome {
    let trace = trace(Workload::APACHE, seed);
    let rows = SOURCES.iter().chain([&Source::Clock]).zip(1..);
    let points = rows.map(|(source, row)| Point::new(source.name(), f64::from(row), share(&trace, *source)));
    Outcome::new("row", "share of the trigger states (%)", points.collect(), checks(&trace))
}

fn checks(trace: &Trace) -> Vec<Check> {
    let shares = SOURCES.map(|source| (source.name(), share(trace, source)));
    let order = ranking(&shares);
    let first_two: Vec<&str> = order.split(" > ").take(2).collect();
    vec![
        condition("each source has some of them (%)").within([0.1, 100.0], &shares.map(|(_, share)| share)),
        predicted(Words, "the two that most of them come from")
            .equal("syscalls > ip-output", first_two.join(" > ")),
        condition("the interrupt of the backing, a share that falls with the rate of all others (%)")
            .within([0.0, 5.0], &[share(trace, Source::Clock)]),
    ]
}
