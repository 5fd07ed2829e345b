//! Limits on the share of the core that input may take.

use core::fmt::Debug;

use crate::time::{Duration, Instant};

/// A limit of the share of the core that goes to taking packets in. While it is reached, input is inhibited.
pub(super) trait Limit: Debug + Send {
    /// Returns whether the limit is reached, so that input is inhibited.
    fn is_reached(&self) -> bool;

    /// Charges elapsed time; `takes_in` says whether packets were taken in meanwhile.
    fn charge(&mut self, elapsed: Duration, takes_in: bool);

    /// Records that input has filled a queue to `percent` of its limit.
    fn filled(&mut self, percent: u8) {
        let _ = percent;
    }

    /// Looks at the clock, before any work. Returns whether that lifts an inhibition.
    fn roll(&mut self, now: Instant) -> bool;

    /// Records that the core is idle, so that there is no other work to protect. Returns whether that lifts
    /// an inhibition.
    fn idle(&mut self) -> bool;

    /// Returns when [`Limit::roll`] has something to do; [`Instant::NEVER`] if it has nothing.
    fn next_deadline(&self) -> Instant;
}
