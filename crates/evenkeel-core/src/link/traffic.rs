//! Whose traffic comes by a ring, and whether it is more than a burst.

use crate::demux::LastClass;
use crate::id::ChannelId;
use crate::time::{Duration, Instant};

/// The time for which a receiver of a ring counts as active after its last frame.
const MEMORY: Duration = Duration::from_secs(1);
/// The time limit of a burst. A ring that has not been empty for so long receives more than a burst, as
/// does one that overflows while it is paused. A flood is over when neither an overflow nor a discard has
/// happened for so long.
const BURST: Duration = Duration::from_millis(10);

/// The period over which a ring is measured while frames of it are discarded. At its end, the host judges
/// whether discarding keeps up with the arrivals.
const PERIOD: Duration = Duration::from_millis(25);
/// The share of shed frames that is too many: discarding does not keep up if a ring sheds more than one in
/// so many.
const ONE_IN: u64 = 8;

/// The number of frames that a ring has delivered and shed in the current period, while frames of it are
/// discarded.
#[derive(Debug, Clone, Copy)]
struct Pace {
    since: Instant,
    last: Instant,
    taken: u64,
    /// The number of frames that the ring had shed when the period began, if it is known.
    missed: Option<u64>,
    was_empty: bool,
}

impl Pace {
    const fn begin(now: Instant, missed: Option<u64>) -> Self {
        Self { since: now, last: now, taken: 0, missed, was_empty: false }
    }

    /// Returns whether the ring was read as fast as it filled. `missed` is the number of frames that it has
    /// shed until now. If a count is not known, the ring kept up if it was ever empty in this period.
    fn keeps_up(&self, missed: Option<u64>) -> bool {
        let (Some(before), Some(missed)) = (self.missed, missed) else { return self.was_empty };
        let shed = missed.saturating_sub(before);
        shed * ONE_IN <= shed + self.taken
    }
}

/// The recent traffic of a ring: its channels, and signs of a flood.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RingTraffic {
    /// The last two channels that frames were for, and when the last one for each came.
    last: Option<(ChannelId, Instant)>,
    before: Option<(ChannelId, Instant)>,
    /// The time since which the ring has held frames after each poll.
    filled_since: Option<Instant>,
    /// The number of frames that the ring had shed when it was paused. `None` unless the last poll of it
    /// ended with a pause and the number was known.
    missed_until_held: Option<u64>,
    /// The last time when a frame was discarded for a full channel, or the ring was found to have shed
    /// frames while it was paused.
    shed_at: Option<Instant>,
    /// The measurement of the current period, if frames of the ring are discarded.
    pace: Option<Pace>,
    /// The class of the last frame if it was a plain datagram, and the generation of the demultiplexing
    /// table that found it.
    last_class: Option<(LastClass, u32)>,
}

impl RingTraffic {
    /// Records a frame for a channel. Returns whether the ring has also brought frames for another channel
    /// within the last second.
    #[inline]
    pub(crate) fn note(&mut self, channel: ChannelId, now: Instant) -> bool {
        match &mut self.last {
            Some((last, at)) if *last == channel => *at = now,
            last => self.before = last.replace((channel, now)).or(self.before),
        }
        self.before.is_some_and(|(_, at)| now.since(at) < MEMORY)
    }

    /// Returns the class of the last frame. `None` unless the demultiplexing table still has the
    /// `generation` that found it.
    #[inline]
    pub(crate) fn last_class(&self, generation: u32) -> Option<LastClass> {
        self.last_class.filter(|&(_, found_by)| found_by == generation).map(|(last, _)| last)
    }

    #[inline]
    pub(crate) fn keep_class(&mut self, last: Option<LastClass>, generation: u32) {
        self.last_class = last.map(|last| (last, generation));
    }

    /// Records that frames were taken. `is_empty` says whether the ring is empty now, `discarded` whether
    /// any frame found its channel full.
    pub(crate) fn taken(&mut self, is_empty: bool, discarded: bool, now: Instant) {
        self.filled_since = if is_empty { None } else { self.filled_since.or(Some(now)) };
        if discarded {
            self.shed_at = Some(now);
        }
    }

    /// Records a poll that took frames, discarded some of them, and left `more` in the ring or not. Returns
    /// whether the polls keep up with the arrivals, as far as it is known by now. `missed` returns the
    /// number of frames that the ring has shed until now. If that is not known, a ring that has always held
    /// more does not keep up.
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

    /// Records that the ring is paused. `missed` is the number of frames that it has shed until now, if
    /// that is known.
    pub(crate) fn throttled(&mut self, missed: Option<u64>) {
        self.missed_until_held = missed;
    }

    /// Returns whether the ring receives more than a burst: it was never empty for 10 ms, or frames were
    /// shed or discarded within the last 10 ms. The load of the core is no sign of a flood, because a
    /// receiver may sleep. Frames that the ring has `missed` while it was not paused do not count either:
    /// discarding would not have saved them.
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
        let mut traffic = RingTraffic::default();
        assert!(!traffic.note(flooded, Instant::ZERO) && !traffic.note(flooded, Instant::from_millis(1)));
        assert!(traffic.note(quiet, Instant::from_millis(2)));
        for ms in 3..1_002 {
            assert!(traffic.note(flooded, Instant::from_millis(ms)), "{ms}");
        }
        assert!(!traffic.note(flooded, Instant::from_millis(1_002)));
        assert!(traffic.note(quiet, Instant::from_millis(1_003)), "the flood is another's to the quiet one");
    }

    #[test]
    fn a_ring_that_is_not_emptied_is_flooded_until_nothing_is_discarded() {
        let at = |ms| Instant::from_millis(ms);
        let mut traffic = RingTraffic::default();
        traffic.taken(false, false, at(5));
        traffic.taken(true, false, at(14));
        assert!(!traffic.is_flooded(at(30), || Some(0)), "a burst");
        traffic.taken(false, false, at(40));
        traffic.taken(false, false, at(45));
        let mut is_flooded = |ms| traffic.is_flooded(at(ms), || Some(0));
        assert!(!is_flooded(49) && is_flooded(50));
        traffic.taken(true, true, at(51));
        let mut is_flooded = |ms| traffic.is_flooded(at(ms), || Some(0));
        assert!(is_flooded(60) && !is_flooded(61));
    }

    #[test]
    fn a_ring_that_overflows_while_it_is_held_back_is_flooded_at_once() {
        let at = |ms| Instant::from_millis(ms);
        let mut traffic = RingTraffic::default();
        traffic.taken(false, false, at(5));
        assert!(!traffic.is_flooded(at(6), || Some(1)), "there was no time for it");
        traffic.throttled(Some(1));
        assert!(!traffic.is_flooded(at(7), || Some(1)) && !traffic.is_flooded(at(7), || Some(2)));
        traffic.taken(true, false, at(8));
        traffic.throttled(None);
        assert!(!traffic.is_flooded(at(8), || None), "who knows");
        traffic.throttled(Some(2));
        assert!(traffic.is_flooded(at(9), || Some(3)));
        let mut is_flooded = |ms| traffic.is_flooded(at(ms), || Some(9));
        assert!(is_flooded(18) && !is_flooded(19));
    }

    /// Takes seven frames each millisecond of a period, after which the ring has shed so many until now.
    fn period(traffic: &mut RingTraffic, from_ms: u64, more: bool, missed: Option<u64>) -> bool {
        let mut turn = |ms, missed| traffic.keeps_up(7, more, Instant::from_millis(ms), || missed);
        assert!((from_ms..from_ms + 24).all(|ms| turn(ms, None)), "it is not known yet");
        turn(from_ms + 24, missed)
    }

    #[test]
    fn a_ring_that_sheds_no_more_than_one_in_eight_is_read_as_fast_as_it_fills() {
        let mut traffic = RingTraffic::default();
        // What was shed before is not held against it, at first and after a pause.
        let begin = |traffic: &mut RingTraffic, ms, missed| {
            assert!(traffic.keeps_up(7, true, Instant::from_millis(ms), || Some(missed)));
        };
        begin(&mut traffic, 0, 1_000);
        assert!(period(&mut traffic, 1, true, Some(1_025)), "25 of 200");
        assert!(!period(&mut traffic, 26, true, Some(1_051)), "26 of 201");
        assert!(period(&mut traffic, 51, true, Some(1_051)), "none");
        begin(&mut traffic, 1_000, 9_000);
        assert!(period(&mut traffic, 1_001, true, Some(9_000)));
    }

    #[test]
    fn a_ring_of_which_that_is_not_known_is_to_be_empty_now_and_then() {
        let mut traffic = RingTraffic::default();
        assert!(traffic.keeps_up(7, true, Instant::ZERO, || None));
        assert!(!period(&mut traffic, 1, true, None));
        assert!(period(&mut traffic, 26, false, None));
    }

    #[test]
    fn of_three_the_last_two_count() {
        let mut traffic = RingTraffic::default();
        for ms in 0..10 {
            assert_eq!(traffic.note(ChannelId(ms % 3), Instant::from_millis(ms.into())), ms > 0);
        }
    }
}
