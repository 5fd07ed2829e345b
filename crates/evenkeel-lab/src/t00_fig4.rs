//! Trigger intervals without one of the sources: Aron and Druschel, TOCS 2000, figure 4.

use crate::check::{Check, Origin::*, predicted, ranking};
use crate::experiment::{Experiment, Outcome};
use crate::t00_fig2::cdf;
use crate::t00_gaps::Gaps;
use crate::t00_tab5::SOURCES;
use crate::t00_workloads::{Workload, trace};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-fig4",
    title: "Intervals between trigger states if one source has none, ST-Apache",
    source: "Aron and Druschel, Soft timers, TOCS 2000, figure 4 (a picture: what its text says of it)",
    measure,
};

fn measure(seed: u64) -> Outcome {
    let trace = trace(Workload::APACHE, seed);
    let without = SOURCES.map(|source| {
        let others = trace.states.iter().filter(|state| state.source != source);
        (source.name(), Gaps::of(others.copied()))
    });
    let mut points: Vec<_> = cdf("all", &trace.gaps).collect();
    for (name, gaps) in &without {
        points.extend(cdf(&format!("no {name}"), gaps));
    }
    Outcome::new("interval (µs)", "intervals that are no longer (%)", points, checks(&trace.gaps, &without))
}

fn checks(all: &Gaps, without: &[(&'static str, Gaps); 5]) -> Vec<Check> {
    let means = without.each_ref().map(|(name, gaps)| (*name, gaps.mean()));
    let order = ranking(&means);
    let first_two: Vec<&str> = order.split(" > ").take(2).collect();
    let others = &means[2..];
    vec![
        predicted(Words, "the two whose absence makes intervals longest")
            .equal("syscalls > ip-output", first_two.join(" > ")),
        predicted(Words, "without system calls, or output: mean of that with all: the most important")
            .within([1.2, 5.0], &[means[0].1 / all.mean(), means[1].1 / all.mean()]),
        predicted(Words, "without each of the others: mean of that with all: less so")
            .within([1.0, 1.2], &others.iter().map(|(_, mean)| mean / all.mean()).collect::<Vec<_>>()),
    ]
}
