//! Intervals between trigger states: Aron and Druschel, TOCS 2000, figure 2.

use crate::check::{Check, Origin::*, calibrated, condition, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_gaps::Gaps;
use crate::t00_testbed::{Pentium, Server};
use crate::t00_workloads::{Trace, Workload, trace};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-fig2",
    title: "Intervals between trigger states, under six workloads",
    source: "Aron and Druschel, Soft timers, TOCS 2000, figure 2 (a picture: what its text says of it)",
    measure,
};

/// The parameters that shape the distribution: the list of calls, and the division of user mode among them.
pub(crate) const CALLS: &str = "the list of Apache's calls, the variation of times";
/// The variation of times, which also shapes the distribution: times vary by up to 40 % about their means,
/// not by 20 or by 60.
pub(crate) const VARIATION: &str = "the variation of times";

pub(crate) const AT: [f64; 12] = [2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 120.0, 150.0];

/// Returns the cumulative distribution of intervals.
pub(crate) fn cdf<'a>(series: &'a str, gaps: &'a Gaps) -> impl Iterator<Item = Point> + 'a {
    AT.iter().map(move |at| Point::new(series, *at, 100.0 - gaps.percent_over(*at)))
}

fn measure(seed: u64) -> Outcome {
    let traces = Workload::ON_PENTIUM_II.map(|workload| (workload, trace(workload, seed)));
    let points = traces.iter().flat_map(|(workload, trace)| cdf(workload.name(), &trace.gaps)).collect();
    let [apache, compute, flash, audio, nfs, _] = traces.map(|(_, trace)| trace);
    let checks = checks([&apache, &compute, &flash], &audio, &nfs, seed);
    Outcome::new("interval (µs)", "intervals that are no longer (%)", points, checks)
}

fn checks([apache, compute, flash]: [&Trace; 3], audio: &Trace, nfs: &Trace, seed: u64) -> Vec<Check> {
    let over = |trace: &Trace| trace.gaps.percent_over(100.0);
    let loop_share = 100.0 - nfs.gaps.percent_over(2.5);
    // The two distributions, in units of their means.
    let shape = |server| {
        let [ii, iii] = [Pentium::Ii, Pentium::Iii].map(|on| trace(Workload::Web(server, on), seed));
        let of = |percent| {
            let of = |trace: &Trace| trace.gaps.percentile(percent) / trace.gaps.mean();
            of(&iii) / of(&ii)
        };
        [25.0, 50.0, 75.0, 90.0].map(of)
    };
    let shapes = [shape(Server::Apache), shape(Server::Flash)].concat();
    vec![
        calibrated(CALLS, Paper, "ST-Apache, ST-Apache-compute: intervals over 100 µs (%)")
            .within([0.0, 6.0], &[over(apache), over(compute)]),
        predicted(Paper, "ST-Flash: intervals over 100 µs (%)").within([0.0, 6.0], &[over(flash)]),
        predicted(
            Words,
            "with a process that computes: mean and median, of those without: no tangible impact",
        )
        .within(
            [0.95, 1.05],
            &[compute.gaps.mean() / apache.gaps.mean(), compute.gaps.median() / apache.gaps.median()],
        ),
        calibrated("program.nfs-disk", Paper, "ST-nfs: idle (%)").within([87.0, 93.0], &[100.0 * nfs.idle]),
        calibrated("program.idle-loop", Paper, "ST-nfs: median interval (µs)").near(
            2.0,
            nfs.gaps.median(),
            0.1,
        ),
        calibrated(
            "program.nfs-disk, program.idle-loop",
            Words,
            "ST-nfs: intervals of about 2 µs (%): the vast majority",
        )
        .within([90.0, 100.0], &[loop_share]),
        calibrated("program.audio-user", Words, "ST-real-audio: mean interval of ST-Apache's: very low")
            .within([0.0, 0.4], &[audio.gaps.mean() / apache.gaps.mean()]),
        condition("ST-real-audio: idle (%): it saturates the CPU").within([0.0, 1.0], &[100.0 * audio.idle]),
        predicted(Words, "PIII against PII, in units of the mean: quartiles and ninth decile: similar")
            .within([0.85, 1.15], &shapes),
    ]
}
