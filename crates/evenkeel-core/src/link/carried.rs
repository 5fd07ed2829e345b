//! Whose traffic comes by a ring, and whether it is more than a burst.

use crate::demux::LastClass;
use crate::id::ChannelId;
use crate::time::{Duration, Instant};

/// Whoever has received by a ring within this time is taken to go on.
const MEMORY: Duration = Duration::from_secs(1);
/// A ring that has not been empty for so long carries more than a burst, as does one that overflows while it
/// is held back; a flood is over when neither that nor a discard has happened for so long.
const BURST: Duration = Duration::from_millis(10);

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

    #[test]
    fn of_three_the_last_two_count() {
        let mut carried = Carried::default();
        for ms in 0..10 {
            assert_eq!(carried.note(ChannelId(ms % 3), Instant::from_millis(ms.into())), ms > 0);
        }
    }
}
