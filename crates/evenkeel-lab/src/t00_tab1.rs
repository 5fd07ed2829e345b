//! The price of a timer: Aron and Druschel, TOCS 2000, table I.

use evenkeel::raw::time::Duration;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_overhead::{Handler, Measured, Timer, off_chip, on_chip, run};
use crate::t00_tab4::{FASTER, FLASH};
use crate::t00_testbed::{Load, Pentium, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab1",
    title: "What an event of a timer takes of a web server, null handler",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table I (its cells are missing: those its text \
        repeats; no Alpha here)",
    measure,
};

/// The cost of an event in microseconds with the 8253, on a Pentium II and a Pentium III (T00.TabI).
const OFF_CHIP: [f64; 2] = [4.45, 4.36];
const ON_CHIP: f64 = 0.8;
const KHZ: [u32; 3] = [10, 25, 50];

struct Costs {
    machine: Pentium,
    base: Measured,
    soft: Measured,
    /// The cost of an event in microseconds, by the frequency of its timer in kHz.
    off_chip: Vec<(f64, f64)>,
    on_chip: Vec<(f64, f64)>,
}

impl Costs {
    fn measure(machine: Pentium, seed: u64) -> Self {
        let load = Load::new(Server::Flash, machine);
        let measure = |timer| run(load, timer, Handler::Null, seed);
        let base = measure(Timer::None);
        let cost = |timer, khz| 1e3 * measure(timer).loss(&base) / 100.0 / khz;
        let period = |khz: u32| Duration::from_micros(u64::from(1_000 / khz));
        let each = |of: fn(Pentium, Duration) -> Timer| {
            KHZ.map(|khz| (f64::from(khz), cost(of(machine, period(khz)), f64::from(khz)))).to_vec()
        };
        let on_chip = if machine == Pentium::Iii { each(|_, period| on_chip(period)) } else { Vec::new() };
        Self { machine, base, soft: measure(Timer::Soft), off_chip: each(off_chip), on_chip }
    }

    fn points(&self) -> Vec<Point> {
        let name = if self.machine == Pentium::Iii { "PIII" } else { "PII" };
        let series = |timer: &str, of: &[(f64, f64)]| -> Vec<Point> {
            of.iter().map(|(khz, cost)| Point::new(format!("{timer}, {name}"), *khz, *cost)).collect()
        };
        let khz = 1e3 / self.soft.interval;
        let soft = [(khz, 1e3 * self.soft.loss(&self.base) / 100.0 / khz)];
        [series("8253", &self.off_chip), series("APIC", &self.on_chip), series("soft", &soft)].concat()
    }
}

fn measure(seed: u64) -> Outcome {
    let [ii, iii] = [Pentium::Ii, Pentium::Iii].map(|machine| Costs::measure(machine, seed));
    let mut points = [ii.points(), iii.points()].concat();
    for (series, cost) in [("8253, PII", OFF_CHIP[0]), ("8253, PIII", OFF_CHIP[1]), ("APIC, PIII", ON_CHIP)] {
        points.extend(Point::of_paper(series, &[(10.0, cost), (50.0, cost)]));
    }
    Outcome::new("events a second (thousands)", "time an event takes (µs)", points, checks(&ii, &iii))
}

fn checks(ii: &Costs, iii: &Costs) -> Vec<Check> {
    let last = |of: &[(f64, f64)]| of.last().map_or(f64::NAN, |(_, cost)| *cost);
    let even = |of: &[(f64, f64)]| of.first().map_or(f64::NAN, |(_, cost)| *cost) / last(of);
    let interval = |costs: &Costs| costs.soft.interval;
    vec![
        calibrated("program.timer-8253-ii", Paper, "8253, PII (µs)").near(
            OFF_CHIP[0],
            last(&ii.off_chip),
            0.1,
        ),
        calibrated("program.timer-8253-iii", Paper, "8253, PIII (µs)").near(
            OFF_CHIP[1],
            last(&iii.off_chip),
            0.1,
        ),
        calibrated("program.apic-iii", Paper, "APIC, PIII (µs)").near(ON_CHIP, last(&iii.on_chip), 0.1),
        predicted(Words, "8253: at 10 kHz, of that at 50 kHz: independent of the frequency")
            .within([0.85, 1.15], &[even(&ii.off_chip), even(&iii.off_chip)]),
        calibrated("program.soft-check", Words, "soft timers: loss of throughput (%): none observable")
            .within([-0.5, 0.5], &[ii.soft.loss(&ii.base), iii.soft.loss(&iii.base)]),
        calibrated("program.flash-user", Paper, "soft timers, PII: from one call to the next (µs)").near(
            FLASH[0],
            interval(ii),
            0.05,
        ),
        calibrated(FASTER, Paper, "soft timers, PIII: from one call to the next (µs)").near(
            FLASH[1],
            interval(iii),
            0.1,
        ),
        calibrated(
            "program.timer-8253-ii, program.timer-8253-iii, the ratio of the clocks",
            Words,
            "8253: in intervals between trigger states, PIII of PII: costs do not fall with the clock",
        )
        .within([1.3, 2.2], &[last(&iii.off_chip) / interval(iii) / (last(&ii.off_chip) / interval(ii))]),
    ]
}
