//! The requests that are due, those that wait for a connection, and the account of all.

use std::collections::VecDeque;

use evenkeel::raw::time::{Duration, Instant};

use super::account::{Account, Failure, Job};
use super::arrivals::Arrivals;
use super::plan::{Load, Plan};
use super::report::Measured;

/// The pause after a failure in a closed loop. Without it failures would follow each other without end.
const PAUSE: Duration = Duration::from_millis(10);

/// The requests of a plan, until each has a connection.
#[derive(Debug)]
pub(super) struct Agenda {
    pub(super) plan: Plan,
    /// In a closed loop, the number of requests that are under way at all times.
    partners: usize,
    start: Instant,
    /// The times at which requests are due; `None` in a closed loop.
    arrivals: Option<Arrivals>,
    /// The requests that wait for a connection.
    pub(super) waiting: VecDeque<Job>,
    /// In a closed loop, the time before which no request is made.
    pause: Instant,
    pub(super) account: Account,
}

impl Agenda {
    pub(super) fn new(plan: Plan, partners: usize) -> Self {
        let arrivals = match &plan.load {
            Load::Closed => None,
            Load::Open { curve, spacing } => {
                let curve = curve.clone();
                let curve = if plan.warm_up.is_zero() { curve } else { curve.after(plan.warm_up) };
                Some(Arrivals::new(curve, *spacing, plan.seed).share(plan.share))
            }
        };
        let account = Account::new(plan.share.is_part());
        let (start, pause, waiting) = (Instant::ZERO, Instant::ZERO, VecDeque::new());
        Self { plan, partners, start, arrivals, waiting, pause, account }
    }

    /// Starts the time of the plan.
    pub(super) fn begin(&mut self, now: Instant) {
        self.start = now;
        self.account.open(self.opens(), self.end(), self.plan.interval);
    }

    fn opens(&self) -> Instant {
        self.start + self.plan.warm_up
    }

    fn end(&self) -> Instant {
        self.opens() + self.plan.length
    }

    /// Returns whether the requests come in a closed loop.
    pub(super) const fn is_closed_loop(&self) -> bool {
        self.arrivals.is_none()
    }

    /// Returns the time of the next of `arrivals`.
    pub(super) fn at(&self, arrivals: &Arrivals) -> Instant {
        arrivals.next().map_or(Instant::NEVER, |due| self.start + due)
    }

    /// Returns the time of the next request, or the end of the measured time, if that is earlier. `under_way`
    /// requests have a connection.
    pub(super) fn next_due(&self, under_way: usize) -> Instant {
        let next = match &self.arrivals {
            Some(arrivals) => self.at(arrivals),
            None if self.has_partner_free(under_way) => self.pause,
            None => Instant::NEVER,
        };
        next.min(self.end())
    }

    /// Returns the time at which the request that has waited longest is given up.
    pub(super) fn patience(&self) -> Instant {
        self.waiting.front().map_or(Instant::NEVER, |job| job.due + self.plan.timeout)
    }

    /// Returns whether fewer requests are under way than there are to be, in a closed loop.
    fn has_partner_free(&self, under_way: usize) -> bool {
        under_way + self.waiting.len() < self.partners
    }

    /// Takes the next request if it is due, and counts it.
    pub(super) fn take_due(&mut self, now: Instant, under_way: usize) -> Option<Job> {
        let due = self.due_at(now, under_way)?;
        let job = Job { due, counts: due >= self.opens(), again: false };
        self.account.due(&job, now);
        Some(job)
    }

    fn due_at(&mut self, now: Instant, under_way: usize) -> Option<Instant> {
        let Some(arrivals) = &mut self.arrivals else {
            let goes_on = now < self.end() && now >= self.pause && self.has_partner_free(under_way);
            return goes_on.then_some(now);
        };
        let due = arrivals.next().map(|due| self.start + due).filter(|due| *due <= now)?;
        arrivals.advance();
        Some(due)
    }

    /// Returns whether all requests of the plan were due by `now`.
    pub(super) fn is_all_due(&self, now: Instant) -> bool {
        now >= self.end() && self.arrivals.as_ref().is_none_or(|arrivals| arrivals.next().is_none())
    }

    /// Makes a request wait for a connection.
    pub(super) fn waits(&mut self, job: Job) {
        self.account.waits(&job);
        self.waiting.push_back(job);
    }

    /// Makes a request be sent again, before all that wait.
    pub(super) fn waits_again(&mut self, job: Job) {
        self.account.repeated += u64::from(job.counts);
        self.waiting.push_front(Job { again: true, ..job });
    }

    /// Counts a request that ended without an answer.
    pub(super) fn lose(&mut self, job: &Job, failure: Failure, now: Instant) {
        self.account.failed(job, failure, now);
        self.pause = now + PAUSE;
    }

    /// Gives up the requests that have waited for a connection as long as the plan allows.
    pub(super) fn give_up_waiting(&mut self, now: Instant) {
        while self.patience() <= now {
            let Some(job) = self.waiting.pop_front() else { return };
            self.account.failed(&job, Failure::Unsent, now);
        }
    }

    /// Gives up all requests that wait, at the end of the run.
    pub(super) fn give_up_all(&mut self, now: Instant) {
        for job in self.waiting.drain(..) {
            self.account.failed(&job, Failure::Unfinished, now);
        }
    }

    /// Returns the results, as far as they are in `account`. `is_over` says whether the run has ended.
    pub(super) fn measured(&self, now: Instant, mut account: Account, is_over: bool) -> Measured {
        account.advance(now);
        account.close(now);
        let measured = account.measured(now);
        let planned = match &self.plan.load {
            Load::Open { curve, .. } => Some(curve.requests_between(Duration::ZERO, measured)),
            Load::Closed => None,
        };
        let stopped = is_over && measured < self.plan.length;
        Measured { account, measured, planned, stopped, ..Measured::default() }
    }
}
