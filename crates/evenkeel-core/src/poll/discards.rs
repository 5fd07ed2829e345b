//! The limit on the cost of discarding frames from a ring that several processes share.
//!
//! A full queue need not pause the ring that feeds it if its excess frames can be discarded at little cost.
//! It must not pause the ring if others receive from it: a ring sheds frames of all receivers alike, in
//! proportion to the excess of arrivals over polled frames. So the others lose nothing only if every frame
//! is polled.
//!
//! Discarding has a share of the core for that. The process whose frames are discarded pays for any time
//! beyond this share, out of its own share of the core. Then the others on the ring lose nothing, and no
//! third process gets less. That is worth its price only if it is enough. If the ring overflows all the
//! same, frames of all are lost whatever is spent, and discarding is kept to its share for a while.

use super::sources::{SourceId, Sources};
use crate::time::{Duration, Instant};

/// The longest time until the cost of discarding is paid for, within its share. Beyond it sources are
/// paused until then. It is shorter than the time to read a channel, so that the flooded process has
/// something to read meanwhile.
const WINDOW: Duration = Duration::from_micros(50);
/// The longest time until the cost beyond the share is paid for. Beyond it sources are paused until then.
/// This time is long because rings keep arrivals during a pause, and each pause costs something.
const EXTRA_WINDOW: Duration = Duration::from_micros(500);
/// The limit of the cost beyond the share, in multiples of the share.
const TIMES: u32 = 3;
/// The largest part of its share of the core that a process pays for its discarded frames. The rest lets it
/// go on receiving.
const PART: (u32, u32) = (15, 16);
/// The time for which discarding is kept to its share once it does not keep up.
const AGAIN: Duration = Duration::from_secs(2);

/// The CPU time spent on discarding, and the sources whose frames were discarded.
///
/// The sources pay for that time with pauses: three times as long if discarding may take a quarter.
#[derive(Debug)]
pub(super) struct Discards {
    percent: u8,
    now: Instant,
    /// The time at which the cost of discarding until now amounts to no more than its share.
    paid_at: Instant,
    /// The time at which the cost beyond the share amounts to no more than its own limit.
    extra_paid_at: Instant,
    /// The time until which discarding is kept to its share.
    kept_until: Instant,
    /// The sources whose frames were discarded since the cost was last paid for.
    sources: Sources,
    is_held_back: bool,
}

impl Discards {
    /// Creates a limit that lets discarding take `percent` of the core.
    pub(super) const fn new(percent: u8) -> Self {
        Self {
            percent,
            now: Instant::ZERO,
            paid_at: Instant::ZERO,
            extra_paid_at: Instant::ZERO,
            kept_until: Instant::ZERO,
            sources: Sources::NONE,
            is_held_back: false,
        }
    }

    /// Charges time that was spent on frames of a source that were discarded. `fair_percent`: the share of
    /// the core that the process may have for which they were. Returns how much of that time this process
    /// pays.
    pub(super) fn charge(&mut self, source: SourceId, elapsed: Duration, fair_percent: u8) -> Duration {
        if self.percent >= 100 {
            return Duration::ZERO;
        }
        self.sources = self.sources.union(Sources::one(source));
        let share = u32::from(self.percent.max(1));
        self.paid_at = self.paid_at.max(self.now) + elapsed * 100 / share;
        if !self.takes_extra() {
            self.is_held_back = self.due().since(self.now) > WINDOW;
            return Duration::ZERO;
        }
        let extra = self.take_extra(share, fair_percent);
        self.is_held_back = self.extra_paid_at.since(self.now) > EXTRA_WINDOW;
        extra
    }

    /// Returns whether discarding may take more than its share now.
    #[inline]
    pub(super) fn takes_extra(&self) -> bool {
        self.percent < 100 && self.now >= self.kept_until
    }

    /// Keeps discarding to its share for a while: it does not keep up with what comes.
    pub(super) fn keep_to_share(&mut self) {
        self.kept_until = self.now + AGAIN;
    }

    /// Takes what was spent beyond the share, in percent, from that of the process that pays.
    fn take_extra(&mut self, share: u32, fair_percent: u8) -> Duration {
        let beyond = self.paid_at.since(self.now + EXTRA_WINDOW);
        self.paid_at = self.paid_at.min(self.now + EXTRA_WINDOW);
        let extra = beyond * share / 100;
        let percent = (TIMES * share).min(100 - share) * u32::from(fair_percent) / 100;
        let per_mille = (percent * 10 * PART.0 / PART.1).max(1);
        self.extra_paid_at = self.extra_paid_at.max(self.now) + extra * 1_000 / per_mille;
        extra
    }

    /// Returns when the whole cost of discarding is paid for.
    fn due(&self) -> Instant {
        self.paid_at.max(self.extra_paid_at)
    }

    /// Returns the paused sources: those whose frames were discarded, once that has taken too long.
    pub(super) const fn throttled(&self) -> Sources {
        if self.is_held_back { self.sources } else { Sources::NONE }
    }

    /// Lets time go on. Returns whether discarding has now been paid for.
    #[inline]
    pub(super) fn roll(&mut self, now: Instant) -> bool {
        self.now = now;
        let is_paid = !self.sources.is_empty() && now >= self.due();
        if is_paid {
            self.sources = Sources::NONE;
            self.is_held_back = false;
        }
        is_paid
    }

    /// Forgets the cost that is not paid for: the core is idle, so no other work needs the time.
    pub(super) fn idle(&mut self) {
        (self.paid_at, self.extra_paid_at) = (self.now, self.now);
        self.sources = Sources::NONE;
        self.is_held_back = false;
    }

    /// Returns when [`Discards::roll`] has something to do; [`Instant::NEVER`] if no source is paused.
    pub(super) fn next_deadline(&self) -> Instant {
        if self.is_held_back { self.due() } else { Instant::NEVER }
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

    /// One that is kept to its share for a while.
    fn kept(percent: u8) -> Discards {
        let mut discards = Discards::new(percent);
        discards.keep_to_share();
        discards
    }

    /// Spends so many percent of each 10 µs for a second, unless it is held back. Returns how much that was,
    /// and how much of it the process pays that may have `fair_percent` of the core, in thousandths.
    fn spent(discards: &mut Discards, percent: u32, fair_percent: u8) -> (u32, u32) {
        let turn = Duration::from_nanos(100) * percent;
        let (mut spent, mut pays) = (Duration::ZERO, Duration::ZERO);
        for tick in 0..100_000 {
            discards.roll(at(10 * tick));
            if discards.throttled().is_empty() {
                spent += turn;
                pays += discards.charge(A, turn, fair_percent);
            }
        }
        (spent.as_millis() as u32, pays.as_millis() as u32)
    }

    #[test]
    fn beyond_its_share_it_takes_from_that_of_the_process_which_pays() {
        // Not quite all of it: what is not used in time is lost.
        let about = |(spent, pays): (u32, u32), all: u32, paid: u32| {
            let nearly = |got, of: u32| (of * 4 / 5..=of + 10).contains(&got);
            assert!(nearly(spent, all) && nearly(pays, paid), "{spent} {pays}: {all} {paid}");
        };
        about(spent(&mut Discards::new(25), 20, 100), 200, 0);
        about(spent(&mut Discards::new(25), 60, 100), 600, 350);
        about(spent(&mut Discards::new(25), 90, 100), 900, 650);
        // Of half of three quarters it has fifteen sixteenths.
        about(spent(&mut Discards::new(25), 100, 50), 250 + 346, 346);
        // Three times its share at most.
        about(spent(&mut Discards::new(10), 100, 100), 100 + 281, 281);
        about(spent(&mut kept(25), 100, 100), 250, 0);
    }

    #[test]
    fn once_it_does_not_keep_up_it_has_its_share_for_two_seconds() {
        let mut discards = kept(25);
        assert!(!discards.takes_extra());
        discards.roll(Instant::from_millis(1_999));
        assert!(!discards.takes_extra());
        discards.roll(Instant::from_millis(2_000));
        assert!(discards.takes_extra() && !Discards::new(100).takes_extra());
    }

    #[test]
    fn holds_back_whose_frames_were_discarded_until_it_is_paid_for() {
        let mut discards = kept(25);
        assert!(!discards.roll(at(100)), "nothing was discarded");
        discards.charge(A, Duration::from_micros(12), 100);
        assert_eq!((discards.throttled(), discards.next_deadline()), (Sources::NONE, Instant::NEVER));
        assert!(!discards.roll(at(112)));
        discards.charge(A, Duration::from_micros(3), 100);
        assert_eq!(discards.throttled(), Sources::NONE, "it is less than a window behind");
        discards.charge(B, Duration::from_micros(4), 100);
        assert_eq!(discards.throttled(), Sources::one(A).union(Sources::one(B)));
        assert_eq!(discards.next_deadline(), at(100 + 4 * (12 + 3 + 4)));
        assert!(!discards.roll(at(175)) && discards.roll(at(176)));
        assert_eq!((discards.throttled(), discards.next_deadline()), (Sources::NONE, Instant::NEVER));
    }

    #[test]
    fn a_vector_that_takes_long_is_paid_for_in_full() {
        let mut discards = kept(1);
        discards.roll(at(1_000));
        discards.charge(A, Duration::from_micros(10), 100);
        assert_eq!(discards.next_deadline(), at(2_000));
    }

    #[test]
    fn an_idle_core_has_time_to_discard() {
        let mut discards = kept(25);
        discards.charge(A, Duration::from_micros(900), 100);
        discards.idle();
        assert_eq!(discards.throttled(), Sources::NONE);
        discards.charge(A, Duration::from_micros(1), 100);
        assert_eq!(discards.throttled(), Sources::NONE, "nothing is left to be paid for");
    }

    #[test]
    fn a_share_of_all_holds_nothing_back() {
        let mut discards = Discards::new(100);
        discards.charge(A, Duration::from_micros(1_000), 100);
        assert_eq!(discards.throttled(), Sources::NONE);
    }
}
