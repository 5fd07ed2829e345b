//! What is told while a generator runs.

use super::generator::Glance;
use super::program::Hosts;
use super::report::{Effort, Measured};

/// What is told while a generator runs.
#[derive(Debug)]
pub enum News<'a> {
    /// How it goes, at every interval asked for.
    Glance(&'a Glance),
    /// What was measured so far, for which somebody has asked.
    Report {
        /// What was measured.
        measured: &'a Measured,
        /// What that took.
        effort: Effort,
        /// What the hosts did, if it runs on one; on a cable without the server.
        hosts: Option<&'a Hosts>,
    },
}
