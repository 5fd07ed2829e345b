//! The throughput that clocking of packets costs a web server on a Pentium III: Aron and Druschel, TOCS 2000,
//! table VII.

use evenkeel::raw::time::Duration;

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::t00_clocked::{Clocked, Row, Table};
use crate::t00_overhead::on_chip;
use crate::t00_testbed::Pentium;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab7",
    title: "Overhead of rate-based clocking, 500 MHz Pentium III with an on-chip timer",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table VII (its cells are missing: the overheads \
        its text repeats)",
    measure,
};

fn measure(seed: u64) -> Outcome {
    let row = |micros, paper| Row { hard: on_chip(Duration::from_micros(micros)), paper, fitted: None };
    let table = Table {
        x: "server (1 is Apache, APIC at 20 µs; 2 is Flash, APIC at 10 µs)",
        on: Pentium::Iii,
        timer: "APIC",
        // T00.TabVII.
        rows: [row(20, [13.0, 2.0]), row(10, [22.0, 6.0])],
    };
    table.measure(seed, checks)
}

fn checks(both: [&Clocked; 2]) -> Vec<Check> {
    let larger = both.map(|of| {
        let [hard, soft] = of.losses();
        hard / soft
    });
    vec![
        predicted(Words, "APIC of soft timer, both servers: still substantially larger")
            .within([2.0, 20.0], &larger),
    ]
}
