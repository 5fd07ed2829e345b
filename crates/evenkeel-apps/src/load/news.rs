//! The reports that a running generator makes.

use super::glance::Glance;
use super::hosts::Hosts;
use super::report::{Effort, Measured};

/// A report from a running generator.
#[derive(Debug)]
pub enum News<'a> {
    /// A snapshot, at every interval.
    Glance(&'a Glance),
    /// The results so far, after a request for a report (SIGUSR1).
    Report {
        /// The generator's results.
        measured: &'a Measured,
        /// The processor time that the generator's thread used.
        effort: Effort,
        /// The counters of the generator's host, if the generator runs on one. They do not include the
        /// server on a cable.
        hosts: Option<&'a Hosts>,
    },
}
