//! The results of a run and the report on them.

use std::ops::AddAssign;

use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use super::account::{Account, Counts, Failure, Interval, micros};
use super::cold::ColdCounts;
use crate::latency::Histogram;

/// The results of a generator.
#[derive(Debug)]
pub struct Measured {
    pub(super) account: Account,
    pub(super) connections: ConnectionCounts,
    pub(super) cold: Option<ColdCounts>,
    pub(super) measured: Duration,
    /// The number of requests that were planned for the measured time; `None` in a closed loop.
    pub(super) planned: Option<f64>,
    /// Whether the run ended before its time.
    pub(super) stopped: bool,
    /// The number of threads that generated the load.
    pub(super) threads: usize,
    /// The first handshake of TLS that failed.
    pub refused_tls: Option<RefusedTls>,
    /// The index of the server's address that was used; `None` if no connection was established.
    pub address: Option<usize>,
    /// The indices of the addresses that were tried before and failed, with the failures.
    pub unreached: Vec<(usize, Failure)>,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            account: Account::default(),
            connections: ConnectionCounts::default(),
            cold: None,
            measured: Duration::ZERO,
            planned: None,
            stopped: false,
            threads: 1,
            refused_tls: None,
            address: None,
            unreached: Vec::new(),
        }
    }
}

/// The reason why a handshake of TLS failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedTls {
    /// The server's certificate was not accepted, for this reason.
    Certificate(String),
    /// The server has no protocol that was offered (ALPN): HTTP/2, or HTTP/1.1.
    Protocol,
    /// The handshake failed for this reason.
    Other(String),
}

/// The counters of the connections on which requests were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConnectionCounts {
    /// The maximum number of connections at a time.
    pub limit: usize,
    /// The number of connections begun, the warm-up included.
    pub opened: u64,
    /// The maximum number of connections that were there at a time; of several threads, the sum of their
    /// maxima.
    pub most: usize,
    /// The number of connections that ended between two requests, normally because the server closed them.
    pub closed_idle: u64,
}

impl AddAssign for ConnectionCounts {
    fn add_assign(&mut self, other: Self) {
        self.limit += other.limit;
        self.opened += other.opened;
        self.most += other.most;
        self.closed_idle += other.closed_idle;
    }
}

/// Percentiles of times, in microseconds; `None` if there were no times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    /// The number of times.
    pub count: u64,
    /// The mean of the times.
    pub mean: Option<f64>,
    /// The median: half of the times are no longer.
    pub p50: Option<f64>,
    /// The 75th percentile.
    pub p75: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p99_9: Option<f64>,
    /// The 99.99th percentile.
    pub p99_99: Option<f64>,
    /// The longest of the times.
    pub max: Option<f64>,
}

impl From<&Histogram> for Percentiles {
    fn from(histogram: &Histogram) -> Self {
        let at = |percent| micros(histogram.percentile(percent));
        Self {
            count: histogram.count(),
            mean: micros(histogram.mean()),
            p50: at(50.0),
            p75: at(75.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            p99_99: at(99.99),
            max: at(100.0),
        }
    }
}

/// The processor time that a generator's thread used and missed: of several threads, the one that used or
/// missed most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Effort {
    /// The share of the time in which the thread ran on a processor.
    pub cpu_share: f64,
    /// The share of the time in which the thread was runnable and other threads had the processor.
    pub run_delay_share: f64,
}

impl Effort {
    /// Returns the greater of both shares.
    pub(super) fn or_more(self, other: Self) -> Self {
        Self {
            cpu_share: self.cpu_share.max(other.cpu_share),
            run_delay_share: self.run_delay_share.max(other.run_delay_share),
        }
    }
}

/// A report on a generator's run: requests, their outcomes, and their times.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// The length of the measured time, in seconds.
    pub seconds: f64,
    /// Whether the run ended before its time.
    pub stopped: bool,
    /// The planned rate in requests a second; `None` in a closed loop.
    pub target_rps: Option<f64>,
    /// The rate at which requests were sent, in requests a second.
    pub offered_rps: f64,
    /// The rate of answers a second. Answers after the end of the measured time do not count.
    pub answered_rps: f64,
    /// The number of requests, and of what became of them.
    #[serde(flatten)]
    pub counts: Counts,
    /// The number of requests for which no connection was free at once.
    pub waited: u64,
    /// The number of requests sent a second time, because the server closed a kept connection as they were
    /// sent.
    pub repeated: u64,
    /// The number of requests of the warm-up, which count nowhere else.
    pub warm_up: u64,
    /// The times from when a request was due until it was answered, or until its time limit ran out.
    pub response_us: Percentiles,
    /// The times from when a request was sent until it was answered.
    pub service_us: Percentiles,
    /// The times from the start of a connection until it was established, the handshake of TLS included.
    pub connect_us: Percentiles,
    /// The times from when a request was due until the generator handled it.
    pub late_us: Percentiles,
    /// The number of bytes read, the warm-up and cold connections included.
    pub bytes_in: u64,
    /// The number of bytes written, the warm-up and cold connections included.
    pub bytes_out: u64,
    /// The counters of connections for requests.
    pub connections: ConnectionCounts,
    /// The counters of cold connections, if there were to be any.
    pub cold: Option<ColdCounts>,
    /// The number of threads that generated the load.
    pub threads: usize,
    /// The processor time that the generator used for the run.
    pub generator: Effort,
    /// The intervals of the run, in order.
    pub intervals: Vec<Interval>,
}

/// The share of a processor above which the generator may have been the bottleneck.
const BUSY: f64 = 0.9;
/// The share of time spent waiting for a processor above which a thread counts as disturbed.
const DISTURBED: f64 = 0.1;
/// The lateness in microseconds of a hundredth of the requests above which a generator did not keep to its
/// plan.
const LATE_US: f64 = 1_000.0;

impl Report {
    /// Creates the report on `measured`, with the processor time of the generator's thread.
    #[must_use]
    pub fn new(measured: &Measured, effort: Effort) -> Self {
        let Measured { account, connections, cold, .. } = measured;
        let seconds = measured.measured.as_secs_f64();
        let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        Self {
            seconds,
            stopped: measured.stopped,
            target_rps: measured.planned.map(rate),
            offered_rps: rate(account.totals.offered as f64),
            answered_rps: rate(account.in_time as f64),
            counts: account.totals,
            waited: account.waited,
            repeated: account.repeated,
            warm_up: account.warm_up,
            response_us: Percentiles::from(&account.response),
            service_us: Percentiles::from(&account.service),
            connect_us: Percentiles::from(&account.connect),
            late_us: Percentiles::from(&account.late),
            bytes_in: account.bytes_in,
            bytes_out: account.bytes_out,
            connections: *connections,
            cold: *cold,
            threads: measured.threads,
            generator: effort,
            intervals: account.intervals.clone(),
        }
    }

    /// Returns the reasons why the figures may describe the generator or its machine more than the server.
    #[must_use]
    pub fn doubts(&self) -> Vec<Doubt> {
        let Effort { cpu_share, run_delay_share } = self.generator;
        let late = self.late_us.p99.filter(|late| *late > LATE_US);
        let unsent = self.counts.due - self.counts.offered.min(self.counts.due);
        [
            (cpu_share > BUSY).then_some(Doubt::Busy),
            (run_delay_share > DISTURBED).then_some(Doubt::Disturbed),
            late.map(|_| Doubt::Late),
            // In a closed loop the end may come between a request's due time and its sending.
            (unsent > 0 && self.target_rps.is_some()).then_some(Doubt::NotOffered),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A reason why a measurement may be invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The generator had no processor time left.
    Busy,
    /// Other threads had the generator's processor.
    Disturbed,
    /// Requests were begun late.
    Late,
    /// Some requests were never begun.
    NotOffered,
}

impl Doubt {
    /// Returns the doubt's name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Disturbed => "disturbed",
            Self::Late => "late",
            Self::NotOffered => "not_offered",
        }
    }
}

impl Measured {
    /// Adds the results of another thread of the run.
    pub(super) fn merge(&mut self, other: Self) {
        self.account.merge(other.account);
        self.connections += other.connections;
        self.cold = match (self.cold, other.cold) {
            (Some(ours), Some(others)) => Some(ours + others),
            (one, another) => one.or(another),
        };
        self.measured = self.measured.max(other.measured);
        self.planned = self.planned.into_iter().chain(other.planned).reduce(f64::max);
        self.stopped |= other.stopped;
        self.threads += other.threads;
        self.refused_tls = self.refused_tls.take().or(other.refused_tls);
        if self.address.is_none() {
            self.address = other.address;
            self.unreached = other.unreached;
        }
    }

    /// Returns the distribution of response times.
    #[must_use]
    pub fn response(&self) -> &Histogram {
        &self.account.response
    }
}
