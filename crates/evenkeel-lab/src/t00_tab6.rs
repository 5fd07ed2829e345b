//! What clocking of packets takes of a web server on a Pentium II: Aron and Druschel, TOCS 2000, table VI.

use evenkeel_core::time::Duration;

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::t00_clocked::{Clocked, Row, Table};
use crate::t00_overhead::off_chip;
use crate::t00_testbed::Pentium;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab6",
    title: "Overhead of rate-based clocking, 300 MHz Pentium II",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table VI (its cells are missing: the overheads its \
        text repeats)",
    measure,
};

/// T00.T6.hz.
const PERIOD: Duration = Duration::from_micros(20);

const LOST: &str = "a packet that is sent by an interrupt takes 38 or 48 µs here, more than the period: of \
    two or three interrupts one sends";
const TOO_LATE: &str = "a packet of Flash takes 26 µs from a trigger state here, too, and the next trigger \
    state is as much later";

fn measure(seed: u64) -> Outcome {
    let hard = off_chip(Pentium::Ii, PERIOD);
    let table = Table {
        x: "server (1 is Apache, 2 is Flash)",
        on: Pentium::Ii,
        timer: "8253 at 20 µs",
        // T00.TabVI.
        rows: [
            Row { hard, paper: [28.0, 2.0], fitted: Some(["program.apache-hard", "program.apache-soft"]) },
            Row { hard, paper: [36.0, 6.0], fitted: Some(["program.flash-hard", "program.flash-soft"]) },
        ],
    };
    table.measure(seed, checks)
}

fn checks([apache, flash]: [&Clocked; 2]) -> Vec<Check> {
    let slower = |of: &Clocked| of.soft.interval / of.hard.interval;
    vec![
        predicted(Words, "Apache: interval by soft timers, of that by the 8253: slightly higher")
            .within([1.0, 1.3], &[slower(apache)]),
        predicted(Words, "Flash: interval by soft timers, of that by the 8253: lower")
            .within([0.5, 1.0], &[slower(flash)])
            .known_miss(TOO_LATE),
        predicted(Words, "8253: interval (µs): longer than programmed, as handlers are delayed")
            .within([20.1, 40.0], &[apache.hard.interval, flash.hard.interval])
            .known_miss(LOST),
    ]
}
