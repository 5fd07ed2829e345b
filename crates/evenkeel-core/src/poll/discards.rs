//! What discarding may cost, where a ring carries the traffic of several.
//!
//! A full queue need not hold back the ring that feeds it if its excess can be discarded at little cost, and
//! must not if others receive from that ring. But a flood can be so large that discarding it takes the core.
//!
//! So discarding may take most of the core as long as it keeps up with what comes: then the others on the
//! ring lose nothing. If it does not, frames of all are shed whatever is spent on it, and discarding is kept
//! to its share, for the sake of programs. Now and then more is tried again.

use super::sources::{SourceId, Sources};
use crate::time::{Duration, Instant};

/// How far the cost of discarding may run ahead of its share before sources are held back until it no longer
/// does: less than it takes to read a channel, so that whoever is flooded has something to read meanwhile.
const WINDOW: Duration = Duration::from_micros(50);
/// How many times its share discarding may take as long as it keeps up, and how much at most, in percent.
const TIMES: u8 = 4;
const MOST: u8 = 95;
/// How far it may run ahead as long as it keeps up: the rings keep what comes meanwhile, and each time that
/// they are held back costs something.
const WIDE_WINDOW: Duration = Duration::from_micros(500);
/// How long a ring may overflow, or hold frames whenever it is looked at where that is not known, before
/// discarding does not keep up.
const BEHIND: Duration = Duration::from_millis(50);
/// How long discarding is kept to its share before more is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// The time that discarding takes of the core, and for which sources.
///
/// It is paid for with time in which they are held back: three times as much if it may take a quarter. What
/// comes meanwhile waits in the ring.
#[derive(Debug)]
pub(super) struct Discards {
    percent: u8,
    now: Instant,
    /// When what it took until now is its share of the time.
    paid_at: Instant,
    /// Until when it is kept to its share, since it did not keep up.
    kept_until: Instant,
    /// Those whose frames were discarded and that have not kept up since, and since when there are any.
    behind: Sources,
    behind_since: Instant,
    /// Whose frames were discarded since it was last paid for.
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
            kept_until: Instant::ZERO,
            behind: Sources::NONE,
            behind_since: Instant::ZERO,
            sources: Sources::NONE,
            is_held_back: false,
        }
    }

    /// The share that it may take now, in percent, and how far it may run ahead.
    fn may_take(&self) -> (u8, Duration) {
        if self.now < self.kept_until {
            (self.percent, WINDOW)
        } else {
            (self.percent.saturating_mul(TIMES).min(MOST).max(self.percent), WIDE_WINDOW)
        }
    }

    /// Charges time that was spent on frames of a source that were discarded.
    pub(super) fn charge(&mut self, source: SourceId, elapsed: Duration) {
        self.sources = self.sources.union(Sources::one(source));
        if self.behind.is_empty() || self.now < self.kept_until {
            self.behind_since = self.now;
        }
        self.behind = self.behind.union(Sources::one(source));
        if self.now.since(self.behind_since) > BEHIND {
            self.kept_until = self.now + AGAIN;
        }
        let (share, window) = self.may_take();
        self.paid_at = self.paid_at.max(self.now) + elapsed * 100 / u32::from(share.max(1));
        self.is_held_back = share < 100 && self.paid_at.since(self.now) > window;
    }

    /// Whether frames of a source were discarded, and its ring was not rid of its frames since.
    #[inline]
    pub(super) const fn is_behind(&self, source: SourceId) -> bool {
        self.behind.contains(source)
    }

    /// Records that nothing is left in the ring of a source, or that it does not overflow.
    pub(super) fn keeps_up(&mut self, source: SourceId) {
        self.behind = self.behind.without(Sources::one(source));
    }

    /// The sources held back: those whose frames were discarded, once it has taken too long.
    pub(super) const fn held_back(&self) -> Sources {
        if self.is_held_back { self.sources } else { Sources::NONE }
    }

    /// Lets time go on. Returns whether discarding has now been paid for.
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

    /// Forgets what is not paid for: the core is idle, and there is nobody to whom it could be left.
    pub(super) fn idle(&mut self) {
        self.paid_at = self.now;
        (self.sources, self.behind) = (Sources::NONE, Sources::NONE);
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
    const MS: Duration = Duration::from_millis(1);

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    /// One that has not kept up, and now is kept to its share for a while.
    fn kept(percent: u8) -> Discards {
        let mut discards = Discards::new(percent);
        discards.charge(A, Duration::ZERO);
        discards.roll(Instant::ZERO + BEHIND + MS);
        discards.charge(A, Duration::ZERO);
        discards.idle();
        discards.roll(Instant::ZERO);
        discards.idle();
        discards
    }

    /// Spends some of each millisecond, for a second and a half. Says how long it was held back after that.
    fn held_back_for(discards: &mut Discards, spent_percent: u32, empties: bool) -> Duration {
        for ms in 0..1_500 {
            discards.roll(at(1_000 * ms));
            discards.charge(A, MS * spent_percent / 100);
            if empties {
                discards.keeps_up(A);
            }
        }
        discards.next_deadline().max(discards.now).min(Instant::from_millis(100_000)).since(discards.now)
    }

    #[test]
    fn as_long_as_it_keeps_up_it_may_take_four_times_its_share() {
        for (percent, most) in [(1, 4), (20, 80), (25, 95), (50, 95), (97, 97)] {
            let held_back = |spent| held_back_for(&mut Discards::new(percent), spent, true);
            // It pays for the last millisecond in that one.
            assert!(held_back(most) <= MS, "{percent}: {:?}", held_back(most));
            let more = held_back(most + 2);
            assert!((MS * 10..MS * 1_000).contains(&more), "{percent}: {more:?}");
        }
    }

    #[test]
    fn if_it_does_not_keep_up_it_may_take_its_share() {
        let mut discards = Discards::new(25);
        assert!(held_back_for(&mut discards, 25, false) <= MS);
        assert!(discards.now < discards.kept_until);
        assert!(held_back_for(&mut Discards::new(25), 50, false) > MS * 1_000);
        assert!(held_back_for(&mut Discards::new(25), 50, true) <= MS, "and this one does");
    }

    #[test]
    fn more_is_tried_again_after_two_seconds() {
        let mut discards = kept(25);
        let until = discards.kept_until;
        for (now, share) in [(until.since(Instant::ZERO) - MS, 25), (until.since(Instant::ZERO), 95)] {
            discards.roll(Instant::ZERO + now);
            discards.charge(A, Duration::ZERO);
            assert_eq!(discards.may_take().0, share);
        }
        discards.roll(until + (BEHIND - MS));
        discards.charge(A, Duration::ZERO);
        assert_eq!(discards.may_take().0, 95, "it has as long as at first");
        discards.roll(until + BEHIND);
        discards.charge(A, Duration::ZERO);
        assert_eq!(discards.may_take().0, 25);
    }

    #[test]
    fn holds_back_whose_frames_were_discarded_until_it_is_paid_for() {
        let mut discards = kept(25);
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
        let mut discards = kept(1);
        discards.roll(at(1_000));
        discards.charge(A, Duration::from_micros(10));
        assert_eq!(discards.next_deadline(), at(2_000));
    }

    #[test]
    fn an_idle_core_has_time_to_discard() {
        let mut discards = kept(25);
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
