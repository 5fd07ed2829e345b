//! Every experiment in virtual time agrees with its paper, and the same seed gives the same report.

use evenkeel_lab::{Mode, Report, experiments, find};

fn run(id: &str, seed: u64) -> Report {
    let report = find(id).expect("an experiment of that id").run(seed);
    assert!(report.passed(), "\n{}", report.text());
    report
}

#[test]
fn ids_are_distinct_and_found() {
    for experiment in experiments() {
        assert_eq!(find(experiment.id).unwrap().title, experiment.title);
        assert_eq!(experiments().iter().filter(|e| e.id == experiment.id).count(), 1);
        assert!(experiment.modes.contains(&Mode::Virtual));
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
fn the_same_seed_gives_the_same_report_to_the_byte() {
    let json = || serde_json::to_string(&run("l97-fig1", 2)).expect("a report can be written");
    assert_eq!(json(), json());
}
