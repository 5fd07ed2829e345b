//! Congestion control (RFC 5681): how large the congestion window may be.
//!
//! [`Recovery`](super::recovery::Recovery) owns the [`Window`] and knows what was lost. An algorithm says how
//! the window grows while nothing is, and what it must shrink to when something was. How it gets there is
//! proportional rate reduction's business, not the algorithm's.
//!
//! BBR is another kind: it has a model of the path, of which each acknowledgment brings a sample, and says
//! itself how large the window is and how fast segments leave.

mod bbr;
mod control;
mod cubic;
mod newreno;
mod slow_start;

use alloc::boxed::Box;

pub use bbr::Bbr;
pub use control::{Arrival, CongestionControl, Lost, Recovering, Sample, Window};
pub use cubic::Cubic;
pub use newreno::NewReno;

/// The algorithms there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681 and 6582.
    NewReno,
    /// draft-ietf-ccwg-bbr, version 3. It paces.
    Bbr,
}

impl Algorithm {
    /// Returns whether the algorithm has a model of the path. Such an algorithm needs samples, paces, and
    /// decides alone how large the window is.
    #[must_use]
    pub const fn is_model_based(self) -> bool {
        matches!(self, Self::Bbr)
    }

    /// Creates the algorithm for a new connection. With `hystart` slow start ends when the round trip grows
    /// (RFC 9406), in which an acknowledgment counts for `segments_per_ack`; with `fast_convergence` CUBIC
    /// gives way to new flows faster (RFC 9438, 4.7).
    #[must_use]
    pub fn start(
        self,
        hystart: bool,
        segments_per_ack: u8,
        fast_convergence: bool,
    ) -> Box<dyn CongestionControl> {
        match self {
            Self::Cubic => {
                let cubic = Cubic::new(hystart, fast_convergence);
                Box::new(cubic.with_segments_per_ack(segments_per_ack))
            }
            Self::NewReno => Box::new(NewReno::new(hystart).with_segments_per_ack(segments_per_ack)),
            Self::Bbr => Box::new(Bbr::new()),
        }
    }
}
