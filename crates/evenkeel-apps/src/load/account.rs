//! What was asked, what came of it, and how long it took.

use evenkeel_core::time::{Duration, Instant};
use serde::Serialize;
use serde::ser::SerializeMap as _;

use crate::latency::Histogram;

/// What can become of a request instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens there: the connection was refused.
    Refused,
    /// There is no way there, or the kernel has no connection to give for another reason.
    Unreachable,
    /// The connection was not established in time.
    ConnectTimeout,
    /// There was no answer, or no whole one, in time.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the answer was whole.
    Short,
    /// What came was no answer.
    Malformed,
    /// It was never sent: there was no free connection in time.
    Unsent,
    /// It was never sent: no port was free for another connection.
    NoPort,
    /// It was never sent: the process may have no more descriptors.
    NoDescriptor,
    /// The run was over first.
    Unfinished,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Timeout,
        Self::Reset,
        Self::Short,
        Self::Malformed,
        Self::Unsent,
        Self::NoPort,
        Self::NoDescriptor,
        Self::Unfinished,
    ];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
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

    /// The same for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "not connected in time",
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

    /// Whether the server was never asked.
    const fn unsent(self) -> bool {
        matches!(self, Self::Unsent | Self::NoPort | Self::NoDescriptor)
    }

    /// Whether somebody has waited for it in vain: such a request has taken as long as it was waited for.
    const fn waited(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::Timeout | Self::Unsent)
    }
}

/// Requests that have failed, by why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures([u64; Failure::ALL.len()]);

impl Failures {
    /// How many have failed so.
    #[must_use]
    pub const fn of(&self, failure: Failure) -> u64 {
        self.0[failure as usize]
    }

    /// How many have failed.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
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

/// Answers by the class of their status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Statuses {
    /// Successful.
    #[serde(rename = "2xx")]
    pub successful: u64,
    /// Redirections, which are not followed.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// The client's errors.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// The server's errors, and statuses of no class, which are to be taken for such (RFC 9110, 15).
    #[serde(rename = "5xx")]
    pub server_error: u64,
}

impl Statuses {
    /// Answers in all.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.successful + self.redirection + self.client_error + self.server_error
    }

    const fn add(&mut self, status: u16) {
        match status {
            200..300 => self.successful += 1,
            300..400 => self.redirection += 1,
            400..500 => self.client_error += 1,
            _ => self.server_error += 1,
        }
    }
}

/// Requests and what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that were due.
    pub due: u64,
    /// Those that the server was really asked, or that a connection was begun for.
    pub offered: u64,
    /// Answers by class.
    pub statuses: Statuses,
    /// Those that failed.
    pub failed: Failures,
}

/// What is known of a request until it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) due: Instant,
    /// It counts: the warm-up was over when it was due.
    pub(super) counts: bool,
    /// The server had closed the connection that it was sent on: it is sent a second time.
    pub(super) again: bool,
}

/// A part of the run.
#[derive(Debug, Clone, Serialize)]
pub struct Interval {
    /// When it began, in seconds after the warm-up.
    pub at: f64,
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Requests that were due in it.
    pub due: u64,
    /// Requests that were sent in it.
    pub offered: u64,
    /// Answers that came in it.
    pub answered: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Of the times from due to answered, of answers that came in it.
    pub p50_us: Option<f64>,
    /// The same.
    pub p99_us: Option<f64>,
    /// The same.
    pub max_us: Option<f64>,
}

/// All there is to count.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub(super) totals: Counts,
    /// Answers that came before the last request was due.
    pub(super) in_time: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Requests that no free connection was there for at once.
    pub(super) waited: u64,
    pub(super) repeated: u64,
    pub(super) warm_up: u64,
    /// From when a request was due to the end of the answer, or until it was given up.
    pub(super) response: Histogram,
    /// From when it was sent.
    pub(super) service: Histogram,
    /// From the beginning of a connection until it was established.
    pub(super) connect: Histogram,
    /// From when a request was due until the generator saw to it.
    pub(super) late: Histogram,
    pub(super) intervals: Vec<Interval>,
    current: Counts,
    current_response: Histogram,
    window: Window,
}

/// What is measured, and the intervals of it.
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
    /// What is measured is between these.
    pub(super) fn open(&mut self, opens: Instant, closes: Instant, interval: Duration) {
        self.window = Window { opens, closes, begun: opens, interval };
    }

    /// What comes from now on belongs to the interval of now. The last one takes what comes after the end.
    pub(super) fn advance(&mut self, now: Instant) {
        let Window { closes, interval, .. } = self.window;
        loop {
            let end = self.window.begun + interval;
            // What happens at its very end is in it: there may be no other one.
            if now <= end || end >= closes {
                return;
            }
            self.close_interval(end);
        }
    }

    /// Nothing more comes.
    pub(super) fn close(&mut self, now: Instant) {
        self.window.closes = self.window.closes.min(now);
        let end = self.window.closes;
        if end > self.window.begun || self.current != Counts::default() {
            self.close_interval(end);
        }
    }

    /// How long has been measured, until `now` at the most.
    pub(super) fn measured(&self, now: Instant) -> Duration {
        self.window.closes.min(now).since(self.window.opens)
    }

    fn close_interval(&mut self, end: Instant) {
        let percentile = |percent| micros(self.current_response.percentile(percent));
        self.intervals.push(Interval {
            at: self.window.begun.since(self.window.opens).as_secs_f64(),
            seconds: end.since(self.window.begun).as_secs_f64(),
            due: self.current.due,
            offered: self.current.offered,
            answered: self.current.statuses.all(),
            failed: self.current.failed.all(),
            p50_us: percentile(50.0),
            p99_us: percentile(99.0),
            max_us: percentile(100.0),
        });
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

    /// A request is due, and seen to at `now`.
    pub(super) fn due(&mut self, job: &Job, now: Instant) {
        if job.counts {
            self.both(|counts| counts.due += 1);
            self.late.record(now.since(job.due));
        } else {
            self.warm_up += 1;
        }
    }

    /// It is sent, or a connection is begun for it.
    pub(super) fn offered(&mut self, job: &Job) {
        if job.counts && !job.again {
            self.both(|counts| counts.offered += 1);
        }
    }

    /// It had to wait for a connection.
    pub(super) fn waits(&mut self, job: &Job) {
        self.waited += u64::from(job.counts);
    }

    /// It has its answer.
    pub(super) fn answered(&mut self, job: &Job, status: u16, sent: Instant, now: Instant) {
        if !job.counts {
            return;
        }
        self.both(|counts| counts.statuses.add(status));
        self.in_time += u64::from(now <= self.window.closes);
        self.record(now.since(job.due));
        self.service.record(now.since(sent));
    }

    /// It has none, and will get none.
    pub(super) fn failed(&mut self, job: &Job, failure: Failure, now: Instant) {
        if !job.counts {
            return;
        }
        // One that was to be sent again was sent once, and the server closed the connection.
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
        // What was reset has not been waited for.
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
