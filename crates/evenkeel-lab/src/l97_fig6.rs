//! Effect of feedback from the screening queue: Mogul and Ramakrishnan, TOCS 1997, figure 6.
//!
//! A user process decides about each packet. Polling alone does not help it, because the polling thread has
//! priority over all processes. When the screening queue is three quarters full, input stops until it is a
//! quarter full, or for one tick of the clock.

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::router_setup::{SCREENING_QUOTA, Setup, TICK};
use crate::router_testbed::{Curve, rates};
use crate::statistics::settled;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig6",
    title: "Forwarding rate with screend, and feedback from its queue",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 6",
    measure,
};

/// The figures that the paper states.
mod paper {
    /// "From under 2000 packets/sec. to over 2900".
    pub(super) const MLFRR: [f64; 2] = [2000.0, 2900.0];
    /// Complete livelock of the unmodified kernel; "about as badly" without feedback.
    pub(super) const LIVELOCK: u64 = 6_000;
}

fn measure(seed: u64) -> Outcome {
    let curve = |name: &str, setup: Setup| {
        Curve::measure(name, &setup.with_screend(), rates(12_000, &[1_800, 2_700]), seed)
    };
    let without = Setup { quota: SCREENING_QUOTA, ..Setup::POLLING };
    let unmodified = curve("unmodified", Setup::UNMODIFIED);
    let no_feedback = curve("polling, no feedback", without);
    let with = Setup { feedback: Some(TICK), ..without };
    let feedback = curve("polling, feedback", with);
    let patient =
        Curve::measure("", &Setup { feedback: Some(TICK * 5), ..without }.with_screend(), [RESUMES_AT], seed);
    let points = [&unmodified, &no_feedback, &feedback]
        .into_iter()
        .flat_map(Curve::points)
        .chain(Point::of_paper(
            "unmodified",
            &[(paper::MLFRR[0], paper::MLFRR[0]), (paper::LIVELOCK as f64, 0.0)],
        ))
        .chain(Point::of_paper("feedback", &[(paper::MLFRR[1], paper::MLFRR[1])]))
        .chain(Point::derived(
            "feedback",
            &[(paper::MLFRR[1], paper::MLFRR[1]), (12_000.0, paper::MLFRR[1])],
        ));
    let peak = peak(&feedback, &with.with_screend(), seed);
    let checks = [peaks(&unmodified, &feedback, peak), overload(&unmodified, &no_feedback, &feedback)];
    Outcome::new(
        "input (pps)",
        "output (pps)",
        points.collect(),
        [checks.concat(), resumes(&feedback, &patient)].concat(),
    )
}

const UNMODIFIED: &str = "architecture.eager.deliver";
const FEEDBACK: &str = "cost.deliver, cost.system-call, program.screend";

/// Returns the peak of a curve. The peak is 3 % above its successors, at the brink of saturation, where one
/// second in a hundred seeds has 5 %: so the rate is measured again.
fn peak(curve: &Curve, setup: &Setup, seed: u64) -> f64 {
    let rate = curve.peak_rate();
    let again = |seed| Curve::measure("", setup, [rate], seed).peak();
    settled(curve.peak(), seed, again)
}

/// Checks the peaks. The gain comes from a price: with equal prices of `deliver` in both kernels, the
/// unmodified one would be free of loss up to 3200/s.
fn peaks(unmodified: &Curve, feedback: &Curve, peak: f64) -> Vec<Check> {
    let [before, after] = paper::MLFRR;
    vec![
        calibrated(UNMODIFIED, Paper, "loss-free up to, unmodified (pps)").near(
            before,
            unmodified.mlfrr(),
            0.05,
        ),
        calibrated(FEEDBACK, Paper, "loss-free up to, with feedback (pps)").near(
            after,
            feedback.mlfrr(),
            0.05,
        ),
        calibrated(FEEDBACK, Paper, "peak with feedback (pps)").near(after, peak, 0.05),
    ]
}

/// The range of ratios in which rates count as equal. Near saturation input is seldom inhibited, and output
/// is 3 % higher than beyond it.
pub(crate) const FLAT: [f64; 2] = [0.95, 1.0];

fn overload(unmodified: &Curve, no_feedback: &Curve, feedback: &Curve) -> Vec<Check> {
    let beyond = paper::LIVELOCK + 500;
    vec![
        predicted(Words, "output with feedback from 3000/s on, of its peak: flat")
            .within(FLAT, &feedback.shares_from(3_000)),
        predicted(Words, "output without feedback from 6500/s on, of its peak: livelock")
            .within([0.0, 0.05], &no_feedback.shares_from(beyond)),
        calibrated("cost.screen", Paper, "output unmodified from 6500/s on, of its peak: livelock")
            .within([0.0, 0.05], &unmodified.shares_from(beyond)),
        predicted(Paper, "losses at 4000/s without feedback")
            .equal("screening queue", no_feedback.at(4_000).places()),
        predicted(Words, "losses at 6000/s with feedback").equal("ring", feedback.at(6_000).places()),
    ]
}

const RESUMES_AT: u64 = 6_000;

/// Checks the resumptions. Draining the queue from 24 to 8 packets takes longer than a tick, so with the
/// paper's timeout the low mark is not reached (D.L97.tick_first).
fn resumes(feedback: &Curve, patient: &Curve) -> Vec<Check> {
    let by_timeout = |curve: &Curve| curve.at(RESUMES_AT).timeouts / curve.at(RESUMES_AT).resumes;
    vec![
        predicted(Derived, "inhibitions ended by the timeout of a tick at 6000/s")
            .within([0.95, 1.0], &[by_timeout(feedback)]),
        predicted(Derived, "ended by a timeout of five ticks").within([0.0, 0.05], &[by_timeout(patient)]),
        predicted(Derived, "packets for each inhibition with five ticks, 24 less 8").near(
            16.0,
            patient.per_resume(RESUMES_AT),
            0.10,
        ),
    ]
}
