//! Statistics of trigger intervals: Aron and Druschel, TOCS 2000, table IV.

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_fig2::CALLS;
use crate::t00_testbed::{Pentium, Server};
use crate::t00_workloads::{Trace, Workload, trace};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab4",
    title: "Intervals between trigger states: mean, median, deviation and longest",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table IV (its cells are missing: the numbers its \
        text repeats)",
    measure,
};

/// T00.F1.worst: mean and median of the workload with the longest intervals.
const WORST: [f64; 2] = [31.6, 18.0];
/// The mean intervals of ST-Flash in microseconds, on a Pentium II and a Pentium III (T00.T1.rate).
pub(crate) const FLASH: [f64; 2] = [22.53, 12.45];
/// The parameters from which the second mean follows: the one fitted to the first, and the ratio of the
/// clocks, which divides prices.
pub(crate) const FASTER: &str = "program.flash-user, the ratio of the clocks";
const APACHE_III: Workload = Workload::Web(Server::Apache, Pentium::Iii);
const FLASH_II: Workload = Workload::Web(Server::Flash, Pentium::Ii);
const FLASH_III: Workload = Workload::Web(Server::Flash, Pentium::Iii);

fn measure(seed: u64) -> Outcome {
    let all = Workload::ON_PENTIUM_II.into_iter().chain([APACHE_III, FLASH_III]);
    let traces: Vec<_> = all.map(|workload| (workload, trace(workload, seed))).collect();
    let rows = traces.iter().zip(1..);
    let points = rows.map(|((workload, trace), row)| {
        let gaps = &trace.gaps;
        Point::new(workload.name(), f64::from(row), gaps.mean()).with([
            ("median", gaps.median()),
            ("deviation", gaps.deviation()),
            ("max", gaps.max()),
            ("over_100_us_percent", gaps.percent_over(100.0)),
            ("over_150_us_percent", gaps.percent_over(150.0)),
            ("idle", trace.idle),
        ])
    });
    let points = points.collect();
    Outcome::new("row", "mean interval (µs)", points, checks(&traces))
}

fn checks(traces: &[(Workload, std::sync::Arc<Trace>)]) -> Vec<Check> {
    let of = |wanted: Workload| {
        let found = traces.iter().find(|(workload, _)| *workload == wanted);
        &found.expect("all are measured").1.gaps
    };
    let means: Vec<f64> = traces.iter().map(|(_, trace)| trace.gaps.mean()).collect();
    let worst = means.iter().copied().fold(0.0, f64::max);
    let fall = |ii, iii| of(iii).mean() / of(ii).mean();
    vec![
        calibrated("program.apache-user", Paper, "mean of the worst workload (µs)")
            .near(WORST[0], worst, 0.05),
        calibrated(
            "cost.segment-output, the list of Apache's calls, the variation of times",
            Paper,
            "ST-Apache: median (µs)",
        )
        .near(WORST[1], of(Workload::APACHE).median(), 0.05),
        calibrated("program.flash-user", Paper, "ST-Flash: mean (µs)").near(
            FLASH[0],
            of(FLASH_II).mean(),
            0.05,
        ),
        calibrated(FASTER, Paper, "ST-Flash on a PIII: mean (µs)").near(FLASH[1], of(FLASH_III).mean(), 0.1),
        calibrated(FASTER, Words, "PIII of PII, means: roughly the ratio of the clocks, 0.6")
            .within([0.5, 0.7], &[fall(Workload::APACHE, APACHE_III), fall(FLASH_II, FLASH_III)]),
        calibrated(CALLS, Words, "ST-Apache: mean of the median: heavily skewed to small intervals")
            .within([1.3, 3.0], &[of(Workload::APACHE).mean() / of(Workload::APACHE).median()]),
        calibrated(CALLS, Derived, "ST-Apache: deviation of the mean, as tables VIII and IX need it")
            .within([0.9, 1.15], &[of(Workload::APACHE).deviation() / of(Workload::APACHE).mean()]),
        calibrated("program.idle-loop, program.apache-user", Derived, "means of all on a PII (µs)")
            .within([1.9, 33.0], &means[..6]),
        predicted(Derived, "the longest of all (µs): an interrupt of the backing is no later")
            .within([0.0, 1_050.0], &traces.iter().map(|(_, trace)| trace.gaps.max()).collect::<Vec<_>>()),
    ]
}
