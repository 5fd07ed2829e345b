//! What discarding may cost, where a ring carries the traffic of several.
//!
//! A full queue need not hold back the ring that feeds it if its excess can be discarded at little cost, and
//! must not if others receive from that ring. But a flood can be so large that discarding it takes the core.

use super::sources::{SourceId, Sources};
use crate::time::{Duration, Instant};

/// How far the cost of discarding may run ahead of its share before sources are held back until it no longer
/// does: less than it takes to read a channel, so that whoever is flooded has something to read meanwhile.
const WINDOW: Duration = Duration::from_micros(50);

/// The time that discarding takes of the core, and for which sources.
///
/// It is paid for with time in which they are held back: three times as much if it may take a quarter.
#[derive(Debug)]
pub(super) struct Discards {
    percent: u8,
    now: Instant,
    /// When what it took until now is its share of the time.
    paid_at: Instant,
    /// Whose frames were discarded since it was last.
    sources: Sources,
    is_held_back: bool,
}

impl Discards {
    /// Discarding may take `percent` of the core.
    pub(super) const fn new(percent: u8) -> Self {
        Self {
            percent,
            now: Instant::ZERO,
            paid_at: Instant::ZERO,
            sources: Sources::NONE,
            is_held_back: false,
        }
    }

    /// Time was spent on frames of a source that were discarded.
    pub(super) fn charge(&mut self, source: SourceId, elapsed: Duration) {
        self.sources = self.sources.union(Sources::one(source));
        self.paid_at = self.paid_at.max(self.now) + elapsed * 100 / u32::from(self.percent.max(1));
        self.is_held_back = self.percent < 100 && self.paid_at.since(self.now) > WINDOW;
    }

    /// The sources held back: those whose frames were discarded, once it has taken too long.
    pub(super) const fn held_back(&self) -> Sources {
        if self.is_held_back { self.sources } else { Sources::NONE }
    }

    /// Time goes on. Says whether discarding has now been paid for.
    #[inline]
    pub(super) fn roll(&mut self, now: Instant) -> bool {
        self.now = now;
        let is_paid = !self.sources.is_empty() && now >= self.paid_at;
        if is_paid {
            self.sources = Sources::NONE;
            self.is_held_back = false;
        }
        is_paid
    }

    /// The core is idle: there is nobody to whom it could be left.
    pub(super) fn idle(&mut self) {
        self.paid_at = self.now;
        self.sources = Sources::NONE;
        self.is_held_back = false;
    }

    /// When [`Discards::roll`] has something to do.
    pub(super) const fn next_deadline(&self) -> Instant {
        if self.is_held_back { self.paid_at } else { Instant::NEVER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SourceId = SourceId(0);
    const B: SourceId = SourceId(1);

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn holds_back_whose_frames_were_discarded_until_it_is_paid_for() {
        let mut discards = Discards::new(25);
        assert!(!discards.roll(at(100)), "nothing was discarded");
        discards.charge(A, Duration::from_micros(12));
        assert_eq!((discards.held_back(), discards.next_deadline()), (Sources::NONE, Instant::NEVER));
        assert!(!discards.roll(at(112)));
        discards.charge(A, Duration::from_micros(3));
        assert_eq!(discards.held_back(), Sources::NONE, "it is less than a window behind");
        discards.charge(B, Duration::from_micros(4));
        assert_eq!(discards.held_back(), Sources::one(A).union(Sources::one(B)));
        assert_eq!(discards.next_deadline(), at(100 + 4 * (12 + 3 + 4)));
        assert!(!discards.roll(at(175)) && discards.roll(at(176)));
        assert_eq!((discards.held_back(), discards.next_deadline()), (Sources::NONE, Instant::NEVER));
    }

    #[test]
    fn a_vector_that_takes_long_is_paid_for_in_full() {
        let mut discards = Discards::new(1);
        discards.roll(at(1_000));
        discards.charge(A, Duration::from_micros(10));
        assert_eq!(discards.next_deadline(), at(2_000));
    }

    #[test]
    fn an_idle_core_has_time_to_discard() {
        let mut discards = Discards::new(25);
        discards.charge(A, Duration::from_micros(900));
        discards.idle();
        assert_eq!(discards.held_back(), Sources::NONE);
        discards.charge(A, Duration::from_micros(1));
        assert_eq!(discards.held_back(), Sources::NONE, "nothing is left to be paid for");
    }

    #[test]
    fn a_share_of_all_holds_nothing_back() {
        let mut discards = Discards::new(100);
        discards.charge(A, Duration::from_micros(1_000));
        assert_eq!(discards.held_back(), Sources::NONE);
    }
}
