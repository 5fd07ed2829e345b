//! What limits the share of the core that goes to taking packets in.

use core::fmt::Debug;

use crate::time::{Duration, Instant};

/// A limit of the share of the core that goes to taking packets in. While it is reached, input is inhibited.
pub(super) trait Limit: Debug + Send {
    /// Whether it is reached.
    fn is_reached(&self) -> bool;

    /// Time has passed; `takes_in` says whether packets were taken in meanwhile.
    fn charge(&mut self, elapsed: Duration, takes_in: bool);

    /// What was taken in has filled a queue to so many percent of its limit.
    fn filled(&mut self, percent: u8) {
        let _ = percent;
    }

    /// Looks at the clock, before any work. Returns whether that lifts an inhibition.
    fn roll(&mut self, now: Instant) -> bool;

    /// The core is idle: there is nobody to protect. Returns whether that lifts an inhibition.
    fn idle(&mut self) -> bool;

    /// When [`Limit::roll`] has something to do.
    fn next_deadline(&self) -> Instant;
}
