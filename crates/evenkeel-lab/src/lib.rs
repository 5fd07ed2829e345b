//! The papers' experiments, one file for each figure. Each prints a comparison with the paper.
#![forbid(unsafe_code)]

pub mod check;
pub mod experiment;
mod l97_fig1;
mod l97_fig10;
mod l97_fig11;
mod l97_fig12;
mod l97_fig13;
mod l97_fig14;
mod l97_fig15;
mod l97_fig2;
mod l97_fig5;
mod l97_fig6;
mod l97_fig7;
mod l97_fig8;
mod l97_fig9;
mod lrp_testbed;
mod monitor_testbed;
mod o96_fig3;
mod o96_fig4;
mod o96_fig5;
mod o96_http;
mod o96_tab1;
mod o96_tab2;
mod old_tcp;
pub mod real;
mod router_setup;
mod router_testbed;
mod s98_fig1;
mod s98_fig3;
mod s98_fig4;
mod s98_fig5;
mod s98_fig6;
mod s98_fig7;
mod s98_fig8;
mod s98_fig9;
mod s98_live;
mod s98_profile;
mod s98_rates;
mod s98_tab1;
mod s98_tab2;
mod s98_testbed;
pub mod seeds;
mod statistics;
pub mod survey;
mod t00_clocked;
mod t00_clocking;
mod t00_fig1;
mod t00_fig2;
mod t00_fig3;
mod t00_fig4;
mod t00_gaps;
mod t00_overhead;
mod t00_tab1;
mod t00_tab10;
mod t00_tab12;
mod t00_tab13;
mod t00_tab4;
mod t00_tab5;
mod t00_tab6;
mod t00_tab7;
mod t00_tab8;
mod t00_testbed;
mod t00_workloads;
mod trace;

use schemars::JsonSchema;
use serde::Serialize;

pub use check::{Check, Figure};
pub use experiment::{Experiment, Mode, Outcome, Point, Report, Summary};
pub use seeds::Seeds;

/// Returns every experiment of the papers.
#[must_use]
pub fn experiments() -> &'static [Experiment] {
    &[
        o96_fig3::EXPERIMENT,
        o96_fig4::EXPERIMENT,
        o96_fig5::EXPERIMENT,
        o96_http::EXPERIMENT,
        o96_tab1::EXPERIMENT,
        o96_tab2::EXPERIMENT,
        l97_fig1::EXPERIMENT,
        l97_fig2::EXPERIMENT,
        l97_fig5::EXPERIMENT,
        l97_fig6::EXPERIMENT,
        l97_fig7::EXPERIMENT,
        l97_fig8::EXPERIMENT,
        l97_fig9::EXPERIMENT,
        l97_fig10::EXPERIMENT,
        l97_fig11::EXPERIMENT,
        l97_fig12::EXPERIMENT,
        l97_fig13::EXPERIMENT,
        l97_fig14::EXPERIMENT,
        l97_fig15::EXPERIMENT,
        s98_fig1::EXPERIMENT,
        s98_tab1::EXPERIMENT,
        s98_fig3::EXPERIMENT,
        s98_fig4::EXPERIMENT,
        s98_fig5::EXPERIMENT,
        s98_fig6::EXPERIMENT,
        s98_fig7::EXPERIMENT,
        s98_tab2::EXPERIMENT,
        s98_fig8::EXPERIMENT,
        s98_fig9::EXPERIMENT,
        s98_live::EXPERIMENT,
        t00_fig1::EXPERIMENT,
        t00_tab1::EXPERIMENT,
        t00_fig2::EXPERIMENT,
        t00_tab4::EXPERIMENT,
        t00_fig3::EXPERIMENT,
        t00_tab5::EXPERIMENT,
        t00_fig4::EXPERIMENT,
        t00_tab6::EXPERIMENT,
        t00_tab7::EXPERIMENT,
        t00_tab8::EXPERIMENT,
        t00_tab8::EXPERIMENT_60,
        t00_tab10::EXPERIMENT,
        t00_tab10::EXPERIMENT_100,
        t00_tab12::EXPERIMENT,
        t00_tab13::EXPERIMENT,
    ]
}

/// Returns the experiment with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    experiments().iter().find(|e| e.id == id)
}

/// Returns the ids that are most like `id`, which is none: at most three, the nearest first.
#[must_use]
pub fn nearest(id: &str) -> Vec<&'static str> {
    evenkeel_apps::text::nearest(id, experiments().iter().map(|experiment| experiment.id))
}

#[cfg(test)]
mod nearest_tests {
    use super::*;

    #[test]
    fn a_misspelt_id_is_recognised() {
        assert_eq!(nearest("l97-fig66")[0], "l97-fig6");
        assert_eq!(nearest("o96fig3")[0], "o96-fig3");
        assert_eq!(nearest("s98_live")[0], "s98-live");
        assert!(nearest("nosuch").is_empty() && nearest("").is_empty());
        assert!(nearest("t00-tab").len() == 3);
    }
}

/// An entry of `evenkeel lab list`, for one experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listing {
    /// The name of the experiment on the command line.
    pub id: &'static str,
    /// The title, which says what the experiment shows.
    pub title: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// The modes in which the experiment can be run, with the default first.
    pub modes: Vec<Mode>,
}

/// Returns every experiment with its modes.
#[must_use]
pub fn list() -> Vec<Listing> {
    experiments().iter().map(Experiment::listing).collect()
}

impl Experiment {
    /// Returns the entry of this experiment in the list.
    #[must_use]
    pub fn listing(&self) -> Listing {
        let real = real::has(self.id).then_some(Mode::Real);
        let modes = [Mode::Virtual].into_iter().chain(real).collect();
        Listing { id: self.id, title: self.title, source: self.source, modes }
    }
}
