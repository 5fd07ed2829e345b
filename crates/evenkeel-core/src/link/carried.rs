//! Whose traffic comes by a ring, and whether it is more than a burst.

use crate::demux::LastClass;
use crate::id::ChannelId;
use crate::time::{Duration, Instant};

/// Whoever has received by a ring within this time is taken to go on.
const MEMORY: Duration = Duration::from_secs(1);
/// A ring that has not been empty for so long carries more than a burst, as does one that overflows while it
/// is held back; a flood is over when neither that nor a discard has happened for so long.
const BURST: Duration = Duration::from_millis(10);

/// How long frames are discarded until it is judged whether that keeps up with what comes.
const PERIOD: Duration = Duration::from_millis(25);
/// It does not if the ring sheds more than one in so many.
const ONE_IN: u64 = 8;

/// What a ring has given and shed for a while, in which frames of it are discarded.
#[derive(Debug, Clone, Copy)]
struct Pace {
    since: Instant,
    last: Instant,
    taken: u64,
    /// What it had shed when that began, if it is known.
    missed: Option<u64>,
    was_empty: bool,
}

impl Pace {
    const fn begin(now: Instant, missed: Option<u64>) -> Self {
        Self { since: now, last: now, taken: 0, missed, was_empty: false }
    }

    /// Whether the ring was read as fast as it filled, if it has `missed` so many until now.
    fn keeps_up(&self, missed: Option<u64>) -> bool {
        let (Some(before), Some(missed)) = (self.missed, missed) else { return self.was_empty };
        let shed = missed.saturating_sub(before);
        shed * ONE_IN <= shed + self.taken
    }
}

/// What is known of a ring's traffic.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    /// The last two channels that frames were for, and when the last one for each came.
    last: Option<(ChannelId, Instant)>,
    before: Option<(ChannelId, Instant)>,
    /// Since when it has held frames whenever it was looked at.
    filled_since: Option<Instant>,
    /// What it had shed when it was held back, if it was when frames were last taken, and that is known.
    missed_until_held: Option<u64>,
    /// When a frame was last discarded for a full channel, or the ring had shed some because it was held
    /// back.
    shed_at: Option<Instant>,
    /// What it has given and shed of late, if frames of it are discarded.
    pace: Option<Pace>,
    /// Where the last frame led if it was a plain datagram, and by which generation of the demultiplexing
    /// table.
    last_class: Option<(LastClass, u32)>,
}

impl Carried {
    /// A frame has come for a channel. Says whether frames come for others, too.
    #[inline]
    pub(crate) fn note(&mut self, channel: ChannelId, now: Instant) -> bool {
        match &mut self.last {
            Some((last, at)) if *last == channel => *at = now,
            last => self.before = last.replace((channel, now)).or(self.before),
        }
        self.before.is_some_and(|(_, at)| now.since(at) < MEMORY)
    }

    /// Where the last frame led, as far as that holds for the next.
    #[inline]
    pub(crate) fn last_class(&self, generation: u32) -> Option<LastClass> {
        self.last_class.filter(|&(_, found_by)| found_by == generation).map(|(last, _)| last)
    }

    #[inline]
    pub(crate) fn keep_class(&mut self, last: Option<LastClass>, generation: u32) {
        self.last_class = last.map(|last| (last, generation));
    }

    /// Frames were taken, and what is left of them or not. `discarded`: for full channels.
    pub(crate) fn taken(&mut self, is_empty: bool, discarded: bool, now: Instant) {
        self.filled_since = if is_empty { None } else { self.filled_since.or(Some(now)) };
        if discarded {
            self.shed_at = Some(now);
        }
    }

    /// Records a turn that took frames, discarded some of them, and left `more` in the ring or not. Returns
    /// whether that keeps up with what comes, as far as it is known by now. `missed` says what the ring has
    /// shed until now. If that is not known, a ring that has always held more does not keep up.
    pub(crate) fn keeps_up(
        &mut self,
        taken: usize,
        more: bool,
        now: Instant,
        missed: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let Some(pace) = self.pace.as_mut().filter(|pace| now.since(pace.last) < PERIOD) else {
            self.pace = Some(Pace::begin(now, missed()));
            return true;
        };
        pace.last = now;
        pace.taken += taken as u64;
        pace.was_empty |= !more;
        if now.since(pace.since) < PERIOD {
            return true;
        }
        let next = Pace::begin(now, missed());
        core::mem::replace(pace, next).keeps_up(next.missed)
    }

    /// No more are to be taken for now. `missed`: what the ring has shed until now, if that is known.
    pub(crate) fn held_back(&mut self, missed: Option<u64>) {
        self.missed_until_held = missed;
    }

    /// Whether more comes than a ring can keep until there is time for it. How busy the core is says nothing
    /// about that: a receiver may sleep. Nor does it count what the ring has `missed` while it was not held
    /// back: that was not for want of discarding.
    #[inline]
    pub(crate) fn is_flooded(&mut self, now: Instant, missed: impl FnOnce() -> Option<u64>) -> bool {
        if self.missed_until_held.is_some() && self.missed_until_held.take() != missed() {
            self.shed_at = Some(now);
        }
        self.filled_since.is_some_and(|since| now.since(since) >= BURST)
            || self.shed_at.is_some_and(|at| now.since(at) < BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_channel_counts_for_a_second_after_its_last_frame() {
        let (flooded, quiet) = (ChannelId(1), ChannelId(2));
        let mut carried = Carried::default();
        assert!(!carried.note(flooded, Instant::ZERO) && !carried.note(flooded, Instant::from_millis(1)));
        assert!(carried.note(quiet, Instant::from_millis(2)));
        for ms in 3..1_002 {
            assert!(carried.note(flooded, Instant::from_millis(ms)), "{ms}");
        }
        assert!(!carried.note(flooded, Instant::from_millis(1_002)));
        assert!(carried.note(quiet, Instant::from_millis(1_003)), "the flood is another's to the quiet one");
    }

    #[test]
    fn a_ring_that_is_not_emptied_is_flooded_until_nothing_is_discarded() {
        let at = |ms| Instant::from_millis(ms);
        let mut carried = Carried::default();
        carried.taken(false, false, at(5));
        carried.taken(true, false, at(14));
        assert!(!carried.is_flooded(at(30), || Some(0)), "a burst");
        carried.taken(false, false, at(40));
        carried.taken(false, false, at(45));
        let mut is_flooded = |ms| carried.is_flooded(at(ms), || Some(0));
        assert!(!is_flooded(49) && is_flooded(50));
        carried.taken(true, true, at(51));
        let mut is_flooded = |ms| carried.is_flooded(at(ms), || Some(0));
        assert!(is_flooded(60) && !is_flooded(61));
    }

    #[test]
    fn a_ring_that_overflows_while_it_is_held_back_is_flooded_at_once() {
        let at = |ms| Instant::from_millis(ms);
        let mut carried = Carried::default();
        carried.taken(false, false, at(5));
        assert!(!carried.is_flooded(at(6), || Some(1)), "there was no time for it");
        carried.held_back(Some(1));
        assert!(!carried.is_flooded(at(7), || Some(1)) && !carried.is_flooded(at(7), || Some(2)));
        carried.taken(true, false, at(8));
        carried.held_back(None);
        assert!(!carried.is_flooded(at(8), || None), "who knows");
        carried.held_back(Some(2));
        assert!(carried.is_flooded(at(9), || Some(3)));
        let mut is_flooded = |ms| carried.is_flooded(at(ms), || Some(9));
        assert!(is_flooded(18) && !is_flooded(19));
    }

    /// Takes seven frames each millisecond of a period, after which the ring has shed so many until now.
    fn period(carried: &mut Carried, from_ms: u64, more: bool, missed: Option<u64>) -> bool {
        let mut turn = |ms, missed| carried.keeps_up(7, more, Instant::from_millis(ms), || missed);
        assert!((from_ms..from_ms + 24).all(|ms| turn(ms, None)), "it is not known yet");
        turn(from_ms + 24, missed)
    }

    #[test]
    fn a_ring_that_sheds_no_more_than_one_in_eight_is_read_as_fast_as_it_fills() {
        let mut carried = Carried::default();
        // What was shed before is not held against it, at first and after a pause.
        let begin = |carried: &mut Carried, ms, missed| {
            assert!(carried.keeps_up(7, true, Instant::from_millis(ms), || Some(missed)));
        };
        begin(&mut carried, 0, 1_000);
        assert!(period(&mut carried, 1, true, Some(1_025)), "25 of 200");
        assert!(!period(&mut carried, 26, true, Some(1_051)), "26 of 201");
        assert!(period(&mut carried, 51, true, Some(1_051)), "none");
        begin(&mut carried, 1_000, 9_000);
        assert!(period(&mut carried, 1_001, true, Some(9_000)));
    }

    #[test]
    fn a_ring_of_which_that_is_not_known_is_to_be_empty_now_and_then() {
        let mut carried = Carried::default();
        assert!(carried.keeps_up(7, true, Instant::ZERO, || None));
        assert!(!period(&mut carried, 1, true, None));
        assert!(period(&mut carried, 26, false, None));
    }

    #[test]
    fn of_three_the_last_two_count() {
        let mut carried = Carried::default();
        for ms in 0..10 {
            assert_eq!(carried.note(ChannelId(ms % 3), Instant::from_millis(ms.into())), ms > 0);
        }
    }
}
