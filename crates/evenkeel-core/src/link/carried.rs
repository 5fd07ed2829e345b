//! Whose traffic comes by a ring.

use crate::id::ChannelId;
use crate::time::{Duration, Instant};

/// Whoever has received by a ring within this time is taken to go on.
const MEMORY: Duration = Duration::from_secs(1);

/// The last two channels that frames of a ring were for, and when the last one for each came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    last: Option<(ChannelId, Instant)>,
    before: Option<(ChannelId, Instant)>,
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
    fn of_three_the_last_two_count() {
        let mut carried = Carried::default();
        for ms in 0..10 {
            assert_eq!(carried.note(ChannelId(ms % 3), Instant::from_millis(ms.into())), ms > 0);
        }
    }
}
