//! Inhibitions of input on behalf of full queues.

use super::sources::Sources;
use crate::time::{Duration, Instant};

/// A queue whose gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Closed<Q> {
    queue: Q,
    sources: Sources,
    until: Instant,
}

/// The queues whose gates are closed, and what is inhibited for them.
///
/// The timeout of an inhibition does not run during a `slice`: a callback that goes on though inhibited, and
/// the sources it is of. Until it is over the consumer has no time of the core to show that it is not hung.
#[derive(Debug)]
pub(super) struct Inhibitions<Q> {
    timeout: Duration,
    closed: Vec<Closed<Q>>,
    /// All that is inhibited.
    sources: Sources,
}

impl<Q: Copy + PartialEq> Inhibitions<Q> {
    pub(super) const fn new(timeout: Duration) -> Self {
        Self { timeout, closed: Vec::new(), sources: Sources::NONE }
    }

    /// Returns whether no gate is closed.
    pub(super) const fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    pub(super) const fn sources(&self) -> Sources {
        self.sources
    }

    pub(super) fn begin(&mut self, queue: Q, sources: Sources, now: Instant) {
        match self.closed.iter_mut().find(|c| c.queue == queue) {
            Some(closed) => closed.sources = sources,
            None => self.closed.push(Closed { queue, sources, until: now + self.timeout }),
        }
        self.update();
    }

    pub(super) fn end(&mut self, queue: Q) {
        self.closed.retain(|c| c.queue != queue);
        self.update();
    }

    /// Ends one whose timeout has passed: the queue, and what was inhibited for it.
    pub(super) fn expire(&mut self, slice: Sources, now: Instant) -> Option<(Q, Sources)> {
        let place = self.closed.iter().position(|c| now >= c.until && c.sources.and(slice).is_empty())?;
        let closed = self.closed.swap_remove(place);
        self.update();
        Some((closed.queue, closed.sources))
    }

    /// Ends a slice: the timeouts that it delayed begin.
    pub(super) fn slice_over(&mut self, slice: Sources, now: Instant) {
        for closed in self.closed.iter_mut().filter(|c| !c.sources.and(slice).is_empty()) {
            closed.until = now + self.timeout;
        }
    }

    /// Returns when [`Inhibitions::expire`] has something to do; [`Instant::NEVER`] if no inhibition runs.
    pub(super) fn next_deadline(&self, slice: Sources) -> Instant {
        let running = self.closed.iter().filter(|c| c.sources.and(slice).is_empty());
        running.map(|c| c.until).min().unwrap_or(Instant::NEVER)
    }

    fn update(&mut self) {
        self.sources = self.closed.iter().fold(Sources::NONE, |all, c| all.union(c.sources));
    }
}
