//! Snapshots of a running generator.

use evenkeel::raw::time::Duration;

use super::account::Counts;

/// A snapshot of a running generator.
#[derive(Debug, Clone, Copy)]
pub struct Glance {
    /// Whether no connection has been established yet.
    pub finding: bool,
    /// Whether cold connections are still being opened, before the run.
    pub gathering: bool,
    /// The part of the measured time that has passed.
    pub measured: Duration,
    /// The whole measured time.
    pub length: Duration,
    /// The requests so far, and what became of them.
    pub counts: Counts,
    /// The number of requests that have a connection.
    pub in_flight: usize,
    /// The number of requests that wait for a connection.
    pub waiting: usize,
    /// The number of cold connections that are open.
    pub cold: usize,
}

impl Glance {
    /// Adds what another thread of the run has done.
    pub(super) fn merge(&mut self, other: &Self) {
        self.finding |= other.finding;
        self.gathering |= other.gathering;
        self.measured = self.measured.min(other.measured);
        self.counts += other.counts;
        self.in_flight += other.in_flight;
        self.waiting += other.waiting;
        self.cold += other.cold;
    }
}
