//! What clocking of packets takes of a web server on a Pentium III: Aron and Druschel, TOCS 2000, table VII.

use evenkeel_core::time::Duration;

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::t00_overhead::on_chip;
use crate::t00_tab6::{Clocked, about};
use crate::t00_testbed::{Load, Pentium, Server};

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
    let of = |server, micros| {
        let load = Load::new(server, Pentium::Iii);
        Clocked::measure(load, on_chip(Duration::from_micros(micros)), seed)
    };
    let (apache, flash) = (of(Server::Apache, 20), of(Server::Flash, 10));
    let names = ["APIC", "soft timer"];
    let mut points = [apache.points(names, 1.0), flash.points(names, 2.0)].concat();
    for (nth, name) in names.iter().enumerate() {
        points.extend(Point::of_paper(name, &[(1.0, APACHE[nth]), (2.0, FLASH[nth])]));
    }
    let x = "server (1 is Apache, APIC at 20 us; 2 is Flash, APIC at 10 us)";
    Outcome::new(x, "overhead (%)", points, checks(&apache, &flash))
}

fn checks(apache: &Clocked, flash: &Clocked) -> Vec<Check> {
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
