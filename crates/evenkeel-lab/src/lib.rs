//! The papers' experiments, one file per figure, each printing its own comparison with the paper.
#![forbid(unsafe_code)]

pub mod chart;
pub mod experiment;
mod l97_fig1;
mod lrp_testbed;
mod o96_fig3;
mod o96_fig4;

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
