//! Congestion control (RFC 5681): how large the congestion window may be.
//!
//! [`Recovery`](super::recovery::Recovery) owns the [`Window`] and knows which segments were lost. An
//! algorithm decides how the window grows without losses, and what it shrinks to after one. Proportional rate
//! reduction (RFC 6937) brings the window there; the algorithm does not.
//!
//! BBR is of another kind: it has a model of the path, and each acknowledgment gives it a sample. It sets the
//! window and the rate at which segments leave itself.
//!
//! A connection has the algorithm of its [`RecoveryConfig`](super::recovery::RecoveryConfig). One of the
//! caller's own implements [`CongestionControl`]; its example is at [`Custom`].

use alloc::boxed::Box;

mod bbr;
mod control;
mod cubic;
mod custom;
mod newreno;
mod slow_start;

pub use bbr::Bbr;
pub use control::{Arrival, CongestionControl, Lost, Recovering, Sample, Window};
pub use cubic::Cubic;
pub use custom::Custom;
pub use newreno::NewReno;

/// The congestion control algorithm of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    NewReno,
    /// BBR, version 3 (draft-ietf-ccwg-bbr). Its segments are paced.
    Bbr,
    /// An algorithm of the caller's own.
    Custom(Custom),
}

impl Algorithm {
    /// Creates the algorithm for a new connection. With `hystart` slow start ends when the round trip grows
    /// (RFC 9406). An acknowledgment counts for at most `segments_per_ack` segments in slow start. With
    /// `fast_convergence` CUBIC gives way to new flows faster (RFC 9438, 4.7). A custom algorithm has
    /// settings of its own.
    pub(crate) fn start(
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
            Self::Custom(custom) => custom.start(),
        }
    }
}
