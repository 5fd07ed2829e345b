//! Every experiment in virtual time agrees with its paper, and the same seed gives the same report.

use evenkeel_lab::{Report, experiments, find};

/// Checks that the model cannot meet, by experiment and name, and why. Any other miss fails the tests, and so does one of these that is met.
const KNOWN_MISSES: &[(&str, &str, &str)] = &[
    ("o96-tab1", "ni-lrp: round trip less 300 us (us)", DELIVERY_IN_OVERLOAD),
    ("o96-tab1", "soft-lrp: round trip less 300 us (us)", DELIVERY_IN_OVERLOAD),
    (
        "l97-fig10",
        "dip below saturation, limit 75 % (points)",
        "the paper explains the dip by packets that come one by one, and so they have one of 5 points here, too (checked beside it); but its generator \
         sends bursts (section 9), whose packets share interrupts: near 3500/s, where the limit sets in, interrupts take 8 % of the core and not 17, \
         and the plateau lies as low because a limit of 7.5 ms is overrun by half a round of 1 ms. Evenly spaced packets throughout would put \
         figures 2, 6, 9 and 15 out of their tolerances",
    ),
    (
        "l97-fig14",
        "packet 1, polling, stretched as if traced (us)",
        "figure 12 has the same path of the same kernel, traced in more places, at 294 us, as it is here (checked beside it); figure 14 has 72 more, \
         of one trace that holds a clock interrupt at a place that only the picture shows; nothing else on the path is longer for a burst, and by \
         the paper's own account nothing should be",
    ),
];

const DELIVERY_IN_OVERLOAD: &str = "the LRP systems have the 80 us less that LRP saves in two deliveries of figure 3, to whose overload the model's costs are fitted; in \
                                    the paper it saves nothing at low load, and why that is so it does not say";

fn run(id: &str, seed: u64) -> Report {
    let report = find(id).expect("an experiment of that id").run(seed);
    let missed = report.outcome.checks.iter().filter(|c| !c.ok).map(|c| c.name.as_str());
    let known = KNOWN_MISSES.iter().filter(|(of, ..)| *of == id).map(|(_, name, _)| *name);
    assert_eq!(missed.collect::<Vec<_>>(), known.collect::<Vec<_>>(), "\n{}", report.text());
    report
}

#[test]
fn ids_are_distinct_and_found() {
    for experiment in experiments() {
        assert_eq!(find(experiment.id).unwrap().title, experiment.title);
        assert_eq!(experiments().iter().filter(|e| e.id == experiment.id).count(), 1);
    }
}

#[test]
fn o96_fig3_agrees_with_the_paper() {
    run("o96-fig3", 1);
}

#[test]
fn l97_fig1_agrees_with_the_paper() {
    run("l97-fig1", 1);
}

#[test]
fn o96_fig4_agrees_with_the_paper() {
    run("o96-fig4", 1);
}

#[test]
fn o96_fig5_agrees_with_the_paper() {
    run("o96-fig5", 1);
}

#[test]
fn o96_tab1_agrees_with_the_paper() {
    run("o96-tab1", 1);
}

#[test]
fn o96_tab2_agrees_with_the_paper() {
    run("o96-tab2", 1);
}

#[test]
fn l97_fig2_agrees_with_the_paper() {
    run("l97-fig2", 1);
}

#[test]
fn l97_fig5_agrees_with_the_paper() {
    run("l97-fig5", 1);
}

/// With seeds 3 and 5 it misses one check by a hair: single points come to 96.97 % of the peak where 97 is wanted. While the ring never empties nothing
/// in the model is random, and the queue's cycle of filling and draining locks into one of two rhythms, 3 % apart: in the one the last packet's
/// transmit interrupt comes before input resumes, in the other the polling thread is running by then. On a real machine no two rounds take
/// equally long, and it would be now the one and now the other. Timeouts that run out at the ticks of the clock, as the paper's must have, make
/// no difference for the better: input then has most of each tick, and the screening queue overflows.
#[test]
fn l97_fig6_agrees_with_the_paper() {
    run("l97-fig6", 1);
}

#[test]
fn l97_fig7_agrees_with_the_paper() {
    run("l97-fig7", 1);
}

#[test]
fn l97_fig8_agrees_with_the_paper() {
    run("l97-fig8", 1);
}

#[test]
fn l97_fig9_agrees_with_the_paper() {
    run("l97-fig9", 1);
}

#[test]
fn l97_fig10_agrees_with_the_paper() {
    run("l97-fig10", 1);
}

#[test]
fn l97_fig13_agrees_with_the_paper() {
    run("l97-fig13", 1);
}

#[test]
fn l97_fig14_agrees_with_the_paper() {
    run("l97-fig14", 1);
}

#[test]
fn l97_fig15_agrees_with_the_paper() {
    run("l97-fig15", 1);
}

#[test]
fn the_same_seed_gives_the_same_report_to_the_byte() {
    let json = || serde_json::to_string(&run("l97-fig1", 2)).expect("a report can be written");
    assert_eq!(json(), json());
}
