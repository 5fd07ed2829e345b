//! CPU share of a process that computes on a router under load: Mogul and Ramakrishnan, TOCS 1997, figure
//! 10.
//!
//! The polling thread measures its own time. When it has used its share of a period of 10 ms, input stops
//! until the end of the period.

use evenkeel::raw::receive::Quota;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::router_setup::Setup;
use crate::router_testbed::{Curve, Load, Router, TIME, WARM_UP};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig10",
    title: "CPU time left for a user process under the cycle limit",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 10",
    measure,
};

/// The figures that the paper states.
mod paper {
    pub(super) const BASE_PERCENT: f64 = 94.0;
    /// The tolerance of a share, in percentage points.
    pub(super) const POINTS: f64 = 3.0;
    /// The quota of the polling thread, in packets (L97.F10.quota).
    pub(super) const QUOTA: usize = 5;
    /// The paper checks the limit after each round, so one round of 1 ms in 10 may exceed it (L97.F10.burst).
    pub(super) const ROUND_PERCENT: f64 = 10.0;
}

/// Output and interrupts after the limit (D.L97.cycle): the output that remains from a ring of packets, and
/// an interrupt for each frame of it.
const AFTER_PERCENT: f64 = 6.0;

const LIMITS: [Option<u8>; 4] = [Some(25), Some(50), Some(75), None];
/// A load at which the router is saturated at any limit.
const SATURATED: u64 = 5_000;
const FLOOD: u64 = 8_000;

fn measure(seed: u64) -> Outcome {
    let rates: Vec<u64> = (0..5_000).step_by(250).chain((5_000..=12_000).step_by(1_000)).collect();
    let curves = LIMITS.map(|limit| {
        let setup = Setup { spinner: true, ..router(limit) };
        Curve::measure(name(limit), &setup, rates.iter().copied(), seed)
    });
    let points = |c: &Curve| -> Vec<Point> {
        c.measured().map(|(_, m)| m.point_at(&c.name, m.offered_pps, 100.0 * m.user)).collect()
    };
    let [quarter, half, three_quarters, none] = &curves;
    let limited = [(quarter, 25.0), (half, 50.0), (three_quarters, 75.0)];
    let mut checks = ends(none, seed);
    checks.extend(limited.iter().flat_map(|&(curve, percent)| plateau(curve, percent)));
    checks.extend([dip(half), dip(three_quarters)]);
    checks.extend([50, 75].map(|limit| dip_one_by_one(limit, seed)));
    checks.push(idle(seed));
    Outcome::new(
        "input (pps)",
        "CPU time of the user process (%)",
        curves.iter().flat_map(points).collect(),
        checks,
    )
}

const fn router(cycle_limit: Option<u8>) -> Setup {
    Setup { quota: Quota::Fixed(paper::QUOTA), cycle_limit, ..Setup::POLLING }
}

fn name(limit: Option<u8>) -> String {
    limit.map_or_else(|| "no limit".into(), |percent| format!("limit {percent} %"))
}

fn user_percent(curve: &Curve, of: impl Fn(u64) -> bool) -> Vec<f64> {
    curve.measured().filter(|(rate, _)| of(*rate)).map(|(_, m)| 100.0 * m.user).collect()
}

fn ends(none: &Curve, seed: u64) -> Vec<Check> {
    let base = [paper::BASE_PERCENT - paper::POINTS, paper::BASE_PERCENT + paper::POINTS];
    let alone = Router::new(&router(None), Load::Rate(FLOOD), seed).measure(WARM_UP, TIME);
    let share = none.at(FLOOD).forwarded_pps / alone.forwarded_pps;
    vec![
        calibrated("program.housekeeping, cost.clock", Paper, "user share without input (%)")
            .within(base, &user_percent(none, |rate| rate == 0)),
        predicted(Words, "user share in a flood without limit (%)")
            .within([0.0, 0.5], &user_percent(none, |r| r >= SATURATED)),
        predicted(Words, "output at 8000/s beside the process, of that without it")
            .within([0.99, 1.01], &[share]),
    ]
}

/// Checks the user's share in overload: the share that the limit leaves, less one round and the work after
/// the limit.
fn plateau(curve: &Curve, percent: f64) -> [Check; 2] {
    let shares = user_percent(curve, |rate| rate >= SATURATED);
    let most = paper::BASE_PERCENT - percent;
    let least = most - paper::ROUND_PERCENT - AFTER_PERCENT;
    let (low, high) = shares.iter().fold((f64::MAX, f64::MIN), |(l, h), &s| (l.min(s), h.max(s)));
    [
        predicted(Derived, format!("user share from 5000/s on, {} (%)", curve.name))
            .within([least, most], &shares),
        predicted(Words, format!("largest less smallest of these, {}: flat (points)", curve.name))
            .within([0.0, paper::POINTS], &[high - low]),
    ]
}

/// Checks the dip: below saturation nearly every packet interrupts, and interrupts do not count towards the
/// limit.
fn dip(curve: &Curve) -> Check {
    let lowest = user_percent(curve, |rate| rate < SATURATED).into_iter().fold(f64::MAX, f64::min);
    let beyond = user_percent(curve, |rate| rate >= SATURATED).into_iter().fold(f64::MAX, f64::min);
    predicted(Words, format!("dip below saturation, {} (points)", curve.name))
        .within([1.0, 15.0], &[beyond - lowest])
}

/// Checks the dip in the case by which the paper explains it: each packet is handled before the next
/// arrives, so no two share an interrupt (L97.F10.dip). Packets in the bursts of the generator
/// (L97.F15.noise) do share some.
fn dip_one_by_one(limit: u8, seed: u64) -> Check {
    let setup = Setup { spinner: true, ..router(Some(limit)) };
    let rates = (2_000..=3_750).step_by(250).chain([SATURATED]);
    let name = format!("packets one by one, {}", name(Some(limit)));
    dip(&Curve::under(Load::Spaced, name, &setup, rates, seed))
}

/// Checks that the limit leaves output alone while the CPU would idle: then there is no process to protect.
fn idle(seed: u64) -> Check {
    let measured = Router::new(&router(Some(1)), Load::Rate(1_000), seed).measure(WARM_UP, TIME);
    let share = measured.forwarded_pps / measured.offered_pps;
    predicted(Words, "output at 1000/s on an idle system with a limit of 1 %, of the input")
        .within([0.99, 1.01], &[share])
}
