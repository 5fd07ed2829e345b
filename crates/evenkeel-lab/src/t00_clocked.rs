//! A web server whose packets are clocked, by interrupts and by soft timers: the common part of two tables.

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Outcome, Point};
use crate::t00_overhead::{Handler, Measured, Timer, run};
use crate::t00_testbed::{Load, Pentium, Server};

/// A server without clocking, by interrupts, and by soft timers.
pub(crate) struct Clocked {
    pub(crate) base: Measured,
    pub(crate) hard: Measured,
    pub(crate) soft: Measured,
}

impl Clocked {
    fn measure(load: Load, hard: Timer, seed: u64) -> Self {
        let measure = |timer| run(load, timer, Handler::Send, seed);
        Self { base: measure(Timer::None), hard: measure(hard), soft: measure(Timer::Soft) }
    }

    /// Overheads in percent: by interrupts, by soft timers.
    pub(crate) fn losses(&self) -> [f64; 2] {
        [self.hard.loss(&self.base), self.soft.loss(&self.base)]
    }

    fn points(&self, [hard, soft]: [&'static str; 2], row: f64) -> [Point; 2] {
        let [losses, measured] = [self.losses(), [self.hard.interval, self.soft.interval]];
        let point = |series, nth: usize, of: &Measured| {
            Point::new(series, row, losses[nth]).with([
                ("interval_us", measured[nth]),
                ("requests_per_s", of.throughput),
                ("requests_per_s_without", self.base.throughput),
            ])
        };
        [point(hard, 0, &self.hard), point(soft, 1, &self.soft)]
    }
}

/// Apache and Flash on a machine, each with a timer that interrupts and with soft timers.
pub(crate) struct Table {
    pub(crate) x: &'static str,
    pub(crate) on: Pentium,
    /// The name of the timer that interrupts.
    pub(crate) timer: &'static str,
    /// The row of each server.
    pub(crate) rows: [Row; 2],
}

/// A server of a table.
pub(crate) struct Row {
    /// The timer that interrupts it.
    pub(crate) hard: Timer,
    /// The losses that the paper states in percent: to the timer that interrupts, and to soft timers.
    pub(crate) paper: [f64; 2],
    /// The parameters that were fitted to those losses, if there are any.
    pub(crate) fitted: Option<[&'static str; 2]>,
}

/// The tolerances of the overheads, in percentage points.
const POINTS: [f64; 2] = [3.0, 1.0];

impl Table {
    /// Measures both servers. `more` returns further checks.
    pub(crate) fn measure(&self, seed: u64, more: fn([&Clocked; 2]) -> Vec<Check>) -> Outcome {
        let of =
            |nth: usize| Clocked::measure(Load::new(Server::BOTH[nth], self.on), self.rows[nth].hard, seed);
        let [apache, flash] = [of(0), of(1)];
        let names = [self.timer, "soft timer"];
        let mut points = [apache.points(names, 1.0), flash.points(names, 2.0)].concat();
        for (nth, name) in names.iter().enumerate() {
            let [first, second] = self.rows.each_ref().map(|row| row.paper[nth]);
            points.extend(Point::of_paper(name, &[(1.0, first), (2.0, second)]));
        }
        let mut checks = [self.overheads(0, &apache), self.overheads(1, &flash)].concat();
        checks.extend(more([&apache, &flash]));
        Outcome::new(self.x, "overhead (%)", points, checks)
    }

    /// Checks the losses of a server to the timer that interrupts and to soft timers.
    fn overheads(&self, server: usize, measured: &Clocked) -> [Check; 2] {
        let (row, losses) = (&self.rows[server], measured.losses());
        [0, 1].map(|nth| {
            let name = format!("{}, {} (%)", Server::BOTH[server].name(), [self.timer, "soft timer"][nth]);
            let claim = match row.fitted {
                Some(fitted) => calibrated(fitted[nth], Paper, name),
                None => predicted(Paper, name),
            };
            claim.within(about(row.paper[nth], POINTS[nth]), &[losses[nth]])
        })
    }
}

/// Returns the range of `points` around a percentage.
pub(crate) fn about(percent: f64, points: f64) -> [f64; 2] {
    [percent - points, percent + points]
}
