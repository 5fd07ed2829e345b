//! The papers' experiments, one file per figure, each printing its own comparison with the paper.
#![forbid(unsafe_code)]

pub mod chart;
pub mod experiment;
mod l97_fig1;
mod lrp_testbed;
mod o96_fig3;
mod o96_fig4;
pub mod real;

use serde::Serialize;

pub use experiment::{Check, Experiment, Figure, Mode, Outcome, Point, Report};

/// Every experiment there is.
#[must_use]
pub fn experiments() -> &'static [Experiment] {
    &[o96_fig3::EXPERIMENT, o96_fig4::EXPERIMENT, l97_fig1::EXPERIMENT]
}

/// The experiment with that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    experiments().iter().find(|e| e.id == id)
}

/// What `evenkeel lab list` says of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// How it can be run, the usual way first.
    pub modes: Vec<Mode>,
}

/// Every experiment, in whatever mode it has.
#[must_use]
pub fn list() -> Vec<Listing> {
    let mut list: Vec<Listing> = experiments()
        .iter()
        .map(|e| Listing { id: e.id, title: e.title, source: e.source, modes: e.modes.to_vec() })
        .collect();
    for (id, title, source) in real::all() {
        match list.iter_mut().find(|listed| listed.id == id) {
            Some(listed) if listed.modes.contains(&Mode::Real) => {}
            Some(listed) => listed.modes.push(Mode::Real),
            None => list.push(Listing { id, title, source, modes: vec![Mode::Real] }),
        }
    }
    list
}
