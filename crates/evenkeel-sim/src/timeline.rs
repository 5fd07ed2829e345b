//! A timeline of a CPU: the start of each piece of work, as an instrumented kernel would record it.

use std::collections::VecDeque;

use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::{Work, WorkLog};

use crate::machine::Costs;

/// Pieces of work in the order of their beginnings, and the arrivals of frames.
#[derive(Debug, Default)]
pub struct Timeline {
    begun: Vec<(Instant, Work)>,
    arrivals: Vec<Instant>,
}

impl Timeline {
    /// Returns the times at which pieces of `work` began.
    pub fn times(&self, work: Work) -> impl Iterator<Item = Instant> {
        self.begun.iter().filter(move |(_, w)| *w == work).map(|&(at, _)| at)
    }

    /// Returns the times at which frames were put into a receive ring.
    #[must_use]
    pub fn arrivals(&self) -> &[Instant] {
        &self.arrivals
    }

    pub(crate) fn arrive(&mut self, now: Instant) {
        self.arrivals.push(now);
    }
}

/// The kinds of work at the beginning of a work item: its entry, and the returned buffers.
const FIRST: [Work; 6] =
    [Work::Interrupt, Work::Clock, Work::SoftInterrupt, Work::PollRound, Work::Switch, Work::Reclaim];

/// The pieces of a work item that have not begun yet, each with the CPU time before it.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    used: Duration,
    ahead: VecDeque<(Duration, Work)>,
}

impl Stages {
    /// Returns the pieces of a unit. A log has the number of pieces of each kind; they are assumed to
    /// follow each other in the order in which a frame passes.
    pub(crate) fn of(log: &WorkLog, costs: &Costs) -> Self {
        let first = FIRST.iter().copied();
        let rest = Work::ALL.iter().copied().filter(|work| !FIRST.contains(work));
        let mut at = Duration::ZERO;
        let mut ahead = VecDeque::new();
        for work in first.chain(rest) {
            for _ in 0..log.count(work) {
                ahead.push_back((at, work));
                at += costs.of(work);
            }
        }
        Self { used: Duration::ZERO, ahead }
    }

    /// Delays the remaining pieces by `time`, for other work.
    pub(crate) fn delay(&mut self, time: Duration) {
        self.ahead.iter_mut().for_each(|(at, _)| *at += time);
    }

    /// Records that the unit has used the CPU for the time `elapsed` up to `now`.
    pub(crate) fn pass(&mut self, now: Instant, elapsed: Duration, timeline: &mut Timeline) {
        self.used += elapsed;
        while let Some(&(at, work)) = self.ahead.front().filter(|(at, _)| *at <= self.used) {
            let ago = self.used - at;
            timeline.begun.push((Instant::from_nanos(now.as_nanos() - ago.as_nanos() as u64), work));
            self.ahead.pop_front();
        }
    }
}
