//! Cold connections: open all the time, and nearly always idle. A server's clients are mostly such
//! (Banga and Mogul 1998, section 3).

use std::collections::VecDeque;

use evenkeel_core::time::{Duration, Instant};
use serde::Serialize;

/// Connections that are being opened at a time, at most: more would overflow the server's backlog.
const OPENING_MAX: usize = 64;
/// One that was lost, or could not be opened, is opened again after this long.
const PAUSE: Duration = Duration::from_secs(1);

/// What has become of the cold connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ColdCounts {
    /// As many as there were to be.
    pub wanted: usize,
    /// Open when the run began, after each had been tried once.
    pub at_start: usize,
    /// Open at the end.
    pub at_end: usize,
    /// Opened, again ones included.
    pub opened: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Closed by the server.
    pub closed: u64,
    /// Requests made on them.
    pub requests: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Requests that no idle one was there for.
    pub missed: u64,
}

/// Which there are, and which are to be opened.
#[derive(Debug)]
pub(super) struct Cold {
    pub(super) counts: ColdCounts,
    /// Places of those that are idle.
    pub(super) idle: Vec<u32>,
    pub(super) opening: usize,
    pub(super) busy: usize,
    /// Of those that there are to be, how many were tried.
    tried: usize,
    /// When others are to be opened again.
    again: VecDeque<Instant>,
}

impl Cold {
    pub(super) fn new(wanted: usize) -> Self {
        let counts = ColdCounts { wanted, ..ColdCounts::default() };
        Self { counts, idle: Vec::new(), opening: 0, busy: 0, tried: 0, again: VecDeque::new() }
    }

    /// Those that are open.
    pub(super) fn open(&self) -> usize {
        self.idle.len() + self.busy
    }

    /// Each was tried once.
    pub(super) fn is_gathered(&self) -> bool {
        self.tried == self.counts.wanted && self.opening == 0
    }

    /// When the next one is to be opened; [`Instant::ZERO`] for at once.
    pub(super) fn next(&self) -> Instant {
        match self.again.front() {
            _ if self.opening >= OPENING_MAX => Instant::NEVER,
            _ if self.tried < self.counts.wanted => Instant::ZERO,
            Some(at) => *at,
            None => Instant::NEVER,
        }
    }

    /// Whether one is to be opened now; it then is under way.
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

    /// One that was under way is open.
    pub(super) fn established(&mut self) {
        self.opening -= 1;
        self.counts.opened += 1;
    }

    /// One that was under way will not be opened.
    pub(super) fn failed(&mut self, now: Instant) {
        self.opening -= 1;
        self.counts.failed += 1;
        self.again.push_back(now + PAUSE);
    }

    /// One that was open is no more.
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
