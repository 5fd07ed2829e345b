//! Cost of `select` in the unmodified kernel, against cold connections: Banga and Mogul, WRL 98/6, figure
//! 1.
//!
//! Up to fifty clients request 100 pages a second from a proxy, while a load-adding client keeps silent
//! connections open.

use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::s98_profile::POINTS;
use crate::s98_testbed::{Kernel, Load, Measured, SHORT, Server, run};
use crate::statistics::settled;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-fig1",
    title: "select() in the unmodified kernel against cold connections",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, figure 1",
    measure,
};

/// The numbers of cold connections (S98.w.cold).
const COLD: [usize; 9] = [100, 250, 500, 750, 1_000, 1_250, 1_500, 1_750, 2_000];
/// The numbers of hot connections (S98.w.hot).
const HOT: [usize; 2] = [10, 50];
/// Requests per second (S98.F1.rate).
const RATE: f64 = 100.0;

/// The figures that the paper states, in percent of the CPU.
mod paper {
    /// The greatest share of `select` in the kernel (S98.F1.k).
    pub(super) const KERNEL: f64 = 53.0;
    /// The greatest share of the loop around `select` in user mode (S98.F1.u).
    pub(super) const USER: f64 = 11.0;
    /// The number of cold connections up to which the cost does not depend on hot ones (S98.F1.hot).
    pub(super) const INDEPENDENT_UP_TO: usize = 1_000;
}

type Curve = Vec<(usize, Measured)>;

fn measure(seed: u64) -> Outcome {
    let curves = HOT.map(|hot| COLD.map(|cold| (cold, at([hot, cold], draw([hot, cold], seed)))).to_vec());
    let mut points = Vec::new();
    for (hot, curve) in HOT.into_iter().zip(&curves) {
        points.extend(line(&format!("kernel, {hot} hot"), curve, |m| m.select));
        points.extend(line(&format!("user, {hot} hot"), curve, |m| m.around));
    }
    let checks = checks(&curves, seed);
    Outcome::new("cold connections", "share of the CPU (%)", points, checks)
}

fn line(series: &str, curve: &Curve, share: impl Fn(&Measured) -> f64) -> Vec<Point> {
    let more = |m: &Measured| {
        [("idle", m.idle), ("ufalloc", m.ufalloc), ("calls_per_s", m.calls), ("events_per_call", m.events)]
    };
    let point =
        |(cold, m): &(usize, Measured)| Point::new(series, *cold as f64, 100.0 * share(m)).with(more(m));
    curve.iter().map(point).collect()
}

/// Returns the seed of a point's random numbers.
fn draw([hot, cold]: [usize; 2], seed: u64) -> u64 {
    seed ^ (hot << 16 | cold) as u64
}

fn at([hot, cold]: [usize; 2], seed: u64) -> Measured {
    run(Kernel::Unmodified, Server::Squid, Load { cold, hot, rate: RATE, bytes: SHORT }, seed)
}

/// Returns the greatest share of the kernel. The greatest of 18 points is that with the greatest noise, so
/// it is measured again.
fn greatest_select(curves: &[Curve; 2], seed: u64) -> f64 {
    let points = HOT.into_iter().zip(curves);
    let points = points.flat_map(|(hot, curve)| curve.iter().map(move |(cold, m)| ([hot, *cold], m.select)));
    let greatest = points.max_by(|a, b| a.1.total_cmp(&b.1));
    let (place, share) = greatest.expect("there are points");
    100.0 * settled(share, draw(place, seed), |seed| at(place, seed).select)
}

fn checks(curves: &[Curve; 2], seed: u64) -> Vec<Check> {
    let [ten, fifty] = curves;
    let greatest = |share: fn(&Measured) -> f64| {
        100.0 * curves.iter().flatten().map(|(_, m)| share(m)).fold(0.0, f64::max)
    };
    let of = |curve: &Curve, cold: usize| curve.iter().find(|(at, _)| *at == cold).expect("it is measured").1;
    let both = |cold, share: fn(&Measured) -> f64| [ten, fifty].map(|curve| share(&of(curve, cold)));
    let growth = |from, to| {
        let ([a, b], [c, d]) = (both(from, |m| m.select), both(to, |m| m.select));
        [c / a, d / b]
    };
    let few = COLD.into_iter().filter(|cold| *cold <= paper::INDEPENDENT_UP_TO);
    let beside: Vec<f64> = few.map(|cold| of(fifty, cold).select / of(ten, cold).select).collect();
    let rates: Vec<f64> = curves.iter().flatten().map(|(_, m)| m.throughput).collect();
    let rarer = [ten, fifty].map(|curve| of(curve, 2_000).calls / of(curve, 100).calls);
    let fuller = [ten, fifty].map(|curve| of(curve, 2_000).events / of(curve, 100).events);
    vec![
        condition("answers a second").within([0.95 * RATE, 1.05 * RATE], &rates),
        predicted(Paper, "kernel's part of select, greatest share (%)")
            .within([paper::KERNEL - POINTS, paper::KERNEL + POINTS], &[greatest_select(curves, seed)]),
        predicted(Paper, "user's loop around it, greatest share (%)")
            .within([paper::USER - POINTS, paper::USER + POINTS], &[greatest(|m| m.around)]),
        predicted(Words, "kernel's part at 500 cold connections, of that at 250: linear at first")
            .within([1.5, 2.2], &growth(250, 500)),
        predicted(Words, "kernel's part at 2000, of that at 1500: flat then")
            .within([0.85, 1.15], &growth(1_500, 2_000)),
        condition(
            "up to 1000 cold connections, 50 hot ones, of 10: 10 clients are enough for this rate, so more \
             make no difference",
        )
        .within([0.9, 1.1], &beside),
        predicted(Words, "calls at 2000 cold connections, of those at 100: come less often")
            .within([0.05, 0.6], &rarer),
        predicted(Words, "events found by a call at 2000, of that at 100: several")
            .within([2.0, 20.0], &fuller),
    ]
}
