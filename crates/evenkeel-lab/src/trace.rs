//! The path of one packet through the router, as in the livelock paper's traces (section 8.1).

use evenkeel::raw::host::Work;
use evenkeel::raw::time::{Duration, Instant};

use crate::check::{Check, Origin::Paper, calibrated};
use crate::experiment::{Outcome, Point};
use crate::l97_fig14::{GAP, TRACED};
use crate::router_setup::Setup;
use crate::router_testbed::{Load, Router, START, costs};

/// The end of a piece of work that a stamp marks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Begins,
    Ends,
}

/// A moment of the paper's trace, and its event in the model: one end of the nth piece of some work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) us: f64,
    pub(crate) what: &'static str,
    pub(crate) at: (End, Work, usize),
    /// The reason why the model misses it, if it does.
    pub(crate) missed: Option<&'static str>,
}

/// Creates a stamp for a moment of the paper's trace.
pub(crate) const fn stamp(us: f64, what: &'static str, at: (End, Work, usize)) -> Stamp {
    Stamp { us, what, at, missed: None }
}

impl Stamp {
    /// Returns this stamp with the reason why the model misses it.
    pub(crate) const fn missed(self, why: &'static str) -> Self {
        Self { missed: Some(why), ..self }
    }
}

/// The reason for the place of device work.
pub(crate) const DEVICE: &str = "prices are of sums that the paper's rates fix, stretched by one factor for \
     tracing; where in a sum the event lies, and how densely the calls around it are traced, they do not \
     know";

/// Returns times and checks of a single packet. Each time is a sum of prices, of which `fitted` were fitted
/// to these traces.
pub(crate) fn one_packet(setup: &Setup, stamps: &[Stamp], fitted: &'static str, seed: u64) -> Outcome {
    let times: Vec<f64> = times(setup, stamps, seed);
    let nth = |n: usize| (n + 1) as f64;
    let here = times.iter().enumerate().map(|(n, &us)| Point::new("model, stretched", nth(n), us));
    let paper = stamps.iter().enumerate().map(|(n, stamp)| Point::new("paper: traced", nth(n), stamp.us));
    let check = |(stamp, &us): (&Stamp, &f64)| -> Check {
        let check = calibrated(fitted, Paper, format!("{} (µs)", stamp.what)).near(stamp.us, us, 0.10);
        stamp.missed.map_or(check.clone(), |why| check.known_miss(why))
    };
    let checks = stamps.iter().zip(&times).map(check).collect();
    Outcome::new("event", "time since the interrupt (µs)", here.chain(paper).collect(), checks)
}

/// Returns the microseconds since the packet's arrival, stretched as tracing stretched the paper's.
fn times(setup: &Setup, stamps: &[Stamp], seed: u64) -> Vec<f64> {
    let mut router = Router::new(setup, Load::Once(1, GAP), seed);
    let cpu = router.record(START + Duration::from_millis(20));
    let timeline = cpu.timeline().expect("it records");
    let costs = costs(setup);
    let Some(&arrival) = timeline.arrivals().first() else { return vec![f64::NAN; stamps.len()] };
    let us = |at: Instant| at.since(arrival).as_secs_f64() * 1e6 * TRACED;
    let time = |stamp: &Stamp| {
        let (end, work, nth) = stamp.at;
        let begins = timeline.times(work).filter(|at| *at >= arrival).nth(nth);
        let at = begins.map(|at| match end {
            End::Begins => at,
            End::Ends => at + costs.of(work),
        });
        at.map_or(f64::NAN, us)
    };
    stamps.iter().map(time).collect()
}
