//! The profile of the modified kernel: Banga and Mogul, WRL 98/6, table 2.

use crate::check::{Check, Origin::*, calibrated, condition, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::s98_profile::{RATE, ROWS, about, points, profile, rows};
use crate::s98_testbed::{Kernel, Measured};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-tab2",
    title: "Where a proxy's CPU time goes, new select and ufalloc",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, table 2",
    measure,
};

/// The paper's profile in percent (S98.Tab2): `select`, `ufalloc`, `comm_select`, idle, and the rest.
const PAPER: [f64; 5] = [11.49, 0.0, 16.37, 21.96, 50.18];

/// Arithmetic on both tables (D.S98.selectcall): the ratio of a call's costs in the old and the new kernel,
/// and of its frequencies in the new and the old one.
const COST_OF_A_CALL: f64 = 7.4;
const MORE_CALLS: f64 = 16.37 / 4.23;
/// The share of `select` and the loop around it together, in percent (S98.T2.sum).
const BITMAPS: f64 = 28.0;

fn measure(seed: u64) -> Outcome {
    let [old, new] = [Kernel::Unmodified, Kernel::Modified].map(|kernel| profile(kernel, seed));
    Outcome::new(ROWS, "share of the CPU (%)", points(&new, PAPER), checks(&old, &new))
}

const OLD_CALLS: &str = "the unmodified kernel calls select more often here, because what it calls around it \
     leaves more of the CPU to it than in table 1 (see there)";

fn checks(old: &Measured, new: &Measured) -> Vec<Check> {
    let [select, ufalloc, around, idle, others] = rows(new);
    let call = |m: &Measured| m.select / m.calls;
    let busiest = if around > select { "the user's loop" } else { "select" };
    vec![
        condition("answers a second").within([0.95 * RATE, 1.05 * RATE], &[new.throughput]),
        calibrated("cost.set-word", Paper, "select (%)").within(about(PAPER[0]), &[select]),
        calibrated("program.squid-descriptor", Paper, "the loop around select (%)")
            .within(about(PAPER[2]), &[around]),
        calibrated("cost.set-word, program.squid-descriptor", Paper, "both together (%)")
            .within(about(BITMAPS), &[select + around]),
        calibrated("program.squid-request", Paper, "idle (%)").within(about(PAPER[3]), &[idle]),
        calibrated("program.squid-request", Derived, "all else (%)").within(about(PAPER[4]), &[others]),
        calibrated(
            "cost.status-test, cost.set-word",
            Derived,
            "a call in the old kernel, of one in the new (times)",
        )
        .near(COST_OF_A_CALL, call(old) / call(new), 0.15),
        predicted(Paper, "ufalloc (%): virtually none").within([0.0, 0.1], &[ufalloc]),
        calibrated(
            "cost.set-word, program.squid-descriptor",
            Words,
            "the busiest of select and the user's loop",
        )
        .equal("the user's loop", busiest),
        predicted(Derived, "calls in the new kernel, of those in the old (times)")
            .near(MORE_CALLS, new.calls / old.calls, 0.1)
            .known_miss(OLD_CALLS),
    ]
}
