//! What clocking of packets takes of a web server on a Pentium III: Aron and Druschel, TOCS 2000, table VII.

use evenkeel_core::time::Duration;

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::t00_clocked::{Clocked, Table, about};
use crate::t00_overhead::on_chip;
use crate::t00_testbed::Pentium;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab7",
    title: "Overhead of rate-based clocking, 500 MHz Pentium III with an on-chip timer",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table VII (its cells are missing: the overheads \
        its text \
             repeats)",
    measure,
};

/// T00.TabVII: APIC, soft timer.
const APACHE: [f64; 2] = [13.0, 2.0];
const FLASH: [f64; 2] = [22.0, 6.0];

fn measure(seed: u64) -> Outcome {
    let table = Table {
        x: "server (1 is Apache, APIC at 20 us; 2 is Flash, APIC at 10 us)",
        on: Pentium::Iii,
        timer: "APIC",
        timers: [20, 10].map(|micros| on_chip(Duration::from_micros(micros))),
        paper: [APACHE, FLASH],
    };
    table.measure(seed, checks)
}

fn checks([apache, flash]: [&Clocked; 2]) -> Vec<Check> {
    let ([apache_hard, apache_soft], [flash_hard, flash_soft]) = (apache.losses(), flash.losses());
    vec![
        predicted(Paper, "Apache, APIC (%)").within(about(APACHE[0], 3.0), &[apache_hard]),
        predicted(Paper, "Apache, soft timer (%)").within(about(APACHE[1], 1.0), &[apache_soft]),
        predicted(Paper, "Flash, APIC (%)").within(about(FLASH[0], 3.0), &[flash_hard]),
        predicted(Paper, "Flash, soft timer (%)").within(about(FLASH[1], 1.0), &[flash_soft]),
        predicted(Words, "APIC of soft timer, both servers: still substantially larger")
            .within([2.0, 20.0], &[apache_hard / apache_soft, flash_hard / flash_soft]),
    ]
}
