//! What clocking of packets takes of a web server on a Pentium II: Aron and Druschel, TOCS 2000, table VI.

use evenkeel_core::time::Duration;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_overhead::{Handler, Measured, Timer, off_chip, run};
use crate::t00_testbed::{Load, Pentium, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab6",
    title: "Overhead of rate-based clocking, 300 MHz Pentium II",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table VI (its cells are missing: the overheads \
        its text \
             repeats)",
    measure,
};

/// T00.TabVI: hardware timer, soft timer.
const APACHE: [f64; 2] = [28.0, 2.0];
const FLASH: [f64; 2] = [36.0, 6.0];
/// T00.T6.hz.
const PERIOD: Duration = Duration::from_micros(20);

/// A server without clocking, by interrupts, and by soft timers.
pub(crate) struct Clocked {
    pub(crate) base: Measured,
    pub(crate) hard: Measured,
    pub(crate) soft: Measured,
}

impl Clocked {
    pub(crate) fn measure(load: Load, hard: Timer, seed: u64) -> Self {
        let measure = |timer| run(load, timer, Handler::Send, seed);
        Self { base: measure(Timer::None), hard: measure(hard), soft: measure(Timer::Soft) }
    }

    /// Overheads in percent.
    pub(crate) fn losses(&self) -> [f64; 2] {
        [self.hard.loss(&self.base), self.soft.loss(&self.base)]
    }

    pub(crate) fn points(&self, [hard, soft]: [&'static str; 2], row: f64) -> [Point; 2] {
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

fn measure(seed: u64) -> Outcome {
    let of = |server| Clocked::measure(Load::new(server, Pentium::Ii), off_chip(Pentium::Ii, PERIOD), seed);
    let [apache, flash] = Server::BOTH.map(of);
    let names = ["8253 at 20 us", "soft timer"];
    let mut points = [apache.points(names, 1.0), flash.points(names, 2.0)].concat();
    for (nth, name) in names.iter().enumerate() {
        points.extend(Point::of_paper(name, &[(1.0, APACHE[nth]), (2.0, FLASH[nth])]));
    }
    Outcome::new("server (1 is Apache, 2 is Flash)", "overhead (%)", points, checks(&apache, &flash))
}

pub(crate) fn about(percent: f64, points: f64) -> [f64; 2] {
    [percent - points, percent + points]
}

fn checks(apache: &Clocked, flash: &Clocked) -> Vec<Check> {
    let slower = |of: &Clocked| of.soft.interval / of.hard.interval;
    vec![
        calibrated("program.apache-hard", Paper, "Apache, 8253 (%)")
            .within(about(APACHE[0], 3.0), &[apache.losses()[0]]),
        calibrated("program.apache-soft", Paper, "Apache, soft timer (%)")
            .within(about(APACHE[1], 1.0), &[apache.losses()[1]]),
        calibrated("program.flash-hard", Paper, "Flash, 8253 (%)")
            .within(about(FLASH[0], 3.0), &[flash.losses()[0]]),
        calibrated("program.flash-soft", Paper, "Flash, soft timer (%)")
            .within(about(FLASH[1], 1.0), &[flash.losses()[1]]),
        predicted(Words, "Apache: interval by soft timers, of that by the 8253: slightly higher")
            .within([1.0, 1.3], &[slower(apache)]),
        predicted(Words, "Flash: interval by soft timers, of that by the 8253: lower")
            .within([0.5, 1.0], &[slower(flash)]),
        predicted(Words, "8253: interval (us): longer than programmed, as handlers are delayed")
            .within([20.1, 100.0], &[apache.hard.interval, flash.hard.interval]),
    ]
}
