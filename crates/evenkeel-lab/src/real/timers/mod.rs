//! Tables I and VII of the paper on soft timers in real time: the cost of a microsecond timer's events for a
//! saturated server on their core, and the lateness of the events.
//!
//! A host answers requests over UDP on its own core, and gets more than it can answer. Events at regular
//! intervals share the core: soft timers of the host's engine, or timers of the kernel, each event of which
//! is an interrupt. The handler records its lateness. For table I it does nothing else. For table VII it
//! sends a full packet through a separate cable. The cost of sending alone is measured with as many packets
//! that leave together, every millisecond.
//!
//! On a shared machine a server's rate differs by a third from one run to the next. So phases of a few
//! milliseconds without and with events alternate, and each phase is compared with the previous one.

mod events;
mod server;
mod sink;

use std::collections::BTreeMap;
use std::io;

use evenkeel::raw::time::Duration;
use evenkeel_apps::measure::undisturbed;

use self::events::Facility;
pub(super) use self::events::Handling;
use self::server::{Measured, Pair, run};
pub(super) use self::sink::TURN;
use super::{Options, Place, Progress};
use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};
use crate::statistics::median;

const INTERVALS_US: [u64; 4] = [10, 20, 50, 100];

/// The share of the server's throughput that soft timers may cost. The machine's noise may make it
/// negative.
const FREE: [f64; 2] = [-0.05, 0.01];
const BY_ITSELF: &str = "a packet that leaves by itself takes half a microsecond, twice as long as one of \
    many that leave together: it finds less of what it needs in the caches";
/// The allowed median lateness of a soft event, in microseconds.
const LATE_US: [f64; 2] = [0.0, 5.0];

pub(super) fn measure(
    handling: Handling,
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    if options.on != Place::Cable {
        return Err(io::Error::other("soft timers are measured on the cable only"));
    }
    let facilities = handling.facilities();
    let all = options.repeats.max(1) * facilities.len() * INTERVALS_US.len();
    let (mut spare, mut runs) = (all, Runs { handling, of: BTreeMap::new() });
    for done in 0..all {
        let (facility, us) =
            (facilities[done / INTERVALS_US.len() % facilities.len()], done % INTERVALS_US.len());
        let interval = Duration::from_micros(INTERVALS_US[us]);
        let again = || run(handling, (facility, interval), options);
        let run = undisturbed(&mut spare, |run: &Measured| run.core_share, again)?;
        let lost = 100.0 * median(run.pairs.iter().map(Pair::lost));
        let result = format!("every {interval:?} takes {lost:.1} % of the answers");
        progress(&Progress { variant: facility.name(), result: &result, done: (done + 1, all) });
        runs.of.entry((facility, us)).or_default().push(run);
    }
    Ok(runs.outcome())
}

#[derive(Debug)]
struct Runs {
    handling: Handling,
    of: BTreeMap<(Facility, usize), Vec<Measured>>,
}

impl Runs {
    fn runs(&self, facility: Facility, us: usize) -> impl Iterator<Item = &Measured> {
        self.of.get(&(facility, us)).into_iter().flatten()
    }

    /// Returns the median of the runs.
    fn of_runs(&self, facility: Facility, us: usize, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.runs(facility, us).map(of))
    }

    /// Returns the median of the pairs of all runs.
    fn of_pairs(&self, facility: Facility, us: usize, of: impl Fn(&Pair) -> f64) -> f64 {
        median(self.runs(facility, us).flat_map(|run| &run.pairs).map(of))
    }

    /// Returns the share of its throughput that a server loses to events.
    fn lost(&self, facility: Facility, us: usize) -> f64 {
        self.of_pairs(facility, us, Pair::lost)
    }

    fn events(&self, facility: Facility, us: usize) -> f64 {
        self.of_pairs(facility, us, |pair| pair.events)
    }

    /// Returns the part of that loss which the cost of sending explains: the cost of as many packets that
    /// are sent together.
    fn lost_to_sending(&self, facility: Facility, us: usize) -> f64 {
        let each = self.lost(Facility::Together, us) / self.events(Facility::Together, us);
        each * self.events(facility, us)
    }

    fn outcome(&self) -> Outcome {
        let points = self.of.keys().map(|&(facility, us)| self.point(facility, us)).collect();
        let mut checks = match self.handling {
            Handling::Null => self.checks_of_events(),
            Handling::Send => self.checks_of_packets(),
        };
        checks.extend(self.conditions());
        Outcome::new("interval (µs)", "throughput lost (%)", points, checks)
    }

    fn point(&self, facility: Facility, us: usize) -> Point {
        let of = |value: fn(&Measured) -> f64| self.of_runs(facility, us, value);
        let (lost, events) = (self.lost(facility, us), self.events(facility, us));
        let mut point = Point::new(facility.name(), INTERVALS_US[us] as f64, 100.0 * lost).with([
            ("answers_per_s", self.of_pairs(facility, us, |pair| pair.beside)),
            ("alone_answers_per_s", self.of_pairs(facility, us, |pair| pair.alone)),
            ("events_per_s", events),
            ("cost_us", if events > 0.0 { lost * 1e6 / events } else { f64::NAN }),
            ("late_p50_us", of(|run| run.late_us[0])),
            ("late_p99_us", of(|run| run.late_us[1])),
            ("core_share", of(|run| run.core_share)),
        ]);
        if self.handling == Handling::Send {
            point.more.extend([
                ("lost_to_sending_percent", 100.0 * self.lost_to_sending(facility, us)),
                ("interval_us", of(|run| run.sent.mean_us())),
                ("interval_deviation_us", of(|run| run.sent.deviation_us())),
            ]);
        }
        point
    }

    /// Returns the median over the runs of soft timers, for each interval.
    fn soft(&self, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        let at = |us| self.of_runs(Facility::Soft, us, &of);
        (0..INTERVALS_US.len()).map(at).collect()
    }

    fn lateness(&self) -> Check {
        predicted(Ours, "soft timers: median lateness at each interval (µs)")
            .within(LATE_US, &self.soft(|run| run.late_us[0]))
    }

    fn checks_of_events(&self) -> Vec<Check> {
        let asked = 1e6 / INTERVALS_US[0] as f64;
        vec![
            predicted(Ours, "soft timers every 10 µs: share of the throughput lost")
                .within(FREE, &[self.lost(Facility::Soft, 0)]),
            predicted(Ours, "timerfd every 10 µs: share of the throughput lost")
                .within([0.5, 1.0], &[self.lost(Facility::TimerFd, 0)]),
            self.lateness(),
            predicted(Ours, "soft timers every 10 µs: share of the events that are asked for")
                .within([0.5, 1.0], &[self.events(Facility::Soft, 0) / asked]),
        ]
    }

    fn checks_of_packets(&self) -> Vec<Check> {
        let soft = self.lost(Facility::Soft, 0) - self.lost_to_sending(Facility::Soft, 0);
        let means = self.soft(|run| run.sent.mean_us());
        let of_target: Vec<f64> =
            means.iter().zip(INTERVALS_US).map(|(mean, target)| mean / target as f64).collect();
        let missing = self.of.values().flatten().map(|run| run.sent.missing).sum::<u64>();
        vec![
            predicted(Ours, "soft timers every 10 µs: share of the throughput lost but for sending")
                .within(FREE, &[soft])
                .known_miss(BY_ITSELF),
            predicted(Ours, "timerfd every 10 µs: share of the throughput lost")
                .within([0.5, 1.0], &[self.lost(Facility::TimerFd, 0)]),
            self.lateness(),
            predicted(Ours, "soft timers: mean interval at each target, of the target")
                .within([0.99, 1.05], &of_target),
            condition("packets that the sink had no room for").within([0.0, 0.0], &[missing as f64]),
        ]
    }

    fn conditions(&self) -> [Check; 2] {
        let conserved = if self.of.values().flatten().all(|run| run.conserved) { "yes" } else { "no" };
        [
            condition("share of its core that the server had beside soft timers, at each interval")
                .within([0.9, 1.0], &self.soft(|run| run.core_share)),
            condition("every frame is accounted for").equal("yes", conserved),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each facility has events next to a server that answers, and packets leave at each if it sends. No soft
    /// event is early: its handler asserts that.
    #[test]
    fn every_facility_has_events_beside_a_server() {
        for handling in [Handling::Null, Handling::Send] {
            for &facility in handling.facilities() {
                let run = run_with_events(handling, facility);
                assert!(run.conserved && !run.late_us[0].is_nan(), "{facility:?}: {run:?}");
                let sent = run.sent.mean_us();
                let may_be = if handling == Handling::Send { sent > 0.0 } else { sent.is_nan() };
                assert!(may_be, "{handling:?} {facility:?}: {run:?}");
            }
        }
    }

    /// Runs a facility, in a longer window each time until it had an event. A busy machine may be away from
    /// the server's core for the whole of a short window.
    fn run_with_events(handling: Handling, facility: Facility) -> Measured {
        let mut last = Measured::default();
        for window in [30, 100, 300, 1_000, 3_000].map(Duration::from_millis) {
            let options = Options { window, ..Options::default() };
            last = run(handling, (facility, Duration::from_micros(100)), &options).unwrap();
            if !last.late_us[0].is_nan() && (handling == Handling::Null || last.sent.mean_us() > 0.0) {
                break;
            }
        }
        last
    }

    fn runs(handling: Handling, answered: impl Fn(Facility) -> f64, late: f64) -> Runs {
        let measured = |facility| {
            let pair = Pair { alone: 100.0, beside: answered(facility), events: 9e4 };
            vec![Measured { pairs: vec![pair; 3], late_us: [late; 2], ..Measured::default() }]
        };
        let all = handling.facilities().iter().flat_map(|f| (0..INTERVALS_US.len()).map(move |us| (*f, us)));
        Runs { handling, of: all.map(|at| (at, measured(at.0))).collect() }
    }

    #[test]
    fn what_costs_too_much_or_comes_too_late_misses() {
        let ok = |soft: f64, hard: f64, late: f64| {
            let answered = |facility| if facility == Facility::Soft { soft } else { hard };
            let checks = runs(Handling::Null, answered, late).checks_of_events();
            checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(ok(99.5, 40.0, 2.0), [true; 4]);
        assert_eq!(ok(98.0, 40.0, 2.0), [false, true, true, true]);
        assert_eq!(ok(99.5, 80.0, 6.0), [true, false, false, true]);
    }

    #[test]
    fn what_sending_costs_is_not_laid_to_the_timer() {
        let ok = |together: f64| {
            let answered = |facility| if facility == Facility::Together { together } else { 96.0 };
            runs(Handling::Send, answered, 2.0).checks_of_packets()[0].ok
        };
        assert!(ok(96.0), "four percent, and sending takes four");
        assert!(!ok(98.0), "sending takes two of them");
    }
}
