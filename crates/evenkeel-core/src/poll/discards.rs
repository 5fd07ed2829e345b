//! What discarding may cost, where a ring carries the traffic of several.
//!
//! A full queue need not hold back the ring that feeds it if its excess can be discarded at little cost, and
//! must not if others receive from that ring. But a flood can be so large that discarding it takes the core.

use super::cycle::{Budget, CycleLimit};
use super::sources::{SourceId, Sources};
use crate::time::{Duration, Instant};

/// So often what discarding may cost is granted anew.
const PERIOD: Duration = Duration::from_millis(1);

/// The time that discarding takes of the core, and for which sources.
#[derive(Debug)]
pub(super) struct Discards {
    budget: Budget,
    sources: Sources,
}

impl Discards {
    /// Discarding may take `percent` of the core.
    pub(super) fn new(percent: u8) -> Self {
        Self { budget: Budget::new(CycleLimit { period: PERIOD, percent }), sources: Sources::NONE }
    }

    /// Time was spent on frames of a source that were discarded.
    pub(super) fn charge(&mut self, source: SourceId, elapsed: Duration) {
        self.sources = self.sources.union(Sources::one(source));
        self.budget.charge(elapsed, true);
    }

    /// The sources held back: those whose frames were discarded, once it has taken too long.
    pub(super) fn held_back(&self) -> Sources {
        if self.sources.is_empty() || !self.budget.exceeds(100) { Sources::NONE } else { self.sources }
    }

    /// Begins a new period if the last one is over, and says whether.
    #[inline]
    pub(super) fn roll(&mut self, now: Instant) -> bool {
        let over = !self.sources.is_empty() && self.budget.renew(now);
        if over {
            self.sources = Sources::NONE;
        }
        over
    }

    /// The core is idle: there is nobody to whom it could be left.
    pub(super) fn idle(&mut self) {
        if !self.sources.is_empty() {
            self.budget.reset();
            self.sources = Sources::NONE;
        }
    }

    /// When [`Discards::roll`] has something to do.
    pub(super) fn next_deadline(&self) -> Instant {
        if self.held_back().is_empty() { Instant::NEVER } else { self.budget.period_ends() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SourceId = SourceId(0);
    const B: SourceId = SourceId(1);

    #[test]
    fn holds_back_whose_frames_were_discarded_once_that_has_taken_its_share() {
        let mut discards = Discards::new(25);
        assert!(!discards.roll(Instant::ZERO), "nothing was discarded");
        discards.charge(A, Duration::from_micros(250));
        assert_eq!((discards.held_back(), discards.next_deadline()), (Sources::NONE, Instant::NEVER));
        discards.charge(A, Duration::from_micros(1));
        assert_eq!(discards.held_back(), Sources::one(A));
        discards.charge(B, Duration::from_micros(1));
        assert_eq!(discards.held_back(), Sources::one(A).union(Sources::one(B)));
        let over = discards.next_deadline();
        assert_eq!(over, Instant::from_millis(1));
        assert!(!discards.roll(Instant::from_micros(999)) && discards.roll(over));
        assert_eq!((discards.held_back(), discards.next_deadline()), (Sources::NONE, Instant::NEVER));
    }

    #[test]
    fn an_idle_core_has_time_to_discard() {
        let mut discards = Discards::new(25);
        discards.charge(A, Duration::from_micros(900));
        discards.idle();
        assert_eq!(discards.held_back(), Sources::NONE);
    }

    #[test]
    fn a_share_of_all_holds_nothing_back() {
        let mut discards = Discards::new(100);
        discards.charge(A, Duration::from_micros(1_000));
        assert_eq!(discards.held_back(), Sources::NONE);
    }
}
