//! Pauses in which frames gather in a ring, while those of a full channel are discarded.
//!
//! To look at a ring costs an interrupt and a turn of the polling thread, however few frames are found. A
//! frame that is only discarded costs far less than that, and nobody waits for it. So after a look that
//! found such frames, and emptied the ring, the next look comes a moment later and finds many.

use super::sources::{SourceId, Sources};
use crate::time::{Duration, Instant};

/// The time from a look to the next: so much longer may a frame for another receiver wait. A ring of 256
/// slots that gets 10 million frames a second does not overflow meanwhile.
const PAUSE: Duration = Duration::from_micros(20);

/// The sources in whose rings frames gather, and until when.
#[derive(Debug)]
pub(super) struct Gathering {
    sources: Sources,
    until: Instant,
}

impl Gathering {
    pub(super) const NONE: Self = Self { sources: Sources::NONE, until: Instant::NEVER };

    /// Lets frames gather in the ring of a source. Sources that join a pause share its end.
    pub(super) fn begin(&mut self, source: SourceId, now: Instant) {
        if self.sources.is_empty() {
            self.until = now + PAUSE;
        }
        self.sources = self.sources.union(Sources::one(source));
    }

    /// Returns the sources that are not looked at.
    #[inline]
    pub(super) const fn sources(&self) -> Sources {
        self.sources
    }

    /// Lets time go on.
    #[inline]
    pub(super) fn roll(&mut self, now: Instant) {
        if now >= self.until {
            *self = Self::NONE;
        }
    }

    /// Returns when [`Gathering::roll`] ends a pause; [`Instant::NEVER`] if there is none.
    pub(super) const fn next_deadline(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_in_time_for_all_that_joined_it() {
        let (a, b) = (SourceId(0), SourceId(1));
        let mut gathering = Gathering::NONE;
        gathering.roll(Instant::from_millis(1));
        assert_eq!((gathering.sources(), gathering.next_deadline()), (Sources::NONE, Instant::NEVER));
        gathering.begin(a, Instant::ZERO);
        gathering.begin(b, Instant::from_micros(15));
        gathering.roll(Instant::from_micros(19));
        assert_eq!(gathering.sources(), Sources::one(a).union(Sources::one(b)));
        assert_eq!(gathering.next_deadline(), Instant::from_micros(20));
        gathering.roll(Instant::from_micros(20));
        assert_eq!((gathering.sources(), gathering.next_deadline()), (Sources::NONE, Instant::NEVER));
    }
}
