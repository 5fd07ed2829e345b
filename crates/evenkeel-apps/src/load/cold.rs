//! Cold connections: open all the time, and nearly always idle. Most clients of a server are such (Banga
//! and Mogul 1998, section 3).

use std::collections::VecDeque;
use std::ops::Add;

use evenkeel::raw::time::{Duration, Instant};
use schemars::JsonSchema;
use serde::Serialize;

/// The maximum number of connections that are being opened at a time. More would overflow the server's
/// backlog.
const OPENING_MAX: usize = 64;
/// The time after which a connection is opened again that was lost or could not be opened.
const PAUSE: Duration = Duration::from_secs(1);

/// The counters of the cold connections of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ColdCounts {
    /// The number of cold connections that the plan asks for.
    pub wanted: usize,
    /// The number of connections open when the run began, after each had been tried once.
    pub at_start: usize,
    /// The number of connections open at the end of the run.
    pub at_end: usize,
    /// The number of connections opened, those opened again included.
    pub opened: u64,
    /// The number of attempts to open a connection that failed.
    pub failed: u64,
    /// The number of open connections that ended, normally because the server closed them.
    pub closed: u64,
    /// The number of requests made on cold connections.
    pub requests: u64,
    /// The number of requests on cold connections that were answered.
    pub answered: u64,
    /// The number of requests for which no cold connection was idle.
    pub missed: u64,
}

impl Add for ColdCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            wanted: self.wanted + other.wanted,
            at_start: self.at_start + other.at_start,
            at_end: self.at_end + other.at_end,
            opened: self.opened + other.opened,
            failed: self.failed + other.failed,
            closed: self.closed + other.closed,
            requests: self.requests + other.requests,
            answered: self.answered + other.answered,
            missed: self.missed + other.missed,
        }
    }
}

/// The cold connections of a run, and those that are still to be opened.
#[derive(Debug)]
pub(super) struct Cold {
    pub(super) counts: ColdCounts,
    /// The places of the connections that are idle.
    pub(super) idle: Vec<u32>,
    pub(super) opening: usize,
    pub(super) busy: usize,
    /// The number of the planned connections that were tried at least once.
    tried: usize,
    /// The times at which lost or failed connections are to be opened again.
    again: VecDeque<Instant>,
}

impl Cold {
    pub(super) fn new(wanted: usize) -> Self {
        let counts = ColdCounts { wanted, ..ColdCounts::default() };
        Self { counts, idle: Vec::new(), opening: 0, busy: 0, tried: 0, again: VecDeque::new() }
    }

    /// Returns the number of connections that are open.
    pub(super) fn open(&self) -> usize {
        self.idle.len() + self.busy
    }

    /// Returns whether each planned connection was tried once and none is being opened.
    pub(super) fn is_gathered(&self) -> bool {
        self.tried == self.counts.wanted && self.opening == 0
    }

    /// Returns the time at which the next connection is to be opened; [`Instant::ZERO`] for at once,
    /// [`Instant::NEVER`] if none is to be opened for now.
    pub(super) fn next(&self) -> Instant {
        match self.again.front() {
            _ if self.opening >= OPENING_MAX => Instant::NEVER,
            _ if self.tried < self.counts.wanted => Instant::ZERO,
            Some(at) => *at,
            None => Instant::NEVER,
        }
    }

    /// Returns whether a connection is to be opened now. If so, it counts as being opened from then on.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if self.next() > now {
            return false;
        }
        if self.tried < self.counts.wanted {
            self.tried += 1;
        } else {
            self.again.pop_front();
        }
        self.opening += 1;
        true
    }

    /// Counts a connection that was being opened and is established.
    pub(super) fn established(&mut self) {
        self.opening -= 1;
        self.counts.opened += 1;
    }

    /// Counts a connection that was being opened and failed. Another attempt follows later.
    pub(super) fn failed(&mut self, now: Instant) {
        self.opening -= 1;
        self.counts.failed += 1;
        self.again.push_back(now + PAUSE);
    }

    /// Counts a connection that was open and is lost. An attempt to open it again follows later.
    pub(super) fn lost(&mut self, now: Instant) {
        self.counts.closed += 1;
        self.again.push_back(now + PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_opened_at_a_time_and_lost_ones_after_a_pause() {
        let (mut cold, now) = (Cold::new(100), Instant::from_millis(5));
        let take = |cold: &mut Cold, now| core::iter::from_fn(|| cold.take(now).then_some(())).count();
        assert_eq!(take(&mut cold, now), OPENING_MAX);
        assert_eq!((cold.next(), cold.is_gathered()), (Instant::NEVER, false));
        (0..50).for_each(|_| cold.established());
        assert_eq!(take(&mut cold, now), 100 - OPENING_MAX);
        (0..40).for_each(|_| cold.established());
        (0..10).for_each(|_| cold.failed(now));
        assert!(cold.is_gathered());
        assert_eq!((cold.next(), take(&mut cold, now)), (now + PAUSE, 0));
        cold.lost(now);
        assert_eq!(take(&mut cold, now + PAUSE), 11);
        let ColdCounts { opened, failed, closed, .. } = cold.counts;
        assert_eq!((opened, failed, closed, cold.next()), (90, 10, 1, Instant::NEVER));
    }
}
