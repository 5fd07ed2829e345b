//! Congestion control (RFC 5681): how large the congestion window may be.
//!
//! [`Recovery`](super::recovery::Recovery) owns the [`Window`] and knows what was lost. An algorithm says how
//! the window grows while nothing is, and what it must shrink to when something was. How it gets there is
//! proportional rate reduction's business, not the algorithm's.

mod control;
mod cubic;
mod newreno;
mod slow_start;

pub use control::{Arrival, CongestionControl, Window};
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
}

impl Algorithm {
    /// The algorithm, for a new connection. With `hystart` slow start ends when the round trip grows (RFC
    /// 9406); with `fast_convergence` CUBIC gives way to new flows faster (RFC 9438, 4.7).
    #[must_use]
    pub fn start(self, hystart: bool, fast_convergence: bool) -> Box<dyn CongestionControl> {
        match self {
            Self::Cubic => Box::new(Cubic::new(hystart, fast_convergence)),
            Self::NewReno => Box::new(NewReno::new(hystart)),
        }
    }
}
