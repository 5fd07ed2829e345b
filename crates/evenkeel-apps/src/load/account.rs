//! The accounts of a run: requests, their outcomes, and their times.

use std::borrow::Cow;
use std::ops::AddAssign;

use evenkeel::raw::time::{Duration, Instant};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::ser::SerializeMap as _;

use crate::latency::Histogram;

/// The ways in which a request can end without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No process listens at the server's address: the connection was refused.
    Refused,
    /// The server cannot be reached, or the kernel gives no connection for another reason.
    Unreachable,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The handshake of TLS failed: the certificate was not accepted, or the server speaks no common version
    /// or protocol.
    Tls,
    /// No answer, or no complete one, came in time.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the answer was complete.
    Short,
    /// The received bytes are not an HTTP response.
    Malformed,
    /// The request was never sent: no connection was free in time.
    Unsent,
    /// The request was never sent: no port was free for another connection.
    NoPort,
    /// The request was never sent: the process may have no more descriptors.
    NoDescriptor,
    /// The run ended before the request did.
    Unfinished,
}

impl Failure {
    /// All failures, in the order of their counters.
    pub const ALL: [Self; 12] = [
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Timeout,
        Self::Reset,
        Self::Short,
        Self::Malformed,
        Self::Unsent,
        Self::NoPort,
        Self::NoDescriptor,
        Self::Unfinished,
    ];

    /// Returns the failure's name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Short => "short",
            Self::Malformed => "malformed",
            Self::Unsent => "unsent",
            Self::NoPort => "no_port",
            Self::NoDescriptor => "no_descriptor",
            Self::Unfinished => "unfinished",
        }
    }

    /// Returns a description of the failure for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "not connected in time",
            Self::Tls => "no TLS handshake",
            Self::Timeout => "not answered in time",
            Self::Reset => "reset",
            Self::Short => "cut short",
            Self::Malformed => "answered by nonsense",
            Self::Unsent => "not sent, for want of a free connection",
            Self::NoPort => "not sent, for want of a port",
            Self::NoDescriptor => "not sent, for want of a descriptor",
            Self::Unfinished => "not over at the end",
        }
    }

    /// Returns whether the request was never sent.
    const fn unsent(self) -> bool {
        matches!(self, Self::Unsent | Self::NoPort | Self::NoDescriptor)
    }

    /// Returns whether the request ended because a time limit ran out. Such a request counts as one that
    /// took as long as it waited.
    const fn waited(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::Timeout | Self::Unsent)
    }
}

/// The number of failed requests by the kind of failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures([u64; Failure::ALL.len()]);

impl Failures {
    /// Returns the number of requests that failed in this way.
    #[must_use]
    pub const fn of(&self, failure: Failure) -> u64 {
        self.0[failure as usize]
    }

    /// Returns the number of all failed requests.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl AddAssign for Failures {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

impl JsonSchema for Failures {
    fn schema_name() -> Cow<'static, str> {
        "Failures".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let count = generator.subschema_for::<u64>();
        let described = |failure: Failure| {
            let mut schema = count.clone();
            let description = format!("Requests that failed: {}.", failure.words());
            schema.insert("description".to_owned(), description.into());
            (failure.name().to_owned(), schema.to_value())
        };
        json_schema!({
            "description": "The number of failed requests by the kind of failure.",
            "type": "object",
            "properties": serde_json::Map::from_iter(Failure::ALL.map(described)),
            "required": Failure::ALL.map(Failure::name),
        })
    }
}

impl Serialize for Failures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Failure::ALL.len()))?;
        for failure in Failure::ALL {
            map.serialize_entry(failure.name(), &self.of(failure))?;
        }
        map.end()
    }
}

/// The number of answers by the class of their status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statuses {
    /// The number of successful answers.
    #[serde(rename = "2xx")]
    pub successful: u64,
    /// The number of redirections, which are not followed.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// The number of client errors.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// The number of server errors, and of statuses of no class, which count as such (RFC 9110, 15).
    #[serde(rename = "5xx")]
    pub server_error: u64,
}

impl Statuses {
    /// Returns the number of answers of all classes.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.successful + self.redirection + self.client_error + self.server_error
    }

    const fn count(&mut self, status: u16) {
        match status {
            200..300 => self.successful += 1,
            300..400 => self.redirection += 1,
            400..500 => self.client_error += 1,
            _ => self.server_error += 1,
        }
    }
}

impl AddAssign for Statuses {
    fn add_assign(&mut self, other: Self) {
        self.successful += other.successful;
        self.redirection += other.redirection;
        self.client_error += other.client_error;
        self.server_error += other.server_error;
    }
}

/// The number of requests, and of what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// The number of requests that were due.
    pub due: u64,
    /// The number of requests that were sent, or for which a connection was begun.
    pub offered: u64,
    /// The number of answers by class.
    pub statuses: Statuses,
    /// The number of failures by kind.
    pub failed: Failures,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.due += other.due;
        self.offered += other.offered;
        self.statuses += other.statuses;
        self.failed += other.failed;
    }
}

/// A request that is not over yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) due: Instant,
    /// Whether the request counts, because it was due after the warm-up.
    pub(super) counts: bool,
    /// Whether the request is sent a second time, because the server closed the first connection.
    pub(super) again: bool,
}

/// A part of the run, with the numbers for it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Interval {
    /// The start of the interval, in seconds after the warm-up.
    pub at: f64,
    /// The length of the interval, in seconds.
    pub seconds: f64,
    /// The number of requests that were due in the interval.
    pub due: u64,
    /// The number of requests that were sent in the interval.
    pub offered: u64,
    /// The number of answers that came in the interval.
    pub answered: u64,
    /// The number of requests that failed in the interval.
    pub failed: u64,
    /// The median response time of requests that were answered or timed out in the interval, in
    /// microseconds since each was due; `None` if there were none.
    pub p50_us: Option<f64>,
    /// The 99th percentile of response times in the interval, in microseconds; `None` if there were none.
    pub p99_us: Option<f64>,
    /// The longest response time in the interval, in microseconds; `None` if there was none.
    pub max_us: Option<f64>,
    /// The response times in the interval, if those of other threads are to be added.
    #[serde(skip)]
    times: Vec<(u64, u64)>,
}

impl Interval {
    /// Adds the same interval of another thread.
    fn merge(&mut self, other: Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.due += other.due;
        self.offered += other.offered;
        self.answered += other.answered;
        self.failed += other.failed;
        let mut times = Histogram::default();
        times.add_values(&self.times);
        times.add_values(&other.times);
        self.set_times(&times, true);
    }

    /// Sets the percentiles, and keeps the times if they are needed again.
    fn set_times(&mut self, times: &Histogram, keep: bool) {
        let percentile = |percent| micros(times.percentile(percent));
        (self.p50_us, self.p99_us, self.max_us) = (percentile(50.0), percentile(99.0), percentile(100.0));
        self.times = if keep { times.values() } else { Vec::new() };
    }
}

/// The counters and distributions of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub(super) totals: Counts,
    /// The number of answers that came by the end of the measured time.
    pub(super) in_time: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// The number of requests for which no connection was free at once.
    pub(super) waited: u64,
    pub(super) repeated: u64,
    pub(super) warm_up: u64,
    /// The times from when a request was due to the end of its answer, or until its time limit ran out.
    pub(super) response: Histogram,
    /// The times from when a request was sent to the end of its answer.
    pub(super) service: Histogram,
    /// The times from the start of a connection until it was established.
    pub(super) connect: Histogram,
    /// The times from when a request was due until the generator handled it.
    pub(super) late: Histogram,
    pub(super) intervals: Vec<Interval>,
    current: Counts,
    current_response: Histogram,
    window: Window,
    /// Whether the accounts of other threads are to be added.
    is_part: bool,
}

/// The measured time, and its current interval.
#[derive(Debug, Clone, Copy)]
struct Window {
    opens: Instant,
    closes: Instant,
    begun: Instant,
    interval: Duration,
}

impl Default for Window {
    fn default() -> Self {
        let never = Instant::NEVER;
        Self { opens: never, closes: never, begun: never, interval: Duration::MAX }
    }
}

impl Account {
    /// Creates an account, to which those of other threads are added if it `is_part` of a run.
    pub(super) fn new(is_part: bool) -> Self {
        Self { is_part, ..Self::default() }
    }

    /// Adds the closed account of another thread.
    pub(super) fn merge(&mut self, other: Self) {
        self.totals += other.totals;
        self.in_time += other.in_time;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.waited += other.waited;
        self.repeated += other.repeated;
        self.warm_up += other.warm_up;
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.connect.add(&other.connect);
        self.late.add(&other.late);
        for (number, interval) in other.intervals.into_iter().enumerate() {
            match self.intervals.get_mut(number) {
                Some(own) => own.merge(interval),
                None => self.intervals.push(interval),
            }
        }
    }

    /// Sets the measured time and the length of its intervals.
    pub(super) fn open(&mut self, opens: Instant, closes: Instant, interval: Duration) {
        self.window = Window { opens, closes, begun: opens, interval };
    }

    /// Closes intervals that ended before `now`: later events count for the interval of `now`. The last
    /// interval also gets the events after the end.
    pub(super) fn advance(&mut self, now: Instant) {
        let Window { closes, interval, .. } = self.window;
        loop {
            let end = self.window.begun + interval;
            // An event at the very end of an interval belongs to it, because it may be the last one.
            if now <= end || end >= closes {
                return;
            }
            self.close_interval(end);
        }
    }

    /// Closes the account and its last interval.
    pub(super) fn close(&mut self, now: Instant) {
        self.window.closes = self.window.closes.min(now);
        let end = self.window.closes;
        if end > self.window.begun || self.current != Counts::default() {
            self.close_interval(end);
        }
    }

    /// Returns the part of the measured time that has passed by `now`.
    pub(super) fn measured(&self, now: Instant) -> Duration {
        self.window.closes.min(now).since(self.window.opens)
    }

    fn close_interval(&mut self, end: Instant) {
        let mut interval = Interval {
            at: self.window.begun.since(self.window.opens).as_secs_f64(),
            seconds: end.since(self.window.begun).as_secs_f64(),
            due: self.current.due,
            offered: self.current.offered,
            answered: self.current.statuses.all(),
            failed: self.current.failed.all(),
            ..Interval::default()
        };
        interval.set_times(&self.current_response, self.is_part);
        self.intervals.push(interval);
        self.window.begun = end;
        self.current = Counts::default();
        if self.current_response.count() > 0 {
            self.current_response.clear();
        }
    }

    fn both(&mut self, count: impl Fn(&mut Counts)) {
        count(&mut self.totals);
        count(&mut self.current);
    }

    /// Counts a request that is due and is handled at `now`.
    pub(super) fn due(&mut self, job: &Job, now: Instant) {
        if job.counts {
            self.both(|counts| counts.due += 1);
            self.late.record(now.since(job.due));
        } else {
            self.warm_up += 1;
        }
    }

    /// Counts a request that is sent, or for which a connection is begun.
    pub(super) fn offered(&mut self, job: &Job) {
        if job.counts && !job.again {
            self.both(|counts| counts.offered += 1);
        }
    }

    /// Counts a request that has to wait for a connection.
    pub(super) fn waits(&mut self, job: &Job) {
        self.waited += u64::from(job.counts);
    }

    /// Counts a request that has its answer, and records its times.
    pub(super) fn answered(&mut self, job: &Job, status: u16, sent: Instant, now: Instant) {
        if !job.counts {
            return;
        }
        self.both(|counts| counts.statuses.count(status));
        self.in_time += u64::from(now <= self.window.closes);
        self.record(now.since(job.due));
        self.service.record(now.since(sent));
    }

    /// Counts a request that ended without an answer.
    pub(super) fn failed(&mut self, job: &Job, failure: Failure, now: Instant) {
        if !job.counts {
            return;
        }
        // A request to be sent again was sent once already, and the server closed the connection.
        let failure = if job.again && failure.unsent() { Failure::Reset } else { failure };
        self.both(|counts| counts.failed.0[failure as usize] += 1);
        if failure.waited() {
            self.record(now.since(job.due));
        }
    }

    fn record(&mut self, time: Duration) {
        self.response.record(time);
        self.current_response.record(time);
    }
}

pub(super) fn micros(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_nanos() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(millis: u64) -> Job {
        Job { due: Instant::from_millis(millis), counts: true, again: false }
    }

    #[test]
    fn every_failure_has_its_own_name_and_place() {
        for (place, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, place);
            assert_eq!(Failure::ALL.iter().filter(|other| other.name() == failure.name()).count(), 1);
        }
    }

    #[test]
    fn intervals_add_up_to_the_whole() {
        let at = Instant::from_millis;
        let mut account = Account::default();
        account.open(at(100), at(1_000), Duration::from_millis(250));
        for millis in [100, 200, 350, 360, 900] {
            account.advance(at(millis));
            account.due(&job(millis), at(millis));
            account.offered(&job(millis));
        }
        account.advance(at(1_900));
        account.answered(&job(900), 200, at(1_000), at(1_900));
        account.failed(&job(100), Failure::Timeout, at(1_900));
        account.failed(&job(200), Failure::Reset, at(1_900));
        account.close(at(2_000));
        let intervals = &account.intervals;
        assert_eq!(intervals.iter().map(|i| i.at).collect::<Vec<_>>(), [0.0, 0.25, 0.5, 0.75]);
        assert!((intervals[3].seconds - 0.15).abs() < 1e-9);
        assert_eq!(intervals.iter().map(|i| i.due).collect::<Vec<_>>(), [3, 1, 0, 1]);
        assert_eq!(intervals[3].answered, 1);
        assert_eq!(account.totals.failed.all(), 2);
        // The request that was reset did not reach its time limit.
        assert_eq!((account.response.count(), account.service.count(), account.in_time), (2, 1, 0));
        let longest = account.response.percentile(100.0).unwrap();
        assert!((longest.as_secs_f64() - 1.8).abs() < 0.01, "{longest:?}");
        assert_eq!(account.measured(at(5_000)), Duration::from_millis(900));
    }

    #[test]
    fn what_was_due_in_the_warm_up_does_not_count() {
        let mut account = Account::default();
        let early = Job { counts: false, ..job(5) };
        account.due(&early, Instant::from_millis(5));
        account.offered(&early);
        account.answered(&early, 200, early.due, Instant::from_millis(6));
        account.failed(&early, Failure::Short, Instant::from_millis(6));
        assert_eq!((account.warm_up, account.totals), (1, Counts::default()));
        assert_eq!(account.response.count(), 0);
    }
}
