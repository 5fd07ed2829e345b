//! What was measured, as it is reported.

use evenkeel_core::time::Duration;
use serde::Serialize;

use super::account::{Account, Counts, Failure, Interval, micros};
use super::cold::ColdCounts;
use crate::latency::Histogram;

/// All that a generator has measured.
#[derive(Debug, Default)]
pub struct Measured {
    pub(super) account: Account,
    pub(super) connections: ConnectionCounts,
    pub(super) cold: Option<ColdCounts>,
    pub(super) measured: Duration,
    /// Requests that were to be made in that time.
    pub(super) planned: Option<f64>,
    /// It ended before its time.
    pub(super) stopped: bool,
    /// Which of the server's addresses was used; `None` if no connection was established.
    pub address: Option<usize>,
    /// Which were tried before in vain, and why.
    pub unreached: Vec<(usize, Failure)>,
}

/// Connections that requests were made on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    /// As many as there may be at a time.
    pub limit: usize,
    /// Begun, the warm-up included.
    pub opened: u64,
    /// The most at a time.
    pub most: usize,
    /// Closed by the server between two requests.
    pub closed_idle: u64,
}

/// Percentiles of times, in microseconds; `None` where there were none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many there were.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// Half of them are no longer than this.
    pub p50: Option<f64>,
    /// And so on.
    pub p75: Option<f64>,
    /// And so on.
    pub p90: Option<f64>,
    /// And so on.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p99_9: Option<f64>,
    /// 99.99 %.
    pub p99_99: Option<f64>,
    /// The longest.
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

/// How a generator's thread has spent the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Effort {
    /// The share of a processor that it used.
    pub cpu_share: f64,
    /// The share of the time in which it was runnable, and others had the processor.
    pub run_delay_share: f64,
}

/// What was asked, what came of it, and how long it took.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How long it was measured, in seconds.
    pub seconds: f64,
    /// It ended before its time.
    pub stopped: bool,
    /// Requests a second that were planned; `None` in a closed loop.
    pub target_rps: Option<f64>,
    /// Requests a second that the server was really asked.
    pub offered_rps: f64,
    /// Answers a second, those that came after the end not counted.
    pub answered_rps: f64,
    /// Requests and what became of them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Requests that found no free connection at once.
    pub waited: u64,
    /// Requests sent a second time, because the server closed a kept connection as they were sent.
    pub repeated: u64,
    /// Requests of the warm-up, which count nowhere else.
    pub warm_up: u64,
    /// From when a request was due until it was answered, or given up.
    pub response_us: Percentiles,
    /// From when it was sent until it was answered.
    pub service_us: Percentiles,
    /// From the beginning of a connection until it was established.
    pub connect_us: Percentiles,
    /// From when a request was due until the generator saw to it.
    pub late_us: Percentiles,
    /// Bytes read, the warm-up and cold connections included.
    pub bytes_in: u64,
    /// Bytes written, likewise.
    pub bytes_out: u64,
    /// Connections for requests.
    pub connections: ConnectionCounts,
    /// Cold ones, if there were to be any.
    pub cold: Option<ColdCounts>,
    /// What the generator took for all this.
    pub generator: Effort,
    /// The run in parts.
    pub intervals: Vec<Interval>,
}

/// A generator that used more of a processor than this may have been what was measured.
const BUSY: f64 = 0.9;
/// A thread that had to wait for a processor longer than this was disturbed.
const DISTURBED: f64 = 0.1;
/// One that began a hundredth of its requests later than this did not keep to its plan.
const LATE_US: f64 = 1_000.0;

impl Report {
    /// What was measured, by a generator that took so much effort.
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
            generator: effort,
            intervals: account.intervals.clone(),
        }
    }

    /// Why the figures may say more about the generator, or its machine, than about the server.
    #[must_use]
    pub fn doubts(&self) -> Vec<Doubt> {
        let Effort { cpu_share, run_delay_share } = self.generator;
        let late = self.late_us.p99.filter(|late| *late > LATE_US);
        let unsent = self.counts.due - self.counts.offered.min(self.counts.due);
        [
            (cpu_share > BUSY).then_some(Doubt::Busy),
            (run_delay_share > DISTURBED).then_some(Doubt::Disturbed),
            late.map(|_| Doubt::Late),
            // In a closed loop the end may come in between.
            (unsent > 0 && self.target_rps.is_some()).then_some(Doubt::NotOffered),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Why a measurement may not say what it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The generator had no time left.
    Busy,
    /// Others had its processor.
    Disturbed,
    /// Requests were begun late.
    Late,
    /// Some were never begun.
    NotOffered,
}

impl Doubt {
    /// Its name in results.
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
    /// The distribution of response times.
    #[must_use]
    pub fn response(&self) -> &Histogram {
        &self.account.response
    }
}
